//go:build verbs

package verbs

// #include "shim.h"
import "C"

import (
	"fmt"
	"math"
	"runtime"
	"sync/atomic"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// region is registered memory.
type region struct {
	dev    *Device
	mem    []byte
	base   uint64
	lkey   uint32
	rkey   uint32
	mr     *C.struct_ibv_mr // nil for memory of no bytes, which nothing can name
	pin    runtime.Pinner
	closed atomic.Bool
}

func (r *region) Bytes() []byte { return r.mem }
func (r *region) Addr() uint64  { return r.base }
func (r *region) RKey() uint32  { return r.rkey }

// rights are those of a registration: the sink of an RDMA READ is remotely writable on iWARP, and there alone.
func (d *Device) rights(access rdma.Access) C.int {
	rights := C.int(C.IBV_ACCESS_LOCAL_WRITE)
	if access&rdma.RemoteRead != 0 {
		rights |= C.IBV_ACCESS_REMOTE_READ
	}
	if access&rdma.RemoteWrite != 0 || access&rdma.ReadSink != 0 && d.iwarp {
		rights |= C.IBV_ACCESS_REMOTE_WRITE
	}
	return rights
}

// Register makes mem accessible.
func (d *Device) Register(mem []byte, access rdma.Access) (rdma.Region, error) {
	if !access.Valid() {
		return nil, d.fail("register", rdma.ErrInvalid)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, d.fail("register", rdma.ErrClosed)
	}
	r := &region{dev: d, mem: mem}
	if len(mem) > 0 {
		r.pin.Pin(&mem[0])
		if err := r.register(d.rights(access)); err != nil {
			r.pin.Unpin()
			return nil, d.fail(fmt.Sprintf("register %d bytes", len(mem)), err)
		}
	}
	d.regions[r] = struct{}{}
	return r, nil
}

// Close ends the device's access.
func (r *region) Close() error {
	r.dev.mu.Lock()
	delete(r.dev.regions, r)
	r.dev.mu.Unlock()
	if err := r.release(); err != nil {
		return r.dev.fail("deregister", err)
	}
	return nil
}

func (r *region) release() error {
	if r.closed.Swap(true) || r.mr == nil {
		return nil
	}
	err := errno(C.ibv_dereg_mr(r.mr))
	r.pin.Unpin()
	return err
}

// element checks one of a scatter-gather list and makes it that of C.
func (d *Device) element(e *rdma.SGE, to *C.struct_ibv_sge) bool {
	r, ok := e.Region.(*region)
	if !ok || r == nil || r.dev != d || r.closed.Load() {
		return false
	}
	size := uint64(len(r.mem))
	if e.Off > size || e.Len > size-e.Off || e.Len > math.MaxUint32 {
		return false
	}
	to.addr, to.length, to.lkey = C.uint64_t(r.base+e.Off), C.uint32_t(e.Len), C.uint32_t(r.lkey)
	return true
}
