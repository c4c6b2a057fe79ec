package conn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// poller is an epoll descriptor that is parked in Go's netpoller.
//
// The netpoller watches the epoll descriptor edge-triggered. Nothing is lost, because of the order
// before a sleep: the netpoller's flag is reset, then the sources are armed, then the descriptors
// are looked at once more. Whatever comes later is a new edge.
type poller struct {
	epfd   int
	file   *os.File
	raw    syscall.RawConn
	bell   *os.File // an eventfd, written for its edge, never read
	set    time.Time
	events [16]unix.EpollEvent

	arm    func() bool
	armed  bool
	onRead func(uintptr) bool
}

// trigger says when a descriptor counts as ready: whenever it is readable, or, for descriptors that
// nobody reads, such as eventfds used for their edges alone, once for each time it became so.
type trigger uint32

const (
	byLevel trigger = unix.EPOLLIN
	byEdge  trigger = unix.EPOLLIN | unix.EPOLLET
)

var bellWord = binary.NativeEndian.AppendUint64(nil, 1)

func newPoller() (*poller, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("conn: epoll: %w", err)
	}
	if err := unix.SetNonblock(epfd, true); err != nil {
		return nil, fmt.Errorf("conn: epoll: %w", errors.Join(err, unix.Close(epfd)))
	}
	p := &poller{epfd: epfd, file: os.NewFile(uintptr(epfd), "reactor-epoll")}
	if p.raw, err = p.file.SyscallConn(); err != nil {
		return nil, fmt.Errorf("conn: epoll: %w", errors.Join(err, p.file.Close()))
	}
	// The eventfd blocks, which keeps it out of the netpoller; 2^56 wake-ups would fill it.
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("conn: eventfd: %w", errors.Join(err, p.file.Close()))
	}
	p.bell = os.NewFile(uintptr(bell), "reactor-bell")
	p.onRead = p.read
	if err := p.add(bell, byEdge); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *poller) wake() { _, _ = p.bell.Write(bellWord) } // fails only after close, when nobody sleeps

func (p *poller) add(fd int, t trigger) error {
	ev := unix.EpollEvent{Events: uint32(t), Fd: int32(fd)}
	if err := unix.EpollCtl(p.epfd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("conn: epoll: descriptor %d: %w", fd, err)
	}
	return nil
}

func (p *poller) remove(fd int) {
	// A descriptor closed before has left the set by itself.
	_ = unix.EpollCtl(p.epfd, unix.EPOLL_CTL_DEL, fd, nil)
}

func (p *poller) park(deadline time.Time, arm func() bool) {
	p.setDeadline(deadline)
	p.arm, p.armed = arm, false
	err := p.raw.Read(p.onRead)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		p.set = past
	}
	p.ready() // so that the next park sees only edges that come after this
}

// past is a deadline that has been reached: it must be replaced before the next park.
var past = time.Unix(0, 1)

// setDeadline moves the timer only forward, or when it has run out: a timer that fires too early
// costs a turn, moving it costs at every park.
func (p *poller) setDeadline(d time.Time) {
	if p.set.Equal(past) || (!d.IsZero() && (p.set.IsZero() || d.Before(p.set))) {
		_ = p.file.SetReadDeadline(d) // fails only after close
		p.set = d
	}
}

// read is called by RawRead: first after the netpoller's flag was reset, then after each edge.
func (p *poller) read(uintptr) bool {
	if p.armed {
		return true
	}
	p.armed = true
	return !p.arm() || p.ready()
}

// ready takes note of the edges since the last call, and tells whether a descriptor is ready.
func (p *poller) ready() bool {
	for {
		n, err := unix.EpollWait(p.epfd, p.events[:], 0)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

func (p *poller) close() error {
	var bell error
	if p.bell != nil {
		bell = p.bell.Close()
	}
	return errors.Join(p.file.Close(), bell)
}
