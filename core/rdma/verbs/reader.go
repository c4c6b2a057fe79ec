//go:build verbs

package verbs

// #include "shim.h"
import "C"

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// reader is a goroutine that reads events of a descriptor of C, which waits in Go's poller. It watches a duplicate: the descriptor
// itself stays C's.
type reader struct {
	file *os.File
	raw  syscall.RawConn
	done chan struct{}
}

// newReader calls next, whenever there may be an event, until it returns an error: EAGAIN if there is none, anything else
// ends the reading. What next returns as handle is called outside the descriptor's lock.
func newReader(fd int, next func() (handle func(), err error)) (*reader, error) {
	if err := errno(C.gv_nonblock(C.int(fd))); err != nil {
		return nil, fmt.Errorf("event descriptor: %w", err)
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("event descriptor: %w", err)
	}
	r := &reader{file: os.NewFile(uintptr(dup), "rdma-events"), done: make(chan struct{})}
	if r.raw, err = r.file.SyscallConn(); err != nil {
		r.file.Close()
		return nil, fmt.Errorf("event descriptor: %w", err)
	}
	go r.run(next)
	return r, nil
}

func (r *reader) run(next func() (func(), error)) {
	defer close(r.done)
	for {
		var handle func()
		var err error
		closed := r.raw.Read(func(uintptr) bool {
			handle, err = next()
			return err != unix.EAGAIN
		})
		if closed != nil || err != nil {
			return
		}
		if handle != nil {
			handle()
		}
	}
}

// close ends the goroutine and waits for it.
func (r *reader) close() {
	r.file.Close()
	<-r.done
}
