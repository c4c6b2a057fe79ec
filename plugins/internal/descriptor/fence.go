package descriptor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Poll is how often something that is busy is tried again.
const Poll = 5 * time.Millisecond

// Fence takes the exclusive flock on the descriptor that does the I/O, and waits for it until ctx ends: the kernel releases an
// earlier process' lock only when the last request on that process' descriptor has landed.
func Fence(ctx context.Context, fd int) error {
	for {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("another process has it open as a backstore, or its last I/O is not over yet: %w", ctx.Err())
		case <-time.After(Poll):
		}
	}
}
