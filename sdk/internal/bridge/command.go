package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/internal/isolation"
)

// command is the process to start. It leads a process group of its own, so that a terminal's ^C reaches the host alone,
// which then ends its plugins in order.
func (p *Process) command(o Options, handshake []string, channel *os.File) (*exec.Cmd, runOptions, error) {
	ro := runOptions{name: o.Path, newPrivs: o.Isolation.NewPrivs, unchanged: o.Unchanged, forked: p.entrust}
	cmd := &exec.Cmd{Path: o.Path, Args: append([]string{o.Path}, o.Args...)}
	cmd.Env = append(cmd.Env, o.Env...)
	cmd.Env = append(cmd.Env, handshake...)
	cmd.Env = append(cmd.Env, "TMPDIR="+p.dir.path, fmt.Sprintf("%s=%d", ChannelEnv, isolation.ChannelFD))
	cmd.ExtraFiles = []*os.File{channel} // the first is descriptor 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if o.Isolation.PIDNamespace {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWPID
	}
	switch {
	case o.Isolation.Launches():
		return cmd, ro, p.throughLauncher(o, cmd, &ro)
	case o.File != nil:
		return cmd, ro, p.byFile(o, cmd)
	}
	return cmd, ro, nil
}

// throughLauncher makes cmd the launcher, which is this very program, and becomes the plugin.
func (p *Process) throughLauncher(o Options, cmd *exec.Cmd, ro *runOptions) error {
	if !launcherReady.Load() {
		return errors.New("its manifest asks for isolation, which this host program is not made for: its main must call RunLauncher first")
	}
	l := isolation.Launch{Spec: o.Isolation, Path: o.Path, File: o.File != nil, Private: p.dir.path}
	if !o.Isolation.PIDNamespace {
		l.Parent = os.Getpid()
	}
	var err error
	if l.Script, err = isScript(o.File); err != nil {
		return err
	}
	arg, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if ro.status, ro.statusW, err = os.Pipe(); err != nil {
		return err
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, ro.statusW)
	if o.File != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, o.File)
	}
	cmd.Path = "/proc/self/exe"
	cmd.Args = append([]string{isolation.Name, string(arg)}, o.Args...)
	return nil
}

// byFile executes the open file. A script's interpreter reads it by its descriptor, which is therefore passed on.
func (p *Process) byFile(o Options, cmd *exec.Cmd) error {
	script, err := isScript(o.File)
	if err != nil {
		return err
	}
	if script {
		null, err := os.Open(os.DevNull) // takes the place of the launcher's status
		if err != nil {
			return err
		}
		p.held = append(p.held, null)
		cmd.ExtraFiles = append(cmd.ExtraFiles, null, o.File)
		cmd.Path = "/proc/self/fd/" + strconv.Itoa(isolation.FileFD)
		return nil
	}
	// A number that the child's own descriptors, 0 to 5, cannot have.
	fd, err := unix.FcntlInt(o.File.Fd(), unix.F_DUPFD_CLOEXEC, 64)
	if err != nil {
		return os.NewSyscallError("fcntl(F_DUPFD_CLOEXEC)", err)
	}
	p.held = append(p.held, os.NewFile(uintptr(fd), o.Path))
	cmd.Path = "/proc/self/fd/" + strconv.Itoa(fd)
	return nil
}

func isScript(f *os.File) (bool, error) {
	if f == nil {
		return false, nil
	}
	var head [2]byte
	if n, err := f.ReadAt(head[:], 0); n < len(head) {
		return false, fmt.Errorf("cannot be read: %w", err)
	}
	return string(head[:]) == "#!", nil
}
