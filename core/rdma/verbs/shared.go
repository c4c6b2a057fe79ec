package verbs

import "slices"

// sharedReceives is the account of a shared receive queue: which Work lies in which slot, and which queue pairs may have taken it. It knows
// no device, and so is tested without one.
//
// Receives are numbered as they are posted, and a device takes them in that order. So a queue pair completes its own in order, and those of
// different queue pairs come in any. It also shows which receives a device has lost, as one may when a queue pair is destroyed in the middle
// of a message: one that comes before a receive that has completed has been taken, and a queue pair that has completed a later one, or has
// come since, does not have it. If that is so of every queue pair there is, one that is gone had it.
type sharedReceives struct {
	slots []sharedSlot
	free  []uint32 // slots
	// posted is the number of the next receive. All before taken have been taken.
	posted, taken uint64
	takers        []*taker
	// suspects counts the slots that a queue pair may have had that has left, since the completions since lost was called.
	suspects, since int
	// unordered tells that the device did not keep the order, which then proves nothing.
	unordered bool
}

// sharedSlot is a place for a receive.
type sharedSlot struct {
	id, num uint64
	used    bool
	// suspect tells that a queue pair with this user may have had it and has left.
	suspect bool
	user    uint64
}

// taker is the part of a queue pair: it has no receive before next.
type taker struct{ next uint64 }

// lostReceive is a receive that the device has lost. Its user is one of those who may have had it.
type lostReceive struct{ user, id uint64 }

func newSharedReceives(depth int) sharedReceives {
	s := sharedReceives{slots: make([]sharedSlot, depth), free: make([]uint32, depth)}
	for i := range s.free {
		s.free[i] = uint32(depth - 1 - i)
	}
	return s
}

func (s *sharedReceives) full() bool { return len(s.free) == 0 }

// vacant is the slot that post uses next. There must be one.
func (s *sharedReceives) vacant() uint32 { return s.free[len(s.free)-1] }

// post gives the vacant slot to a receive.
func (s *sharedReceives) post(id uint64) {
	at := s.vacant()
	s.free = s.free[:len(s.free)-1]
	s.slots[at] = sharedSlot{id: id, num: s.posted, used: true}
	s.posted++
}

// outstanding is how many receives have been posted and not completed.
func (s *sharedReceives) outstanding() int { return len(s.slots) - len(s.free) }

// join adds a queue pair, which takes no receive before.
func (s *sharedReceives) join(t *taker) {
	t.next = s.taken
	s.takers = append(s.takers, t)
}

// complete ends a receive that a queue pair took, and tells whether there is one in the slot.
func (s *sharedReceives) complete(t *taker, at uint32) (id uint64, ok bool) {
	if uint64(at) >= uint64(len(s.slots)) || !s.slots[at].used {
		return 0, false
	}
	p := &s.slots[at]
	if p.num < t.next {
		s.unordered = true
	}
	t.next = max(t.next, p.num+1)
	s.taken = max(s.taken, p.num+1)
	s.since++
	s.vacate(at)
	return p.id, true
}

func (s *sharedReceives) vacate(at uint32) {
	p := &s.slots[at]
	if p.suspect {
		s.suspects--
	}
	p.used, p.suspect = false, false
	s.free = append(s.free, at)
}

// leave removes a queue pair of which the device has nothing any more. What it has taken and not completed is lost.
func (s *sharedReceives) leave(t *taker, user uint64) {
	s.takers = slices.DeleteFunc(s.takers, func(o *taker) bool { return o == t })
	for i := range s.slots {
		if p := &s.slots[i]; p.used && !p.suspect && p.num >= t.next {
			p.suspect, p.user = true, user
			s.suspects++
		}
	}
}

// due tells that enough has happened for lost to be worth its time, which is that of all slots.
func (s *sharedReceives) due() bool { return s.suspects > 0 && s.since*8 >= len(s.slots) }

// lost appends the receives that are proven to be lost. Their slots are vacant then.
func (s *sharedReceives) lost(list []lostReceive) []lostReceive {
	s.since = 0
	if s.unordered {
		return list
	}
	first := s.taken
	for _, t := range s.takers {
		first = min(first, t.next)
	}
	for i := range s.slots {
		if p := &s.slots[i]; p.suspect && p.num < first {
			list = append(list, lostReceive{p.user, p.id})
			s.vacate(uint32(i))
		}
	}
	return list
}
