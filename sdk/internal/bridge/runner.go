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

	"golang.org/x/sys/unix"
)

// pipeGrace is how long a dead process's output pipes may stay open in a grandchild before they are closed here.
const pipeGrace = 200 * time.Millisecond

// errKilled says that Kill came before Start.
var errKilled = errors.New("killed before it was started")

// runner starts one process and waits for its end. It is go-plugin's runner.Runner.
type runner struct {
	cmd     *exec.Cmd
	out     *stdout
	errs    *stderr
	opts    runOptions
	started chan error
	failure error // why the start failed, set before that is told
	dead    chan struct{}
	state   *os.ProcessState // set before dead is closed

	mu     sync.Mutex
	proc   *os.Process // set once started
	killed bool
	reaped bool // its number may be another's
}

// runOptions are what a runner must know besides the command.
type runOptions struct {
	// newPrivs lets the process gain privileges.
	newPrivs bool
	// name is the plugin's file, which need not be what is executed.
	name string
	// status, if set, is where a launcher says why it failed, and its other end. It ends when the plugin is executed.
	status, statusW *os.File
	// forked, if set, is told the process's number before it can be waited for.
	forked func(pid int)
	// unchanged, if set, is asked before and after the file was executed.
	unchanged func() error
}

func newRunner() *runner {
	return &runner{started: make(chan error, 1), dead: make(chan struct{})}
}

// prepare sets what to start. Until then only Kill may be called.
func (r *runner) prepare(cmd *exec.Cmd, noise *lines, b *budget, e *evidence, o runOptions) error {
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
	r.cmd, r.out, r.errs, r.opts = cmd, newStdout(outR, noise), newStderr(errR, b.log, b, e), o
	return nil
}

// Start starts the process.
func (r *runner) Start(context.Context) error {
	go r.run()
	return <-r.started
}

// run holds one OS thread for the process's whole life. The kernel's parent-death signal follows the thread that
// forked, not the process: it would kill the plugin if that thread ended earlier. The thread is not unlocked: it ends with
// this goroutine, because it is not as others are any more.
func (r *runner) run() {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The first thread of a process cannot end: it is held here until another has begun.
		begun := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(begun)
			r.live()
		}()
		<-begun
		runtime.UnlockOSThread()
		return
	}
	r.live()
}

func (r *runner) live() {
	p, err := r.fork()
	if err != nil {
		r.fail(err)
		r.closePipes()
		return
	}
	if r.opts.forked != nil {
		r.opts.forked(p.Pid)
	}
	if err = r.executed(); err != nil {
		r.fail(err)
		_ = r.Kill(context.Background())
	} else {
		r.started <- nil
	}
	r.reap(p)
	close(r.dead)
	time.AfterFunc(pipeGrace, r.closePipes)
}

func closeFile(w io.Writer) {
	if f, ok := w.(*os.File); ok {
		f.Close()
	}
}

// fail ends a start. go-plugin will read nothing.
func (r *runner) fail(err error) {
	r.failure = err
	r.out.ReadCloser.Close()
	r.errs.ReadCloser.Close()
	r.started <- err
}

func (r *runner) closePipes() {
	r.out.src.Close()
	r.errs.src.Close()
	if r.opts.status != nil {
		r.opts.status.Close()
		r.opts.statusW.Close()
	}
}

// reap waits for the end of the process, kills what is left of its group while the group's number cannot be another's, and
// takes the process's status.
func (r *runner) reap(p *os.Process) {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		_ = unix.Kill(-p.Pid, unix.SIGKILL)
	}
	r.state, _ = p.Wait()
	r.reaped = true
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
	if r.proc == nil || r.reaped {
		return nil
	}
	// The process is this one's child and not waited for: until then its number, and its group's, is nobody else's.
	_ = syscall.Kill(-r.proc.Pid, syscall.SIGKILL)
	if err := r.proc.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("bridge: kill process %d: %w", r.proc.Pid, err)
	}
	return nil
}

// ended tells how the process ended, if it did so by itself.
func (r *runner) ended() (how string, itself bool) {
	select {
	case <-r.dead:
	default:
		return "", false
	}
	if r.state == nil {
		return "", false
	}
	ws, ok := r.state.Sys().(syscall.WaitStatus)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed && ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
		return "", false
	}
	return r.state.String(), true
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

// Stderr is the process's standard error, in bounds.
func (r *runner) Stderr() io.ReadCloser { return r.errs }

// Name is the executable's path.
func (r *runner) Name() string { return r.opts.name }

// ID is the process's number, empty before the start.
func (r *runner) ID() string {
	if pid := r.pid(); pid != 0 {
		return strconv.Itoa(pid)
	}
	return ""
}

// Diagnose is empty: the host explains a failed handshake itself.
func (r *runner) Diagnose(context.Context) string { return "" }

// PluginToHost is the identity: both share one file system.
func (r *runner) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

// HostToPlugin is the identity: both share one file system.
func (r *runner) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
