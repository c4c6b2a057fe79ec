package accesslist

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// maxFile bounds the list in bytes.
const maxFile = 16 << 20

// stamp is what tells one state of a file from another without reading it.
type stamp struct {
	info fs.FileInfo // nil: the file cannot be looked at
	err  string
}

func stampOf(path string) stamp {
	info, err := os.Stat(path) // of what the links lead to
	if err != nil {
		return stamp{err: err.Error()}
	}
	return stamp{info: info}
}

func (s stamp) same(o stamp) bool {
	if s.info == nil || o.info == nil {
		return s.info == nil && o.info == nil && s.err == o.err
	}
	return os.SameFile(s.info, o.info) && s.info.Size() == o.info.Size() && s.info.ModTime().Equal(o.info.ModTime())
}

// errMoving says that the file changed while it was read.
var errMoving = errors.New("the file changes while it is read")

// read returns the content of a file that stands still: a list that is half written would revoke who is in the other half.
func read(path string) ([]byte, error) {
	before := stampOf(path)
	if before.info == nil {
		return nil, errors.New(before.err)
	}
	if size := before.info.Size(); size > maxFile || !before.info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", path, maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !stampOf(path).same(before) || int64(len(text)) != before.info.Size() {
		return nil, fmt.Errorf("%s: %w", path, errMoving)
	}
	return text, nil
}

// follower looks at a file again and again.
type follower struct {
	path string
	// read is the state in which the file was read last, seen the state at the last look.
	read, seen stamp
}

// look tells whether the file is to be read: it is in another state than when it was read, and in the same as at the last look.
func (f *follower) look() bool {
	is := stampOf(f.path)
	settled := is.same(f.seen)
	f.seen = is
	return settled && !is.same(f.read)
}

// every is how often a file is looked at.
const every = 250 * time.Millisecond
