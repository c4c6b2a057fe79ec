package rdmatest

import (
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// progress carries out the flushed work of the send queue, in order, until it is done or must
// wait. now may be zero; it is read when it matters.
func (q *qp) progress(now time.Time) {
	for q.state == connected && q.sq.done < q.sq.ready {
		if q.dev.stopped() || q.peer.dev.stopped() {
			q.unstall()
			return
		}
		if why := q.obstacle(q.sq.at(q.sq.done)); why != flowing {
			q.wait(why, now)
			return
		}
		q.unstall()
		q.spendStep()
		q.execute(q.sq.at(q.sq.done))
	}
}

// spendStep accounts for a delivery that Step let through.
func (q *qp) spendStep() {
	if q.dev.held&Data != 0 {
		q.dev.steps--
	}
	if p := q.peer; p.dev != q.dev && p.dev.held&Data != 0 {
		p.dev.steps--
	}
}

// obstacle tells what a work request waits for.
func (q *qp) obstacle(s *slot) stall {
	p := q.peer
	if !linked(q.dev, p.dev) || p.peer != q || p.state != connected && p.state != accepted {
		return noAnswer
	}
	if s.op == rdma.OpSend && p.rq.done == p.rq.posted {
		return noReceive
	}
	return flowing
}

// wait begins a stall, or goes on with it.
func (q *qp) wait(why stall, now time.Time) {
	if q.stall == why {
		return
	}
	q.unstall()
	q.stall = why
	limit := q.dev.cfg.RetryTimeout
	if why == noReceive {
		q.dev.count.receiverNotReady++
		limit = q.dev.cfg.RNRTimeout
	}
	if limit == 0 {
		return
	}
	if now.IsZero() {
		now = time.Now()
	}
	q.setDeadline(now.Add(limit))
}

// execute carries out a work request that nothing hinders.
func (q *qp) execute(s *slot) {
	if status, chosen := q.dev.injected(s.op); chosen {
		q.fail(status)
		return
	}
	if !s.intact() {
		q.fail(rdma.StatusLocalProtection)
		return
	}
	switch s.op {
	case rdma.OpSend:
		q.send(s)
	case rdma.OpWrite:
		q.write(s)
	case rdma.OpRead:
		q.read(s)
	}
}

func (q *qp) send(s *slot) {
	p := q.peer
	r := p.rq.at(p.rq.done)
	bad, chosen := p.dev.injected(rdma.OpRecv)
	switch {
	case chosen:
	case !r.intact():
		bad = rdma.StatusLocalProtection
	case s.total > r.total:
		bad = rdma.StatusLocalLength
	}
	if bad != rdma.StatusOK {
		q.failBoth(bad)
		return
	}
	gather(r.sgl, s.sgl)
	q.dev.count.sends++
	p.dev.count.receives++
	q.moved(p, s.total)
	p.complete(p.rq, rdma.StatusOK, s.total)
	q.complete(&q.sq, rdma.StatusOK, 0)
}

func (q *qp) write(s *slot) {
	if s.total > 0 {
		mem, ok := q.peer.dev.remote(s.rkey, s.remoteAddr, s.total, rdma.RemoteWrite)
		if !ok {
			q.fail(rdma.StatusRemoteAccess)
			return
		}
		collect(mem, s.sgl)
	}
	q.dev.count.writes++
	q.moved(q.peer, s.total)
	q.complete(&q.sq, rdma.StatusOK, 0)
}

func (q *qp) read(s *slot) {
	if q.info.Reads == 0 {
		q.fail(rdma.StatusRemoteInvalid)
		return
	}
	if s.total > 0 {
		if !s.isSink() {
			q.fail(rdma.StatusLocalProtection)
			return
		}
		mem, ok := q.peer.dev.remote(s.rkey, s.remoteAddr, s.total, rdma.RemoteRead)
		if !ok {
			q.fail(rdma.StatusRemoteAccess)
			return
		}
		spread(s.sgl, mem)
	}
	q.dev.count.reads++
	q.peer.moved(q, s.total)
	q.complete(&q.sq, rdma.StatusOK, 0)
}

// moved counts bytes that went from q to p.
func (q *qp) moved(p *qp, n uint64) {
	q.dev.count.bytesOut += n
	p.dev.count.bytesIn += n
}

// fail ends the oldest send queue work with status, and the connection with it, on both ends.
func (q *qp) fail(status rdma.Status) {
	p := q.peer
	q.complete(&q.sq, status, 0)
	q.end(rdma.EventDisconnected, 0, nil)
	q.tell(p)
}

// failBoth ends a SEND whose receive went wrong: bad is the receiver's status. The sender learns
// of a length error as an invalid request, of all else as an operation error (IBTA 9.7.5.2.4).
func (q *qp) failBoth(bad rdma.Status) {
	p := q.peer
	p.complete(p.rq, bad, 0)
	p.end(rdma.EventDisconnected, 0, nil)
	status := rdma.StatusRemoteOperation
	if bad == rdma.StatusLocalLength {
		status = rdma.StatusRemoteInvalid
	}
	q.complete(&q.sq, status, 0)
	q.end(rdma.EventDisconnected, 0, nil)
}

// tell lets the peer know that this end has gone.
func (q *qp) tell(p *qp) {
	if p == nil {
		return
	}
	q.dev.count.disconnects++
	q.dev.fabric.message(q.dev, p.dev, Ends, func() {
		if p.peer != q {
			return
		}
		switch p.state {
		case accepted:
			p.end(rdma.EventFailed, 0, nil)
		case connected:
			p.end(rdma.EventDisconnected, 0, nil)
		}
	})
}
