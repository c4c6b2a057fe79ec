package rc

// Shared is receives that the machines of one goroutine take in the order of posting. A machine takes one at the first packet of a
// message.
type Shared struct {
	maxSGE int
	slots  []recvSlot
	free   []uint32 // slots that hold nothing
	// ready are the slots that nobody has taken, a ring.
	ready   []uint32
	head, n int
	// used counts what was posted and has not been polled.
	used int
}

// NewShared makes room for depth receives of up to maxSGE segments each. Both must be positive.
func NewShared(depth, maxSGE int) *Shared {
	s := &Shared{maxSGE: maxSGE, slots: newRecvSlots(depth, maxSGE), free: make([]uint32, depth), ready: make([]uint32, depth)}
	for i := range s.free {
		s.free[i] = uint32(depth - 1 - i)
	}
	return s
}

// Post queues a receive into segs, as Machine.PostRecv.
func (s *Shared) Post(id uint64, segs [][]byte) bool {
	room, ok := roomOf(segs)
	if s.used == len(s.slots) || len(segs) > s.maxSGE || !ok {
		return false
	}
	s.used++
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	s.slots[i].set(id, room, segs)
	s.ready[(s.head+s.n)%len(s.ready)] = i
	s.n++
	return true
}

// Ready is how many receives nobody has taken.
func (s *Shared) Ready() int { return s.n }

// MaxSGE is the most segments that a receive may have.
func (s *Shared) MaxSGE() int { return s.maxSGE }

// take returns the oldest, or nil.
func (s *Shared) take() *recvSlot {
	if s.n == 0 {
		return nil
	}
	i := s.ready[s.head]
	s.head = (s.head + 1) % len(s.ready)
	s.n--
	s.slots[i].index = i
	return &s.slots[i]
}

// release frees the slot of a receive that has completed.
func (s *Shared) release(r *recvSlot) { s.free = append(s.free, r.index) }

// Awaits tells whether a message of the peer may be waiting for a receive.
func (m *Machine) Awaits() bool {
	return m.state == Ready && (m.resp.holdUntil != 0 || m.resp.told)
}

// RecvPosted executes what was waiting for a receive of the Shared.
func (m *Machine) RecvPosted(now int64) {
	if m.Awaits() {
		m.drain(now)
	}
}
