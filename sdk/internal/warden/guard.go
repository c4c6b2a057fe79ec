package warden

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/internal/shm"
)

const (
	// idle is how long a warden without wards is kept: a plugin that restarts would need the next at once.
	idle = 5 * time.Second
	// sendTime bounds a message: a warden that does not read is of no use.
	sendTime = time.Second
)

func itoa(n int) string { return strconv.Itoa(n) }

// Guard is a host's side of its warden, which is started when the first process is entrusted to it. The zero value is ready. Its
// methods may be called from any goroutine.
type Guard struct {
	mu    sync.Mutex
	c     *shm.Channel // nil without a warden
	cmd   *exec.Cmd
	wards map[uint64]bool
	token uint64
}

// Entrust lets the warden kill the process group of pid, a child that was not waited for, and remove the directory dir, if this
// process ends before forget is called.
func (g *Guard) Entrust(pid int, dir *os.File) (forget func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(pidfd)
	g.token++
	token := g.token
	err = g.send(token, pidfd, int(dir.Fd()))
	if err != nil { // the warden before may have been killed
		g.dismiss()
		if err = g.hire(); err == nil {
			err = g.send(token, pidfd, int(dir.Fd()))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("warden: %w", err)
	}
	g.wards[token] = true
	return func() { g.forget(token) }, nil
}

func (g *Guard) send(token uint64, fds ...int) error {
	if g.c == nil {
		return os.ErrClosed
	}
	return g.c.Send(token, time.Now().Add(sendTime), fds...)
}

// hire starts a warden, in a session of its own: no terminal reaches it.
func (g *Guard) hire() error {
	near, far, err := shm.NewChannel()
	if err != nil {
		return err
	}
	defer far.Close()
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{name}, Dir: "/", ExtraFiles: []*os.File{far},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		near.Close()
		return err
	}
	g.c, g.cmd, g.wards = near, cmd, map[uint64]bool{}
	return nil
}

func (g *Guard) forget(token uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.wards[token] {
		return // another warden's
	}
	delete(g.wards, token)
	if err := g.send(token); err != nil {
		g.dismiss()
		return
	}
	if len(g.wards) == 0 {
		last := g.token
		time.AfterFunc(idle, func() { g.dismissIdle(last) })
	}
}

// dismissIdle ends the warden if nothing was entrusted to it since.
func (g *Guard) dismissIdle(last uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.wards) == 0 && g.token == last {
		g.dismiss()
	}
}

// dismiss ends the warden, which cleans nothing up. If it has broken down, what was entrusted to it is so no longer.
func (g *Guard) dismiss() {
	if g.c == nil {
		return
	}
	// It must be dead before the channel ends: it would clean up.
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
	g.c.Close()
	g.c, g.cmd, g.wards = nil, nil, nil
}
