package rc

import "github.com/gosrpt/gosrpt/core/ib"

// held is a packet that waits for those before it, or for a receive. Its payload is in a buffer of
// the Pool.
type held struct {
	used bool
	p    Packet
}

func (r *responder) heldAt(psn ib.PSN) *held { return &r.hold[uint32(psn)%holdSlots] }

// keep copies p into the hold. It returns false if there is no room.
func (m *Machine) keep(p *Packet) bool {
	h := m.resp.heldAt(p.PSN)
	if h.used {
		return h.p.PSN == p.PSN
	}
	buf, ok := m.cfg.Pool.get(p.Payload)
	if !ok {
		return false
	}
	h.used = true
	h.p = *p
	h.p.Payload = buf
	m.resp.nheld++
	m.stats.Held++
	return true
}

// release drops what is held for psn.
func (m *Machine) release(psn ib.PSN) {
	h := m.resp.heldAt(psn)
	if !h.used || h.p.PSN != psn {
		return
	}
	m.cfg.Pool.put(h.p.Payload)
	*h = held{}
	m.resp.nheld--
}

func (m *Machine) dropHeld() {
	r := &m.resp
	for i := range r.hold {
		if r.nheld == 0 {
			break
		}
		if r.hold[i].used {
			m.release(r.hold[i].p.PSN)
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
	if r.holdUntil == 0 || now < r.holdUntil {
		return
	}
	if h := r.heldAt(r.epsn); h.used && h.p.PSN == r.epsn {
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
		if !h.used || h.p.PSN != r.epsn {
			break
		}
		p := h.p
		if v := m.execute(&p); v == noRecv {
			break
		}
		// execute has released the packet by advancing, or failed and dropped all.
	}
	if m.state == Ready && r.nheld > 0 && r.holdUntil == 0 && !r.told {
		r.holdUntil = now + m.cfg.Hold
	}
}
