package shm

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// drain is what Drain reads into: part of the event, so that nothing is allocated.
type drain struct {
	iov  unix.Iovec
	word [8]byte
}

func (d *drain) init() {
	d.iov.Base = &d.word[0]
	d.iov.SetLen(len(d.word))
}

// Drain makes the descriptor not readable. It never blocks, whatever the peer did to the descriptor's flags, and may
// be called from several goroutines: what is read means nothing.
func (e *Event) Drain() {
	const here = ^uintptr(0) // no position
	_, _, errno := unix.Syscall6(unix.SYS_PREADV2, uintptr(e.fd), uintptr(unsafe.Pointer(&e.drain.iov)), 1,
		here, here, unix.RWF_NOWAIT)
	if errno == unix.EOPNOTSUPP { // before Linux 5.8
		_, _ = unix.Read(e.fd, e.drain.word[:])
	}
}
