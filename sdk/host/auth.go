package host

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/gosrpt/gosrpt/sdk/auth"
	"github.com/gosrpt/gosrpt/sdk/internal/authwire"
	authpb "github.com/gosrpt/gosrpt/sdk/proto/auth/v1"
	pluginpb "github.com/gosrpt/gosrpt/sdk/proto/plugin/v1"
)

// Auth is one life of an auth plugin.
type Auth struct {
	*Control
	g *authGreeting
}

type authGreeting struct {
	rpc     authpb.AuthorizerClient
	watches bool
	changes grpc.ServerStreamingClient[authpb.WatchResponse]
}

// StartAuth starts an auth plugin, opens its authoriser and begins to watch it: no change after that is lost. ctx bounds it.
func StartAuth(ctx context.Context, o ControlOptions) (*Auth, error) {
	g := &authGreeting{}
	c, err := startControl(ctx, "auth", o, g)
	if err != nil {
		return nil, err
	}
	return &Auth{Control: c, g: g}, nil
}

func (g *authGreeting) connect(c grpc.ClientConnInterface) { g.rpc = authpb.NewAuthorizerClient(c) }

func (g *authGreeting) describe(ctx context.Context) (string, *pluginpb.Description, error) {
	d, err := g.rpc.Describe(ctx, &authpb.DescribeRequest{})
	return d.GetRuntime(), d.GetDescription(), err
}

func (g *authGreeting) open(ctx context.Context, config map[string]string) (string, error) {
	r, err := g.rpc.Open(ctx, &authpb.OpenRequest{Config: config})
	if err == nil {
		err = authFailed("open", r.Error)
	}
	g.watches = r.GetWatch()
	return r.GetNotice(), err
}

func (g *authGreeting) watch(ctx, in context.Context) error {
	if !g.watches {
		return nil
	}
	in, cancel := context.WithCancel(in)
	s, err := g.rpc.Watch(in, &authpb.WatchRequest{})
	if err != nil {
		cancel()
		return fmt.Errorf("watching for changes: %w", err)
	}
	g.changes = s
	return headers(ctx, s, cancel)
}

// Decide asks the plugin about a login. ctx must have an end. An error means that there is no decision; it wraps an
// *auth.Error if the plugin said so itself.
func (a *Auth) Decide(ctx context.Context, l auth.Login) (auth.Decision, error) {
	r, err := a.g.rpc.Decide(ctx, &authpb.DecideRequest{Login: authwire.LoginMessage(l)})
	if err == nil {
		err = authFailed("decide", r.Error)
	}
	if err != nil {
		return auth.Decision{}, err
	}
	return authwire.Decision(r.Decision)
}

// Watches tells whether the plugin tells of changes.
func (a *Auth) Watches() bool { return a.g.watches }

// Watch calls changed for each change, in order, until the process ends or breaks the protocol; the error says which. It
// is called once. A plugin that tells of no changes keeps it waiting.
func (a *Auth) Watch(changed func(auth.Change)) error {
	if a.g.changes == nil {
		return a.over()
	}
	for {
		m, err := a.g.changes.Recv()
		if err != nil {
			return fmt.Errorf("host: the stream of changes ended: %w", err)
		}
		c, err := authwire.Change(m)
		if err != nil {
			return err
		}
		changed(c)
	}
}

// Ping asks for a sign of life.
func (a *Auth) Ping(ctx context.Context) error {
	_, _, err := a.g.describe(ctx)
	return err
}

func authFailed(op string, e *authpb.Error) error {
	if e == nil {
		return nil
	}
	c := auth.CodeInternal
	if e.Code != 0 && e.Code <= uint32(auth.CodeInvalid) {
		c = auth.Code(e.Code)
	}
	return fmt.Errorf("the plugin failed to %s: %w", op, &auth.Error{Code: c, Err: errors.New(line(e.Text))})
}
