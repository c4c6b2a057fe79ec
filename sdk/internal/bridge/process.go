package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	pluginrunner "github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/gosrpt/gosrpt/sdk/internal/isolation"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// Options say what to start.
type Options struct {
	// Path is the executable, Args its arguments.
	Path string
	Args []string
	// File, if set, is executed, whatever is at Path by then. It stays the caller's and open until Start returns. Unchanged, if
	// set, is asked before and after the execution whether it still has the content that the caller knows.
	File      *os.File
	Unchanged func() error
	// Env is the whole environment, besides what the handshake and a private TMPDIR add.
	Env []string
	// Isolation is how the process is kept apart.
	Isolation isolation.Spec
	// Log gets what the plugin logs and prints.
	Log hclog.Logger
	// Majors are the major versions of the protocol that the host speaks; nil means those of this SDK.
	Majors []int
}

// Process is one plugin process, from a successful handshake to its end. Its methods may be called from any goroutine.
type Process struct {
	client   *plugin.Client
	run      *runner
	evidence *evidence
	rpc      backstorepb.BackstoreClient
	conn     *grpc.ClientConn
	channel  *shm.Channel
	dir      private
	log      hclog.Logger
	held     []*os.File // until the process is started
	forget   func()     // ends the warden's care
}

// deathTime is how long a failed start waits for the death of what it started, which would otherwise be a zombie.
const deathTime = 5 * time.Second

// Start starts a plugin and shakes hands with it. ctx bounds that.
func Start(ctx context.Context, o Options) (*Process, error) {
	if o.Majors == nil {
		o.Majors = Majors()
	}
	p := &Process{log: o.Log, run: newRunner(), evidence: &evidence{}}
	if err := p.start(ctx, o); err != nil {
		p.Kill()
		p.awaitDeath()
		err = fmt.Errorf("plugin %s: %w", o.Path, p.explain(ctx, o, err))
		p.cleanUp()
		return nil, errors.Join(err, ctx.Err())
	}
	p.evidence.close()
	return p, nil
}

func (p *Process) start(ctx context.Context, o Options) error {
	var err error
	if p.dir, err = newPrivate(); err != nil {
		return err
	}
	near, far, err := shm.NewChannel()
	if err != nil {
		return err
	}
	p.channel = near
	defer far.Close()
	defer p.letGo()
	b := newBudget(o.Log)
	noise := newNoise(o.Log, b, p.evidence)
	later := new(lateErrors)
	p.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  handshake(),
		VersionedPlugins: versions(spoken(o.Majors)),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           discreet{o.Log},
		SyncStdout:       noise,
		SyncStderr:       later,
		SkipHostEnv:      true,
		StartTimeout:     timeout(ctx),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: p.dir.path},
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
			grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow),
		},
		RunnerFunc: func(_ hclog.Logger, add *exec.Cmd, sockets string) (pluginrunner.Runner, error) {
			if err := p.dir.give(o.Isolation.User, sockets); err != nil {
				return nil, err
			}
			cmd, ro, err := p.command(o, add.Env, far)
			if err != nil {
				return nil, err
			}
			err = p.run.prepare(cmd, noise, b, p.evidence, ro)
			if err == nil {
				later.Writer = newErrors(p.run.errs.w, o.Log, b, p.evidence)
			}
			return p.run, err
		},
	})
	return p.connect(ctx)
}

// lateErrors gets what a Go plugin prints to its os.Stderr after the handshake, which go-plugin sends on its own way.
type lateErrors struct{ io.Writer }

func (p *Process) connect(ctx context.Context) error {
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	protocol, err := p.client.Client()
	if err != nil {
		return err
	}
	raw, err := protocol.Dispense(services)
	if err != nil {
		return err
	}
	conn, ok := raw.(*grpc.ClientConn)
	if !ok {
		return fmt.Errorf("bridge: dispensed a %T", raw)
	}
	p.conn, p.rpc = conn, backstorepb.NewBackstoreClient(conn)
	return nil
}

func (p *Process) letGo() {
	for _, f := range p.held {
		f.Close()
	}
	p.held = nil
}

func (p *Process) awaitDeath() {
	if p.run.pid() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), deathTime)
	defer cancel()
	_ = p.run.Wait(ctx)
	for _, read := range []chan struct{}{p.run.out.done, p.run.errs.done} {
		select { // what it printed is read
		case <-read:
		case <-ctx.Done():
		}
	}
}

func timeout(ctx context.Context) time.Duration {
	const most = time.Minute
	if d, ok := ctx.Deadline(); ok {
		return max(min(time.Until(d), most), time.Millisecond)
	}
	return most
}

// Conn is the connection to whatever the plugin serves. Give every call a deadline: a stopped process never answers.
func (p *Process) Conn() grpc.ClientConnInterface { return p.conn }

// RPC is the control plane of a backstore, over Conn.
func (p *Process) RPC() backstorepb.BackstoreClient { return p.rpc }

// Channel carries descriptors to the process.
func (p *Process) Channel() *shm.Channel { return p.channel }

// Major is the major version of the protocol that both sides speak.
func (p *Process) Major() int { return p.client.NegotiatedVersion() }

// PID is the process's number.
func (p *Process) PID() int { return p.run.pid() }

// Dead is closed when the process has ended and been waited for: none of its threads runs any more. Only io_uring
// requests of it may still be under way in the kernel.
func (p *Process) Dead() <-chan struct{} { return p.run.dead }

// Ending tells how the process ended, once Dead is closed.
func (p *Process) Ending() string {
	if p.run.state == nil {
		return "unknown"
	}
	return p.run.state.String()
}

// Kill kills the process and its group. It does not wait.
func (p *Process) Kill() {
	if err := p.run.Kill(context.Background()); err != nil {
		p.log.Error("cannot kill the plugin", "error", err)
	}
}

// Stop asks the process to end, kills it when ctx ends first, and returns when it is dead and what it left is removed.
func (p *Process) Stop(ctx context.Context) {
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	p.shutdown(ctx)
	p.cleanUp()
}

// shutdown asks for the end and waits for it: go-plugin would wait for two seconds only.
func (p *Process) shutdown(ctx context.Context) {
	if p.conn == nil {
		return
	}
	// The answer means nothing: the server may be gone before it is sent.
	_ = p.conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	_ = p.run.Wait(ctx)
}

// cleanUp ends go-plugin's side, which waits for the process.
func (p *Process) cleanUp() {
	if p.client != nil {
		p.client.Kill()
	}
	if p.channel != nil {
		p.channel.Close()
	}
	p.dir.remove()
	if p.forget != nil {
		p.forget()
	}
}
