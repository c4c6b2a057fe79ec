package roce

import (
	"fmt"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/roce/cm"
)

// What the owners of queue pairs ask of the connection manager. Each call locks it.

// connect sends a request.
func (ep *endpoint) connect(q *qp, mtu ib.MTU, port uint16, p *rdma.ConnectParams) error {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	d := ep.dev
	peer := q.info.RemoteGID
	h := ep.cm.NewHandle()
	ep.conns[h] = &conn{q: q, number: q.num}
	// RDMA/CM has a source port; nothing depends on which.
	src := uint16(random64()%16384 + 49152)
	private := cm.IPHeader{Port: src, Src: ep.gid, Dst: peer}.Append(nil)
	err := ep.step(cm.Connect{
		Conn: h, Local: ep.gid, Peer: peer, ServiceID: cm.ServiceID(port), QPN: q.num, RecvPSN: q.recvPSN,
		PathMTU: mtu, PKey: ib.PKeyDefault, ResponderResources: d.cfg.MaxReads, InitiatorDepth: d.cfg.MaxReads,
		RetryCount: 7, RNRRetryCount: 7, AckTimeout: d.cfg.AckTimeout,
		Private: append(private, p.Private...), Limit: d.connectTimeout(p.Timeout),
	})
	if err != nil {
		delete(ep.conns, h)
		return fmt.Errorf("%w: %w", rdma.ErrInvalid, err)
	}
	q.handle = h
	return nil
}

// accept answers a request with q.
func (ep *endpoint) accept(r *request, q *qp, s *socket, private []byte) error {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if err := ep.step(cm.Tick{}); err != nil {
		return err
	}
	if err := r.answer(); err != nil {
		return err
	}
	c := ep.conns[r.handle]
	if c == nil || ep.cm.State(r.handle) != cm.StateReqRcvd {
		return rdma.ErrGone
	}
	c.q, c.req, c.number = q, nil, q.num
	q.begin(r, s)
	reads := ep.dev.cfg.MaxReads
	return ep.step(cm.Accept{
		Conn: r.handle, QPN: q.num, RecvPSN: q.recvPSN,
		ResponderResources: min(r.cm.ResponderResources, reads), InitiatorDepth: min(r.cm.InitiatorDepth, reads),
		AckDelay: ep.dev.cfg.AckDelay, RNRRetryCount: 7, SRQ: q.srq != nil, Private: private,
	})
}

// reject refuses a request.
func (ep *endpoint) reject(r *request, reason cm.Reason, private []byte) error {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if err := ep.step(cm.Tick{}); err != nil {
		return err
	}
	if err := r.answer(); err != nil {
		return err
	}
	if ep.cm.State(r.handle) != cm.StateReqRcvd {
		return rdma.ErrGone
	}
	return ep.step(cm.Reject{Conn: r.handle, Reason: reason, Private: private})
}

// traffic reports a connection's first packet.
func (ep *endpoint) traffic(h cm.Handle) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	_ = ep.step(cm.Traffic{Conn: h})
}

// disconnect ends a connection in whatever state; the queue pair hears nothing more of it if it is
// closed.
func (ep *endpoint) disconnect(h cm.Handle) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.hangUp(h)
}

// hangUp is disconnect with the lock held.
func (ep *endpoint) hangUp(h cm.Handle) {
	_ = ep.step(cm.Disconnect{Conn: h}) // ErrUnknown: it has ended already
}

// disconnectAll ends every connection.
func (ep *endpoint) disconnectAll() {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	for h := range ep.conns {
		_ = ep.step(cm.Disconnect{Conn: h})
	}
}
