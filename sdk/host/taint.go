package host

import (
	"slices"
	"sync"
	"sync/atomic"
)

// taints are the parts of an arena that I/O of dead processes may still touch. io_uring requests of a killed process go on in
// the kernel, for seconds on a slow medium; that they are over is known when another process has opened the store, because
// a plugin's Open waits for them. What the dead process had is tainted from its death until then, whatever the initiator has
// been told meanwhile.
type taints struct {
	n      atomic.Int64
	lifted atomic.Uint64

	mu   sync.Mutex
	list []taint
}

// taint is a range of bytes, and the store in whose dead process a request for it was.
type taint struct {
	from, to uint64
	by       *Store
}

func (t *taints) add(by *Store, at, n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if by.lifted || n == 0 {
		return
	}
	t.list = append(t.list, taint{from: at, to: at + n, by: by})
	t.n.Store(int64(len(t.list)))
}

func (t *taints) meet(at, n uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.list, func(x taint) bool { return x.from < at+n && at < x.to })
}

// lift ends what by has tainted, and keeps it from tainting more.
func (t *taints) lift(by *Store) {
	t.mu.Lock()
	defer t.mu.Unlock()
	by.lifted = true
	t.list = slices.DeleteFunc(t.list, func(x taint) bool { return x.by == by })
	t.n.Store(int64(len(t.list)))
	t.lifted.Add(1)
}

// Lift ends the taint on the buffers that the store's process had when it died. Call it when another process has opened the
// same store, and not before: see Arena.Tainted.
func (s *Store) Lift() { s.p.arena.taints.lift(s) }

// taint marks the data of the requests that went over a link to a process that is dead and has not let go of them.
func (q *Queue) taint(l link) {
	by := l.mapped()
	if l != q.link || by == nil {
		return
	}
	for n := range q.slots {
		if s := &q.slots[n]; s.state == slotSent {
			q.memory.taints.add(by, s.arena, uint64(len(s.req.Data)))
		}
	}
}
