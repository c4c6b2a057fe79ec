package roce

import (
	"fmt"
	"net/netip"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/roce/cm"
)

// noticeKind is what a connection manager has to tell a queue pair.
type noticeKind uint8

const (
	noticeEstablished noticeKind = iota + 1
	noticeEnded
	// News of the device, of no queue pair:
	noticeSocket // it has a new address: a socket for the CQ
	noticeGone   // it has lost an address
	noticeMTU    // its MTU is smaller
)

// notice is news of a connection.
type notice struct {
	kind    noticeKind
	q       *qp
	reply   *cm.Reply
	cause   cm.Cause
	reason  cm.Reason
	private []byte
	ep      *endpoint
	fd      int
	mtu     int
}

// Connect starts a connection.
func (q *qp) Connect(p rdma.ConnectParams) error {
	d := q.cq.dev
	remote := p.Remote.Addr
	switch {
	case q.closed || d.isClosed():
		return failed("connect", remote.String(), rdma.ErrClosed)
	case q.state != idle:
		return failed("connect", remote.String(), rdma.ErrState)
	case len(p.Private) > cm.IPPrivateSize:
		return failed("connect", remote.String(), fmt.Errorf("%w: %d bytes of private data, there is room for %d",
			rdma.ErrInvalid, len(p.Private), cm.IPPrivateSize))
	case p.Remote.ID != 0, !remote.Addr().IsValid(), remote.Port() == 0:
		return failed("connect", p.Remote.String(), fmt.Errorf("%w: it needs a remote address and port, and takes no service id", rdma.ErrInvalid))
	}
	peer := remote.Addr().Unmap()
	s := q.cq.choose(p.Local, peer)
	if s == nil {
		return failed("connect", remote.String(), fmt.Errorf("%w: %s has no address to connect from", rdma.ErrInvalid, d.name))
	}
	if peer.IsLinkLocalUnicast() && peer.Is6() {
		peer = peer.WithZone(s.ep.addr.Zone())
	}
	mtu := s.ep.pathMTU(d.cfg.MaxMTU)
	if !mtu.Valid() {
		return failed("connect", remote.String(), fmt.Errorf("%w: the MTU of %s is too small for RoCE", rdma.ErrState, d.name))
	}
	q.setPeer(s, peer, 0)
	q.info.Local = netip.AddrPortFrom(s.ep.addr, 0)
	q.info.Remote = netip.AddrPortFrom(peer, remote.Port())
	q.info.IPAddressed = true
	q.info.PathMTU = mtu.Bytes()
	if err := s.ep.connect(q, mtu, remote.Port(), &p); err != nil {
		return failed("connect", remote.String(), err)
	}
	q.state = connecting
	return nil
}

// choose finds the socket to connect from.
func (c *cq) choose(local, peer netip.Addr) *socket {
	var best *socket
	for _, s := range c.socks {
		if s == nil {
			continue
		}
		a := s.ep.addr
		switch {
		case a.Is4() != peer.Is4():
		case local.IsValid():
			if a == local.Unmap() || a.WithZone("") == local.Unmap() {
				return s
			}
		case peer.Zone() != "" && a.Zone() != peer.Zone():
		case a == peer || a.WithZone("") == peer:
			return s
		case best == nil || a.IsLinkLocalUnicast() == peer.IsLinkLocalUnicast() && best.ep.addr.IsLinkLocalUnicast() != peer.IsLinkLocalUnicast():
			best = s
		}
	}
	return best
}

// Accept answers a request.
func (q *qp) Accept(cr rdma.ConnRequest, private []byte) error {
	r, ok := cr.(*request)
	switch {
	case !ok || r.ep.dev != q.cq.dev:
		return q.fail("accept", rdma.ErrInvalid)
	case q.closed || q.cq.dev.isClosed():
		return failed("accept", r.String(), rdma.ErrClosed)
	case q.state != idle:
		return failed("accept", r.String(), rdma.ErrState)
	case len(private) > cm.REPPrivateSize:
		return failed("accept", r.String(), fmt.Errorf("%w: %d bytes of private data, there is room for %d",
			rdma.ErrInvalid, len(private), cm.REPPrivateSize))
	}
	s := q.cq.socketOf(r.ep)
	if s == nil {
		return failed("accept", r.String(), rdma.ErrInvalid)
	}
	if err := r.ep.accept(r, q, s, private); err != nil {
		return failed("accept", r.String(), err)
	}
	return nil
}

func (c *cq) socketOf(ep *endpoint) *socket {
	for _, s := range c.socks {
		if s != nil && s.ep == ep {
			return s
		}
	}
	return nil
}

// begin makes q ready for the peer of r, whose connection manager is locked.
func (q *qp) begin(r *request, s *socket) {
	q.setPeer(s, r.peer, r.cm.RemoteQPN)
	q.info = r.info
	q.info.RemoteQPN = uint32(r.cm.RemoteQPN)
	q.handle = r.handle
	q.state = accepted
	reads := q.cq.dev.cfg.MaxReads
	q.start(r.cm.SendPSN, r.cm.PathMTU, min(r.cm.InitiatorDepth, reads), min(r.cm.ResponderResources, reads), r.cm.FlowControl)
}

// notice handles news of the connection.
func (q *qp) notice(n *notice) {
	switch n.kind {
	case noticeEstablished:
		q.established(n.reply)
	case noticeEnded:
		q.endedBy(n)
	}
}

// established completes the handshake; reply is the active side's.
func (q *qp) established(reply *cm.Reply) {
	var data []byte
	switch {
	case q.state == connecting && reply != nil:
		q.remote = reply.RemoteQPN
		reads := q.cq.dev.cfg.MaxReads
		q.info.RemoteQPN, q.info.Reads = uint32(reply.RemoteQPN), int(min(reply.InitiatorDepth, reads))
		q.state = connected
		mtu, _ := ib.ParseMTU(q.info.PathMTU)
		q.start(reply.SendPSN, mtu, min(reply.InitiatorDepth, reads), min(reply.ResponderResources, reads), reply.FlowControl)
		data = reply.Private
	case q.state == accepted && reply == nil:
		q.state = connected
	default:
		return
	}
	q.early = append(q.early, rdma.Completion{Op: rdma.OpEvent, User: q.user, Event: rdma.EventEstablished, Data: data})
	q.cq.activate(q)
}

// traffic takes the peer's first packet for its RTU, which may be late or lost.
func (q *qp) traffic() {
	q.established(nil)
	q.sock.ep.traffic(q.handle)
}

// endedBy handles the end of the connection as the connection manager sees it.
func (q *qp) endedBy(n *notice) {
	ev := rdma.Completion{Event: rdma.EventDisconnected}
	if q.state == connecting || q.state == accepted {
		ev.Event = rdma.EventFailed
		if n.cause == cm.CauseRejected {
			ev = rdma.Completion{Event: rdma.EventRejected, Reason: rdma.RejectReason(n.reason), Data: n.private}
		}
	}
	q.finish(ev)
}

// sayGoodbye tells the peer that the connection is over.
func (q *qp) sayGoodbye() {
	if q.handle != 0 && !q.closed {
		q.sock.ep.disconnect(q.handle)
	}
}

// Disconnect ends the connection.
func (q *qp) Disconnect() error {
	switch {
	case q.closed || q.cq.dev.isClosed():
		return q.fail("disconnect", rdma.ErrClosed)
	case q.state == idle:
		return q.fail("disconnect", rdma.ErrState)
	case q.state == ended:
		return nil
	}
	q.finish(rdma.Completion{Event: rdma.EventDisconnected})
	q.cq.settle(q)
	q.cq.activate(q)
	q.sayGoodbye()
	return nil
}
