package ioctx

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Mapping is anonymous memory outside the Go heap, zeroed and aligned to a page.
type Mapping struct {
	mem []byte
}

// Map makes a mapping of n bytes, rounded up to whole pages, with its pages in place, so that using
// them can neither fault nor fail later.
func Map(n uint64) (*Mapping, error) {
	if n == 0 || n > MaxArena {
		return nil, fmt.Errorf("ioctx: map %d bytes: %w: must be 1..%d", n, ErrSize, uint64(MaxArena))
	}
	n = (n + PageSize - 1) / PageSize * PageSize
	mem, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("ioctx: map %d bytes: %w", n, err)
	}
	return &Mapping{mem: mem}, nil
}

// Bytes is the memory; nil after Close. No slice of it may be used after Close.
func (m *Mapping) Bytes() []byte { return m.mem }

// Close unmaps the memory. It may be called twice.
func (m *Mapping) Close() error {
	mem := m.mem
	if mem == nil {
		return nil
	}
	m.mem = nil
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("ioctx: unmap %d bytes: %w", len(mem), err)
	}
	return nil
}
