package rdmatest

import (
	"fmt"
	"slices"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// state is where a queue pair is in its life.
//
//	idle -Connect-> connecting -reply-> connected -end-> ended
//	idle -Accept--> accepted  -ready-> connected
//	connecting, accepted -reject, failure, Disconnect-> ended
//	any -Close-> closed
type state uint8

const (
	idle state = iota
	connecting
	accepted
	connected
	ended
	closed
)

// stall is why the oldest work of the send queue waits.
type stall uint8

const (
	flowing stall = iota
	noReceive
	noAnswer
)

// qp is a queue pair.
type qp struct {
	cq    *cq
	dev   *Device
	num   uint32
	user  uint64
	state state
	// maxSGE is the longest list.
	maxSGE int
	sq     queue
	rq     *queue // its own, or that of srq
	srq    *srq   // nil if it shares nothing
	// peer is the other end, while connected or, on the passive side, accepted.
	peer *qp
	// req is the request that this end sent or answered.
	req  *connRequest
	info rdma.ConnInfo
	// deadline bounds the connection attempt, or the stall. Set it with setDeadline.
	deadline time.Time
	stall    stall
	// queued counts the entries of the queue pair in the completion queue.
	queued int
	dirty  bool
	// errFull is what a post to a full queue returns.
	errFull error
	// silent: EventDisconnected has been returned, nothing may follow.
	silent bool
}

var _ rdma.QP = (*qp)(nil)

func (q *qp) Num() uint32 { return q.num }

// MaxSGE is the longest list that is taken.
func (q *qp) MaxSGE() int { return q.maxSGE }

func (q *qp) String() string { return fmt.Sprintf("%s/%#06x", q.dev.cfg.Name, q.num) }

// PostSend takes work; it is transmitted by the next Flush or Arm.
func (q *qp) PostSend(work []rdma.Work) (int, error) {
	q.dev.fabric.mu.Lock()
	defer q.dev.fabric.unlock()
	for i := range work {
		if err := q.takeSend(&work[i]); err != nil {
			return i, q.refusal("post send", err)
		}
	}
	return len(work), nil
}

func (q *qp) takeSend(w *rdma.Work) error {
	limit := q.dev.sendLimit
	switch {
	case q.state == closed:
		return rdma.ErrClosed
	case q.silent:
		return rdma.ErrState
	case w.Op != rdma.OpSend && w.Op != rdma.OpWrite && w.Op != rdma.OpRead:
		return rdma.ErrInvalid
	case q.sq.full() || limit >= 0 && q.sq.inUse() >= limit:
		return rdma.ErrFull
	case !q.sq.put(q.dev, w):
		return rdma.ErrInvalid
	}
	if q.state != connected {
		q.flushWork()
		return nil
	}
	if !q.dirty {
		q.dirty = true
		q.cq.dirty = append(q.cq.dirty, q)
	}
	return nil
}

// PostRecv takes receive buffers; a SEND of the peer that waits for one goes on.
func (q *qp) PostRecv(work []rdma.Work) (int, error) {
	q.dev.fabric.mu.Lock()
	defer q.dev.fabric.unlock()
	n, err := len(work), error(nil)
	for i := range work {
		if err = q.takeRecv(&work[i]); err != nil {
			n, err = i, q.refusal("post receive", err)
			break
		}
	}
	if p := q.peer; p != nil && p.stall == noReceive {
		p.progress(time.Time{})
	}
	return n, err
}

// refusal makes the error of a post. A full queue belongs to the steady state, and so its error
// is made beforehand.
func (q *qp) refusal(op string, err error) error {
	if err == rdma.ErrFull {
		return q.errFull
	}
	return opError(op, q.String(), err)
}

func (q *qp) takeRecv(w *rdma.Work) error {
	switch {
	case q.state == closed:
		return rdma.ErrClosed
	case q.silent:
		return rdma.ErrState
	case w.Op != rdma.OpRecv, q.srq != nil:
		return rdma.ErrInvalid
	case q.rq.full():
		return rdma.ErrFull
	case !q.rq.put(q.dev, w):
		return rdma.ErrInvalid
	}
	q.rq.ready = q.rq.posted
	if q.state == ended {
		q.flushWork()
	}
	return nil
}

// complete ends the oldest unfinished slot of a queue.
func (q *qp) complete(qu *queue, status rdma.Status, bytes uint64) {
	s := qu.at(qu.done)
	qu.done++
	if status != rdma.StatusOK {
		q.dev.count.failedWork++
	} else if s.op != rdma.OpRecv && s.flags&rdma.Signaled == 0 {
		return
	}
	q.cq.push(entry{qp: q, covers: qu.done,
		c: rdma.Completion{ID: s.id, User: q.user, Op: s.op, Status: status, Bytes: uint32(bytes)}})
}

// flushWork ends all work with StatusFlushed; before the connection is made, sends alone.
func (q *qp) flushWork() {
	q.sq.ready = q.sq.posted
	for q.sq.done < q.sq.posted {
		q.complete(&q.sq, rdma.StatusFlushed, 0)
	}
	for q.srq == nil && q.state == ended && q.rq.done < q.rq.posted {
		q.complete(q.rq, rdma.StatusFlushed, 0)
	}
}

// event queues a connection event.
func (q *qp) event(kind rdma.EventKind, reason rdma.RejectReason, data []byte) {
	q.cq.push(entry{qp: q, c: rdma.Completion{User: q.user, Op: rdma.OpEvent, Event: kind, Reason: reason, Data: data}})
}

// end puts the queue pair into error: its work is flushed, then the event follows.
func (q *qp) end(kind rdma.EventKind, reason rdma.RejectReason, data []byte) {
	q.state, q.peer = ended, nil
	q.unstall()
	q.flushWork()
	q.event(kind, reason, data)
}

// returning is called when Poll takes an event. It returns false if the event has been put back
// behind work that was posted meanwhile.
func (q *qp) returning(e entry) bool {
	switch e.c.Event {
	case rdma.EventEstablished:
		q.sendReady()
	case rdma.EventDisconnected:
		if q.queued > 0 {
			q.cq.push(e)
			return false
		}
		q.silent = true
	}
	return true
}

// free gives the slots back that a completion covers.
func (q *qp) free(e entry) {
	switch e.c.Op {
	case rdma.OpEvent:
	case rdma.OpRecv:
		q.rq.freed = e.covers
	default:
		q.sq.freed = e.covers
	}
}

func (q *qp) setDeadline(t time.Time) {
	if !q.deadline.IsZero() {
		q.cq.timed--
	}
	if !t.IsZero() {
		q.cq.timed++
		q.cq.notify()
	}
	q.deadline = t
}

func (q *qp) unstall() {
	q.stall = flowing
	q.setDeadline(time.Time{})
}

// expire ends what the deadline bounds.
func (q *qp) expire(now time.Time) {
	switch q.state {
	case connecting:
		q.abandon()
		q.end(rdma.EventFailed, 0, nil)
	case accepted:
		q.end(rdma.EventFailed, 0, nil)
	case connected:
		if q.progress(now); q.stall == flowing || q.deadline.IsZero() || now.Before(q.deadline) {
			return
		}
		status := rdma.StatusRetryExceeded
		if q.stall == noReceive {
			status = rdma.StatusRNRRetryExceeded
		}
		q.fail(status)
	}
}

// Close destroys the queue pair.
func (q *qp) Close() error {
	q.dev.fabric.mu.Lock()
	defer q.dev.fabric.unlock()
	q.close()
	return nil
}

func (q *qp) close() {
	if q.state == closed {
		return
	}
	q.leave()
	q.state, q.peer = closed, nil
	q.unstall()
	q.cq.forget(q)
	if q.srq != nil {
		q.srq.qps = slices.DeleteFunc(q.srq.qps, func(o *qp) bool { return o == q })
	}
	same := func(o *qp) bool { return o == q }
	q.cq.qps = slices.DeleteFunc(q.cq.qps, same)
	q.cq.dirty = slices.DeleteFunc(q.cq.dirty, same)
	q.dev.qps = slices.DeleteFunc(q.dev.qps, same)
}

// Info describes the connection.
func (q *qp) Info() rdma.ConnInfo {
	q.dev.fabric.mu.Lock()
	defer q.dev.fabric.unlock()
	return q.info
}
