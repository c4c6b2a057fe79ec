package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// pipeGrace is how long a dead process's output pipes may stay open in a grandchild before they are closed here.
const pipeGrace = 200 * time.Millisecond

// errKilled says that Kill came before Start.
var errKilled = errors.New("killed before it was started")

// runner starts one process and waits for its end. It is go-plugin's runner.Runner.
type runner struct {
	cmd     *exec.Cmd
	out     *stdout
	errs    *os.File
	started chan error
	dead    chan struct{}
	state   *os.ProcessState // set before dead is closed

	mu     sync.Mutex
	proc   *os.Process // set once started
	killed bool
}

func newRunner() *runner {
	return &runner{started: make(chan error, 1), dead: make(chan struct{})}
}

// prepare sets what to start. Until then only Kill may be called.
func (r *runner) prepare(cmd *exec.Cmd, log io.Writer) error {
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		outR.Close()
		outW.Close()
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, outW, errW
	r.cmd, r.out, r.errs = cmd, newStdout(outR, log), errR
	return nil
}

// Start starts the process.
func (r *runner) Start(context.Context) error {
	go r.run()
	return <-r.started
}

// run holds one OS thread for the process's whole life. The kernel's parent-death signal follows the thread that
// forked, not the process: it would kill the plugin if that thread ended earlier.
func (r *runner) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := r.fork()
	if err != nil {
		r.closePipes()
		r.started <- err
		return
	}
	r.started <- nil
	r.state, _ = p.Wait()
	close(r.dead)
	time.AfterFunc(pipeGrace, r.closePipes)
}

func (r *runner) fork() (*os.Process, error) {
	defer closeFile(r.cmd.Stdout)
	defer closeFile(r.cmd.Stderr)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed {
		return nil, errKilled
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	r.proc = r.cmd.Process
	return r.proc, nil
}

func closeFile(w io.Writer) {
	if f, ok := w.(*os.File); ok {
		f.Close()
	}
}

func (r *runner) closePipes() {
	r.out.src.Close()
	r.errs.Close()
}

// Wait waits for the end of the process.
func (r *runner) Wait(ctx context.Context) error {
	select {
	case <-r.dead:
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.state != nil && !r.state.Success() {
		return errors.New(r.state.String())
	}
	return nil
}

// Kill kills the process and its group, without waiting, or keeps it from being started. A process that is gone is no error.
func (r *runner) Kill(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = true
	if r.proc == nil || r.gone() {
		return nil
	}
	// Process.Kill goes by pidfd and cannot hit another process; the group has its leader until that is waited for.
	_ = syscall.Kill(-r.proc.Pid, syscall.SIGKILL)
	if err := r.proc.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("bridge: kill process %d: %w", r.proc.Pid, err)
	}
	return nil
}

func (r *runner) gone() bool {
	select {
	case <-r.dead:
		return true
	default:
		return false
	}
}

// pid is the process's number, 0 before the start.
func (r *runner) pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc == nil {
		return 0
	}
	return r.proc.Pid
}

// Stdout is the handshake and nothing else.
func (r *runner) Stdout() io.ReadCloser { return r.out }

// Stderr is the process's standard error.
func (r *runner) Stderr() io.ReadCloser { return r.errs }

// Name is the executable's path.
func (r *runner) Name() string { return r.cmd.Path }

// ID is the process's number, empty before the start.
func (r *runner) ID() string {
	if pid := r.pid(); pid != 0 {
		return strconv.Itoa(pid)
	}
	return ""
}

// Diagnose explains a failed handshake.
func (r *runner) Diagnose(context.Context) string {
	return "The process ended or printed no handshake. Check that " + r.cmd.Path +
		" is a gosrpt plugin built for this machine; what it printed is in the log at debug level."
}

// PluginToHost is the identity: both share one file system.
func (r *runner) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

// HostToPlugin is the identity: both share one file system.
func (r *runner) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
