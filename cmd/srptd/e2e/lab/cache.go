package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// unusedAfter is how long a guest of another recipe stays in the cache after its last use.
const unusedAfter = 14 * 24 * time.Hour

// Guest is a built guest: a kernel, an initial RAM disk and a root image, all read-only and shared by every boot.
type Guest struct {
	dir string
}

// Dir is the directory in the cache that holds the guest.
func (g *Guest) Dir() string { return g.dir }

func (g *Guest) file(name string) string { return filepath.Join(g.dir, name) }

// Ensure returns the guest of this source tree, building it first where the cache does not hold it (about a minute). It
// installs the host's packages that are missing, which needs root. Several processes may call it at once: one builds, the
// others wait. An interrupted build leaves nothing that a later one would take for a guest.
func Ensure(ctx context.Context, log io.Writer) (*Guest, error) {
	if err := ensureHost(ctx, log); err != nil {
		return nil, err
	}
	root, err := cacheRoot()
	if err != nil {
		return nil, err
	}
	id, err := recipeID()
	if err != nil {
		return nil, err
	}
	return ensureIn(ctx, filepath.Join(root, "vm-"+id), log, build)
}

// cacheRoot is $GOSRPT_CACHE, or gosrpt in the user's cache directory.
func cacheRoot() (string, error) {
	if dir := os.Getenv("GOSRPT_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("lab: no place for the guest: set GOSRPT_CACHE: %w", err)
	}
	return filepath.Join(dir, "gosrpt"), nil
}

// ensureIn makes dir by build unless it is there. The build works in a directory beside it that is renamed when complete.
func ensureIn(ctx context.Context, dir string, log io.Writer, build func(context.Context, string, io.Writer) error) (*Guest, error) {
	if used(dir) {
		return &Guest{dir}, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(ctx, dir+".lock", log)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if used(dir) {
		return &Guest{dir}, nil
	}
	half := dir + ".half"
	if err := os.RemoveAll(half); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(half, 0o755); err != nil {
		return nil, err
	}
	fmt.Fprintf(log, "lab: build the guest in %s\n", dir)
	if err := build(ctx, half, log); err != nil {
		return nil, errors.Join(err, os.RemoveAll(half))
	}
	if err := os.Rename(half, dir); err != nil {
		return nil, err
	}
	removeUnused(filepath.Dir(dir), time.Now().Add(-unusedAfter))
	return &Guest{dir}, nil
}

// used tells whether the guest is there, and marks it as used now.
func used(dir string) bool {
	now := time.Now()
	return os.Chtimes(dir, now, now) == nil
}

// removeUnused removes guests, and halves of guests, last used before the limit. What cannot be removed stays.
func removeUnused(root string, limit time.Time) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), "vm-") && info.ModTime().Before(limit) {
			os.RemoveAll(filepath.Join(root, e.Name()))
		}
	}
}

// lock takes an exclusive lock on a file, telling once that another process has it. The kernel drops it with the process.
func lock(ctx context.Context, path string, log io.Writer) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for told := false; ; told = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lab: lock %s: %w", path, err)
		}
		if !told {
			fmt.Fprintf(log, "lab: another process builds the guest; waiting for it\n")
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lab: wait for the guest that another process builds: %w", context.Cause(ctx))
		}
	}
}

// timed runs a step and tells the log that it runs, when it takes over two seconds, and how long it took.
func timed(log io.Writer, what string, do func() error) error {
	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(2 * time.Second):
		fmt.Fprintf(log, "lab: %s ...\n", what)
	}
	err := <-done
	fmt.Fprintf(log, "lab: %s: %.0f s\n", what, time.Since(start).Seconds())
	return err
}
