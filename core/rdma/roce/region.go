package roce

import (
	"crypto/rand"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// regionSlots is how many regions a device can have.
const regionSlots = 1 << 14

// regions is a device's table of registered memory. The low bits of an r_key are the place in the
// table, chosen at random; the others are random too. Looking up takes no lock.
type regions struct {
	mu    sync.Mutex
	used  int
	slots [regionSlots]atomic.Pointer[region]
}

// region is registered memory.
type region struct {
	dev    *Device
	mem    []byte
	base   uint64
	rkey   uint32
	access rdma.Access
	closed atomic.Bool
}

func (r *region) Bytes() []byte { return r.mem }
func (r *region) Addr() uint64  { return r.base }
func (r *region) RKey() uint32  { return r.rkey }

// random64 is an unpredictable number.
func random64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint64(b[:])
}

// add puts r into the table under a new key.
func (t *regions) add(r *region) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.used >= regionSlots/2 {
		return rdma.ErrFull
	}
	for {
		key := uint32(random64())
		slot := &t.slots[key%regionSlots]
		if key == 0 || slot.Load() != nil {
			continue
		}
		r.rkey = key
		slot.Store(r)
		t.used++
		return nil
	}
}

func (t *regions) remove(r *region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slots[r.rkey%regionSlots].Store(nil)
	t.used--
}

// find returns n bytes at va of the region with the key, if it gives the access.
func (t *regions) find(rkey uint32, va uint64, n uint32, access rdma.Access) ([]byte, bool) {
	r := t.slots[rkey%regionSlots].Load()
	if r == nil || r.rkey != rkey || r.access&access == 0 {
		return nil, false
	}
	off, size := va-r.base, uint64(len(r.mem))
	if va < r.base || off > size || uint64(n) > size-off {
		return nil, false
	}
	return r.mem[off : off+uint64(n) : off+uint64(n)], true
}

// Writable is for rc.Memory.
func (t *regions) Writable(rkey uint32, va uint64, n uint32) ([]byte, bool) {
	return t.find(rkey, va, n, rdma.RemoteWrite)
}

// Readable is for rc.Memory.
func (t *regions) Readable(rkey uint32, va uint64, n uint32) ([]byte, bool) {
	return t.find(rkey, va, n, rdma.RemoteRead)
}

// Register makes mem accessible.
func (d *Device) Register(mem []byte, access rdma.Access) (rdma.Region, error) {
	if d.isClosed() {
		return nil, d.fail("register", rdma.ErrClosed)
	}
	if !access.Valid() {
		return nil, d.fail("register", rdma.ErrInvalid)
	}
	const pages = 0x0000_7FFF_FFFF_F000
	r := &region{dev: d, mem: mem, access: access.Remote(), base: random64() & pages}
	if err := d.regions.add(r); err != nil {
		return nil, d.fail("register", err)
	}
	return r, nil
}

// Close ends the device's access. It waits for the batches under way.
func (r *region) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	r.dev.regions.remove(r)
	r.dev.quiesce()
	return nil
}

// segment checks an element of a scatter-gather list and returns its memory.
func (d *Device) segment(e *rdma.SGE) ([]byte, bool) {
	r, ok := e.Region.(*region)
	if !ok || r == nil || r.dev != d || r.closed.Load() {
		return nil, false
	}
	size := uint64(len(r.mem))
	if e.Off > size || e.Len > size-e.Off {
		return nil, false
	}
	return r.mem[e.Off : e.Off+e.Len], true
}

// epoch lets others wait until the owner of a CQ is between two batches. It is odd during a batch.
type epoch struct{ n atomic.Uint64 }

func (e *epoch) enter() { e.n.Add(1) }
func (e *epoch) leave() { e.n.Add(1) }

// wait returns when a batch that was under way has ended. Batches are short and never block.
func (e *epoch) wait() {
	seen := e.n.Load()
	for seen&1 == 1 && e.n.Load() == seen {
		runtime.Gosched()
	}
}
