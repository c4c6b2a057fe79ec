package bridge

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
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

func mine(st os.FileInfo) bool {
	s, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}

// remove removes it.
func (d private) remove() {
	if d.lock != nil {
		_ = os.RemoveAll(d.path)
		d.lock.Close()
	}
}
