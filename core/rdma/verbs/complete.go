//go:build verbs

package verbs

// #include "shim.h"
import "C"

import (
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// flushTime is how long a device has to flush the work of a queue pair in error.
const flushTime = 3 * time.Second

// statuses are those of the seam for those of C.
var statuses = [...]rdma.Status{
	C.IBV_WC_SUCCESS: rdma.StatusOK, C.IBV_WC_LOC_LEN_ERR: rdma.StatusLocalLength, C.IBV_WC_LOC_QP_OP_ERR: rdma.StatusLocalProtection,
	C.IBV_WC_LOC_PROT_ERR: rdma.StatusLocalProtection, C.IBV_WC_WR_FLUSH_ERR: rdma.StatusFlushed,
	C.IBV_WC_LOC_ACCESS_ERR: rdma.StatusLocalProtection, C.IBV_WC_REM_INV_REQ_ERR: rdma.StatusRemoteInvalid,
	C.IBV_WC_REM_ACCESS_ERR: rdma.StatusRemoteAccess, C.IBV_WC_REM_OP_ERR: rdma.StatusRemoteOperation,
	C.IBV_WC_RETRY_EXC_ERR: rdma.StatusRetryExceeded, C.IBV_WC_RNR_RETRY_EXC_ERR: rdma.StatusRNRRetryExceeded,
}

// statusOf: what has no word of its own, and no place in the table, is an error of the other side's.
func statusOf(s C.enum_ibv_wc_status) rdma.Status {
	if s == C.IBV_WC_SUCCESS {
		return rdma.StatusOK
	}
	if int(s) < len(statuses) && statuses[s] != rdma.StatusOK {
		return statuses[s]
	}
	return rdma.StatusRemoteOperation
}

// completed handles a completion of the device.
func (c *cq) completed(wc *C.struct_ibv_wc) {
	if wc.wr_id&C.GV_SHARED != 0 {
		c.sharedCompleted(wc)
		return
	}
	tag := uint32(wc.wr_id >> 32)
	place := int(tag & (1<<placeBits - 1))
	if place >= len(c.qps) || c.qps[place] == nil || uint32(c.qps[place].c.tag) != tag {
		return // of a queue pair that has been closed
	}
	q, at, status := c.qps[place], uint32(wc.wr_id&C.GV_PLACE), statusOf(wc.status)
	if wc.wr_id&C.GV_RECV != 0 {
		status = recvStatusOf(wc.status)
		q.received(at, status, uint32(wc.byte_len))
	} else {
		q.sentUpTo(at, status)
	}
	q.notice(status)
}

func recvStatusOf(s C.enum_ibv_wc_status) rdma.Status {
	if s == C.IBV_WC_REM_INV_REQ_ERR || s == C.IBV_WC_LOC_QP_OP_ERR { // rxe's words for a message that is too long
		return rdma.StatusLocalLength
	}
	return statusOf(s)
}

// notice ends a connection of which something has not completed well.
func (q *qp) notice(status rdma.Status) {
	if status != rdma.StatusOK && !q.failed {
		q.failed = true
		q.breakDown()
	}
}

// received completes the oldest receive.
func (q *qp) received(at uint32, status rdma.Status, n uint32) {
	s := &q.c.rq
	if s.done == s.handed || uint32(s.done&s.mask) != at {
		return // the device is in disorder; the rest is flushed in the end
	}
	s.done++
	switch status {
	case rdma.StatusOK:
		q.communicates()
		q.release()
	default:
		n = 0
	}
	q.cq.emit(q, rdma.Completion{ID: q.recvs[at], Op: rdma.OpRecv, Status: status, Bytes: n})
	if s.handed != s.tail && q.state < ending {
		q.cq.touch(q)
	}
}

// sentUpTo notes a completion of the send queue: that of the work at a place. What comes before it and nobody asked about has succeeded,
// unless one failed before. That is not so of the READs of iWARP, as siw has them: a READ completes when its data is there, work after it
// when it is on its way. So the device is asked about each of them, and what completes earlier waits for them here.
func (q *qp) sentUpTo(at uint32, status rdma.Status) {
	s := &q.c.sq
	last := s.done + (C.uint32_t(at)-s.done)&s.mask
	if last-s.done >= s.handed-s.done {
		return // the device is in disorder; the rest is flushed in the end
	}
	for i := s.done; i != last; i++ {
		if e := &q.sends[i&s.mask]; !e.known && !(q.dev.iwarp && e.op == rdma.OpRead) {
			e.known = true
			if e.told = q.failed; q.failed {
				e.status = rdma.StatusFlushed
			}
		}
	}
	e := &q.sends[at]
	e.known, e.status, e.told = true, status, e.signaled || status != rdma.StatusOK
	q.tellInOrder()
	if s.handed != s.tail && q.state < ending {
		q.cq.touch(q)
	}
}

// tellInOrder completes the oldest sends of which it is known what became of them. After one that failed none has succeeded.
func (q *qp) tellInOrder() {
	for s := &q.c.sq; s.done != s.handed; s.done++ {
		e := &q.sends[s.done&s.mask]
		if !e.known {
			return
		}
		if q.broken && e.status == rdma.StatusOK {
			e.status, e.told = rdma.StatusFlushed, true
		}
		q.broken = q.broken || e.status != rdma.StatusOK
		if e.told {
			q.cq.emit(q, rdma.Completion{ID: e.id, Op: e.op, Status: e.status})
		}
	}
}

// end begins the end: the queue pair goes into error, and the event follows when all work has completed.
func (q *qp) end(kind rdma.EventKind, reason rdma.RejectReason, data []byte) {
	if q.state >= ending {
		return
	}
	switch kind {
	case rdma.EventDisconnected:
		q.dev.counts.disconnects.Add(1)
	default:
		q.dev.counts.failures.Add(1)
	}
	q.state = ending
	q.final = rdma.Completion{Op: rdma.OpEvent, Event: kind, Reason: reason, Data: data}
	q.cq.ending = append(q.cq.ending, q)
	q.setDeadline(time.Now().Add(flushTime))
	if !q.halt() {
		q.destroy()
	}
}

// halt puts the queue pair into error, and tells whether the device goes along.
func (q *qp) halt() bool {
	if q.halted.IsZero() {
		if C.gv_qp_error(q.c) != 0 {
			return false
		}
		q.halted = time.Now()
	}
	return true
}

// destroy takes everything from the device.
func (q *qp) destroy() {
	if q.demolish() != nil {
		return // Close tries again; the deadline goes on
	}
	q.setDeadline(time.Time{})
}

// drained tells whether the device has nothing of the queue pair's any more.
func (q *qp) drained() bool {
	return q.c.qp == nil || q.c.sq.handed == q.c.sq.done && q.c.rq.handed == q.c.rq.done
}

// conclude flushes what is left and reports the event.
func (q *qp) conclude() {
	q.setDeadline(time.Time{})
	q.flushSends()
	q.flushRecvs()
	q.state = ended
	q.cq.emit(q, q.final)
}

// expired: what the queue pair waited for has not come.
func (q *qp) expired() {
	switch q.state {
	case ending:
		q.dev.counts.unflushed.Add(1)
		q.destroy()
		if q.c.qp != nil { // it cannot even be destroyed: try later
			q.setDeadline(time.Now().Add(flushTime))
		}
	case resolving, connecting, accepted:
		q.leave()
		q.end(rdma.EventFailed, 0, nil)
	case closed:
		q.depose()
	default:
		q.setDeadline(time.Time{})
	}
}

// breakDown ends a connection that has failed; the peer is told.
func (q *qp) breakDown() {
	switch q.state {
	case resolving, connecting, accepted:
		q.leave()
		q.end(rdma.EventFailed, 0, nil)
	case connected:
		q.leave()
		q.end(rdma.EventDisconnected, 0, nil)
	}
}

// vanish ends a queue pair whose device is gone.
func (q *qp) vanish() {
	if q.state == closed {
		q.depose()
		return
	}
	q.breakDown()
	q.destroy()
}
