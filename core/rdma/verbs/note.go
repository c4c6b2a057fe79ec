//go:build verbs

package verbs

import (
	"slices"

	"golang.org/x/sys/unix"
)

// noteKind is what a note says.
type noteKind uint8

const (
	noteEvent   noteKind = iota + 1 // an event of the connection manager
	noteCommEst                     // the peer has sent before the connection manager knew
	noteBroken                      // the device says that the queue pair has failed
	noteSpent                       // the device says that a queue pair in error takes no more from its shared receive queue
	noteSRQ                         // the device says that a shared receive queue has failed
	noteGone                        // the device, or the whole queue, is of no use any more
)

// note is what another goroutine has for the owner.
type note struct {
	kind noteKind
	qp   *qp
	srq  *srq
	ev   *cmEvent
}

var bellWord = []byte{1, 0, 0, 0, 0, 0, 0, 0}

// post leaves a note and wakes the owner. It may be called from any goroutine.
func (c *cq) post(n note) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shutNote {
		return
	}
	c.notes = append(c.notes, n)
	c.noted.Store(true)
	_, _ = unix.Write(c.bell, bellWord) // full is as good as rung
	c.rung.Store(true)                  // afterwards: a bell that rings unnoticed would never be silenced
}

// takeNotes carries out what the notes ask for.
func (c *cq) takeNotes() {
	c.mu.Lock()
	c.taken, c.notes = c.notes, c.taken[:0]
	c.noted.Store(false)
	c.mu.Unlock()
	for i := range c.taken {
		c.obey(&c.taken[i])
		c.taken[i] = note{}
	}
}

func (c *cq) obey(n *note) {
	switch {
	case n.kind == noteGone:
		c.each(func(q *qp) { q.vanish() })
		for _, q := range slices.Clone(c.lingering) {
			q.vanish()
		}
	case n.kind == noteSRQ:
		n.srq.fail()
	case n.kind == noteSpent:
		n.qp.exhausted()
	case n.qp.state == closed:
	case n.kind == noteEvent:
		n.qp.event(n.ev)
	case n.kind == noteCommEst:
		n.qp.communicates()
	case n.kind == noteBroken:
		n.qp.breakDown()
	}
}
