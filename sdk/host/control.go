package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
	pluginpb "github.com/gosrpt/gosrpt/sdk/proto/plugin/v1"
)

// ControlOptions say which plugin of the control plane to start, that is one without data: auth or ioctx.
type ControlOptions struct {
	// Path is the executable, Args its arguments.
	Path string
	Args []string
	// File, Unchanged and Isolation: see Launch.
	Launch
	// Env is the process's environment, whole: nothing of this process's environment is passed on.
	Env []string
	// Config is what the plugin opens.
	Config map[string]string
	// Log gets what the plugin logs and prints.
	Log hclog.Logger
}

// Control is one life of a plugin of the control plane; Auth and IOCtx have one. Its methods may be called from any
// goroutine.
type Control struct {
	bridge *bridge.Process
	about  string
	self   self
	notice string
	// ctx ends with Close and ends the stream of changes.
	ctx  context.Context
	stop context.CancelFunc
}

// greeting is what the kinds of plugins differ in at their start.
type greeting interface {
	// connect makes the client of a connection.
	connect(c grpc.ClientConnInterface)
	// describe asks for a sign of life.
	describe(ctx context.Context) (about string, what *pluginpb.Description, err error)
	// open opens what the plugin serves.
	open(ctx context.Context, config map[string]string) (notice string, err error)
	// watch begins the stream of changes, if the plugin has one. in is the stream's context, ctx bounds the call.
	watch(ctx, in context.Context) error
}

// startControl starts a plugin and opens what it serves. ctx bounds that.
func startControl(ctx context.Context, kind string, o ControlOptions, g greeting) (*Control, error) {
	if o.Log == nil {
		return nil, fmt.Errorf("host: %s plugin %s: a logger is needed", kind, o.Path)
	}
	b, err := bridge.Start(ctx, o.Launch.options(o.Path, o.Args, o.Env, o.Log))
	if err != nil {
		return nil, err
	}
	c := &Control{bridge: b}
	c.ctx, c.stop = context.WithCancel(context.Background())
	g.connect(b.Conn())
	about, what, err := g.describe(ctx)
	c.about = about
	if err != nil {
		err = fmt.Errorf("it does not describe itself; is it of the kind %s? %w", kind, err)
	} else {
		err = c.self.learn(what)
	}
	if err == nil {
		err = c.self.check(o.Config)
	}
	if err == nil {
		c.notice, err = g.open(ctx, o.Config)
	}
	if err == nil {
		err = g.watch(ctx, c.ctx)
	}
	if err != nil {
		b.Kill()
		c.Close(context.Background())
		return nil, fmt.Errorf("plugin %s: %w", o.Path, err)
	}
	c.about, c.notice = line(c.about), line(c.notice)
	return c, nil
}

// Dead is closed when the process has ended and been waited for.
func (c *Control) Dead() <-chan struct{} { return c.bridge.Dead() }

// Ending tells how the process ended, once Dead is closed.
func (c *Control) Ending() string { return c.bridge.Ending() }

// PID is the process's number.
func (c *Control) PID() int { return c.bridge.PID() }

// About is the plugin's word on what it was built with.
func (c *Control) About() string { return c.about }

// Notice is the plugin's line for the operator, empty if it has none.
func (c *Control) Notice() string { return c.notice }

// over waits for the end of the process, or of its use.
func (c *Control) over() error {
	select {
	case <-c.bridge.Dead():
		return errDead
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// Kill kills the process and its process group. It does not wait: Dead tells.
func (c *Control) Kill() { c.bridge.Kill() }

// Close ends the process in order. It is killed when ctx ends first. Close returns when it is dead.
func (c *Control) Close(ctx context.Context) {
	c.stop()
	c.bridge.Stop(ctx)
	<-c.bridge.Dead()
}

// headers waits until a stream is established. cancel is the stream's.
func headers[T any](ctx context.Context, s grpc.ServerStreamingClient[T], cancel context.CancelFunc) error {
	unhook := context.AfterFunc(ctx, cancel)
	md, err := s.Header()
	if !unhook() {
		return fmt.Errorf("watching for changes: %w", ctx.Err())
	}
	if err == nil && md == nil {
		// The call has ended without headers: its status says why.
		_, err = s.Recv()
		err = errors.Join(err, errNoHeaders)
	}
	if err != nil {
		cancel()
		return fmt.Errorf("watching for changes: %w", err)
	}
	return nil
}

var errNoHeaders = errors.New("host: the plugin ended the stream of changes at once")

// maxLine is how much of a plugin's text is shown, in bytes.
const maxLine = 2048

// line makes one line of a log of what a plugin says.
func line(s string) string {
	if len(s) > maxLine {
		s = s[:maxLine] + "..."
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
