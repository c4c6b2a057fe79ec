package ioctx

import (
	"errors"
	"fmt"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// Ring is the receive or the send buffers of one channel: depth buffers of one size in one
// registered piece of memory. A buffer is known by its index.
type Ring struct {
	mapping *Mapping
	region  rdma.Region
	depth   int
	size    uint64
	stride  uint64
}

// cacheLine keeps buffers from sharing one.
const cacheLine = 64

func strideOf(size uint32) uint64 { return (uint64(size) + cacheLine - 1) / cacheLine * cacheLine }

func ringBytes(depth int, size uint32) uint64 { return uint64(depth) * strideOf(size) }

// NewRing makes depth buffers of size bytes, registered with dev for local access.
func NewRing(dev rdma.Device, depth int, size uint32) (*Ring, error) {
	if depth <= 0 || size == 0 {
		return nil, fmt.Errorf("ioctx: ring of %d buffers of %d bytes: %w", depth, size, ErrSize)
	}
	m, err := Map(ringBytes(depth, size))
	if err != nil {
		return nil, err
	}
	region, err := dev.Register(m.Bytes(), 0)
	if err != nil {
		return nil, fmt.Errorf("ioctx: ring of %d buffers cannot be registered with %s: %w", depth, dev.Name(), errors.Join(err, m.Close()))
	}
	return &Ring{mapping: m, region: region, depth: depth, size: uint64(size), stride: strideOf(size)}, nil
}

// Depth is the number of buffers.
func (r *Ring) Depth() int { return r.depth }

// Buffer returns buffer i, 0..Depth-1, in its full size.
func (r *Ring) Buffer(i int) []byte {
	off := uint64(i) * r.stride
	return r.mapping.mem[off : off+r.size : off+r.size]
}

// SGE names the first n bytes of buffer i; n is at most the size of a buffer, and is cut to it.
func (r *Ring) SGE(i int, n uint64) rdma.SGE {
	return rdma.SGE{Region: r.region, Off: uint64(i) * r.stride, Len: min(n, r.size)}
}

// Full names all of buffer i.
func (r *Ring) Full(i int) rdma.SGE { return r.SGE(i, r.size) }

// Unregister takes the device's access away; the memory stays. The queue pair that the buffers were posted to has been closed.
func (r *Ring) Unregister() error { return r.region.Close() }

// Close gives the memory back. The queue pair that the buffers were posted to has been closed, and
// nobody uses a slice of them any more. It may be called twice.
func (r *Ring) Close() error {
	if r.mapping.Bytes() == nil {
		return nil
	}
	return errors.Join(r.region.Close(), r.mapping.Close())
}
