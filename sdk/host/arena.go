package host

import (
	"fmt"

	"github.com/gosrpt/gosrpt/sdk/internal/shm"
)

// Arena is the memory that the data of requests lies in: shared with one plugin, and registered with the HCAs by its owner. It
// survives the plugin's processes. Never share it between two plugins: each sees all of it.
type Arena struct {
	mem    *shm.Mem
	taints taints
}

// NewArena makes an arena of size bytes, in 2 MiB pages where the system has them. Its pages are present from the
// start, so a later access cannot fail for want of memory.
func NewArena(size int) (*Arena, error) {
	m, err := shm.Create("gosrpt-arena", size, shm.Options{Huge: true})
	if err != nil {
		return nil, fmt.Errorf("host: an arena of %d bytes: %w", size, err)
	}
	return &Arena{mem: m}, nil
}

// Bytes is the arena, at least as long as asked for. Nothing may touch it after Close.
func (a *Arena) Bytes() []byte { return a.mem.Bytes() }

// Huge tells whether the arena has 2 MiB pages.
func (a *Arena) Huge() bool { return a.mem.Huge() }

// Tainted tells whether I/O of a dead process may still read or write b, a part of the arena. Whoever lends the arena's
// memory out asks when a buffer comes back, and does not lend it again before the answer is no. It may be called from any
// goroutine and is cheap as long as nothing is tainted.
func (a *Arena) Tainted(b []byte) bool {
	if a.taints.n.Load() == 0 {
		return false
	}
	at, ok := offset(a.Bytes(), b)
	return ok && a.taints.meet(at, uint64(len(b)))
}

// Lifted counts how often something stopped being tainted: as long as it stands, no answer of Tainted has become no.
func (a *Arena) Lifted() uint64 { return a.taints.lifted.Load() }

// Close unmaps the arena. Every process that it was given to must be dead, every registration gone.
func (a *Arena) Close() error { return a.mem.Close() }
