//go:build verbs

package verbs

import (
	"slices"
	"time"
)

// lastTime is how long a device has to flush what a closed queue pair took from a shared receive queue, if it does not tell when that is.
const lastTime = time.Second

// take: the peer may send from now on, and the queue pair take receives from its shared queue.
func (q *qp) take() {
	if q.srq != nil && !q.takes {
		q.takes = true
		q.srq.recvs.join(&q.taker)
	}
}

// owes tells whether a closed queue pair is left to the device for a while, which is to flush what it took from the shared queue. One with
// other work under way is not: nobody may touch its memory when Close has returned.
func (q *qp) owes() bool {
	if !q.takes || q.c.qp == nil || !q.halt() {
		return false
	}
	if !q.drained() {
		q.cq.sweep()
	}
	return q.drained() && !q.spent && time.Since(q.halted) < lastTime
}

// linger waits for the device.
func (q *qp) linger() {
	q.cq.lingering = append(q.cq.lingering, q)
	q.setDeadline(q.halted.Add(lastTime))
}

// exhausted: the device says that the queue pair takes no more receives. Completions of those it took are there.
func (q *qp) exhausted() {
	q.spent = true
	if q.state == closed {
		q.depose()
	}
}

// depose ends the lingering of a queue pair. If the device does not let go of it, there is another attempt later.
func (q *qp) depose() {
	if q.bury() != nil {
		q.setDeadline(time.Now().Add(flushTime))
	}
}

// bury destroys a queue pair that lingers. It does nothing if it does not.
func (q *qp) bury() error {
	c := q.cq
	if !slices.Contains(c.lingering, q) {
		return nil
	}
	if err := q.demolish(); err != nil {
		return failed("destroy", q.String(), err)
	}
	q.setDeadline(time.Time{})
	c.lingering = slices.DeleteFunc(c.lingering, func(o *qp) bool { return o == q })
	q.forget()
	return nil
}
