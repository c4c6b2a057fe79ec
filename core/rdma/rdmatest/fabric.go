package rdmatest

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// Fabric is a network in memory. One lock guards all that is on it; no wake-up call is made under
// the lock.
type Fabric struct {
	mu      sync.Mutex
	devices []*Device
	wakes   []func()
	lastQPN uint32
	nextVA  uint64
}

// NewFabric makes an empty fabric.
func NewFabric() *Fabric {
	return &Fabric{lastQPN: rand.Uint32(), nextVA: 1<<44 + uint64(rand.Uint32())<<12}
}

// unlock ends a locked section and then makes the wake-up calls that it gave rise to.
func (f *Fabric) unlock() {
	var out [8]func()
	for {
		n := copy(out[:], f.wakes)
		f.wakes = slices.Delete(f.wakes, 0, n)
		f.mu.Unlock()
		for _, wake := range out[:n] {
			wake()
		}
		if n < len(out) {
			return
		}
		f.mu.Lock()
	}
}

// lookup finds the open device that has an address.
func (f *Fabric) lookup(addr netip.Addr) *Device {
	for _, d := range f.devices {
		if !d.closed && d.has(addr) {
			return d
		}
	}
	return nil
}

// lookupGID finds the open device that has a GID on InfiniBand.
func (f *Fabric) lookupGID(g ib.GID) *Device {
	for _, d := range f.devices {
		if !d.closed && d.serves(g) {
			return d
		}
	}
	return nil
}

// newQPN numbers queue pairs in 24 bits; 0 and 1 are the management queue pairs (IBTA 3.9.1).
func (f *Fabric) newQPN() uint32 {
	for {
		f.lastQPN = (f.lastQPN + 1) & 0xFFFFFF
		if f.lastQPN > 1 {
			return f.lastQPN
		}
	}
}

// newVA sets aside addresses for n bytes, with unmapped ones on both sides.
func (f *Fabric) newVA(n int) uint64 {
	va := f.nextVA
	f.nextVA += (uint64(n)+0xFFF)&^0xFFF + 0x1000
	return va
}

// linked tells whether messages pass between two devices now.
func linked(a, b *Device) bool {
	return a.linkUp && b.linkUp && !a.vanished && !b.vanished && !a.closed && !b.closed
}

// message carries a connection-management message from one device to another: it is lost, or
// delivered at once, or kept while the receiver holds its kind.
func (f *Fabric) message(from, to *Device, kind Traffic, deliver func()) {
	if !linked(from, to) {
		return
	}
	if to.held&kind != 0 {
		to.parked = append(to.parked, parkedMessage{kind, deliver})
		return
	}
	deliver()
}

// resume lets every queue pair of the fabric go on, after something that held them has changed.
func (f *Fabric) resume() {
	now := time.Now()
	for _, d := range f.devices {
		for _, q := range slices.Clone(d.qps) {
			q.progress(now)
		}
	}
}

func opError(op, peer string, err error) error {
	return &rdma.Error{Op: op, Peer: peer, Err: err}
}
