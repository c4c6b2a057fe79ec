// Package warden cleans up after a host that was killed. The kernel kills a plugin with its host (PR_SET_PDEATHSIG), but not
// the plugin's own children, and nobody removes its private directory. So a host has one more process, the warden: its own
// executable again, which waits for the host's end and then kills the process groups and removes the directories that were entrusted
// to it. It holds a pidfd of each group's leader and so never signals a group of another that got the number later.
package warden

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/internal/shm"
)

const (
	// name is a warden's argument 0.
	name = "gosrpt-warden"
	// channelFD is a warden's end of the descriptor channel.
	channelFD = 3
	// groupSignal is PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9. Before, children in a group outlive a killed host.
	groupSignal = 1 << 2
)

// ward is what is cleaned up: a pidfd and a locked directory.
type ward [2]int

// Run is a warden's life, and does not return, if this process was started as one. Otherwise it does nothing.
func Run() {
	if len(os.Args) == 0 || os.Args[0] != name {
		return
	}
	// A service manager that stops the host signals all its processes. The host ends first, in order.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	c, err := shm.OpenChannel(os.NewFile(channelFD, "warden channel"))
	if err != nil {
		os.Exit(1)
	}
	if watch(c) != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// watch returns when the host has ended, after the cleaning. Any other end of the channel cleans nothing.
func watch(c *shm.Channel) error {
	wards := map[uint64]ward{}
	for {
		token, fds, err := c.Receive()
		switch {
		case errors.Is(err, io.EOF):
			for _, w := range wards {
				w.clean()
			}
			return nil
		case err != nil:
			return err
		case len(fds) == len(ward{}):
			wards[token] = ward(fds)
		default:
			shm.CloseAll(fds)
			if w, ok := wards[token]; ok {
				shm.CloseAll(w[:])
				delete(wards, token)
			}
		}
	}
}

func (w ward) clean() {
	_ = unix.PidfdSendSignal(w[0], unix.SIGKILL, nil, groupSignal)
	dir := os.NewFile(uintptr(w[1]), "")
	defer dir.Close()
	path, err := os.Readlink("/proc/self/fd/" + itoa(w[1]))
	if err != nil {
		return
	}
	// The lock shows that it is still the host's, and nobody else's of that name.
	var held, there unix.Stat_t
	if unix.Fstat(w[1], &held) == nil && unix.Lstat(path, &there) == nil && held.Dev == there.Dev && held.Ino == there.Ino {
		_ = os.RemoveAll(path)
	}
}
