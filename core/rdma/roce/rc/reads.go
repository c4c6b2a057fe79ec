package rc

import "github.com/gosrpt/gosrpt/core/ib"

// read is one READ request on the wire: a chunk of a READ work request. Its responses are placed
// as they come, in any order; have tells which.
type read struct {
	slot      uint64
	off, n    uint32 // bytes of the work request
	npkt, got uint32
	first     uint32 // first packet missing
	seen      uint32 // packets below it came since the request was last sent
	psn       ib.PSN
	passed    bool  // something later than the whole chunk was answered
	again     bool  // to be requested again, from first
	gap       int64 // since when first is overdue, or 0
	cost      int64
	have      [MaxReadChunk / 256 / 64]uint64
}

func (d *read) end() ib.PSN    { return d.psn.Add(int(d.npkt)) }
func (d *read) complete() bool { return d.got == d.npkt }

// read returns the i-th outstanding READ, oldest first.
func (r *requester) read(i int) *read { return &r.reads[(r.readAt+i)%MaxReads] }

// nextRead fills p with a READ request for the next chunk of s. It returns done if s is through,
// and ok if p is to be sent; neither means that the queue must wait.
func (m *Machine) nextRead(now int64, s *slot, p *Packet) (done, ok bool) {
	r := &m.req
	mtu := m.par.MTU
	for r.pkt < s.npkt || !s.started {
		off := r.pkt * mtu
		n := min(m.cfg.ReadChunk, s.len-off)
		np := packetsOf(n, mtu)
		var d *read
		if s.started && before(s.psn.Add(int(r.pkt)), r.max) {
			d = r.findRead(s.psn.Add(int(r.pkt)))
		} else if d = m.openRead(s, off, n, np); d == nil {
			return false, false
		}
		r.pkt += np
		r.snd = s.psn.Add(int(r.pkt))
		if d == nil || d.complete() {
			continue
		}
		m.ask(now, d, p)
		if before(r.max, r.snd) {
			r.max = r.snd
		}
		if r.pkt >= s.npkt {
			r.nextSlot(s)
		}
		return false, true
	}
	r.nextSlot(s)
	return true, false
}

// openRead starts a chunk if the peer and the budget allow another.
func (m *Machine) openRead(s *slot, off, n, np uint32) *read {
	r := &m.req
	if m.par.ReadsOut == 0 {
		if r.head == r.cur {
			m.fail(RemoteInvalid)
		}
		return nil
	}
	if r.nreads >= int(m.par.ReadsOut) {
		return nil
	}
	cost := int64(n) + int64(np)*m.par.ReadCost
	if !m.par.Budget.take(cost) {
		r.starved = true
		return nil
	}
	if !s.started {
		r.begin(s)
	}
	r.ssn++
	d := r.read(r.nreads)
	r.nreads++
	*d = read{slot: r.cur, off: off, n: n, npkt: np, psn: s.psn.Add(int(r.pkt)), cost: cost}
	return d
}

// ask fills p with the request for what is missing of d, from the first missing packet to the end.
func (m *Machine) ask(now int64, d *read, p *Packet) {
	s := m.req.at(d.slot)
	skip := d.first * m.par.MTU
	*p = Packet{
		Op: OpReadRequest, PSN: d.psn.Add(int(d.first)), RKey: s.rkey,
		VA: s.va + uint64(d.off) + uint64(skip), DMALen: d.n - skip,
	}
	d.seen, d.passed, d.again, d.gap = d.first, false, false, 0
	m.sent(now, p)
}

// nextRestart fills p with the repetition of a READ whose responses were lost.
func (m *Machine) nextRestart(now int64, p *Packet) bool {
	r := &m.req
	for i := range r.nreads {
		d := r.read(i)
		if !d.again {
			continue
		}
		d.again = false
		if before(d.psn, r.snd) && !d.complete() {
			m.stats.ReadRestarts++
			m.ask(now, d, p)
			return true
		}
	}
	return false
}

func (r *requester) findRead(psn ib.PSN) *read {
	for i := range r.nreads {
		d := r.read(i)
		if psn.In(d.psn, int(d.npkt)) {
			return d
		}
	}
	return nil
}

// receiveReadResponse places one response packet.
func (m *Machine) receiveReadResponse(now int64, p *Packet) {
	r := &m.req
	d := r.findRead(p.PSN)
	if d == nil {
		return // an answer to a repetition that was not needed
	}
	i := uint32(p.PSN.Sub(d.psn))
	want := m.par.MTU
	if i == d.npkt-1 {
		want = d.n - i*m.par.MTU
	}
	if uint32(len(p.Payload)) != want || p.Op.HasAETH() && p.Syndrome&^aethDetail != syndromeAck {
		m.stats.BadPackets++
		return
	}
	if d.have[i/64]&(1<<(i%64)) != 0 {
		return
	}
	s := r.at(d.slot)
	scatter(s.segs, d.off+i*m.par.MTU, p.Payload)
	d.have[i/64] |= 1 << (i % 64)
	d.got++
	s.got++
	d.seen = max(d.seen, i+1)
	for d.first < d.npkt && d.have[d.first/64]&(1<<(d.first%64)) != 0 {
		d.first++
		d.gap = 0
	}
	r.timer.progress(now)
	m.acknowledged(now, p.PSN.Add(1))
	d.note(now)
	m.closeReads()
	m.completeSends()
	m.rearm()
}

// note starts or stops the patience with a gap in the responses.
func (d *read) note(now int64) {
	switch {
	case d.complete() || d.first >= d.seen && !d.passed:
		d.gap = 0
	case d.gap == 0:
		d.gap = now
	}
}

// closeReads gives back what complete chunks at the head took.
func (m *Machine) closeReads() {
	r := &m.req
	for r.nreads > 0 && r.read(0).complete() {
		m.par.Budget.give(r.read(0).cost)
		r.readAt = (r.readAt + 1) % MaxReads
		r.nreads--
	}
}

func (m *Machine) dropReads() {
	r := &m.req
	for ; r.nreads > 0; r.nreads-- {
		m.par.Budget.give(r.read(r.nreads - 1).cost)
	}
	r.starved = false
}

// overtaken notes that everything before psn was answered: READs before it have lost responses,
// or those are late.
func (m *Machine) overtaken(now int64, psn ib.PSN) {
	r := &m.req
	for i := range r.nreads {
		if d := r.read(i); !before(psn, d.end()) && !d.complete() {
			d.passed = true
			d.note(now)
		}
	}
}

// tickReads restarts the READs whose gap has lasted.
func (m *Machine) tickReads(now int64) {
	r := &m.req
	for i := range r.nreads {
		d := r.read(i)
		if d.gap != 0 && now >= d.gap+m.cfg.Hold {
			d.gap = 0
			d.again = true
			m.lossy(now)
		}
	}
}
