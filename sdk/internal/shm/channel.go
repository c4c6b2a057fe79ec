package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxDescriptors is how many descriptors one message carries at most.
const maxDescriptors = 8

// messageSize is the length of a message on the channel: a token, the number of descriptors, zero.
const messageSize = 16

// Channel carries descriptors between a host and its plugin: a SOCK_SEQPACKET pair, one message a set of
// descriptors. When one side's process ends, the other side's Receive returns io.EOF.
type Channel struct{ c *net.UnixConn }

// NewChannel makes a pair: the near end, and the far end as a file to give to a child.
func NewChannel() (*Channel, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	far := os.NewFile(uintptr(fds[1]), "descriptor channel")
	near, err := OpenChannel(os.NewFile(uintptr(fds[0]), "descriptor channel"))
	if err != nil {
		far.Close()
		return nil, nil, err
	}
	return near, far, nil
}

// OpenChannel makes a Channel of an inherited socket, which it takes over.
func OpenChannel(f *os.File) (*Channel, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("shm: descriptor channel: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("shm: the descriptor channel is not a unix socket")
	}
	return &Channel{c: u}, nil
}

// Send sends descriptors, which stay the caller's, under a token.
func (c *Channel) Send(token uint64, deadline time.Time, fds ...int) error {
	if len(fds) > maxDescriptors {
		return fmt.Errorf("shm: %d descriptors in one message, at most %d can be", len(fds), maxDescriptors)
	}
	var b [messageSize]byte
	binary.LittleEndian.PutUint64(b[0:], token)
	binary.LittleEndian.PutUint32(b[8:], uint32(len(fds)))
	if err := c.c.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, _, err := c.c.WriteMsgUnix(b[:], unix.UnixRights(fds...), nil)
	return err
}

// Receive waits for the next message. The descriptors become the caller's. io.EOF means that the peer is gone.
func (c *Channel) Receive() (token uint64, fds []int, err error) {
	var b [messageSize]byte
	oob := make([]byte, unix.CmsgSpace(4*maxDescriptors))
	n, oobn, flags, _, err := c.c.ReadMsgUnix(b[:], oob)
	if err != nil {
		return 0, nil, err
	}
	fds, err = rights(oob[:oobn])
	if err == nil {
		err = checkMessage(b[:n], flags, len(fds))
	}
	if err != nil {
		CloseAll(fds)
		return 0, nil, err
	}
	return binary.LittleEndian.Uint64(b[0:]), fds, nil
}

func checkMessage(b []byte, flags, fds int) error {
	if len(b) != messageSize || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return errors.New("shm: malformed message on the descriptor channel")
	}
	if n := binary.LittleEndian.Uint32(b[8:]); uint64(n) != uint64(fds) {
		return fmt.Errorf("shm: a message announces %d descriptors and carries %d", n, fds)
	}
	return nil
}

func rights(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var fds []int
	for i := range msgs {
		got, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			continue
		}
		for _, fd := range got {
			unix.CloseOnExec(fd)
		}
		fds = append(fds, got...)
	}
	return fds, nil
}

// CloseAll closes descriptors.
func CloseAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// Close closes this end; the peer sees io.EOF.
func (c *Channel) Close() error { return c.c.Close() }
