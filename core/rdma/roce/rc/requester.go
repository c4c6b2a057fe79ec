package rc

import "github.com/gosrpt/gosrpt/core/ib"

// slot is one entry of the send queue.
type slot struct {
	id       uint64
	va       uint64
	rkey     uint32
	len      uint32
	npkt     uint32
	got      uint32 // READ: response packets received
	psn      ib.PSN // first PSN, once started
	kind     Kind
	signaled bool
	sol      bool
	internal bool // a keep-alive: never completes towards the owner
	started  bool
	segs     [][]byte
}

func (s *slot) end() ib.PSN { return s.psn.Add(int(s.npkt)) }

// requester is the sending half. The send queue is a ring; head, cur and tail count entries and
// never wrap in practice: head is the oldest not completed, cur the one being sent.
//
//	head ... cur ... tail
//	acked <= snd <= max       in PSNs: acknowledged, next to send, next never sent
type requester struct {
	slots []slot
	head  uint64
	cur   uint64
	tail  uint64
	used  int // entries that count against SendDepth

	pkt    uint32 // next packet within slot cur
	seg    int    // where its data starts
	segOff int

	snd, max, acked ib.PSN
	sinceAck        uint32 // packets sent since one asked for an acknowledgement

	window, windowMax uint32
	grown             uint32 // packets acknowledged since the window grew
	recover           ib.PSN // a loss before it has been paid for by the window
	recovering        bool

	ssn, lsn  uint32 // message numbers, for end-to-end credits
	unlimited bool

	reads   [MaxReads]read
	readAt  int
	nreads  int
	starved bool

	timer timer
}

func (r *requester) init(c *Config) {
	n := c.SendDepth + 1 // one for the keep-alive
	r.slots = make([]slot, n)
	store := make([][]byte, n*c.MaxSGE)
	for i := range r.slots {
		r.slots[i].segs = store[i*c.MaxSGE : i*c.MaxSGE : (i+1)*c.MaxSGE]
	}
	r.timer.init(c)
}

func (r *requester) start(c *Config, p Params) {
	r.snd, r.max, r.acked = p.SendPSN, p.SendPSN, p.SendPSN
	r.windowMax = min(c.WindowPackets, max(minWindow, c.WindowBytes/p.MTU))
	r.window = max(min(minWindow, r.windowMax), r.windowMax/2)
	r.unlimited = !p.FlowControl
}

func (r *requester) at(n uint64) *slot { return &r.slots[n%uint64(len(r.slots))] }

// PostSend queues w. It returns false if SendDepth requests are outstanding, or w has more
// segments than MaxSGE or is longer than MaxWorkLength. In states other than Ready the work is
// flushed at once.
func (m *Machine) PostSend(w *Work) bool {
	r := &m.req
	if r.used >= m.cfg.SendDepth || len(w.Segs) > m.cfg.MaxSGE {
		return false
	}
	total := uint64(0)
	for _, s := range w.Segs {
		total += uint64(len(s))
	}
	if total > MaxWorkLength {
		return false
	}
	r.used++
	if m.state != Ready {
		m.done.push(Completion{ID: w.ID, Kind: w.Kind, Status: Flushed})
		return true
	}
	s := m.push(w.Kind, uint32(total))
	s.id, s.va, s.rkey = w.ID, w.VA, w.RKey
	s.signaled, s.sol = w.Signaled, w.Solicited
	for _, b := range w.Segs {
		if len(b) > 0 {
			s.segs = append(s.segs, b)
		}
	}
	return true
}

func (m *Machine) push(k Kind, n uint32) *slot {
	s := m.req.at(m.req.tail)
	m.req.tail++
	*s = slot{segs: s.segs[:0], kind: k, len: n, npkt: packetsOf(n, m.par.MTU)}
	return s
}

// flight is how many packets that carry no READ are sent and not acknowledged.
func (r *requester) flight() uint32 {
	n := r.snd.Sub(r.acked)
	if n <= 0 {
		return 0
	}
	for i := range r.nreads {
		d := r.read(i)
		from, to := max(d.psn.Sub(r.acked), 0), min(d.end().Sub(r.acked), n)
		if to > from && r.snd.Sub(d.psn) > 0 {
			n -= to - from
		}
	}
	return uint32(max(n, 0))
}

// outstanding tells whether an answer is awaited.
func (r *requester) outstanding() bool { return r.acked != r.max || r.nreads > 0 }

// oldest is the first PSN that is not done with.
func (r *requester) oldest() ib.PSN {
	if r.nreads > 0 && before(r.read(0).psn, r.acked) {
		return r.read(0).psn
	}
	return r.acked
}

// nextRequest fills p with the next packet of the send queue.
func (m *Machine) nextRequest(now int64, p *Packet) bool {
	r := &m.req
	r.starved = false
	if m.state != Ready || r.timer.paused(now) {
		return false
	}
	if m.nextRestart(now, p) {
		return true
	}
	for r.cur != r.tail {
		s := r.at(r.cur)
		if s.started && s.kind != Read && m.skipAcked(s) {
			continue
		}
		if s.kind == Read {
			if done, ok := m.nextRead(now, s, p); ok || !done {
				return ok
			}
			continue
		}
		return m.nextData(now, s, p)
	}
	return false
}

// skipAcked moves the cursor past the packets of s that are acknowledged, and tells whether that
// was all of it.
func (m *Machine) skipAcked(s *slot) bool {
	r := &m.req
	n := r.acked.Sub(s.psn)
	if n <= int(r.pkt) {
		return false
	}
	if n >= int(s.npkt) {
		r.nextSlot(s)
		return true
	}
	m.seek(s, uint32(n))
	return false
}

func (r *requester) nextSlot(s *slot) {
	r.cur++
	r.pkt, r.seg, r.segOff = 0, 0, 0
	r.snd = s.end()
}

// seek points the cursor at packet n of s, the current slot.
func (m *Machine) seek(s *slot, n uint32) {
	r := &m.req
	r.pkt, r.seg, r.segOff = n, 0, 0
	r.snd = s.psn.Add(int(n))
	if s.kind != Read {
		r.advance(s, uint64(n)*uint64(m.par.MTU))
	}
}

// advance moves the data cursor n bytes on.
func (r *requester) advance(s *slot, n uint64) {
	for n > 0 && r.seg < len(s.segs) {
		left := uint64(len(s.segs[r.seg]) - r.segOff)
		if n < left {
			r.segOff += int(n)
			return
		}
		n -= left
		r.seg++
		r.segOff = 0
	}
}

// begin gives s its PSNs.
func (r *requester) begin(s *slot) {
	s.started = true
	s.psn = r.max
	r.snd = r.max
}

// credit tells whether end-to-end credits let a new SEND go (IBTA vol 1, 9.7.7.2.5).
func (r *requester) credit(s *slot) bool {
	return r.unlimited || s.started || s.kind != Send || int32((r.lsn-(r.ssn+1))<<8) >= 0
}

// mayProbeCredit tells whether a SEND beyond the credits may go: with nothing in flight, one may
// always go, and its acknowledgement brings the credits.
func (r *requester) mayProbeCredit() bool { return !r.outstanding() }

func (m *Machine) nextData(now int64, s *slot, p *Packet) bool {
	r := &m.req
	flight := r.flight()
	if flight >= r.window || !r.credit(s) && !r.mayProbeCredit() {
		return false
	}
	if !s.started {
		r.begin(s)
		r.ssn++
	}
	mtu := m.par.MTU
	last := r.pkt == s.npkt-1
	n := mtu
	if last {
		n = s.len - r.pkt*mtu
	}
	*p = Packet{Op: dataOp(s.kind, r.pkt == 0, last), PSN: r.snd, Solicited: last && s.sol}
	if p.Op.HasRETH() {
		p.VA, p.RKey, p.DMALen = s.va, s.rkey, s.len
	}
	pieces(p, s.segs, r.seg, r.segOff, int(n))
	r.sinceAck++
	p.AckReq = last && m.quietAfter() || r.sinceAck >= max(1, r.window/4) || flight+1 >= r.window
	if p.AckReq {
		r.sinceAck = 0
	}
	m.sent(now, p)
	if last {
		r.nextSlot(s)
	} else {
		r.advance(s, uint64(n))
		r.pkt++
		r.snd = r.snd.Add(1)
	}
	if before(r.max, r.snd) {
		r.max = r.snd
	}
	return true
}

// quietAfter tells whether no packet that asks for an acknowledgement is sure to follow the
// current slot at once.
func (m *Machine) quietAfter() bool {
	r := &m.req
	return r.cur+1 == r.tail || r.at(r.cur+1).kind == Read || !r.credit(r.at(r.cur+1))
}

// sent notes that p goes out, as new or as a repetition.
func (m *Machine) sent(now int64, p *Packet) {
	r := &m.req
	if before(p.PSN, r.max) {
		m.stats.Retransmits++
	} else if p.AckReq || p.Op == OpReadRequest {
		r.timer.sample(now, p.PSN)
	}
	r.timer.arm(now)
}

// dataOp is the opcode of a packet of a SEND or RDMA WRITE by its place.
func dataOp(k Kind, first, last bool) Opcode {
	op := OpSendFirst
	if k == Write {
		op = OpWriteFirst
	}
	switch {
	case first && last:
		return op + (OpSendOnly - OpSendFirst)
	case first:
		return op
	case last:
		return op + (OpSendLast - OpSendFirst)
	}
	return op + (OpSendMiddle - OpSendFirst)
}

// goBack sets the cursor to the packet psn, which has been sent.
func (m *Machine) goBack(psn ib.PSN) {
	r := &m.req
	r.timer.forget()
	for i := r.head; i != r.tail; i++ {
		s := r.at(i)
		if !s.started {
			return
		}
		n := psn.Sub(s.psn)
		if n < 0 || n >= int(s.npkt) {
			continue
		}
		if s.kind == Read {
			chunk := int(m.cfg.ReadChunk / m.par.MTU)
			n -= n % chunk
		}
		r.cur = i
		m.seek(s, uint32(n))
		r.sinceAck = 0
		return
	}
}

// completeSends takes what is done off the send queue.
func (m *Machine) completeSends() {
	r := &m.req
	for r.head != r.tail {
		s := r.at(r.head)
		if !s.started || !m.isDone(s) {
			break
		}
		r.head++
		if r.cur < r.head {
			r.nextSlot(s)
		}
		m.finish(s, OK)
	}
}

func (m *Machine) isDone(s *slot) bool {
	if s.kind == Read {
		return s.got == s.npkt
	}
	return !before(m.req.acked, s.end())
}

// finish completes s towards the owner.
func (m *Machine) finish(s *slot, st Status) {
	switch {
	case s.internal:
	case s.signaled || st != OK:
		m.done.push(Completion{ID: s.id, Kind: s.kind, Status: st})
	default:
		m.req.used--
	}
}

// flushSends ends the send queue, its head with status st.
func (m *Machine) flushSends(st Status) {
	r := &m.req
	for ; r.head != r.tail; r.head++ {
		m.finish(r.at(r.head), st)
		st = Flushed
	}
	r.cur = r.tail
	r.timer.stop()
}
