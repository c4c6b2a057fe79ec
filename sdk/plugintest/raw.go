package plugintest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
)

// raw is a process that is started by hand, as a host in another language would: what a host smooths over is seen.
type raw struct {
	cmd     *exec.Cmd
	channel *shm.Channel
	conn    *grpc.ClientConn
	dir     string
	shook   chan string
	dead    chan struct{}
	state   *os.ProcessState // once dead

	mu    sync.Mutex
	noise []string
	errs  bytes.Buffer
}

// maxNoise is how many lines of a plugin's output are kept, and how many bytes of its stderr.
const (
	maxNoise  = 20
	maxStderr = 4096
)

// startRaw starts the executable with the environment of the protocol and waits for its handshake, until ctx ends.
func startRaw(ctx context.Context, o *Options) (*raw, error) {
	r := &raw{shook: make(chan string, 1), dead: make(chan struct{})}
	var err error
	if r.dir, err = os.MkdirTemp("/tmp", "gosrpt-check-"); err != nil {
		return nil, err
	}
	near, far, err := shm.NewChannel()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(r.dir))
	}
	r.channel = near
	env := []string{"GOSRPT_PLUGIN=1c9f7a52", "PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_UNIX_SOCKET_DIR=" + r.dir, "TMPDIR=" + r.dir,
		bridge.ChannelEnv + "=3"}
	err = r.start(o, env, far)
	far.Close()
	if err == nil {
		err = r.connect(ctx)
	}
	if err != nil {
		r.end()
		return nil, err
	}
	return r, nil
}

func (r *raw) start(o *Options, env []string, files ...*os.File) error {
	r.cmd = exec.Command(o.Path, o.Args...)
	r.cmd.Env = append(append([]string{}, o.Env...), env...)
	r.cmd.ExtraFiles = files
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.WaitDelay = time.Second
	out, in := io.Pipe()
	r.cmd.Stdout, r.cmd.Stderr = in, (*rawErrors)(r)
	if err := r.cmd.Start(); err != nil {
		close(r.dead)
		return err
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		r.listen(out)
	}()
	go func() {
		_ = r.cmd.Wait() // how it ended is in the state
		in.Close()
		<-read
		r.state = r.cmd.ProcessState
		close(r.dead)
	}()
	return nil
}

// listen reads what the process prints.
func (r *raw) listen(out io.Reader) {
	s := bufio.NewScanner(out)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if p := strings.Split(s.Text(), "|"); len(p) >= 5 && p[0] == "1" {
			select {
			case r.shook <- s.Text():
				continue
			default:
			}
		}
		r.mu.Lock()
		if len(r.noise) < maxNoise {
			r.noise = append(r.noise, s.Text())
		}
		r.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, out)
}

// rawErrors keeps the beginning of stderr.
type rawErrors raw

func (r *rawErrors) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs.Write(p[:min(len(p), maxStderr-min(maxStderr, r.errs.Len()))])
	return len(p), nil
}

func (r *raw) connect(ctx context.Context) error {
	select {
	case line := <-r.shook:
		p := strings.Split(line, "|")
		if p[2] != "unix" || p[4] != "grpc" {
			return fmt.Errorf("the handshake %q is not of a unix socket and grpc", line)
		}
		conn, err := grpc.NewClient("unix:"+p[3], grpc.WithTransportCredentials(insecure.NewCredentials()))
		r.conn = conn
		return err
	case <-r.dead:
		return fmt.Errorf("the process ended before a handshake (%v): %s", r.state, r.stderr())
	case <-ctx.Done():
		return fmt.Errorf("no handshake: %w", ctx.Err())
	}
}

func (r *raw) stderr() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.TrimSpace(r.errs.String())
}

// printed is what came over stdout besides the handshake.
func (r *raw) printed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.noise...)
}

// endsWithin tells whether the process ends by itself in time.
func (r *raw) endsWithin(ctx context.Context, d time.Duration) bool {
	select {
	case <-r.dead:
		return true
	case <-time.After(d):
	case <-ctx.Done():
	}
	return false
}

func (r *raw) kill() {
	select {
	case <-r.dead:
	default:
		_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// end kills what is left.
func (r *raw) end() {
	r.kill()
	<-r.dead
	if r.conn != nil {
		r.conn.Close()
	}
	r.channel.Close()
	_ = os.RemoveAll(r.dir)
}

// raw starts a process by hand that ends with the check.
func (r *run) raw() *raw {
	r.Helper()
	p, err := startRaw(r.within(startTime), &r.o)
	if err != nil {
		r.Fatal(err)
	}
	r.onAbort(r.TB, p.kill)
	r.Cleanup(p.end)
	return p
}
