//go:build verbs

package verbs

// #include "shim.h"
import "C"

import (
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// nextAsync takes an asynchronous event, for reader.
func (d *Device) nextAsync() (func(), error) {
	var ev C.struct_gv_async
	err := errno(C.gv_async_next(d.ctx, &ev))
	switch {
	case err == unix.EAGAIN, err == unix.EINTR:
		return nil, unix.EAGAIN
	case err != nil: // the kernel has taken the device from us
		return nil, d.cutOff()
	}
	d.counts.asyncEvents.Add(1)
	return func() { d.handleAsync(asyncEvent{ev._type, int(ev.port), uint64(ev.handle)}) }, nil
}

// asyncEvent is an asynchronous event: of a port, or of the queue pair, completion queue or shared receive queue of a handle.
type asyncEvent struct {
	kind   C.int
	port   int
	handle uint64
}

// eventCommEst says that the first message has come in on a queue pair before the connection manager knew that the connection stands.
const eventCommEst = C.IBV_EVENT_COMM_EST

// Events of shared receive queues: one has failed, and a queue pair in error takes no more from one.
const (
	eventSRQError = C.IBV_EVENT_SRQ_ERR
	eventSpent    = C.IBV_EVENT_QP_LAST_WQE_REACHED
)

// cutOff is the end of the events.
func (d *Device) cutOff() error {
	if !d.shut.Load() {
		d.die()
	}
	return unix.EIO
}

var asyncKinds = map[C.int]rdma.AsyncKind{
	C.IBV_EVENT_PORT_ACTIVE: rdma.AsyncPortActive, C.IBV_EVENT_PORT_ERR: rdma.AsyncPortError, C.IBV_EVENT_LID_CHANGE: rdma.AsyncLIDChange,
	C.IBV_EVENT_PKEY_CHANGE: rdma.AsyncPKeyChange, C.IBV_EVENT_SM_CHANGE: rdma.AsyncSMChange,
	C.IBV_EVENT_CLIENT_REREGISTER: rdma.AsyncClientReregister, C.IBV_EVENT_GID_CHANGE: rdma.AsyncGIDChange,
	C.IBV_EVENT_DEVICE_FATAL: rdma.AsyncDeviceFatal,
}

// handleAsync passes an event on to whom it concerns.
func (d *Device) handleAsync(ev asyncEvent) {
	switch ev.kind {
	case eventCommEst:
		d.tellQP(ev.handle, noteCommEst)
	case C.IBV_EVENT_QP_FATAL, C.IBV_EVENT_QP_REQ_ERR, C.IBV_EVENT_QP_ACCESS_ERR, C.IBV_EVENT_PATH_MIG_ERR:
		d.tellQP(ev.handle, noteBroken)
	case C.IBV_EVENT_CQ_ERR:
		d.log.Error("a completion queue has failed: its connections end", "device", d.name)
		d.tellCQ(ev.handle)
	case eventSRQError:
		d.log.Error("a shared receive queue has failed: its connections end", "device", d.name)
		d.tellSRQ(ev.handle)
	case eventSpent:
		d.tellQP(ev.handle, noteSpent)
	case C.IBV_EVENT_SQ_DRAINED, C.IBV_EVENT_PATH_MIG, C.IBV_EVENT_SRQ_LIMIT_REACHED:
	default:
		kind, known := asyncKinds[ev.kind]
		if !known {
			kind = rdma.AsyncUnknown
		}
		if kind == rdma.AsyncDeviceFatal {
			d.die()
		}
		d.prov.events.Post(rdma.AsyncEvent{Kind: kind, Device: d.name, Port: ev.port})
	}
}

func (d *Device) tellQP(handle uint64, kind noteKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.qps[handle]; q != nil {
		q.cq.post(note{kind: kind, qp: q})
	}
}

func (d *Device) tellCQ(handle uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.cqs[handle]; c != nil {
		c.post(note{kind: noteGone})
	}
}

func (d *Device) tellSRQ(handle uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.srqs[handle]; s != nil {
		s.cq.post(note{kind: noteSRQ, srq: s})
	}
}
