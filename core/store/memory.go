package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Memory is a store in the memory of this process, for tests and demonstrations. What is in it is lost with it.
type Memory struct {
	info backstore.Info
	mu   sync.RWMutex
	data []byte
}

var _ backstore.Store = (*Memory)(nil)

// NewMemory returns a store of size bytes in blocks of 512, zeroed. A rest smaller than a block is left out.
func NewMemory(size int64) *Memory {
	return NewMemoryInfo(backstore.Info{BlockSize: 512, Blocks: uint64(max(size, 0)) / 512, FUA: true})
}

// NewMemoryInfo returns a store that describes itself as info.
func NewMemoryInfo(info backstore.Info) *Memory {
	return &Memory{info: info, data: make([]byte, info.Blocks*uint64(info.BlockSize))}
}

// Info describes the store.
func (m *Memory) Info() backstore.Info { return m.info }

// Read implements backstore.Store.
func (m *Memory) Read(_ context.Context, p []byte, off int64) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	part, err := m.part(len(p), off)
	copy(p, part)
	return err
}

// Write implements backstore.Store.
func (m *Memory) Write(_ context.Context, p []byte, off int64, _ backstore.Flags) error {
	if m.info.ReadOnly {
		return &backstore.Error{Code: backstore.CodeReadOnly}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	part, err := m.part(len(p), off)
	copy(part, p)
	return err
}

func (m *Memory) part(n int, off int64) ([]byte, error) {
	if off < 0 || off > int64(len(m.data)) || n > len(m.data)-int(off) {
		return nil, &backstore.Error{Code: backstore.CodeRange, Err: fmt.Errorf("%d bytes at %d of %d", n, off, len(m.data))}
	}
	return m.data[off : off+int64(n)], nil
}

// Flush implements backstore.Store; there is nothing to do.
func (m *Memory) Flush(context.Context) error { return nil }

// Close implements backstore.Store. The data stays readable through Bytes.
func (m *Memory) Close() error { return nil }

// Bytes is the content itself, not a copy. The caller sees to it that nobody writes meanwhile.
func (m *Memory) Bytes() []byte { return m.data }
