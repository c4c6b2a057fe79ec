package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/internal/isolation"
)

// private is the directory of one process's socket and temporary files. This process holds a lock on it, so that a later one
// can tell that nobody is left who would remove it.
type private struct {
	path string
	lock *os.File
}

const (
	privatePrefix = "gosrpt-plugin-"
	// maxBase is how long the path of the directory around it may be: a socket's path has at most 107 bytes.
	maxBase = 40
)

// newPrivate makes a directory, and removes those that killed hosts have left beside it.
func newPrivate() (private, error) {
	base := os.TempDir()
	if len(base) > maxBase {
		base = "/tmp"
	}
	sweep(base)
	for {
		path, err := os.MkdirTemp(base, privatePrefix)
		if err != nil {
			return private{}, err
		}
		lock, err := lockDir(path)
		if err == nil {
			return private{path, lock}, nil
		}
		// Another process's sweep was there before the lock.
		if !os.IsNotExist(err) {
			_ = os.Remove(path)
			return private{}, err
		}
	}
}

// lockDir takes the lock of a directory that is still there once it is taken.
func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		err = os.ErrNotExist // it is being removed
	}
	if err == nil {
		_, err = os.Lstat(path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sweep removes the directories below base that no host has locked. What cannot be removed stays: it is in nobody's way.
func sweep(base string) {
	found, _ := filepath.Glob(filepath.Join(base, privatePrefix+"*"))
	for _, path := range found {
		if st, err := os.Lstat(path); err != nil || !st.IsDir() || !mine(st) {
			continue
		}
		if lock, err := lockDir(path); err == nil {
			private{path, lock}.remove()
		}
	}
}

// mine tells whether this process may have made it. Root gives some away.
func mine(st os.FileInfo) bool {
	s, ok := st.Sys().(*syscall.Stat_t)
	return ok && (int(s.Uid) == os.Geteuid() || os.Geteuid() == 0)
}

// give gives it, and what go-plugin made in it, to the user that the process runs as.
func (d private) give(u *isolation.User, socketDir string) error {
	if u == nil {
		return nil
	}
	for _, path := range []string{socketDir, d.path} {
		if err := os.Lchown(path, int(u.UID), int(u.GID)); err != nil {
			return fmt.Errorf("giving the private directory to the plugin's user: %w; run the host as root, or remove user and "+
				"group from the manifest", err)
		}
	}
	return nil
}

// remove removes it.
func (d private) remove() {
	if d.lock != nil {
		_ = os.RemoveAll(d.path)
		d.lock.Close()
	}
}
