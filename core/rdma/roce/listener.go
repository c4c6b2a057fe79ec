package roce

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/roce/cm"
)

// listener hands out the requests for one service.
type listener struct {
	dev    *Device
	svc    rdma.Service
	queue  chan *request
	once   sync.Once
	closed chan struct{}
}

// Listen accepts connections to a service.
func (d *Device) Listen(svc rdma.Service) (rdma.Listener, error) {
	peer := svc.Addr.String()
	if svc.Addr.Port() == 0 || svc.ID != 0 {
		return nil, failed("listen", peer, fmt.Errorf("%w: it needs a port, and takes no service id", rdma.ErrInvalid))
	}
	if err := d.open(); err != nil {
		return nil, d.fail("listen", err)
	}
	l := &listener{dev: d, svc: svc, queue: make(chan *request, d.cfg.Backlog), closed: make(chan struct{})}
	if err := d.addListener(l); err != nil {
		return nil, failed("listen", peer, err)
	}
	return l, nil
}

// matches tells whether the listener is for connections to a.
func (l *listener) matches(a netip.Addr) bool {
	mine := l.svc.Addr.Addr()
	return !mine.IsValid() || mine.Unmap() == a || mine.Unmap() == a.WithZone("")
}

func (l *listener) Service() rdma.Service { return l.svc }

// Accept waits for a request.
func (l *listener) Accept(ctx context.Context) (rdma.ConnRequest, error) {
	select {
	case <-l.closed:
		return nil, failed("accept", l.svc.Addr.String(), rdma.ErrClosed)
	default:
	}
	for {
		select {
		case r := <-l.queue:
			if r.gone() {
				continue
			}
			return r, nil
		case <-l.closed:
			return nil, failed("accept", l.svc.Addr.String(), rdma.ErrClosed)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close ends listening. Requests that nobody has taken are refused.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.dev.removeListener(l)
		close(l.closed)
		for {
			select {
			case r := <-l.queue:
				_ = r.ep.reject(r, cm.ReasonInvalidService, nil) // it may have been given up
			default:
				return
			}
		}
	})
	return nil
}

// requestState is what became of a request.
type requestState uint8

const (
	requestOpen requestState = iota
	requestAnswered
	requestGone
)

// request is a request for a connection.
type request struct {
	ep     *endpoint
	handle cm.Handle
	peer   netip.Addr
	cm     *cm.Request
	info   rdma.ConnInfo

	mu    sync.Mutex
	state requestState
}

// offer gives a request to its listener. It returns the reason to refuse it, or 0. The endpoint is locked.
func (ep *endpoint) offer(a *cm.Action) cm.Reason {
	q := a.Request
	if mtu := ep.pathMTU(4096); q.PathMTU > mtu {
		ep.dev.log.Warn("refused a connection: the interface cannot carry its path MTU", "peer", addrOf(a.Peer, ep.addr.Zone()),
			"path_mtu", q.PathMTU.Bytes(), "possible", mtu.Bytes(), "device", ep.dev.name)
		return cm.ReasonInvalidMTU
	}
	if !q.PKey.Matches(ib.PKeyDefault) {
		ep.dev.log.Warn("refused a connection: its partition is not the port's, which has the default one alone", "peer", addrOf(a.Peer, ep.addr.Zone()),
			"pkey", fmt.Sprintf("%#04x", uint16(q.PKey)), "device", ep.dev.name)
		return cm.ReasonUnsupported
	}
	port, _ := cm.ServicePort(q.ServiceID)
	r := newRequest(ep, a, port)
	if reason := ep.dev.enqueue(r, port); reason != 0 {
		return reason
	}
	ep.conns[a.Conn] = &conn{req: r}
	return 0
}

// enqueue gives a request to the listener of a port. Once a listener is removed it gets no more.
func (d *Device) enqueue(r *request, port uint16) cm.Reason {
	d.lmu.Lock()
	defer d.lmu.Unlock()
	l := d.find(r.ep.addr, port)
	if l == nil {
		return cm.ReasonInvalidService
	}
	select {
	case l.queue <- r:
		return 0
	default:
		return cm.ReasonNoResources
	}
}

func newRequest(ep *endpoint, a *cm.Action, port uint16) *request {
	q := a.Request
	peer := addrOf(a.Peer, ep.addr.Zone())
	return &request{
		ep: ep, handle: a.Conn, peer: peer, cm: q,
		info: rdma.ConnInfo{
			Device: ep.dev.name, Port: 1,
			Local: netip.AddrPortFrom(ep.addr, port), Remote: netip.AddrPortFrom(peer, q.IP.Port),
			LocalGID: ep.gid, RemoteGID: a.Peer, PKey: uint16(q.PKey), RemoteQPN: uint32(q.RemoteQPN),
			PathMTU: q.PathMTU.Bytes(), IPAddressed: q.IPAddressed, Reads: int(min(q.InitiatorDepth, ep.dev.cfg.MaxReads)),
		},
	}
}

func (r *request) String() string      { return r.info.Remote.String() }
func (r *request) Private() []byte     { return r.cm.Private }
func (r *request) Info() rdma.ConnInfo { return r.info }
func (r *request) Device() rdma.Device { return r.ep.dev }

// Reject refuses the request.
func (r *request) Reject(reason rdma.RejectReason, private []byte) error {
	if len(private) > 0 && reason != rdma.RejectConsumer || len(private) > cm.REJPrivateSize || reason == 0 {
		return failed("reject", r.String(), rdma.ErrInvalid)
	}
	if err := r.ep.reject(r, cm.Reason(reason), private); err != nil {
		return failed("reject", r.String(), err)
	}
	return nil
}

// answer notes that the request is being answered, which may be done once.
func (r *request) answer() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.state {
	case requestAnswered:
		return rdma.ErrState
	case requestGone:
		return rdma.ErrGone
	}
	r.state = requestAnswered
	return nil
}

// withdraw notes that the peer, or the connection manager, has given the request up.
func (r *request) withdraw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == requestOpen {
		r.state = requestGone
	}
}

func (r *request) gone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state == requestGone
}
