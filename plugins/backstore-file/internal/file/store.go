package file

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

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

	blocks   int64
	physical int64
	// align is what direct I/O demands of offsets and lengths; 1 if it is not in use.
	align  int64
	notice string

	// partial orders read-modify-write of partial alignment units against every other write. It is
	// in use only if needsBounce.
	partial sync.RWMutex
}

// needsBounce tells whether a legal request can be too fine for direct I/O.
func (s *store) needsBounce() bool { return s.align > s.cfg.blockSize }

// Info implements backstore.Store.
func (s *store) Info() backstore.Info {
	return backstore.Info{
		BlockSize:         uint32(s.cfg.blockSize),
		PhysicalBlockSize: uint32(s.physical),
		Blocks:            uint64(s.blocks),
		ReadOnly:          s.cfg.readOnly,
		WriteCache:        true,
		FUA:               true,
		Concurrency:       poolSize,
		Serial:            s.cfg.path,
		Notice:            s.notice,
	}
}

// bytes is the store's size.
func (s *store) bytes() int64 { return s.blocks * s.cfg.blockSize }

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
		return s.wrap(transfer(p, off, func(p []byte, off int64) (int, error) { return unix.Pread(s.fd, p, off) }))
	}
	span, start := s.span(off, len(p))
	err := transfer(span, start, func(p []byte, off int64) (int, error) { return unix.Pread(s.fd, p, off) })
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
	write := func(p []byte, off int64) (int, error) { return unix.Pwrite(s.fd, p, off) }
	if flags&backstore.FUA != 0 {
		write = func(p []byte, off int64) (int, error) {
			return unix.Pwritev2(s.fd, [][]byte{p}, off, unix.RWF_DSYNC)
		}
	}
	if s.aligned(off, len(p)) {
		if s.needsBounce() {
			s.partial.RLock()
			defer s.partial.RUnlock()
		}
		return s.wrap(transfer(p, off, write))
	}
	s.partial.Lock()
	defer s.partial.Unlock()
	span, start := s.span(off, len(p))
	err := transfer(span, start, func(p []byte, off int64) (int, error) { return unix.Pread(s.fd, p, off) })
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
	e, err := uring.New(s.fd, s.bytes(), wake, depth)
	if err != nil {
		return nil, err
	}
	return e, nil
}
