package shm

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Waiter parks one goroutine on an Event in Go's network poller, without an OS thread and without ever reading the
// counter: the poller is edge-triggered, and every write is an edge.
type Waiter struct {
	file  *os.File
	rc    syscall.RawConn
	step  func(uintptr) bool
	sleep func() bool
	woken bool
}

// NewWaiter makes a Waiter of a duplicate of the event's descriptor.
func NewWaiter(e *Event) (*Waiter, error) {
	fd, err := unix.FcntlInt(uintptr(e.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl(F_DUPFD_CLOEXEC)", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl(O_NONBLOCK)", err)
	}
	w := &Waiter{file: os.NewFile(uintptr(fd), "doorbell")}
	if w.rc, err = w.file.SyscallConn(); err != nil {
		w.file.Close()
		return nil, err
	}
	w.step = w.tryPark
	return w, nil
}

// Wait calls sleep, which publishes that the caller sleeps and looks once more for work, and if that returns true,
// parks until the next ring. The order matters: the poller has been reset before sleep is called, so no
// ring that follows it is lost. One goroutine may wait. It returns an error once the Waiter is closed.
func (w *Waiter) Wait(sleep func() bool) error {
	w.woken = false
	w.sleep = sleep
	return w.rc.Read(w.step)
}

func (w *Waiter) tryPark(uintptr) bool {
	if w.woken {
		return true
	}
	w.woken = true
	return !w.sleep()
}

// Wake rings for the goroutine that waits, from any other one of this process.
func (w *Waiter) Wake() {
	_, _ = w.file.Write(one[:]) // it fails only once the Waiter is closed
}

// Close wakes the goroutine that waits, for good.
func (w *Waiter) Close() error { return w.file.Close() }
