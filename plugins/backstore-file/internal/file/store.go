package file

import (
	"context"
	"os"
	"sync"

	"github.com/ncw/directio"

	"github.com/gosrpt/gosrpt/plugins/internal/descriptor"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// store does blocking positional I/O.
type store struct {
	f   *os.File
	io  descriptor.File
	cfg config

	physical int64
	// hole is the size of what a file system gives back at least; 0 if it is not known.
	hole   int64
	sector int64 // the medium's
	// align is what direct I/O demands of offsets and lengths; 1 if it is not in use.
	align  int64
	notice string

	// partial orders read-modify-write, of partial alignment units and of compare-and-write, against every other write that goes
	// through Write. With an engine nothing has to be ordered.
	partial sync.RWMutex
}

// needsBounce tells whether a legal request can be too fine for direct I/O.
func (s *store) needsBounce() bool { return s.align > s.cfg.blockSize }

// Info implements backstore.Store.
func (s *store) Info() backstore.Info {
	return backstore.Info{
		BlockSize:         uint32(s.cfg.blockSize),
		PhysicalBlockSize: uint32(s.physical),
		Blocks:            uint64(s.io.Size() / s.cfg.blockSize),
		ReadOnly:          s.cfg.readOnly,
		WriteCache:        true,
		FUA:               true,
		Concurrency:       descriptor.PoolSize,
		Serial:            s.cfg.path,
		Notice:            s.notice,
		UnmapGranularity:  uint32(max(s.physical, s.hole)),
		UnmapZeroes:       true,
	}
}

// unit is what the medium and the store's blocks are made of.
func (s *store) unit() int64 { return max(s.align, s.cfg.blockSize) }

// whole is how much of a medium of size bytes is whole units.
func (s *store) whole(size int64) int64 { return size / s.unit() * s.unit() }

// Read implements backstore.Store.
func (s *store) Read(_ context.Context, p []byte, off int64) error {
	if s.aligned(off, len(p)) {
		return s.io.Read(p, off)
	}
	if err := s.io.Check(off, len(p)); err != nil {
		return err
	}
	span, start := s.span(off, len(p))
	err := s.io.Read(span, start)
	if err == nil {
		copy(p, span[off-start:])
	}
	return err
}

// Write implements backstore.Store.
func (s *store) Write(_ context.Context, p []byte, off int64, flags backstore.Flags) error {
	if s.aligned(off, len(p)) {
		s.partial.RLock()
		defer s.partial.RUnlock()
		return s.io.Write(p, off, flags)
	}
	if err := s.io.Check(off, len(p)); err != nil {
		return err
	}
	s.partial.Lock()
	defer s.partial.Unlock()
	span, start := s.span(off, len(p))
	if err := s.io.Read(span, start); err != nil {
		return err
	}
	copy(span[off-start:], p)
	return s.io.Write(span, start, flags)
}

// Flush implements backstore.Store.
func (s *store) Flush(context.Context) error { return s.io.Flush() }

// Close implements backstore.Store.
func (s *store) Close() error { return s.f.Close() }

func (s *store) aligned(off int64, n int) bool { return (off|int64(n))%s.align == 0 }

// span returns an aligned buffer for the aligned range around off..off+n, and where that range starts.
func (s *store) span(off int64, n int) (buf []byte, start int64) {
	start = off / s.align * s.align
	end := (off + int64(n) + s.align - 1) / s.align * s.align
	return directio.AlignedBlock(int(end - start)), start
}

// ringStore is a store whose batches go through io_uring.
type ringStore struct{ *store }

// NewEngine implements backstore.Engines.
func (s ringStore) NewEngine(_ context.Context, wake, depth int) (backstore.Engine, error) {
	return s.io.NewEngine(wake, depth)
}

// memoryStore is a store in memory, where a call costs less than what would keep the caller from waiting for it.
type memoryStore struct{ *store }

// NewEngine implements backstore.Engines.
func (s memoryStore) NewEngine(_ context.Context, _, depth int) (backstore.Engine, error) {
	return descriptor.NewCalls(s.store, depth), nil
}
