package roce

import (
	"net/netip"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/roce/cm"
	"github.com/gosrpt/gosrpt/core/rdma/roce/rc"
	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// Limits of a queue pair.
const (
	maxSGE   = 16
	maxWork  = 8192
	maxReads = rc.MaxReads
)

// qpState is where a queue pair is in its life.
type qpState uint8

const (
	idle       qpState = iota
	connecting         // REQ sent
	accepted           // REP sent
	connected
	ended // the last event is on its way or delivered
)

// qp is a queue pair. It is its CQ's owner's.
type qp struct {
	cq     *cq
	num    ib.QPN
	user   uint64
	m      *rc.Machine
	state  qpState
	closed bool

	// Lists of the CQ that it is on.
	active, starved, due bool

	sock    *socket
	handle  cm.Handle
	recvPSN ib.PSN
	remote  ib.QPN
	peer    [16]byte
	to      sockaddr
	txFlow  wire.Flow
	rxFlow  wire.Flow
	rxPort  uint16
	info    rdma.ConnInfo

	srq     *srq // nil if it shares nothing
	waiting bool // on the srq's list

	early []rdma.Completion // events that come before other completions
	last  *rdma.Completion  // the final event
	over  bool              // it has been delivered

	segs [maxSGE][]byte
	comp [32]rc.Completion
}

// NewQP makes a queue pair.
func (c *cq) NewQP(cfg rdma.QPConfig) (rdma.QP, error) {
	d := c.dev
	switch {
	case c.closed || d.isClosed():
		return nil, d.fail("new queue pair", rdma.ErrClosed)
	case cfg.SendDepth < 0 || cfg.SendDepth > maxWork || cfg.RecvDepth < 0 || cfg.RecvDepth > maxWork ||
		cfg.MaxSGE < 0 || cfg.MaxSGE > maxSGE:
		return nil, d.fail("new queue pair", rdma.ErrInvalid)
	}
	shared, err := c.sharedOf(cfg.SRQ)
	if err != nil {
		return nil, d.fail("new queue pair", err)
	}
	q := &qp{cq: c, user: cfg.User, srq: shared, recvPSN: ib.PSN(random64()) & ib.PSNMask}
	q.m = rc.New(rc.Config{
		SendDepth: max(cfg.SendDepth, 1), RecvDepth: max(cfg.RecvDepth, 1), MaxSGE: max(cfg.MaxSGE, 1),
		Shared: shared.receives(), Memory: &d.regions, Pool: c.pool, Stats: &c.cnt.rc,
		WindowBytes: d.cfg.Window, MinTimeout: int64(d.cfg.MinTimeout), MaxTimeout: int64(d.cfg.MaxTimeout),
		Hold: int64(d.cfg.Hold), RetryLimit: d.cfg.RetryLimit, RNRLimit: rc.Forever, KeepAlive: int64(d.cfg.KeepAlive),
	})
	q.num = d.numbers.take(c.member)
	c.qps[q.num] = q
	shared.join()
	return q, nil
}

func (q *qp) Num() uint32 { return uint32(q.num) }

// MaxSGE is the longest list that is taken.
func (q *qp) MaxSGE() int { return q.m.MaxSGE() }

func (q *qp) fail(op string, err error) error { return failed(op, q.info.Remote.String(), err) }

// usable tells whether work can be taken.
func (q *qp) usable() error {
	switch {
	case q.closed || q.cq.dev.isClosed():
		return rdma.ErrClosed
	case q.over:
		return rdma.ErrState
	}
	return nil
}

// PostSend queues work.
func (q *qp) PostSend(work []rdma.Work) (n int, err error) {
	if err := q.usable(); err != nil {
		return 0, q.fail("post send", err)
	}
	for i := range work {
		if err = q.postSend(&work[i]); err != nil {
			break
		}
		n++
	}
	if n > 0 {
		q.cq.activate(q)
		q.cq.settle(q)
	}
	return n, err
}

func (q *qp) postSend(w *rdma.Work) error {
	kind := rc.Kind(0)
	switch w.Op {
	case rdma.OpSend:
		kind = rc.Send
	case rdma.OpWrite:
		kind = rc.Write
	case rdma.OpRead:
		kind = rc.Read
	default:
		return q.fail("post send", rdma.ErrInvalid)
	}
	segs, ok := q.segments(w.SGL)
	if !ok {
		return q.fail("post send", rdma.ErrInvalid)
	}
	work := rc.Work{
		ID: w.ID, Kind: kind, Signaled: w.Flags&rdma.Signaled != 0, Solicited: w.Flags&rdma.Solicited != 0,
		VA: w.RemoteAddr, RKey: w.RKey, Segs: segs,
	}
	if !q.m.PostSend(&work) {
		return q.full("post send", segs)
	}
	return nil
}

// PostRecv queues receives.
func (q *qp) PostRecv(work []rdma.Work) (n int, err error) {
	if err := q.usable(); err != nil {
		return 0, q.fail("post receive", err)
	}
	for i := range work {
		if err = q.postRecv(&work[i]); err != nil {
			break
		}
		n++
	}
	if n > 0 {
		q.cq.activate(q) // a SEND may be waiting for it
		q.cq.settle(q)
	}
	return n, err
}

func (q *qp) postRecv(w *rdma.Work) error {
	if w.Op != rdma.OpRecv || q.srq != nil {
		return q.fail("post receive", rdma.ErrInvalid)
	}
	segs, ok := q.segments(w.SGL)
	if !ok {
		return q.fail("post receive", rdma.ErrInvalid)
	}
	if !q.m.PostRecv(w.ID, segs) {
		return q.full("post receive", segs)
	}
	return nil
}

// full tells why the transport took no more.
func (q *qp) full(op string, segs [][]byte) error {
	total := 0
	for _, s := range segs {
		total += len(s)
	}
	if total > rc.MaxWorkLength || len(segs) > q.m.MaxSGE() {
		return q.fail(op, rdma.ErrInvalid)
	}
	return q.cq.dev.errFull
}

// segments resolves a scatter-gather list. The result is valid until the next call.
func (q *qp) segments(sgl []rdma.SGE) ([][]byte, bool) {
	if len(sgl) > len(q.segs) {
		return nil, false
	}
	for i := range sgl {
		b, ok := q.cq.dev.segment(&sgl[i])
		if !ok {
			return nil, false
		}
		q.segs[i] = b
	}
	return q.segs[:len(sgl)], true
}

// alive tells whether the transport's failure would be news.
func (q *qp) alive() bool { return !q.closed && q.state != ended }

// lost ends a connection whose transport has failed.
func (q *qp) lost() {
	q.finish(rdma.Completion{Event: rdma.EventDisconnected})
	q.cq.goodbye = append(q.cq.goodbye, q)
}

// finish sets the final event; work is flushed before it.
func (q *qp) finish(ev rdma.Completion) {
	if q.state == ended {
		return
	}
	q.state = ended
	q.m.Fail()
	ev.Op, ev.User = rdma.OpEvent, q.user
	q.last = &ev
}

// hasEvent tells whether an event waits. The final one waits until all work has completed.
func (q *qp) hasEvent() bool { return len(q.early) > 0 || q.last != nil }

// collect moves completions and events into out.
func (q *qp) collect(out []rdma.Completion) int {
	n := copy(out, q.early)
	if n > 0 {
		q.early = append(q.early[:0], q.early[n:]...)
	}
	for n < len(out) && q.m.Pending() > 0 {
		k := q.m.Poll(q.comp[:min(len(q.comp), len(out)-n)])
		for i := range q.comp[:k] {
			q.completion(&out[n+i], &q.comp[i])
		}
		n += k
	}
	if n < len(out) && q.last != nil && q.m.Pending() == 0 {
		out[n] = *q.last
		q.last = nil
		q.over = true
		n++
	}
	return n
}

var opOf = [...]rdma.Op{rc.Send: rdma.OpSend, rc.Write: rdma.OpWrite, rc.Read: rdma.OpRead, rc.Recv: rdma.OpRecv}

var statusOf = [...]rdma.Status{
	rc.OK: rdma.StatusOK, rc.Flushed: rdma.StatusFlushed, rc.LocalLength: rdma.StatusLocalLength,
	rc.RemoteInvalid: rdma.StatusRemoteInvalid, rc.RemoteAccess: rdma.StatusRemoteAccess,
	rc.RemoteOperation: rdma.StatusRemoteOperation, rc.RetryExceeded: rdma.StatusRetryExceeded,
	rc.RNRRetryExceeded: rdma.StatusRNRRetryExceeded,
}

func (q *qp) completion(out *rdma.Completion, c *rc.Completion) {
	*out = rdma.Completion{ID: c.ID, User: q.user, Op: opOf[c.Kind], Status: statusOf[c.Status], Bytes: c.Bytes}
}

// Info describes the connection.
func (q *qp) Info() rdma.ConnInfo {
	i := q.info
	i.Device, i.Port = q.cq.dev.name, 1
	return i
}

// Close destroys the queue pair.
func (q *qp) Close() error {
	if q.closed {
		return nil
	}
	c := q.cq
	if q.sock != nil && !c.dev.isClosed() {
		c.epoch.enter()
		c.now = clock()
		c.pull(q) // a last answer may still be waiting
		c.flushBatch()
		c.epoch.leave()
	}
	q.closed = true
	q.giveBack()
	q.m.Close()
	delete(c.qps, q.num)
	for _, l := range []*[]*qp{&c.active, &c.starved, &c.due, &c.goodbye} {
		*l = without(*l, q)
	}
	q.state = ended
	q.early, q.last = nil, nil
	if q.handle == 0 {
		c.dev.numbers.give(q.num)
		return nil
	}
	q.sock.ep.leave(q)
	return nil
}

func without(list []*qp, q *qp) []*qp {
	kept := list[:0]
	for _, x := range list {
		if x != q {
			kept = append(kept, x)
		}
	}
	clear(list[len(kept):])
	return kept
}

// start connects the transport. The peer's side of q must be set.
func (q *qp) start(sendPSN ib.PSN, mtu ib.MTU, readsOut, readsIn uint8, flowControl bool) {
	n := uint32(mtu.Bytes())
	q.m.Start(clock(), rc.Params{
		MTU: n, SendPSN: sendPSN, RecvPSN: q.recvPSN, ReadsOut: readsOut, ReadsIn: readsIn,
		FlowControl: flowControl, Budget: q.sock.budget, ReadCost: int64(truesize(int(n))) - int64(n),
	})
	q.info.PathMTU = int(n)
	q.cq.settle(q)
}

// setPeer sets where the peer is.
func (q *qp) setPeer(s *socket, peer netip.Addr, remote ib.QPN) {
	q.sock = s
	q.remote = remote
	q.peer = peer.As16()
	q.to = newSockaddr(peer, s.ep.zone)
	q.txFlow = wire.NewFlow(s.ep.gid, gidOf(peer), wire.UDPPort, wire.UDPPort)
	q.info.LocalGID, q.info.RemoteGID = s.ep.gid, gidOf(peer)
	q.info.RemoteQPN = uint32(remote)
	q.info.PKey = uint16(ib.PKeyDefault)
}

// connectTimeout is the limit of an attempt.
func (d *Device) connectTimeout(t time.Duration) int64 {
	if t <= 0 {
		t = d.cfg.ConnectTimeout
	}
	return int64(t)
}
