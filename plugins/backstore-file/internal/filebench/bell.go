package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// bell is an eventfd that one goroutine waits for in Go's poller, which is edge-triggered: it is never read.
type bell struct {
	fd   int
	file *os.File
	raw  syscall.RawConn
}

func newBell() (*bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	b := &bell{fd: fd, file: os.NewFile(uintptr(fd), "completions")}
	if b.raw, err = b.file.SyscallConn(); err != nil {
		b.file.Close()
		return nil, err
	}
	return b, nil
}

// wait parks until the bell is rung, unless ready says that there is something already.
func (b *bell) wait(ready func() bool) error {
	first := true
	return b.raw.Read(func(uintptr) bool {
		if !first {
			return true
		}
		first = false
		return ready()
	})
}
