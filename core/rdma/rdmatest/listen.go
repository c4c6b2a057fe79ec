package rdmatest

import (
	"context"
	"net/netip"
	"slices"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// listener queues requests for a service.
type listener struct {
	dev      *Device
	svc      rdma.Service
	requests []*connRequest
	closed   bool
	// arrived holds a token while there may be something for Accept; done is closed by Close.
	arrived chan struct{}
	done    chan struct{}
}

var _ rdma.Listener = (*listener)(nil)

// Listen starts a listener.
func (d *Device) Listen(svc rdma.Service) (rdma.Listener, error) {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	switch {
	case d.closed:
		return nil, opError("listen", svc.String(), rdma.ErrClosed)
	case !d.canListen(svc):
		return nil, opError("listen", svc.String(), rdma.ErrInvalid)
	}
	for _, l := range d.listeners {
		if l.serves(svc) || svc.ID == 0 && !svc.Addr.Addr().IsValid() && l.svc.Addr.Port() == svc.Addr.Port() {
			return nil, opError("listen", svc.String(), rdma.ErrInUse)
		}
	}
	l := &listener{dev: d, svc: svc, arrived: make(chan struct{}, 1), done: make(chan struct{})}
	d.listeners = append(d.listeners, l)
	return l, nil
}

// canListen tells whether the device has the address, or the GID on InfiniBand where the service has an id.
func (d *Device) canListen(svc rdma.Service) bool {
	if svc.ID != 0 {
		return rdma.IsServiceID(svc.ID) && svc.Addr == netip.AddrPort{} && d.serves(svc.GID)
	}
	return svc.GID == ib.GID{} && svc.Addr.Port() != 0 && (!svc.Addr.Addr().IsValid() || d.has(svc.Addr.Addr()))
}

// serves tells whether requests to the service come here.
func (l *listener) serves(svc rdma.Service) bool {
	if l.svc.ID != 0 || svc.ID != 0 {
		return l.svc == svc
	}
	own := l.svc.Addr
	return own.Port() == svc.Addr.Port() && (!own.Addr().IsValid() || own.Addr().Unmap() == svc.Addr.Addr().Unmap())
}

func (l *listener) Service() rdma.Service { return l.svc }

// Accept waits for a request.
func (l *listener) Accept(ctx context.Context) (rdma.ConnRequest, error) {
	for {
		r, err := l.next()
		if r != nil || err != nil {
			return r, err
		}
		select {
		case <-l.arrived:
		case <-l.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// next returns the oldest request that the peer still waits for, or nil.
func (l *listener) next() (rdma.ConnRequest, error) {
	l.dev.fabric.mu.Lock()
	defer l.dev.fabric.unlock()
	if l.closed {
		return nil, opError("accept", l.svc.String(), rdma.ErrClosed)
	}
	for len(l.requests) > 0 {
		r := l.requests[0]
		l.requests = slices.Delete(l.requests, 0, 1)
		if r.state == waiting {
			l.announce()
			return r, nil
		}
	}
	return nil, nil
}

// announce wakes one Accept if there are requests.
func (l *listener) announce() {
	if len(l.requests) == 0 {
		return
	}
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

func (l *listener) Close() error {
	l.dev.fabric.mu.Lock()
	defer l.dev.fabric.unlock()
	l.close()
	return nil
}

func (l *listener) close() {
	if l.closed {
		return
	}
	l.closed = true
	close(l.done)
	for _, r := range l.requests {
		if r.answer() == nil {
			r.reject(rdma.RejectInvalidService, nil)
		}
	}
	l.requests = nil
	l.dev.listeners = slices.DeleteFunc(l.dev.listeners, func(o *listener) bool { return o == l })
}

// requestState is what has become of a request.
type requestState uint8

const (
	waiting requestState = iota
	answered
	gone
)

// connRequest is a request, from Connect until its answer.
type connRequest struct {
	from    *qp
	dev     *Device
	to      rdma.Service
	private []byte
	info    rdma.ConnInfo
	state   requestState
}

var _ rdma.ConnRequest = (*connRequest)(nil)

// swapped is a connection as the device at its remote end sees it.
func swapped(i rdma.ConnInfo, at *Device, from uint32) rdma.ConnInfo {
	i.Device, i.Port = at.cfg.Name, 1
	i.Local, i.Remote = i.Remote, i.Local
	i.LocalGID, i.RemoteGID = i.RemoteGID, i.LocalGID
	i.RemoteQPN = from
	return i
}

// arrive queues the request at the listener of its service, or refuses it.
func (r *connRequest) arrive() {
	if r.state != waiting {
		return
	}
	if pkey := ib.PKey(r.info.PKey); !slices.ContainsFunc(r.dev.cfg.PKeys, pkey.Matches) {
		r.state = answered
		r.reject(rdma.RejectUnsupported, nil)
		return
	}
	for _, l := range r.dev.listeners {
		if !l.serves(r.to) {
			continue
		}
		l.requests = slices.DeleteFunc(l.requests, func(o *connRequest) bool { return o.state != waiting })
		if len(l.requests) >= r.dev.cfg.Backlog {
			r.dev.count.requestsOverflow++
			return
		}
		l.requests = append(l.requests, r)
		l.announce()
		return
	}
	r.state = answered
	r.reject(rdma.RejectInvalidService, nil)
}

// answer claims the right to answer.
func (r *connRequest) answer() error {
	switch {
	case r.dev.closed:
		return rdma.ErrClosed
	case r.state == gone:
		return rdma.ErrGone
	case r.state == answered:
		return rdma.ErrState
	}
	r.state = answered
	return nil
}

func (r *connRequest) Private() []byte     { return r.private }
func (r *connRequest) Info() rdma.ConnInfo { return r.info }
func (r *connRequest) Device() rdma.Device { return r.dev }

func (r *connRequest) Reject(reason rdma.RejectReason, private []byte) error {
	r.dev.fabric.mu.Lock()
	defer r.dev.fabric.unlock()
	if len(private) > privateReject || len(private) > 0 && reason != rdma.RejectConsumer {
		return opError("reject", r.info.RemoteName(), rdma.ErrInvalid)
	}
	if err := r.answer(); err != nil {
		return opError("reject", r.info.RemoteName(), err)
	}
	var data []byte
	if reason == rdma.RejectConsumer {
		data = padded(private, privateReject)
	}
	r.reject(reason, data)
	return nil
}

// reject sends the refusal.
func (r *connRequest) reject(reason rdma.RejectReason, data []byte) {
	q := r.from
	r.dev.count.rejects++
	r.dev.fabric.message(r.dev, q.dev, Replies, func() {
		if q.state == connecting && q.req == r {
			q.end(rdma.EventRejected, reason, data)
		}
	})
}
