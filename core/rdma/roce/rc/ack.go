package rc

import "github.com/gosrpt/gosrpt/core/ib"

// receiveResponse handles acknowledgements and READ responses.
func (m *Machine) receiveResponse(now int64, p *Packet) {
	r := &m.req
	if !before(p.PSN, r.max) {
		m.stats.BadPackets++
		return
	}
	if before(p.PSN, r.oldest()) {
		return // late or twice
	}
	if p.Op != OpAck {
		m.receiveReadResponse(now, p)
		return
	}
	if len(p.Payload) != 0 || p.Syndrome&0x80 != 0 {
		m.stats.BadPackets++
		return
	}
	switch p.Syndrome & syndromeMask {
	case syndromeAck:
		m.receiveAck(now, p)
	case syndromeRNR:
		m.receiveRNR(now, p)
	case syndromeNak:
		m.receiveNak(now, p)
	default:
		m.stats.BadPackets++
	}
}

func (m *Machine) receiveAck(now int64, p *Packet) {
	r := &m.req
	if code := p.Syndrome & aethDetail; code == syndromeNoLimit {
		r.unlimited = true
	} else {
		r.lsn = p.MSN + scale(code)
	}
	m.acknowledged(now, p.PSN.Add(1))
	m.completeSends()
	m.rearm()
}

// acknowledged notes that the peer has everything before psn.
func (m *Machine) acknowledged(now int64, psn ib.PSN) {
	r := &m.req
	m.overtaken(now, psn)
	n := psn.Sub(r.acked)
	if n <= 0 {
		return
	}
	r.acked = psn
	r.timer.measured(now, psn)
	r.timer.progress(now)
	if r.recovering && !before(psn, r.recover) {
		r.recovering = false
	}
	r.grown += uint32(n)
	if r.grown >= r.window {
		r.grown = 0
		r.window = min(r.window+1, r.windowMax)
	}
}

// rearm sets the retry timer by what is left to wait for.
func (m *Machine) rearm() {
	if !m.req.outstanding() {
		m.req.timer.stop()
	}
}

// shrink halves the window, once for all losses of one window.
func (m *Machine) shrink() {
	r := &m.req
	if r.recovering {
		return
	}
	r.recovering = true
	r.recover = r.max
	r.grown = 0
	r.window = max(r.window/2, min(minWindow, r.windowMax))
}

func (m *Machine) receiveNak(now int64, p *Packet) {
	m.stats.NaksReceived++
	if before(p.PSN, m.req.acked) {
		return // of a gap that has closed since
	}
	m.acknowledged(now, p.PSN)
	m.completeSends()
	switch p.Syndrome {
	case nakSequence:
		m.lossy(now)
		m.shrink()
		m.goBack(p.PSN)
	case nakInvalid:
		m.failAt(p.PSN, RemoteInvalid)
	case nakAccess:
		m.failAt(p.PSN, RemoteAccess)
	case nakOperation:
		m.failAt(p.PSN, RemoteOperation)
	default:
		m.stats.BadPackets++
	}
}

func (m *Machine) receiveRNR(now int64, p *Packet) {
	r := &m.req
	m.stats.RNRReceived++
	if before(p.PSN, r.acked) {
		return
	}
	m.acknowledged(now, p.PSN)
	m.completeSends()
	if r.timer.rnrTries++; m.cfg.RNRLimit >= 0 && r.timer.rnrTries > m.cfg.RNRLimit {
		m.failAt(p.PSN, RNRRetryExceeded)
		return
	}
	m.goBack(p.PSN)
	r.timer.pause(now + rnrDelay(p.Syndrome))
}

// failAt fails the queue pair because of the work request that psn is part of.
func (m *Machine) failAt(psn ib.PSN, s Status) {
	r := &m.req
	for r.head != r.tail {
		w := r.at(r.head)
		if !w.started || psn.Sub(w.psn) < int(w.npkt) {
			break
		}
		r.head++
		m.finish(w, Flushed)
	}
	m.fail(s)
}
