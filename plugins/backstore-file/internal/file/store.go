package file

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"github.com/ncw/directio"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/plugins/backstore-file/internal/uring"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// store does blocking positional I/O.
type store struct {
	f   *os.File
	fd  int
	cfg config

	blocks   atomic.Int64 // it may rise under way
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
		Blocks:            uint64(s.blocks.Load()),
		ReadOnly:          s.cfg.readOnly,
		WriteCache:        true,
		FUA:               true,
		Concurrency:       poolSize,
		Serial:            s.cfg.path,
		Notice:            s.notice,
		UnmapGranularity:  uint32(max(s.physical, s.hole)),
		UnmapZeroes:       true,
	}
}

// bytes is the store's size.
func (s *store) bytes() int64 { return s.blocks.Load() * s.cfg.blockSize }

// unit is what the medium and the store's blocks are made of.
func (s *store) unit() int64 { return max(s.align, s.cfg.blockSize) }

// wholeBlocks is how many blocks a medium of size bytes has.
func (s *store) wholeBlocks(size int64) int64 { return size / s.unit() * s.unit() / s.cfg.blockSize }

func (s *store) pread(p []byte, off int64) (int, error) { return unix.Pread(s.fd, p, off) }

func (s *store) pwrite(p []byte, off int64, flags backstore.Flags) (int, error) {
	if flags&backstore.FUA != 0 {
		return unix.Pwritev2(s.fd, [][]byte{p}, off, unix.RWF_DSYNC)
	}
	return unix.Pwrite(s.fd, p, off)
}

// check refuses what no host asks for: a write outside would make a file longer.
func (s *store) check(off int64, n int) error {
	if off < 0 || off > s.bytes()-int64(n) {
		return &backstore.Error{Code: backstore.CodeRange}
	}
	return nil
}

// Read implements backstore.Store.
func (s *store) Read(_ context.Context, p []byte, off int64) error {
	if err := s.check(off, len(p)); err != nil {
		return err
	}
	if s.aligned(off, len(p)) {
		return s.wrap(transfer(p, off, s.pread))
	}
	span, start := s.span(off, len(p))
	err := transfer(span, start, s.pread)
	if err == nil {
		copy(p, span[off-start:])
	}
	return s.wrap(err)
}

// Write implements backstore.Store.
func (s *store) Write(_ context.Context, p []byte, off int64, flags backstore.Flags) error {
	if err := s.check(off, len(p)); err != nil {
		return err
	}
	write := func(p []byte, off int64) (int, error) { return s.pwrite(p, off, flags) }
	if s.aligned(off, len(p)) {
		s.partial.RLock()
		defer s.partial.RUnlock()
		return s.wrap(transfer(p, off, write))
	}
	s.partial.Lock()
	defer s.partial.Unlock()
	span, start := s.span(off, len(p))
	err := transfer(span, start, s.pread)
	if err != nil {
		return s.wrap(err)
	}
	copy(span[off-start:], p)
	return s.wrap(transfer(span, start, write))
}

// Flush implements backstore.Store.
func (s *store) Flush(context.Context) error { return s.wrap(unix.Fdatasync(s.fd)) }

// Close implements backstore.Store.
func (s *store) Close() error { return s.f.Close() }

func (s *store) aligned(off int64, n int) bool { return (off|int64(n))%s.align == 0 }

// span returns an aligned buffer for the aligned range around off..off+n, and where that range starts.
func (s *store) span(off int64, n int) (buf []byte, start int64) {
	start = off / s.align * s.align
	end := (off + int64(n) + s.align - 1) / s.align * s.align
	return directio.AlignedBlock(int(end - start)), start
}

func (s *store) wrap(err error) error {
	if err == nil {
		return nil
	}
	return &backstore.Error{Code: uring.Code(err), Err: err}
}

// transfer moves all of p, going on after short transfers and interruptions. Nothing moved means
// that the file is shorter than the store.
func transfer(p []byte, off int64, move func([]byte, int64) (int, error)) error {
	for len(p) > 0 {
		n, err := move(p, off)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// ringStore is a store whose batches go through io_uring.
type ringStore struct{ *store }

// NewEngine implements backstore.Engines.
func (s ringStore) NewEngine(_ context.Context, wake, depth int) (backstore.Engine, error) {
	e, err := uring.New(s.fd, math.MaxInt64, wake, depth)
	if err != nil {
		return nil, err
	}
	return &growing{Engine: e, store: s.store}, nil
}
