package host

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/gosrpt/gosrpt/sdk/internal/ioctxwire"
	"github.com/gosrpt/gosrpt/sdk/ioctx"
	ioctxpb "github.com/gosrpt/gosrpt/sdk/proto/ioctx/v1"
	pluginpb "github.com/gosrpt/gosrpt/sdk/proto/plugin/v1"
)

// IOCtx is one life of an ioctx plugin.
type IOCtx struct {
	*Control
	g *ioctxGreeting
}

type ioctxGreeting struct {
	rpc             ioctxpb.PlannerClient
	watches, replan bool
	changes         grpc.ServerStreamingClient[ioctxpb.WatchResponse]
}

// StartIOCtx starts an ioctx plugin, opens its planner and begins to watch it: no change after that is lost. ctx bounds it.
func StartIOCtx(ctx context.Context, o ControlOptions) (*IOCtx, error) {
	g := &ioctxGreeting{}
	c, err := startControl(ctx, "ioctx", o, g)
	if err != nil {
		return nil, err
	}
	return &IOCtx{Control: c, g: g}, nil
}

func (g *ioctxGreeting) connect(c grpc.ClientConnInterface) { g.rpc = ioctxpb.NewPlannerClient(c) }

func (g *ioctxGreeting) describe(ctx context.Context) (string, *pluginpb.Description, error) {
	d, err := g.rpc.Describe(ctx, &ioctxpb.DescribeRequest{})
	return d.GetRuntime(), d.GetDescription(), err
}

func (g *ioctxGreeting) open(ctx context.Context, config map[string]string) (string, error) {
	r, err := g.rpc.Open(ctx, &ioctxpb.OpenRequest{Config: config})
	if err == nil {
		err = ioctxFailed("open", r.Error)
	}
	g.watches, g.replan = r.GetWatch(), r.GetReplan()
	return r.GetNotice(), err
}

func (g *ioctxGreeting) watch(ctx, in context.Context) error {
	if !g.watches {
		return nil
	}
	in, cancel := context.WithCancel(in)
	s, err := g.rpc.Watch(in, &ioctxpb.WatchRequest{})
	if err != nil {
		cancel()
		return fmt.Errorf("watching for changes: %w", err)
	}
	g.changes = s
	return headers(ctx, s, cancel)
}

// Plan asks the plugin for a plan. ctx must have an end. An error means that there is none; it wraps an *ioctx.Error
// if the plugin said so itself.
func (p *IOCtx) Plan(ctx context.Context, s ioctx.Situation) (ioctx.Plan, error) {
	return p.plan(ctx, s, &ioctxpb.PlanRequest{})
}

// Replans tells whether the plugin takes pressure.
func (p *IOCtx) Replans() bool { return p.g.replan }

// Replan is Plan under pressure, for a plugin that takes it.
func (p *IOCtx) Replan(ctx context.Context, s ioctx.Situation, pressure ioctx.Pressure) (ioctx.Plan, error) {
	return p.plan(ctx, s, &ioctxpb.PlanRequest{Pressure: ioctxwire.PressureMessage(pressure)})
}

func (p *IOCtx) plan(ctx context.Context, s ioctx.Situation, q *ioctxpb.PlanRequest) (ioctx.Plan, error) {
	q.Situation = ioctxwire.SituationMessage(s)
	r, err := p.g.rpc.Plan(ctx, q)
	if err == nil {
		err = ioctxFailed("plan", r.Error)
	}
	if err != nil {
		return ioctx.Plan{}, err
	}
	return ioctxwire.Answer(r.Plan, s)
}

// Watches tells whether the plugin tells of changes.
func (p *IOCtx) Watches() bool { return p.g.watches }

// Watch calls changed for each change, in order, until the process ends or breaks the protocol; the error says which. It
// is called once. A plugin that tells of no changes keeps it waiting.
func (p *IOCtx) Watch(changed func(reason string)) error {
	if p.g.changes == nil {
		return p.over()
	}
	for {
		m, err := p.g.changes.Recv()
		if err != nil {
			return fmt.Errorf("host: the stream of changes ended: %w", err)
		}
		changed(line(m.Reason))
	}
}

// Ping asks for a sign of life.
func (p *IOCtx) Ping(ctx context.Context) error {
	_, _, err := p.g.describe(ctx)
	return err
}

func ioctxFailed(op string, e *ioctxpb.Error) error {
	if e == nil {
		return nil
	}
	c := ioctx.CodeInternal
	if e.Code != 0 && e.Code <= uint32(ioctx.CodeInvalid) {
		c = ioctx.Code(e.Code)
	}
	return fmt.Errorf("the plugin failed to %s: %w", op, &ioctx.Error{Code: c, Err: errors.New(line(e.Text))})
}
