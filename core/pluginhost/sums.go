package pluginhost

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sum is a SHA-256 checksum.
type sum [sha256.Size]byte

// String is the sum in hexadecimal digits.
func (s sum) String() string { return hex.EncodeToString(s[:]) }

// identity changes whenever a file's content does.
type identity struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

func identify(f *os.File) (identity, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return identity{}, &os.PathError{Op: "fstat", Path: f.Name(), Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return identity{}, fmt.Errorf("pluginhost: %s is not a file", f.Name())
	}
	return identity{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}, nil
}

// errChanging says that a file is being written.
var errChanging = errors.New("it changed while it was verified and started: try again when it is complete")

// unchanged tells whether a file is still what it was.
func unchanged(f *os.File, was identity) error {
	is, err := identify(f)
	if err == nil && is != was {
		err = fmt.Errorf("pluginhost: %s: %w", f.Name(), errChanging)
	}
	return err
}

const (
	// settled is how old a change must be for a later one to have another time: file systems' clocks tick.
	settled = time.Second
	// maxKnown bounds knownSums.
	maxKnown = 256
)

// knownSums are the sums of files that have been read, so that a restart after a crash need not read the file again. It is the
// machine's state that they tell of, the same for every plugin.
var knownSums struct {
	sync.Mutex
	m     map[identity]sum
	reads int // for the tests
}

// sumOf is a file's sum, and what the file was then.
func sumOf(f *os.File) (sum, identity, error) {
	id, err := identify(f)
	if err != nil {
		return sum{}, id, err
	}
	if s, ok := recall(id); ok {
		return s, id, nil
	}
	h := sha256.New()
	if _, err = io.Copy(h, io.NewSectionReader(f, 0, id.size)); err == nil {
		err = unchanged(f, id)
	}
	if err != nil {
		return sum{}, id, err
	}
	s := sum(h.Sum(nil))
	remember(id, s)
	return s, id, nil
}

func recall(id identity) (sum, bool) {
	knownSums.Lock()
	defer knownSums.Unlock()
	s, ok := knownSums.m[id]
	if !ok {
		knownSums.reads++
	}
	return s, ok
}

func remember(id identity, s sum) {
	if time.Since(time.Unix(id.ctime.Unix())) <= settled {
		return
	}
	knownSums.Lock()
	defer knownSums.Unlock()
	if len(knownSums.m) >= maxKnown || knownSums.m == nil {
		knownSums.m = map[identity]sum{}
	}
	knownSums.m[id] = s
}
