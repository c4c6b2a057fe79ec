package descriptor

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/plugins/internal/uring"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// File is an open file or device. Its methods may be called at once from several goroutines.
type File struct {
	// FD is the descriptor. It stays the caller's.
	FD int
	// Code tells the backstore's code for an error of a call that failed; nil means uring.Code. It does not block.
	Code func(error) backstore.Code

	size atomic.Int64
}

// SetSize says how many bytes of it, from the first, belong to the store. It may rise under way.
func (f *File) SetSize(n int64) { f.size.Store(n) }

// Size is what SetSize said.
func (f *File) Size() int64 { return f.size.Load() }

// Check refuses what no host asks for: a write outside would make a file longer.
func (f *File) Check(off int64, n int) error {
	if off < 0 || off > f.Size()-int64(n) {
		return &backstore.Error{Code: backstore.CodeRange}
	}
	return nil
}

// Read fills p from off.
func (f *File) Read(p []byte, off int64) error {
	if err := f.Check(off, len(p)); err != nil {
		return err
	}
	return f.Wrap(transfer(p, off, func(p []byte, off int64) (int, error) { return unix.Pread(f.FD, p, off) }))
}

// Write writes p at off, durably if flags have FUA.
func (f *File) Write(p []byte, off int64, flags backstore.Flags) error {
	if err := f.Check(off, len(p)); err != nil {
		return err
	}
	write := func(p []byte, off int64) (int, error) { return unix.Pwrite(f.FD, p, off) }
	if flags&backstore.FUA != 0 {
		write = func(p []byte, off int64) (int, error) {
			return unix.Pwritev2(f.FD, [][]byte{p}, off, unix.RWF_DSYNC)
		}
	}
	return f.Wrap(transfer(p, off, write))
}

// Flush makes what was written durable.
func (f *File) Flush() error { return f.Wrap(unix.Fdatasync(f.FD)) }

// NewEngine makes an io_uring engine on the descriptor; see uring.New.
func (f *File) NewEngine(wake, depth int) (backstore.Engine, error) {
	e, err := uring.New(f.FD, math.MaxInt64, wake, depth, f.code())
	if err != nil {
		return nil, err
	}
	return &growing{Engine: e, file: f}, nil
}

func (f *File) code() func(error) backstore.Code {
	if f.Code != nil {
		return f.Code
	}
	return uring.Code
}

// Wrap gives the error of a call that failed its code; nil stays nil.
func (f *File) Wrap(err error) error {
	if err == nil {
		return nil
	}
	return &backstore.Error{Code: f.code()(err), Err: err}
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

// Bare drops the path that os puts into errors; the caller names it.
func Bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
