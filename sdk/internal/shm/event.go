package shm

import (
	"encoding/binary"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

var one = func() (b [8]byte) { binary.NativeEndian.PutUint64(b[:], 1); return }()

// Event is an eventfd used as a doorbell.
type Event struct {
	fd int
	// rings counts the beginnings and ends of Ring: it is odd while one is in progress.
	rings atomic.Uint64
	drain drain
}

// NewEvent makes a doorbell.
func NewEvent() (*Event, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd2", err)
	}
	return EventFrom(fd), nil
}

// EventFrom takes over a descriptor that a peer passed.
func EventFrom(fd int) *Event {
	e := &Event{fd: fd}
	e.drain.init()
	return e
}

// FD is the descriptor. It stays the event's.
func (e *Event) FD() int { return e.fd }

// Ring wakes the peer. A full counter is a wake-up too, and so no error.
//
// The peer shares the open file description. It can clear O_NONBLOCK and fill the counter, and then Ring blocks until
// somebody calls Drain: a watchdog that calls Stuck does.
//
// One goroutine rings an event.
func (e *Event) Ring() {
	e.rings.Add(1)
	_, _ = unix.Write(e.fd, one[:])
	e.rings.Add(1)
}

// Stuck tells whether the Ring that was in progress when Stuck returned last still is because the counter is full, which
// only a peer can have brought about: a Ring whose thread merely has no processor is not stuck. last is what it returned then, 0
// at first. Any goroutine may ask.
func (e *Event) Stuck(last uint64) (now uint64, stuck bool) {
	now = e.rings.Load()
	return now, now == last && now&1 == 1 && e.full()
}

func (e *Event) full() bool {
	p := [1]unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(p[:], 0)
	return err == nil && n == 0
}

// Free ends a Ring that blocks, and keeps later ones from blocking. The peer must be gone: it could undo that.
func (e *Event) Free() {
	_ = unix.SetNonblock(e.fd, true) // a descriptor that is there has flags
	e.Drain()
}

// Close closes the descriptor.
func (e *Event) Close() error {
	if e.fd < 0 {
		return nil
	}
	fd := e.fd
	e.fd = -1
	return unix.Close(fd)
}
