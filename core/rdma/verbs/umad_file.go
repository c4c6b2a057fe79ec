//go:build verbs

package verbs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// umadFile is the open descriptor of a port. read may be called by one goroutine at a time, the others from any. After close they
// return os.ErrClosed.
type umadFile interface {
	// read waits for a datagram. What is there is returned even if ctx has ended.
	read(ctx context.Context, b []byte) (int, error)
	write(b []byte) error
	close() error
}

// kernelFile is a descriptor of the kernel's. It is waited on by Go's poller, so that a reader holds no thread.
type kernelFile struct {
	f   *os.File
	raw syscall.RawConn
}

// newKernelFile takes over a descriptor, unless there is an error.
func newKernelFile(fd int) (*kernelFile, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "umad")
	raw, err := f.SyscallConn()
	if err == nil {
		err = f.SetReadDeadline(time.Time{})
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("the descriptor cannot be waited on: %w", err)
	}
	return &kernelFile{f, raw}, nil
}

func (k *kernelFile) read(ctx context.Context, b []byte) (int, error) {
	for {
		n, err := k.wait(ctx, b)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if ctx.Err() != nil {
			return k.try(ctx, b)
		}
		// The deadline is that of an earlier context.
		if err := k.f.SetReadDeadline(time.Time{}); err != nil {
			return 0, err
		}
	}
}

func (k *kernelFile) wait(ctx context.Context, b []byte) (int, error) {
	stop := context.AfterFunc(ctx, func() { _ = k.f.SetReadDeadline(time.Unix(1, 0)) }) // fails if it is closed
	defer stop()
	return k.f.Read(b)
}

// try reads what is there.
func (k *kernelFile) try(ctx context.Context, b []byte) (n int, err error) {
	if k.raw.Control(func(fd uintptr) { n, err = unix.Read(int(fd), b) }) != nil {
		return 0, os.ErrClosed
	}
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return 0, ctx.Err()
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return max(n, 0), err
}

func (k *kernelFile) write(b []byte) error {
	_, err := k.f.Write(b)
	return err
}

func (k *kernelFile) close() error { return k.f.Close() }
