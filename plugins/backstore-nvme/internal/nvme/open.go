package nvme

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/ncw/directio"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/plugins/internal/descriptor"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Backstore opens namespaces.
type Backstore struct {
	// kernel is nil but in tests.
	kernel *kernel
}

// Open implements backstore.Backstore. It waits, almost until ctx ends, for whoever has the device open exclusively, for that can be an
// earlier process of this plugin whose last I/O is not over yet.
func (b Backstore) Open(ctx context.Context, m map[string]string) (backstore.Store, error) {
	cfg, err := parseConfig(m)
	if err != nil {
		return nil, &backstore.Error{Code: backstore.CodeInvalid, Err: err}
	}
	k := b.kernel
	if k == nil {
		k = &linux
	}
	s, err := k.openStore(ctx, cfg)
	if err != nil {
		return nil, &backstore.Error{Code: backstore.CodeUnavailable, Err: err}
	}
	return s, nil
}

func (k *kernel) openStore(ctx context.Context, cfg config) (backstore.Store, error) {
	path, err := k.locate(cfg)
	if err != nil {
		return nil, err
	}
	s, err := k.open(ctx, cfg, path, cfg.readOnly)
	if err == nil && s.info.ReadOnly && !cfg.readOnly {
		// A descriptor for reading only, so that the kernel refuses writes on every way.
		s.Close()
		s, err = k.open(ctx, cfg, path, true)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	ring, err := cfg.engine.UseRing()
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if ring {
		return ringStore{s}, nil
	}
	return s, nil
}

func (k *kernel) open(ctx context.Context, cfg config, path string, readOnly bool) (*store, error) {
	f, err := k.openDevice(ctx, path, readOnly)
	if err != nil {
		return nil, err
	}
	s := &store{f: f}
	s.io = descriptor.File{FD: int(f.Fd()), Code: s.code}
	if err := k.prepare(ctx, s, cfg.want, path, readOnly); err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// prepare takes the lock and learns what the namespace is.
func (k *kernel) prepare(ctx context.Context, s *store, want identity, path string, readOnly bool) error {
	if err := descriptor.Fence(ctx, s.io.FD); err != nil {
		return err
	}
	d, err := k.describe(s.io.FD)
	if err != nil {
		return err
	}
	if err := d.fits(want); err != nil {
		return err
	}
	rdev, err := blockDevice(s.f.Stat())
	if err != nil {
		return err
	}
	if d.queue, err = k.queue(rdev); err != nil {
		return err
	}
	d.device = path
	if d.size, err = deviceSize(s.f); err != nil {
		return err
	}
	s.io.SetSize(d.size)
	s.info, err = d.info(readOnly)
	return err
}

// openDevice opens a block device for direct I/O that nobody else has opened exclusively, and waits while that is a process.
func (k *kernel) openDevice(ctx context.Context, path string, readOnly bool) (*os.File, error) {
	rdev, err := blockDevice(os.Stat(path))
	if err != nil {
		return nil, descriptor.Bare(err)
	}
	if k.isPartition(rdev) {
		return nil, errors.New("is a partition; name the whole namespace")
	}
	mode := os.O_RDWR
	if readOnly {
		mode = os.O_RDONLY
	}
	var f *os.File
	why := "is in use: another process has it open exclusively, or the last I/O of one is not over yet; fuser -v " + path + " lists them"
	err = descriptor.Until(ctx, why, func() (bool, error) {
		f, err = directio.OpenFile(path, mode|os.O_EXCL, 0)
		if !errors.Is(err, unix.EBUSY) {
			return false, err
		}
		if user := k.user(rdev); user != "" {
			return false, fmt.Errorf("is in use: %s", user)
		}
		return true, nil
	})
	return f, descriptor.Bare(err)
}

// blockDevice returns the number of the block device that st, if there was no error, is of.
func blockDevice(st os.FileInfo, err error) (uint64, error) {
	if err != nil {
		return 0, err
	}
	if st.Mode()&os.ModeType != os.ModeDevice {
		return 0, errors.New("is no block device; name a namespace, as /dev/nvme0n1")
	}
	return st.Sys().(*syscall.Stat_t).Rdev, nil
}
