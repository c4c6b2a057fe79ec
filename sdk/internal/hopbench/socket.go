package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// descriptor is how many bytes travel for a request, and for its answer, over the unix socket: as many as in the ring.
const descriptor = 64

// socketPeer is the process that answers descriptors over a unix socket. Data, if there were any, would lie in shared memory.
type socketPeer struct {
	conn net.Conn
	cmd  *exec.Cmd
	buf  [deep * descriptor]byte
}

// startSocket starts this executable as the answering process.
func startSocket(self string) (*socketPeer, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	near, far := os.NewFile(uintptr(fds[0]), "near end"), os.NewFile(uintptr(fds[1]), "far end")
	defer near.Close()
	defer far.Close()
	conn, err := net.FileConn(near)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = []string{socketEnv + "=1", "GOMAXPROCS=2"}
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{far} // the first is descriptor 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		conn.Close()
		return nil, err
	}
	return &socketPeer{conn: conn, cmd: cmd}, nil
}

// serveSocket answers until the other end is closed.
func serveSocket() error {
	conn, err := net.FileConn(os.NewFile(3, "descriptors"))
	if err != nil {
		return err
	}
	st := &nullStore{}
	var buf [deep * descriptor]byte
	for {
		n, err := readDescriptors(conn, buf[:])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for range n / descriptor {
			if err := st.Read(context.Background(), nil, 0); err != nil {
				return err
			}
		}
		if _, err := conn.Write(buf[:n]); err != nil {
			return err
		}
	}
}

// readDescriptors reads what there is, at least one descriptor and only whole ones.
func readDescriptors(r io.Reader, buf []byte) (int, error) {
	n, err := r.Read(buf)
	if err != nil || n%descriptor == 0 {
		return n, err
	}
	more, err := io.ReadFull(r, buf[n:n+descriptor-n%descriptor])
	return n + more, err
}

// run keeps depth descriptors under way. Those that came together go out again together.
func (p *socketPeer) run(depth int, m *meter) error {
	var since [deep]time.Time
	now := time.Now()
	for i := range depth {
		since[i] = now
		p.buf[i*descriptor] = byte(i)
	}
	if _, err := p.conn.Write(p.buf[:depth*descriptor]); err != nil {
		return err
	}
	for left := depth; left > 0; {
		n, err := readDescriptors(p.conn, p.buf[:])
		if err != nil {
			return fmt.Errorf("unix socket: %w", err)
		}
		again := 0
		for at := 0; at < n; at += descriptor {
			i, now := p.buf[at], time.Now()
			if !m.add(since[i], now) {
				left--
				continue
			}
			since[i] = now
			copy(p.buf[again:], p.buf[at:at+descriptor])
			again += descriptor
		}
		if again > 0 {
			if _, err := p.conn.Write(p.buf[:again]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *socketPeer) close() error {
	p.conn.Close()
	return p.cmd.Wait()
}
