//go:build verbs

package verbs

// #include "shim.h"
import "C"

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// manager is the connection manager: librdmacm's event channel, which all devices share, for a listener to any address is one of all
// devices.
type manager struct {
	prov   *Provider
	ch     *C.struct_rdma_event_channel
	reader *reader
	// commEst tells the connection manager that the peer of an id has sent.
	commEst func(*cmID) error

	mu    sync.Mutex
	sinks map[uint64]sink

	bmu      sync.Mutex
	bindings map[string]*binding
}

// sink takes the events of an id. handle is called in the manager's goroutine and must not block.
type sink interface{ handle(ev *cmEvent) }

// eventEstablished has a name that tests, which know no C, can use.
const eventEstablished = C.RDMA_CM_EVENT_ESTABLISHED

// cmEvent is an event.
type cmEvent struct {
	kind    C.int
	status  int
	qpn     uint32
	reads   reads // what the peer lets us make, and wants served
	data    []byte
	request *cmID // of a request for a connection
}

// cmID is an rdma_cm_id. Whoever holds it may call the functions of C with it, until retire or destroy.
type cmID struct {
	m      *manager
	ptr    *C.struct_rdma_cm_id
	handle uint64
}

func openManager(p *Provider) (*manager, error) {
	m := &manager{prov: p, sinks: make(map[uint64]sink), bindings: make(map[string]*binding),
		commEst: func(id *cmID) error { return errno(C.gv_cm_comm_est(id.ptr)) }}
	if err := call("open the connection manager (is the module rdma_ucm loaded?)", C.gv_cm_open(&m.ch)); err != nil {
		return nil, err
	}
	var err error
	if m.reader, err = newReader(int(m.ch.fd), m.next); err != nil {
		C.rdma_destroy_event_channel(m.ch)
		return nil, err
	}
	return m, nil
}

// close ends the goroutine. All ids must have been destroyed.
func (m *manager) close() {
	m.reader.close()
	C.rdma_destroy_event_channel(m.ch)
}

// next takes an event, for reader. Errors are those of one event, such as a request that has gone meanwhile.
func (m *manager) next() (func(), error) {
	var ev C.struct_gv_event
	err := errno(C.gv_cm_next(m.ch, &ev))
	switch {
	case err == unix.EAGAIN, err == unix.ENODEV: // librdmacm does nothing while there is no device at all
		return nil, unix.EAGAIN
	case err != nil:
		m.prov.cfg.Log.Error("reading events of the connection manager", "error", err)
		return nil, err
	}
	return func() { m.dispatch(&ev) }, nil
}

func (m *manager) dispatch(ev *C.struct_gv_event) {
	e := &cmEvent{kind: ev._type, status: int(ev.status), qpn: uint32(ev.qpn), data: bytesOf(ev),
		reads: reads{made: uint8(ev.initiator_depth), served: uint8(ev.responder_resources)}}
	handle := uint64(ev.id)
	if ev.request != nil {
		e.request = &cmID{m: m, ptr: ev.request, handle: m.prov.handle()}
		C.gv_cm_adopt(ev.request, C.uint64_t(e.request.handle))
		handle = uint64(ev.listener)
	}
	m.mu.Lock()
	s := m.sinks[handle]
	m.mu.Unlock()
	switch {
	case s != nil:
		s.handle(e)
	case e.request != nil:
		e.request.destroy()
	}
}

// create makes an id whose events go to s.
func (m *manager) create(s sink, native C.int) (*cmID, error) {
	id := &cmID{m: m, handle: m.prov.handle()}
	id.sendTo(s)
	if err := call("make a connection identifier", C.gv_cm_create(m.ch, C.uint64_t(id.handle), native, &id.ptr)); err != nil {
		id.sendTo(nil)
		return nil, err
	}
	return id, nil
}

// sendTo has the id's events go to s; nil is nowhere.
func (id *cmID) sendTo(s sink) {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	if s == nil {
		delete(id.m.sinks, id.handle)
		return
	}
	id.m.sinks[id.handle] = s
}

// destroy may wait for the kernel. A request that is destroyed is refused, and an attempt withdrawn.
func (id *cmID) destroy() {
	id.sendTo(nil)
	C.gv_cm_destroy(id.ptr)
}

// farewell is the sink of an id that is on its way out.
type farewell chan struct{}

func (f farewell) handle(ev *cmEvent) {
	switch ev.kind {
	case C.RDMA_CM_EVENT_DISCONNECTED, C.RDMA_CM_EVENT_TIMEWAIT_EXIT, C.RDMA_CM_EVENT_DEVICE_REMOVAL, C.RDMA_CM_EVENT_REJECTED:
		select {
		case f <- struct{}{}:
		default:
		}
	}
	if ev.request != nil {
		ev.request.destroy()
	}
}

// partingTime is how long a peer may take to confirm that the connection has ended; partingGrace if the device is being closed.
const (
	partingTime  = 5 * time.Second
	partingGrace = 100 * time.Millisecond
)

// parting is how an id is left.
type parting uint8

const (
	silently     parting = iota // it is only destroyed
	withRequest                 // the peer is told, and has time to confirm
	withResponse                // the peer has told us, and is answered
)

// retire ends an id in a goroutine that the device waits for when it is closed.
func (d *Device) retire(id *cmID, how parting) {
	f := make(farewell, 1)
	id.sendTo(f)
	d.farewells.Go(func() {
		if how != silently && C.gv_cm_disconnect(id.ptr) == 0 && how == withRequest {
			d.awaitParting(f)
		}
		id.destroy()
	})
}

func (d *Device) awaitParting(f farewell) {
	timer := time.NewTimer(partingTime)
	defer timer.Stop()
	select {
	case <-f:
		return
	case <-timer.C:
		return
	case <-d.quit:
	}
	grace := time.NewTimer(partingGrace)
	defer grace.Stop()
	select {
	case <-f:
	case <-grace.C:
	}
}

// pathOf is what an id knows of its connection.
func (id *cmID) pathOf() (device string, info rdma.ConnInfo) {
	var p C.struct_gv_path
	C.gv_cm_path(id.ptr, &p)
	device = C.GoString(&p.device[0])
	info = rdma.ConnInfo{
		Device: device, Port: int(p.port), PKey: uint16(p.pkey), Local: addrPort(&p.local), Remote: addrPort(&p.remote),
		LocalGID: gidOf(p.sgid), RemoteGID: gidOf(p.dgid), IPAddressed: p.family == unix.AF_INET || p.family == unix.AF_INET6,
	}
	return device, info
}

func gidOf(b [16]C.uint8_t) (g ib.GID) {
	for i := range b {
		g[i] = byte(b[i])
	}
	return g
}

// forgetGone has librdmacm close the devices that are gone, which it opens of its own accord.
func (p *Provider) forgetGone() {
	p.cmMu.Lock()
	used := p.cm != nil
	p.cmMu.Unlock()
	if used {
		C.gv_cm_forget()
	}
}
