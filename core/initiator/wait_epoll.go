package initiator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// epollWaiter is for completion queues with a descriptor. It waits on an epoll descriptor that is
// itself parked in the runtime's poller, so that no thread sleeps.
//
// The runtime polls edge-triggered and forgets an edge that came before the wait began. So the
// queue is armed, and looked at once more, after the runtime has begun to listen.
type epollWaiter struct {
	file  *os.File
	conn  syscall.RawConn
	event int
	// try is the callback of conn.Read; it and what it uses are kept to be allocated once.
	try      func(fd uintptr) bool
	arm      func() bool
	awake    bool
	events   [2]unix.EpollEvent
	deadline time.Time
}

// one is what a kick adds to the event counter, in the machine's byte order.
var one = binary.NativeEndian.AppendUint64(nil, 1)

func newEpollWaiter(cq int) (*epollWaiter, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(ep)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	w := &epollWaiter{event: event}
	w.try = w.trySleep
	if err := w.open(ep, cq); err != nil {
		unix.Close(event)
		return nil, err
	}
	return w, nil
}

// open takes over ep.
func (w *epollWaiter) open(ep, cq int) error {
	if err := errors.Join(
		unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, cq, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(cq)}),
		// The event counter is never read: each write is a new edge.
		unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, w.event, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(w.event)}),
		unix.SetNonblock(ep, true)); err != nil {
		unix.Close(ep)
		return fmt.Errorf("epoll: %w", err)
	}
	w.file = os.NewFile(uintptr(ep), "epoll")
	conn, err := w.file.SyscallConn()
	if err == nil {
		// A file that the runtime cannot poll has no deadlines.
		err = w.file.SetReadDeadline(time.Time{})
	}
	if err != nil {
		w.file.Close()
		return fmt.Errorf("poll epoll descriptor: %w", err)
	}
	w.conn = conn
	return nil
}

func (w *epollWaiter) kick() {
	// The counter is full after 2^64-2 kicks, and then it is readable all the same.
	_, _ = unix.Write(w.event, one)
}

func (w *epollWaiter) wait(arm func() bool, deadline time.Time) {
	if !deadline.Equal(w.deadline) {
		w.deadline = deadline
		// The descriptor is open and has deadlines: open has tried.
		_ = w.file.SetReadDeadline(deadline)
	}
	w.arm, w.awake = arm, false
	if err := w.conn.Read(w.try); errors.Is(err, os.ErrDeadlineExceeded) {
		w.deadline = time.Time{}
		_ = w.file.SetReadDeadline(time.Time{})
	}
}

// trySleep is called first when the runtime listens, and again at each edge.
func (w *epollWaiter) trySleep(fd uintptr) bool {
	if w.awake || !w.arm() {
		return true
	}
	w.awake = true
	n, _ := unix.EpollWait(int(fd), w.events[:], 0)
	return n > 0
}

func (w *epollWaiter) close() {
	w.file.Close()
	unix.Close(w.event)
}
