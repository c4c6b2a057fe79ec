//go:build verbs

package verbs

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// binding listens to an address, or to all of them for as many devices as want it.
type binding struct {
	m   *manager
	key string
	ids []*cmID

	mu        sync.Mutex
	listeners map[*Device]*listener
}

// listener hands out the requests for one service.
type listener struct {
	dev    *Device
	svc    rdma.Service
	port   int // of a service id
	bound  *binding
	queue  chan *request
	once   sync.Once
	closed chan struct{}
}

// Listen accepts connections to a service.
func (d *Device) Listen(svc rdma.Service) (rdma.Listener, error) {
	peer := svc.String()
	l := &listener{dev: d, svc: svc, queue: make(chan *request, d.cfg.Backlog), closed: make(chan struct{})}
	err := l.check()
	if err == nil {
		err = l.bind()
	}
	if err != nil {
		return nil, failed("listen", peer, err)
	}
	d.mu.Lock()
	late := d.closed
	if !late {
		d.listeners[l] = struct{}{}
	}
	d.mu.Unlock()
	if late {
		l.Close()
		return nil, failed("listen", peer, rdma.ErrClosed)
	}
	return l, nil
}

func (l *listener) check() error {
	a := l.svc.Addr.Addr()
	switch {
	case l.dev.shut.Load():
		return rdma.ErrClosed
	case l.svc.ID != 0:
		return l.checkID()
	case l.svc.Addr.Port() == 0:
		return fmt.Errorf("%w: no port", rdma.ErrInvalid)
	case a.IsValid() && !l.dev.hasAddr(a):
		return fmt.Errorf("%w: %s does not have the address %v", rdma.ErrInvalid, l.dev.name, a)
	}
	return nil
}

// bind joins the binding that there is, or makes it.
func (l *listener) bind() error {
	m, err := l.dev.prov.manager()
	if err != nil {
		return err
	}
	m.bmu.Lock()
	defer m.bmu.Unlock()
	key := l.svc.String()
	if b := m.bindings[key]; b != nil {
		return b.join(l)
	}
	b := &binding{m: m, key: key, listeners: map[*Device]*listener{l.dev: l}}
	l.bound = b
	if err := b.open(l); err != nil {
		b.close()
		return err
	}
	m.bindings[key] = b
	return nil
}

func (b *binding) join(l *listener) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listeners[l.dev] != nil || l.svc.Addr.Addr().IsValid() || l.svc.ID != 0 {
		return rdma.ErrInUse
	}
	l.bound = b
	b.listeners[l.dev] = l
	return nil
}

// open makes the ids that listen. Any address takes one for each family that the kernel has.
func (b *binding) open(l *listener) error {
	a, port := l.svc.Addr.Addr(), l.svc.Addr.Port()
	switch {
	case l.svc.ID != 0:
		return b.openService(l)
	case a.IsValid():
		id, err := b.listen(netip.AddrPortFrom(a.Unmap(), port), 0)
		if err != nil {
			return err
		}
		return l.owns(id)
	}
	_, err := b.listen(netip.AddrPortFrom(netip.IPv6Unspecified(), port), 1)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		err = nil
	}
	if err == nil {
		_, err = b.listen(netip.AddrPortFrom(netip.IPv4Unspecified(), port), 1)
	}
	return err
}

func (b *binding) listen(a netip.AddrPort, onlyFamily C.int) (*cmID, error) {
	ss := sockaddr(a)
	return b.listenAt(&ss, 0, onlyFamily)
}

// listenAt makes an id that listens at an address of C.
func (b *binding) listenAt(ss *C.struct_sockaddr_storage, native, onlyFamily C.int) (*cmID, error) {
	id, err := b.m.create(b, native)
	if err != nil {
		return nil, err
	}
	b.ids = append(b.ids, id)
	if err := call("bind", C.gv_cm_bind(id.ptr, ss, onlyFamily)); err != nil {
		return nil, inUse(err)
	}
	return id, inUse(call("listen", C.gv_cm_listen(id.ptr, C.int(b.m.prov.cfg.Backlog))))
}

// owns checks that what is listened at is the device's, for the kernel may have it another's.
func (l *listener) owns(id *cmID) error {
	if device, _ := id.pathOf(); device != l.dev.name {
		return fmt.Errorf("%w: %v is the device %s's", rdma.ErrInvalid, l.svc, device)
	}
	return nil
}

func (b *binding) close() {
	for _, id := range b.ids {
		id.destroy()
	}
	b.ids = nil
}

// handle is called for each request.
func (b *binding) handle(ev *cmEvent) {
	if ev.request == nil {
		if ev.kind == C.RDMA_CM_EVENT_DEVICE_REMOVAL {
			b.lost()
		}
		return
	}
	device, info := ev.request.pathOf()
	b.mu.Lock()
	defer b.mu.Unlock()
	for d, l := range b.listeners {
		if d.name == device && d.admits(ev.request, &info) && l.offer(ev, info) {
			return
		}
	}
	ev.request.destroy()
}

// lost: the device that the address is, or was, of is going.
func (b *binding) lost() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for d := range b.listeners {
		d.die()
	}
}

// offer queues a request; false if there is no room.
func (l *listener) offer(ev *cmEvent, info rdma.ConnInfo) bool {
	agreed := l.dev.reads.agree(ev.reads)
	info.RemoteQPN, info.Reads = ev.qpn, int(agreed.made)
	r := &request{dev: l.dev, id: ev.request, info: info, private: l.dev.requestData(ev.data), reads: agreed}
	l.dev.mu.Lock()
	defer l.dev.mu.Unlock()
	if l.dev.closed || len(l.queue) == cap(l.queue) {
		l.dev.counts.requestsLost.Add(1)
		return false
	}
	l.dev.requests[r] = struct{}{}
	r.timer = time.AfterFunc(l.dev.cfg.RequestPatience, r.drop)
	l.queue <- r // nobody else fills it
	return true
}

// requestData is the private data of a request in the room that it has with IP addressing. MPA says how long it is; all else has it padded.
func (d *Device) requestData(b []byte) []byte {
	if !d.iwarp || len(b) == privateIP {
		return b
	}
	room := make([]byte, privateIP)
	copy(room, b)
	return room
}

func (l *listener) Service() rdma.Service { return l.svc }

// Accept waits for a request.
func (l *listener) Accept(ctx context.Context) (rdma.ConnRequest, error) {
	for {
		select {
		case <-l.closed:
			return nil, failed("accept", l.svc.String(), rdma.ErrClosed)
		default:
		}
		select {
		case r := <-l.queue:
			if r.isOpen() {
				return r, nil
			}
		case <-l.closed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close ends listening. Requests that nobody has taken are refused.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.leave()
		close(l.closed)
		l.dev.mu.Lock()
		delete(l.dev.listeners, l)
		l.dev.mu.Unlock()
		for {
			select {
			case r := <-l.queue:
				r.drop()
			default:
				return
			}
		}
	})
	return nil
}

// leave ends the binding if nobody else wants it. Afterwards no request comes.
func (l *listener) leave() {
	b := l.bound
	b.m.bmu.Lock()
	defer b.m.bmu.Unlock()
	b.mu.Lock()
	delete(b.listeners, l.dev)
	last := len(b.listeners) == 0
	b.mu.Unlock()
	if last {
		delete(b.m.bindings, b.key)
		b.close()
	}
}
