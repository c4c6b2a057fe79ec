package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ncw/directio"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/plugins/internal/descriptor"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Backstore opens files.
type Backstore struct{}

// Open implements backstore.Backstore. It waits, until ctx ends, for an earlier process' I/O on the file to be over:
// the exclusive flock on the descriptor that does the I/O is released by the kernel only when the last request
// of it has landed.
func (Backstore) Open(ctx context.Context, m map[string]string) (backstore.Store, error) {
	cfg, err := parseConfig(m)
	if err != nil {
		return nil, &backstore.Error{Code: backstore.CodeInvalid, Err: err}
	}
	s, err := open(ctx, cfg)
	if err != nil {
		return nil, &backstore.Error{Code: backstore.CodeUnavailable, Err: fmt.Errorf("%s: %w", cfg.path, err)}
	}
	return s, nil
}

func open(ctx context.Context, cfg config) (backstore.Store, error) {
	if err := create(cfg); err != nil {
		return nil, err
	}
	f, direct, notice, err := openFile(cfg)
	if err != nil {
		return nil, err
	}
	s := &store{f: f, cfg: cfg, notice: notice}
	s.io.FD = int(f.Fd())
	if err := s.prepare(ctx, direct); err != nil {
		f.Close()
		return nil, err
	}
	return s.withEngine()
}

// prepare takes the lock and learns the file's geometry.
func (s *store) prepare(ctx context.Context, direct bool) error {
	if err := descriptor.Fence(ctx, s.io.FD); err != nil {
		return err
	}
	size, sector, err := geometry(s.f)
	if err != nil {
		return err
	}
	s.align = 1
	if direct {
		s.align = dioAlign(s.io.FD, sector)
	}
	s.sector, s.hole = sector, holeSize(s.io.FD)
	s.io.SetSize(s.whole(size))
	s.physical = max(sector, s.align, s.cfg.blockSize)
	switch {
	case s.io.Size() == 0:
		return fmt.Errorf("%d bytes are less than one block of %d; set size or use a larger file", size, s.unit())
	case s.cfg.size > size: // a longer one has grown under way
		return fmt.Errorf("has %d bytes but size says %d; make them agree", size, s.cfg.size)
	}
	return nil
}

// withEngine puts io_uring under s if the configuration and the kernel permit it, and it is not in memory anyway.
func (s *store) withEngine() (backstore.Store, error) {
	if s.cfg.engine == descriptor.Pool || s.needsBounce() {
		return poolStore{s}, nil
	}
	if s.cfg.engine == descriptor.Auto && descriptor.InMemory(s.io.FD) {
		return memoryStore{s}, nil
	}
	ring, err := s.cfg.engine.UseRing()
	if err != nil {
		s.f.Close()
		return nil, err
	}
	if ring {
		return ringStore{s}, nil
	}
	return poolStore{s}, nil
}

// create makes a sparse file if cfg asks for one and nothing is there.
func create(cfg config) error {
	_, err := os.Stat(cfg.path)
	if !errors.Is(err, fs.ErrNotExist) || cfg.size == 0 {
		return err
	}
	f, err := os.OpenFile(cfg.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(f.Truncate(cfg.size), f.Sync(), f.Close())
	if err != nil {
		return errors.Join(err, os.Remove(cfg.path))
	}
	return syncDir(filepath.Dir(cfg.path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// openFile opens for direct I/O as cfg says. A notice says why it is not in use although it was wanted.
func openFile(cfg config) (f *os.File, direct bool, notice string, err error) {
	mode := os.O_RDWR
	if cfg.readOnly {
		mode = os.O_RDONLY
	}
	if cfg.direct != off {
		f, err = directio.OpenFile(cfg.path, mode, 0)
		if err == nil {
			return f, true, "", nil
		}
		if !errors.Is(err, unix.EINVAL) {
			return nil, false, "", descriptor.Bare(err)
		}
		if cfg.direct == on {
			return nil, false, "", fmt.Errorf("the file system refuses direct I/O; use direct: auto or off, or another file system")
		}
		notice = "buffered I/O: the file system refuses direct I/O"
	}
	f, err = os.OpenFile(cfg.path, mode, 0)
	if err != nil {
		return nil, false, "", descriptor.Bare(err)
	}
	return f, false, notice, nil
}

// geometry returns the size of a file or device and its logical sector size, all in bytes.
func geometry(f *os.File) (size, sector int64, err error) {
	st, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	switch {
	case st.Mode().IsRegular():
		return st.Size(), 512, nil
	case st.Mode()&fs.ModeDevice != 0 && st.Mode()&fs.ModeCharDevice == 0:
		size, err = f.Seek(0, 2)
		if err != nil {
			return 0, 0, err
		}
		n, err := unix.IoctlGetInt(int(f.Fd()), unix.BLKSSZGET)
		return size, int64(n), err
	}
	return 0, 0, fmt.Errorf("is neither a regular file nor a block device")
}

// holeSize is the size of a file system's blocks, 0 if it is none that holes can have.
func holeSize(fd int) int64 {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || unix.Fstatfs(fd, &fs) != nil {
		return 0
	}
	if n := int64(fs.Bsize); n > 0 && n <= 1<<20 && n&(n-1) == 0 {
		return n
	}
	return 0
}

// dioAlign returns the alignment of offsets and lengths that direct I/O on fd demands: the kernel's own word
// (statx STATX_DIOALIGN, Linux 6.1) or, where it does not say, the sector size, at least 512.
func dioAlign(fd int, sector int64) int64 {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st)
	if err == nil && st.Mask&unix.STATX_DIOALIGN != 0 && st.Dio_offset_align != 0 {
		return max(int64(st.Dio_offset_align), int64(512))
	}
	return max(sector, 512)
}
