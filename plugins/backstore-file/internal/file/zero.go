package file

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncw/directio"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// chunk is how many zeroes are written at once where the kernel cannot make them, in bytes.
const chunk = 1 << 20

// Unmap implements backstore.Unmapper. The kernel promises that a hole reads as zeroes, in files as on block devices; where it
// cannot make one, zeroes are written.
func (s *store) Unmap(ctx context.Context, off, n int64) error {
	return s.zero(ctx, off, n, unix.FALLOC_FL_PUNCH_HOLE, 0)
}

// WriteZeroes implements backstore.ZeroWriter.
func (s *store) WriteZeroes(ctx context.Context, off, n int64, flags backstore.Flags) error {
	mode := uint32(unix.FALLOC_FL_ZERO_RANGE)
	if flags&backstore.MayUnmap != 0 {
		mode = unix.FALLOC_FL_PUNCH_HOLE
	}
	err := s.zero(ctx, off, n, mode, flags&backstore.FUA)
	if err == nil && flags&backstore.FUA != 0 {
		err = s.io.Flush()
	}
	return err
}

// zero makes a range read as zeroes: by a mode of fallocate, and by writes at its edges, if they are too fine for the medium,
// and where the medium cannot do that.
func (s *store) zero(ctx context.Context, off, n int64, mode uint32, flags backstore.Flags) error {
	if err := s.check64(off, n); err != nil {
		return err
	}
	unit := max(s.align, s.sector)
	first, last := (off+unit-1)/unit*unit, (off+n)/unit*unit
	if first >= last {
		return s.writeZeroes(ctx, off, n, flags)
	}
	err := s.allocate(mode, first, last-first)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return s.writeZeroes(ctx, off, n, flags)
	}
	if err != nil {
		return s.io.Wrap(err)
	}
	return errors.Join(s.writeZeroes(ctx, off, first-off, flags), s.writeZeroes(ctx, last, off+n-last, flags))
}

// allocate never changes the size. It is kept apart from compare-and-write, as writes are.
func (s *store) allocate(mode uint32, off, n int64) error {
	s.partial.RLock()
	defer s.partial.RUnlock()
	for {
		err := unix.Fallocate(s.io.FD, mode|unix.FALLOC_FL_KEEP_SIZE, off, n)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// writeZeroes writes n zeroes, which may be none.
func (s *store) writeZeroes(ctx context.Context, off, n int64, flags backstore.Flags) error {
	if n == 0 {
		return nil
	}
	zeroes := directio.AlignedBlock(int(min(n, chunk)))
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return &backstore.Error{Code: backstore.CodeAborted, Err: err}
		}
		// Chunks end where units do, so that all but the first and the last are whole ones.
		part := min(n, chunk-off%chunk)
		if err := s.Write(ctx, zeroes[:part], off, flags); err != nil {
			return err
		}
		off, n = off+part, n-part
	}
	return nil
}

// check64 is check for an extent.
func (s *store) check64(off, n int64) error {
	if size := s.io.Size(); off < 0 || n < 0 || off > size || n > size-off {
		return &backstore.Error{Code: backstore.CodeRange}
	}
	return nil
}

// Sanitize implements backstore.Sanitizer: it writes zeroes over whatever the file has blocks for. Blocks that it had once, such as those of
// an unmapped range, belong to the file system.
func (s *store) Sanitize(ctx context.Context, method backstore.SanitizeMethod, progress func(permille int)) error {
	if method != backstore.SanitizeOverwrite {
		return &backstore.Error{Code: backstore.CodeNotSupported, Err: fmt.Errorf("%v: a file can be overwritten only", method)}
	}
	size := s.io.Size()
	for off := int64(0); off < size; {
		next, err := s.nextData(off)
		if err != nil {
			return s.io.Wrap(err)
		}
		if next >= size {
			break
		}
		off = max(off, next/chunk*chunk)
		n := min(chunk, size-off)
		if err := s.writeZeroes(ctx, off, n, 0); err != nil {
			return err
		}
		off += n
		progress(int(off / (size/1000 + 1)))
	}
	if err := s.io.Flush(); err != nil {
		return err
	}
	progress(1000)
	return nil
}

// nextData is where the next data are, at off or after it; the store's size if there are none. What has no holes has data
// everywhere.
func (s *store) nextData(off int64) (int64, error) {
	next, err := unix.Seek(s.io.FD, off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return s.io.Size(), nil
	case errors.Is(err, unix.EINVAL):
		return off, nil
	}
	return next, err
}
