package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gosrpt/gosrpt/sdk/internal/ioctxwire"
	"github.com/gosrpt/gosrpt/sdk/internal/schemawire"
	"github.com/gosrpt/gosrpt/sdk/ioctx"
	ioctxpb "github.com/gosrpt/gosrpt/sdk/proto/ioctx/v1"
)

// ServeIOCtx serves o to the host that started this process, until the host says so or is gone. Then the question
// under way is cancelled, the planner is closed, and ServeIOCtx returns; main returns after it. If no host started
// the process, it says so on stderr and exits with status 1.
func ServeIOCtx(o ioctx.Opener) {
	s := newIOCtxServer(o)
	serveControl(func(r grpc.ServiceRegistrar) { ioctxpb.RegisterPlannerServer(r, s) }, s.opened.end)
}

type ioctxServer struct {
	ioctxpb.UnimplementedPlannerServer
	opener  ioctx.Opener
	opened  *opened[ioctx.Planner]
	changes *feed[string]
	turn    chan struct{} // holds a token while a question is in the planner
}

func newIOCtxServer(o ioctx.Opener) *ioctxServer {
	return &ioctxServer{opener: o, opened: newOpened[ioctx.Planner](), changes: newFeed("more changes than could be told one by one"),
		turn: make(chan struct{}, 1)}
}

// Describe answers at once.
func (s *ioctxServer) Describe(context.Context, *ioctxpb.DescribeRequest) (*ioctxpb.DescribeResponse, error) {
	d, err := schemawire.Describe(s.opener)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &ioctxpb.DescribeResponse{Runtime: about(), Description: d}, nil
}

// Open opens the planner and begins to watch it.
func (s *ioctxServer) Open(ctx context.Context, r *ioctxpb.OpenRequest) (*ioctxpb.OpenResponse, error) {
	out := &ioctxpb.OpenResponse{}
	err := s.opened.open(func() (ioctx.Planner, error) {
		p, err := s.opener.Open(ctx, r.Config)
		if err == nil && p == nil {
			err = errors.New("the plugin opened neither a planner nor an error")
		}
		if err != nil {
			return nil, err
		}
		if w, ok := p.(ioctx.Watcher); ok {
			out.Watch = true
			w.Watch(s.changes.put)
		}
		if n, ok := p.(ioctx.Noticer); ok {
			out.Notice = n.Notice()
		}
		_, out.Replan = p.(ioctx.Replanner)
		return p, nil
	})
	if err != nil {
		return &ioctxpb.OpenResponse{Error: ioctxwire.Failure(err)}, nil
	}
	return out, nil
}

// Plan asks the planner.
func (s *ioctxServer) Plan(ctx context.Context, r *ioctxpb.PlanRequest) (*ioctxpb.PlanResponse, error) {
	p, err := s.plan(ctx, r)
	if err != nil {
		return &ioctxpb.PlanResponse{Error: ioctxwire.Failure(err)}, nil
	}
	return &ioctxpb.PlanResponse{Plan: ioctxwire.Numbers(p)}, nil
}

func (s *ioctxServer) plan(ctx context.Context, r *ioctxpb.PlanRequest) (ioctx.Plan, error) {
	situation, err := ioctxwire.Situation(r.Situation)
	if err != nil {
		return ioctx.Plan{}, &ioctx.Error{Code: ioctx.CodeInvalid, Err: err}
	}
	ctx, planner, leave, err := s.opened.enter(ctx)
	if err != nil {
		return ioctx.Plan{}, &ioctx.Error{Code: ioctx.CodeInvalid, Err: err}
	}
	defer leave()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ioctx.Plan{}, &ioctx.Error{Code: ioctx.CodeAborted, Err: ctx.Err()}
	}
	p, err := ask(ctx, planner, situation, r.Pressure)
	if err != nil {
		return ioctx.Plan{}, err
	}
	if err := p.Validate(); err != nil {
		return ioctx.Plan{}, fmt.Errorf("the plugin's own plan cannot be used: %w", err)
	}
	return p, nil
}

func ask(ctx context.Context, p ioctx.Planner, s ioctx.Situation, pressure *ioctxpb.Pressure) (ioctx.Plan, error) {
	if pressure == nil {
		return p.Plan(ctx, s)
	}
	r, ok := p.(ioctx.Replanner)
	if !ok {
		return ioctx.Plan{}, &ioctx.Error{Code: ioctx.CodeInvalid, Err: errors.New("the planner takes no pressure")}
	}
	return r.Replan(ctx, s, ioctxwire.Pressure(pressure))
}

// Watch sends changes.
func (s *ioctxServer) Watch(_ *ioctxpb.WatchRequest, stream ioctxpb.Planner_WatchServer) error {
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	for {
		reasons, err := s.changes.take(stream.Context())
		if err != nil {
			return err
		}
		for _, reason := range reasons {
			if err := stream.Send(&ioctxpb.WatchResponse{Reason: strings.ToValidUTF8(reason, "?")}); err != nil {
				return err
			}
		}
	}
}
