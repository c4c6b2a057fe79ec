package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/internal/isolation"
)

const (
	// busyFor is how long an executable that is still being written is tried again, every busyStep.
	busyFor  = 5 * time.Second
	busyStep = 20 * time.Millisecond
	// maxStatus is how much of a launcher's complaint is read, in bytes.
	maxStatus = 4 << 10
)

func (r *runner) fork() (*os.Process, error) {
	defer closeFile(r.cmd.Stdout)
	defer closeFile(r.cmd.Stderr)
	if err := prepareThread(r.opts.newPrivs); err != nil {
		return nil, fmt.Errorf("no new privileges: %w", err)
	}
	for end := time.Now().Add(busyFor); ; time.Sleep(busyStep) {
		p, err := r.tryFork()
		if !errors.Is(err, unix.ETXTBSY) || time.Now().After(end) {
			return p, err
		}
	}
}

func (r *runner) tryFork() (*os.Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed {
		return nil, errKilled
	}
	if err := r.asVerified(); err != nil {
		return nil, err
	}
	// A command is started once. This is a new one with the same files.
	cmd := &exec.Cmd{Path: r.cmd.Path, Args: r.cmd.Args, Env: r.cmd.Env, Stdout: r.cmd.Stdout, Stderr: r.cmd.Stderr,
		ExtraFiles: r.cmd.ExtraFiles, SysProcAttr: r.cmd.SysProcAttr}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r.proc = cmd.Process
	return r.proc, nil
}

// executed waits until the plugin's file has been executed, which takes a moment with a launcher.
func (r *runner) executed() error {
	if r.opts.status != nil {
		r.opts.statusW.Close() // the launcher's alone, or its end would not be seen
		text, err := io.ReadAll(io.LimitReader(r.opts.status, maxStatus))
		if err = errors.Join(err, complaint(text)); err != nil {
			return err
		}
	}
	return r.asVerified()
}

// complaint is a launcher's, if it has one.
func complaint(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	var f isolation.Failure
	if err := json.Unmarshal(text, &f); err != nil {
		return fmt.Errorf("the launcher said %q: %w", text, err)
	}
	if f.Exec != 0 {
		return &fs.PathError{Op: "exec", Err: syscall.Errno(f.Exec)}
	}
	return errors.New(f.Text)
}

func (r *runner) asVerified() error {
	if r.opts.unchanged == nil {
		return nil
	}
	return r.opts.unchanged()
}
