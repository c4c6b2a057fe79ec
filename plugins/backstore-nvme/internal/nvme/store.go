package nvme

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/plugins/internal/descriptor"
	"github.com/gosrpt/gosrpt/plugins/internal/uring"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// store does blocking positional I/O. Requests are whole blocks, which is all that direct I/O on a device demands.
type store struct {
	f    *os.File
	io   descriptor.File
	info backstore.Info
}

// Info implements backstore.Store.
func (s *store) Info() backstore.Info { return s.info }

// Read implements backstore.Store.
func (s *store) Read(_ context.Context, p []byte, off int64) error { return s.io.Read(p, off) }

// Write implements backstore.Store.
func (s *store) Write(_ context.Context, p []byte, off int64, flags backstore.Flags) error {
	return s.io.Write(p, off, flags)
}

// Flush implements backstore.Store.
func (s *store) Flush(context.Context) error { return s.io.Flush() }

// Close implements backstore.Store.
func (s *store) Close() error { return s.f.Close() }

// code tells the code of an error of I/O. A namespace that is gone has no blocks any more: its reads end like those of a short
// file, its writes like those of a full one, or both with EIO as of a bad medium.
func (s *store) code(err error) backstore.Code {
	c := uring.Code(err)
	switch {
	case c == backstore.CodeReadOnly:
		return c
	case errors.Is(err, unix.ETIMEDOUT), errors.Is(err, unix.ENOLINK):
		return backstore.CodeUnavailable
	}
	if size, e := deviceSize(s.f); e != nil || size < s.io.Size() {
		return backstore.CodeUnavailable
	}
	return c
}

// deviceSize is the size of a block device in bytes, without any I/O.
func deviceSize(f *os.File) (int64, error) { return f.Seek(0, io.SeekEnd) }

// ringStore is a store whose batches go through io_uring.
type ringStore struct{ *store }

// NewEngine implements backstore.Engines.
func (s ringStore) NewEngine(_ context.Context, wake, depth int) (backstore.Engine, error) {
	return s.io.NewEngine(wake, depth)
}
