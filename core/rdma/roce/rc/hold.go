package rc

import "github.com/gosrpt/gosrpt/core/ib"

func (r *responder) place(psn ib.PSN) **held { return &r.hold[uint32(psn)%holdSlots] }

// heldAt returns what is held for psn, or nil.
func (r *responder) heldAt(psn ib.PSN) *held {
	if h := *r.place(psn); h != nil && h.p.PSN == psn {
		return h
	}
	return nil
}

// keep copies p into the hold. It returns false if there is no room.
func (m *Machine) keep(p *Packet) bool {
	at := m.resp.place(p.PSN)
	if *at != nil {
		return (*at).p.PSN == p.PSN
	}
	if *at = m.cfg.Pool.get(p); *at == nil {
		return false
	}
	m.resp.nheld++
	m.stats.Held++
	return true
}

// release drops what is held for psn.
func (m *Machine) release(psn ib.PSN) {
	if h := m.resp.heldAt(psn); h != nil {
		*m.resp.place(psn) = nil
		m.resp.nheld--
		m.cfg.Pool.put(h)
	}
}

func (m *Machine) dropHeld() {
	r := &m.resp
	for _, h := range r.hold {
		if h != nil {
			m.release(h.p.PSN)
		}
	}
	r.holdUntil = 0
}

// overtook handles a packet d after the expected one.
func (m *Machine) overtook(now int64, p *Packet, d int) {
	r := &m.resp
	m.stats.OutOfOrder++
	if d >= holdSlots || len(p.Payload) > int(m.par.MTU) || !m.keep(p) {
		m.complain() // what was dropped must be sent again anyhow
		return
	}
	if r.holdUntil == 0 && !r.told {
		r.holdUntil = now + m.cfg.Hold
	}
}

// awaitRecv handles a SEND in order that finds no receive posted.
func (m *Machine) awaitRecv(now int64, p *Packet) {
	r := &m.resp
	if r.told || len(p.Payload) > int(m.par.MTU) || !m.keep(p) {
		m.notReady()
		return
	}
	if r.holdUntil == 0 {
		r.holdUntil = now + m.cfg.Hold
	}
}

// complain sends the NAK for the gap at the expected PSN, once (IBTA vol 1, 9.7.5.1.2).
func (m *Machine) complain() {
	r := &m.resp
	r.holdUntil = 0
	if r.told {
		return
	}
	r.told = true
	m.stats.NaksSent++
	r.out.nak(r.epsn, r.msn, nakSequence)
}

func (m *Machine) notReady() {
	r := &m.resp
	r.holdUntil = 0
	r.told = true
	m.stats.RNRSent++
	r.out.nak(r.epsn, r.msn, syndromeRNR|m.cfg.RNRTimer)
}

func (m *Machine) tickResponder(now int64) {
	r := &m.resp
	if r.ackAt != 0 && now >= r.ackAt {
		m.repeatAck()
	}
	if r.holdUntil == 0 || now < r.holdUntil {
		return
	}
	if r.heldAt(r.epsn) != nil {
		m.notReady()
		return
	}
	m.lossy(now)
	m.complain()
}

// drain executes what is held and has become due.
func (m *Machine) drain(now int64) {
	r := &m.resp
	for m.state == Ready {
		h := r.heldAt(r.epsn)
		if h == nil || m.execute(&h.p) == noRecv {
			break
		}
		// execute has released h, by advancing or by failing.
	}
	if m.state == Ready && r.nheld > 0 && r.holdUntil == 0 && !r.told {
		r.holdUntil = now + m.cfg.Hold
	}
}
