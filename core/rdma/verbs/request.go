//go:build verbs

package verbs

// #include "shim.h"
import "C"

import (
	"sync"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// requestState is what became of a request.
type requestState uint8

const (
	requestOpen requestState = iota
	requestAnswered
	requestGone
)

// request is a request for a connection.
type request struct {
	dev     *Device
	id      *cmID
	info    rdma.ConnInfo
	private []byte
	reads   reads // of both sides
	timer   *time.Timer

	mu    sync.Mutex
	state requestState
}

func (r *request) String() string      { return r.info.RemoteName() }
func (r *request) Private() []byte     { return r.private }
func (r *request) Info() rdma.ConnInfo { return r.info }
func (r *request) Device() rdma.Device { return r.dev }

// Reject refuses the request. Every reason but the consumer's becomes that, for librdmacm sends no other.
func (r *request) Reject(reason rdma.RejectReason, private []byte) error {
	if len(private) > 0 && reason != rdma.RejectConsumer || len(private) > privateReject || reason == 0 {
		return failed("reject", r.String(), rdma.ErrInvalid)
	}
	if err := r.answer(); err != nil {
		return failed("reject", r.String(), err)
	}
	r.dev.counts.rejects.Add(1)
	data, n := privateData(private)
	err := gone(call("reject", C.gv_cm_reject(r.id.ptr, data, n)))
	r.id.destroy()
	if err != nil {
		return failed("reject", r.String(), err)
	}
	return nil
}

// answer notes that the request is being answered, which may be done once. The id is the caller's then.
func (r *request) answer() error { return r.settle(requestAnswered) }

func (r *request) settle(to requestState) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.state {
	case requestAnswered:
		return rdma.ErrState
	case requestGone:
		return rdma.ErrGone
	}
	r.state = to
	r.timer.Stop()
	r.dev.mu.Lock()
	delete(r.dev.requests, r)
	r.dev.mu.Unlock()
	return nil
}

// drop gives the request up; the peer is told.
func (r *request) drop() {
	if r.settle(requestGone) == nil {
		r.id.destroy()
	}
}

func (r *request) isOpen() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state == requestOpen
}
