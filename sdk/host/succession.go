package host

import (
	"errors"
	"slices"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/internal/ring"
)

// Succession of links: how a queue goes from one process, which has died, to the next. See pause.go for one that lives.
//
//	state      event                 then
//	none       next                  working: held requests are sent
//	working    breach, broken link   sick: nothing is sent, nothing believed; its process is to be killed
//	working    gone                  what it had finished is taken; the rest is held; none
//	sick       gone                  everything is held; none
//	any        next                  gone is done first: the new process was fenced from the old before it was ready

// post delivers to the queue's goroutine, from any other.
func (q *Queue) post(f func(*mailbox)) error {
	q.mailbox.Lock()
	defer q.mailbox.Unlock()
	if q.mailbox.closed {
		return errClosed
	}
	f(&q.mailbox)
	q.mail.Store(true)
	// The peer shares this descriptor. Empty, it cannot be made to block.
	q.bell.Drain()
	q.bell.Ring()
	return nil
}

// readMail does not drain the bell: only Poll may, which looks for everything that the bell may have been rung for.
func (q *Queue) readMail() {
	q.mailbox.Lock()
	gone, next, pause, resume := q.mailbox.gone, q.mailbox.next, q.mailbox.pause, q.mailbox.resume
	q.mailbox.gone, q.mailbox.next, q.mailbox.pause, q.mailbox.resume = nil, nil, nil, false
	q.mail.Store(false)
	q.mailbox.Unlock()
	for _, l := range gone {
		if l == next {
			next = nil
		}
		q.lose(l)
	}
	if next != nil {
		q.adopt(next)
	}
	if pause != nil {
		q.pause(pause)
	}
	if resume {
		q.resume()
	}
	q.settle()
}

// lose lets go of a link whose process is dead. What it had finished is still taken, by the same checks as ever, and waits in ended.
func (q *Queue) lose(l link) {
	if l == q.link {
		for !q.sick {
			n, err := l.poll(q.done[:])
			for _, d := range q.done[:n] {
				q.slots[d.Slot].at = d.At
				q.end(d.Slot, backstore.Code(d.Code))
			}
			if err != nil || n == 0 {
				break
			}
		}
		q.taint(l)
		q.link = nil
		q.down()
		q.sick = false
		for n := range q.slots {
			if q.slots[n].state == slotSent {
				q.keep(uint32(n))
			}
		}
	}
	l.release()
}

// keep holds a request that a lost process had, for the next one, unless it must not be done twice or nobody waits for it.
func (q *Queue) keep(n uint32) {
	s := &q.slots[n]
	if s.cancelled || !s.req.Repeatable() {
		q.count.dropped.add(1)
		q.end(n, backstore.CodeAborted)
		return
	}
	s.state, s.again = slotHeld, true
}

// Cancel says that nobody waits for the request of a tag any more. It ends as ever, but no other process than the one that
// has it now ever gets it: one that no process has, or whose process dies, ends with CodeAborted.
func (q *Queue) Cancel(tag uint64) {
	for n := range q.slots {
		s := &q.slots[n]
		switch {
		case s.req.Tag != tag:
		case s.state == slotHeld:
			q.count.dropped.add(1)
			q.end(uint32(n), backstore.CodeAborted)
		case s.state == slotSent:
			s.cancelled = true
		}
	}
}

func (q *Queue) down() {
	if q.since.IsZero() {
		q.since = time.Now()
	}
}

// adopt sends everything that is held over a new link.
func (q *Queue) adopt(l link) {
	q.link, q.since, q.paused = l, time.Time{}, false
	q.count.attached.add(1)
	q.sendHeld()
}

// sendHeld sends what is held, in the order in which it was submitted.
func (q *Queue) sendHeld() {
	var held []uint32
	for n := range q.slots {
		if q.slots[n].state == slotHeld {
			held = append(held, uint32(n))
		}
	}
	slices.SortFunc(held, func(a, b uint32) int {
		if q.slots[a].order < q.slots[b].order {
			return -1
		}
		return 1
	})
	for _, n := range held {
		if q.slots[n].again {
			q.count.resent.add(1)
		}
		q.send(n)
	}
	q.link.flush()
}

// fault stops the use of a link that cannot be trusted. Its process's owner is told, and kills it.
func (q *Queue) fault(err error) {
	var v *ring.Violation
	if errors.As(err, &v) && v.Breach < ring.Breaches {
		q.count.breaches[v.Breach].add(1)
	}
	q.sick = true
	q.down()
	q.link.broke(err)
}
