package descriptor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// poll is how often something that is busy is tried again.
const poll = 5 * time.Millisecond

// Fence takes the exclusive flock on the descriptor that does the I/O, and waits for it as Until does: the kernel releases an
// earlier process' lock only when the last request on that process' descriptor has landed.
func Fence(ctx context.Context, fd int) error {
	return Until(ctx, "another process has it open as a backstore, or its last I/O is not over yet", func() (bool, error) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		return errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR), err
	})
}

// Until tries again and again while it is busy, and returns the error of the try that is not. It gives up, and says why, when ctx
// ends or a tenth before its deadline: whoever set the deadline has to hear it before.
func Until(ctx context.Context, why string, try func() (busy bool, err error)) error {
	if at, ok := ctx.Deadline(); ok {
		early, cancel := context.WithDeadline(ctx, at.Add(-time.Until(at)/10))
		defer cancel()
		ctx = early
	}
	for {
		busy, err := try()
		if !busy {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", why, ctx.Err())
		case <-time.After(poll):
		}
	}
}
