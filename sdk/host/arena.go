package host

import (
	"fmt"

	"github.com/gosrpt/gosrpt/sdk/internal/shm"
)

// Arena is the memory that the data of requests lies in: shared with one plugin, and registered with the HCAs by its owner. It
// survives the plugin's processes. Never share it between two plugins: each sees all of it.
type Arena struct{ mem *shm.Mem }

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

// Close unmaps the arena. Every process that it was given to must be dead, every registration gone.
func (a *Arena) Close() error { return a.mem.Close() }
