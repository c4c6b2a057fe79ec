package rc

import "github.com/gosrpt/gosrpt/core/ib"

// recvSlot is a posted receive.
type recvSlot struct {
	id    uint64
	room  uint32
	index uint32 // in a Shared
	segs  [][]byte
}

func (s *recvSlot) set(id uint64, room uint32, segs [][]byte) {
	s.id, s.room = id, room
	s.segs = append(s.segs[:0], segs...)
}

func newRecvSlots(depth, maxSGE int) []recvSlot {
	slots := make([]recvSlot, depth)
	store := make([][]byte, depth*maxSGE)
	for i := range slots {
		slots[i].segs = store[i*maxSGE : i*maxSGE : (i+1)*maxSGE]
	}
	return slots
}

// roomOf is the length of segs together; false if no message is as long.
func roomOf(segs [][]byte) (uint32, bool) {
	room := uint64(0)
	for _, s := range segs {
		room += uint64(len(s))
	}
	return uint32(room), room <= maxMessageLength
}

// message is the request message in progress.
type message struct {
	kind Kind // 0: none
	// at is the bytes received; left is what an RDMA WRITE still lacks.
	at, left uint32
	rkey     uint32
	va       uint64
}

// responder is the receiving half.
type responder struct {
	recvs      []recvSlot
	head, tail uint64
	used       int // receives that count against RecvDepth
	recvPosted bool
	taken      *recvSlot // of the Shared, by the message in progress

	epsn ib.PSN
	msn  uint32
	cur  message

	hold      [holdSlots]*held
	nheld     int
	holdUntil int64 // when patience with the gap at epsn ends, 0: no gap
	told      bool  // a NAK for epsn has been sent

	out answers

	ackAt    int64 // when the last acknowledgement is repeated, 0: not any more
	ackTimes uint8 // how often it has been
}

func (r *responder) init(c *Config) {
	if c.Shared == nil {
		r.recvs = newRecvSlots(c.RecvDepth, c.MaxSGE)
	}
}

// PostRecv queues a receive into segs, which the machine uses until the completion; the slice of
// slices is copied. It returns false if RecvDepth receives are outstanding or there are more
// segments than MaxSGE, or if the machine has a Shared. In state Failed the receive is flushed at once.
func (m *Machine) PostRecv(id uint64, segs [][]byte) bool {
	r := &m.resp
	room, ok := roomOf(segs)
	if m.cfg.Shared != nil || r.used >= m.cfg.RecvDepth || len(segs) > m.cfg.MaxSGE || !ok {
		return false
	}
	r.used++
	if m.state == Failed {
		m.done.push(Completion{ID: id, Kind: Recv, Status: Flushed})
		return true
	}
	r.recvs[r.tail%uint64(len(r.recvs))].set(id, room, segs)
	r.tail++
	r.recvPosted = r.holdUntil != 0 || r.told
	return true
}

// recv is the receive of the message in progress, or of the next one; nil if there is none.
func (m *Machine) recv() *recvSlot {
	r, shared := &m.resp, m.cfg.Shared
	switch {
	case shared == nil && r.head == r.tail:
		return nil
	case shared == nil:
		return &r.recvs[r.head%uint64(len(r.recvs))]
	case r.taken == nil && r.used < m.cfg.RecvDepth:
		if r.taken = shared.take(); r.taken != nil {
			r.used++
		}
	}
	return r.taken
}

// endRecv completes the receive that recv has returned.
func (m *Machine) endRecv(c Completion) {
	r := &m.resp
	if s := r.taken; s != nil {
		c.ID = s.id
		m.cfg.Shared.release(s)
		r.taken = nil
	} else {
		c.ID = r.recvs[r.head%uint64(len(r.recvs))].id
		r.head++
	}
	c.Kind = Recv
	m.done.push(c)
}

func (m *Machine) flushRecvs() {
	r := &m.resp
	if r.taken != nil {
		m.endRecv(Completion{Status: Flushed})
	}
	for ; r.head != r.tail; r.head++ {
		s := &r.recvs[r.head%uint64(len(r.recvs))]
		m.done.push(Completion{ID: s.id, Kind: Recv, Status: Flushed})
	}
}

// verdict is what became of a request packet.
type verdict uint8

const (
	taken verdict = iota
	noRecv
	fatal // the queue pair has failed and a NAK is queued
)

// receiveRequest handles a packet of the peer's requester.
func (m *Machine) receiveRequest(now int64, p *Packet) {
	r := &m.resp
	switch d := p.PSN.Sub(r.epsn); {
	case d < 0:
		m.duplicate(p, uint32(-d))
	case d > 0:
		m.overtook(now, p, d)
	default:
		m.inOrder(now, p)
	}
}

func (m *Machine) inOrder(now int64, p *Packet) {
	switch m.execute(p) {
	case noRecv:
		m.awaitRecv(now, p)
	case taken:
		if m.resp.nheld > 0 {
			m.drain(now)
		}
	}
}

// execute performs the packet that is next in order.
func (m *Machine) execute(p *Packet) verdict {
	n := uint32(len(p.Payload))
	if v, ok := m.checkPlace(p.Op, n); !ok {
		return v
	}
	v := taken
	switch p.Op {
	case OpSendFirst, OpSendMiddle, OpSendLast, OpSendOnly:
		v = m.executeSend(p, n)
	case OpWriteFirst, OpWriteMiddle, OpWriteLast, OpWriteOnly:
		v = m.executeWrite(p, n)
	case OpReadRequest:
		return m.executeRead(p)
	default:
		return m.refuse(nakInvalid)
	}
	if v != taken {
		return v
	}
	m.advance(1)
	if p.AckReq {
		m.resp.out.ack(m.resp.epsn.Add(-1), m.resp.msn)
	}
	return taken
}

// checkPlace checks opcode order and payload length against the message in progress and the path
// MTU (IBTA vol 1, 9.7.4.1).
func (m *Machine) checkPlace(op Opcode, n uint32) (verdict, bool) {
	kind := m.resp.cur.kind
	mtu := m.par.MTU
	ok := false
	switch op {
	case OpSendFirst, OpWriteFirst:
		ok = kind == 0 && n == mtu
	case OpSendOnly, OpWriteOnly:
		ok = kind == 0 && n <= mtu
	case OpReadRequest:
		ok = kind == 0 && n == 0
	case OpSendMiddle:
		ok = kind == Send && n == mtu
	case OpSendLast:
		ok = kind == Send && n > 0 && n <= mtu
	case OpWriteMiddle:
		ok = kind == Write && n == mtu
	case OpWriteLast:
		ok = kind == Write && n > 0 && n <= mtu
	}
	if !ok {
		return m.refuse(nakInvalid), false
	}
	return taken, true
}

func (m *Machine) executeSend(p *Packet, n uint32) verdict {
	r := &m.resp
	s := m.recv()
	if s == nil {
		return noRecv
	}
	if n > s.room-r.cur.at {
		m.endRecv(Completion{Status: LocalLength, Bytes: r.cur.at})
		return m.refuse(nakInvalid)
	}
	scatter(s.segs, r.cur.at, p.Payload)
	r.cur.kind = Send
	r.cur.at += n
	if p.Op == OpSendLast || p.Op == OpSendOnly {
		m.endRecv(Completion{Bytes: r.cur.at, Solicited: p.Solicited})
		m.endMessage()
	}
	return taken
}

func (m *Machine) executeWrite(p *Packet, n uint32) verdict {
	c := &m.resp.cur
	starts := p.Op.HasRETH()
	if starts {
		if p.DMALen > maxMessageLength || (p.Op == OpWriteFirst) != (p.DMALen > m.par.MTU) {
			return m.refuse(nakInvalid)
		}
		if p.DMALen > 0 && !m.mayWrite(p.RKey, p.VA, p.DMALen) {
			return m.refuse(nakAccess)
		}
		*c = message{kind: Write, left: p.DMALen, rkey: p.RKey, va: p.VA}
	}
	ends := p.Op == OpWriteLast || p.Op == OpWriteOnly
	if n > c.left || ends != (n == c.left) {
		return m.refuse(nakInvalid)
	}
	if n > 0 {
		b, ok := m.cfg.Memory.Writable(c.rkey, c.va+uint64(c.at), n)
		if !ok {
			return m.refuse(nakAccess)
		}
		copy(b, p.Payload)
	}
	c.at += n
	c.left -= n
	if ends {
		m.endMessage()
	}
	return taken
}

func (m *Machine) mayWrite(rkey uint32, va uint64, n uint32) bool {
	if m.cfg.Memory == nil {
		return false
	}
	_, ok := m.cfg.Memory.Writable(rkey, va, n)
	return ok
}

func (m *Machine) mayRead(rkey uint32, va uint64, n uint32) bool {
	if m.cfg.Memory == nil {
		return false
	}
	_, ok := m.cfg.Memory.Readable(rkey, va, n)
	return ok
}

func (m *Machine) executeRead(p *Packet) verdict {
	r := &m.resp
	if p.DMALen > maxMessageLength || r.out.reads >= int(m.par.ReadsIn) {
		return m.refuse(nakInvalid)
	}
	if p.DMALen > 0 && !m.mayRead(p.RKey, p.VA, p.DMALen) {
		return m.refuse(nakAccess)
	}
	m.endMessage()
	r.out.read(p, r.epsn, r.msn, m.par.MTU, false)
	m.advance(packetsOf(p.DMALen, m.par.MTU))
	return taken
}

func (m *Machine) endMessage() {
	m.resp.cur = message{}
	m.resp.msn = (m.resp.msn + 1) & uint32(ib.PSNMask)
}

// advance moves the expected PSN; what was held for the numbers passed over is void.
func (m *Machine) advance(n uint32) {
	r := &m.resp
	for i := range min(n, holdSlots) {
		if r.nheld == 0 {
			break
		}
		m.release(r.epsn.Add(int(i)))
	}
	r.epsn = r.epsn.Add(int(n))
	r.holdUntil, r.told = 0, false
}

// refuse queues a NAK for the expected PSN and fails the queue pair (IBTA vol 1, 9.9.3: class C
// responder errors).
func (m *Machine) refuse(syndrome uint8) verdict {
	m.stats.NaksSent++
	m.resp.out.nak(m.resp.epsn, m.resp.msn, syndrome)
	m.fail(Flushed)
	return fatal
}

// duplicate answers a request from back PSNs before the expected one: SEND and WRITE are acknowledged again, a
// READ is performed again (IBTA vol 1, 9.7.5.1.4).
func (m *Machine) duplicate(p *Packet, back uint32) {
	r := &m.resp
	m.stats.Duplicates++
	if p.Op != OpReadRequest {
		r.out.ack(r.epsn.Add(-1), r.msn)
		return
	}
	np := packetsOf(p.DMALen, m.par.MTU)
	if len(p.Payload) != 0 || p.DMALen > maxMessageLength || np > back {
		m.stats.BadPackets++
		return
	}
	if p.DMALen > 0 && !m.mayRead(p.RKey, p.VA, p.DMALen) {
		return // silence: the first answer was the right one
	}
	r.out.read(p, p.PSN, r.msn, m.par.MTU, true)
}
