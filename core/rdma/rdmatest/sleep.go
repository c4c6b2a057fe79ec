package rdmatest

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// pollSleeper sleeps in poll(2) on the queue's descriptor and on an eventfd of its own.
type pollSleeper struct {
	cq, event int
}

func newPollSleeper(fd int) (*pollSleeper, error) {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &pollSleeper{cq: fd, event: event}, nil
}

func (s *pollSleeper) kick() {
	// EAGAIN means that the counter is full, and so the sleep ends in any case.
	_, _ = unix.Write(s.event, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

func (s *pollSleeper) sleep(deadline time.Time) {
	fds := []unix.PollFd{{Fd: int32(s.cq), Events: unix.POLLIN}, {Fd: int32(s.event), Events: unix.POLLIN}}
	timeout := -1
	if !deadline.IsZero() {
		timeout = int(max(0, time.Until(deadline)+time.Millisecond-1) / time.Millisecond)
	}
	if _, err := unix.Poll(fds, timeout); err != nil && !errors.Is(err, unix.EINTR) {
		panic(fmt.Sprintf("rdmatest: poll: %v", err))
	}
	if fds[1].Revents != 0 {
		var counter [8]byte
		_, _ = unix.Read(s.event, counter[:])
	}
}

func (s *pollSleeper) close() { unix.Close(s.event) }
