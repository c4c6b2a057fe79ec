package bridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	pluginrunner "github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/gosrpt/gosrpt/sdk/internal/shm"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// Options say what to start.
type Options struct {
	// Path is the executable, Args its arguments.
	Path string
	Args []string
	// Env is the whole environment, besides what the handshake and a private TMPDIR add.
	Env []string
	// Log gets what the plugin logs and prints.
	Log hclog.Logger
}

// Process is one plugin process, from a successful handshake to its end. Its methods may be called from any goroutine.
type Process struct {
	client  *plugin.Client
	run     *runner
	rpc     backstorepb.BackstoreClient
	conn    *grpc.ClientConn
	channel *shm.Channel
	dir     private
	log     hclog.Logger
}

// Start starts a plugin and shakes hands with it. ctx bounds that.
func Start(ctx context.Context, o Options) (*Process, error) {
	p := &Process{log: o.Log, run: newRunner()}
	if err := p.start(ctx, o); err != nil {
		p.Kill()
		p.cleanUp()
		return nil, fmt.Errorf("plugin %s: %w", o.Path, err)
	}
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
	noise := newNoise(o.Log)
	p.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  handshake(),
		VersionedPlugins: versions(&glue{}),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           o.Log,
		SyncStdout:       noise,
		SyncStderr:       noise,
		SkipHostEnv:      true,
		StartTimeout:     timeout(ctx),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: p.dir.path},
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
			grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow),
		},
		RunnerFunc: func(_ hclog.Logger, add *exec.Cmd, _ string) (pluginrunner.Runner, error) {
			return p.run, p.run.prepare(p.command(o, add.Env, far), noise)
		},
	})
	return p.connect(ctx)
}

// command is the process to start. It leads a process group of its own, so that a terminal's ^C reaches the host alone,
// which then ends its plugins in order.
func (p *Process) command(o Options, handshake []string, channel *os.File) *exec.Cmd {
	cmd := exec.Command(o.Path, o.Args...)
	cmd.Env = append(cmd.Env, o.Env...)
	cmd.Env = append(cmd.Env, handshake...)
	cmd.Env = append(cmd.Env, "TMPDIR="+p.dir.path, fmt.Sprintf("%s=%d", ChannelEnv, channelFD))
	cmd.ExtraFiles = []*os.File{channel} // the first is descriptor 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (p *Process) connect(ctx context.Context) error {
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	protocol, err := p.client.Client()
	if err != nil {
		return errors.Join(explain(err), ctx.Err())
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

// explain says what to do about go-plugin's commonest complaints.
func explain(err error) error {
	if strings.Contains(strings.ToLower(err.Error()), "incompatible api version") {
		return fmt.Errorf("it speaks another major version of the plugin protocol than this host (%d): "+
			"rebuild it with a matching SDK, or upgrade the host: %w", protocolMajor, err)
	}
	return err
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

// Protocol is the major version that both sides speak.
func (p *Process) Protocol() int { return p.client.NegotiatedVersion() }

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
}
