package plugin

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gosrpt/gosrpt/sdk/auth"
	"github.com/gosrpt/gosrpt/sdk/internal/authwire"
	"github.com/gosrpt/gosrpt/sdk/internal/schemawire"
	authpb "github.com/gosrpt/gosrpt/sdk/proto/auth/v1"
)

// ServeAuth serves o to the host that started this process, until the host says so or is gone. Then the questions
// under way are cancelled, the authoriser is closed, and ServeAuth returns; main returns after it. If no host started
// the process, it says so on stderr and exits with status 1.
func ServeAuth(o auth.Opener) {
	s := newAuthServer(o)
	serveControl(func(r grpc.ServiceRegistrar) { authpb.RegisterAuthorizerServer(r, s) }, s.opened.end)
}

type authServer struct {
	authpb.UnimplementedAuthorizerServer
	opener  auth.Opener
	opened  *opened[auth.Authorizer]
	changes *feed[auth.Change]
}

func newAuthServer(o auth.Opener) *authServer {
	every := auth.Change{Reason: "more changes than could be told one by one"}
	return &authServer{opener: o, opened: newOpened[auth.Authorizer](), changes: newFeed(every)}
}

// about is what Describe answers.
func about() string { return "gosrpt sdk, " + runtime.Version() }

// Describe answers at once.
func (s *authServer) Describe(context.Context, *authpb.DescribeRequest) (*authpb.DescribeResponse, error) {
	d, err := schemawire.Describe(s.opener)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &authpb.DescribeResponse{Runtime: about(), Description: d}, nil
}

// Open opens the authoriser and begins to watch it.
func (s *authServer) Open(ctx context.Context, r *authpb.OpenRequest) (*authpb.OpenResponse, error) {
	out := &authpb.OpenResponse{}
	err := s.opened.open(func() (auth.Authorizer, error) {
		a, err := s.opener.Open(ctx, r.Config)
		if err == nil && a == nil {
			err = errors.New("the plugin opened neither an authoriser nor an error")
		}
		if err != nil {
			return nil, err
		}
		if w, ok := a.(auth.Watcher); ok {
			out.Watch = true
			w.Watch(s.changes.put)
		}
		if n, ok := a.(auth.Noticer); ok {
			out.Notice = n.Notice()
		}
		return a, nil
	})
	if err != nil {
		return &authpb.OpenResponse{Error: authwire.Failure(err)}, nil
	}
	return out, nil
}

// Decide asks the authoriser.
func (s *authServer) Decide(ctx context.Context, r *authpb.DecideRequest) (*authpb.DecideResponse, error) {
	d, err := s.decide(ctx, r)
	if err != nil {
		return &authpb.DecideResponse{Error: authwire.Failure(err)}, nil
	}
	return &authpb.DecideResponse{Decision: authwire.DecisionMessage(d)}, nil
}

func (s *authServer) decide(ctx context.Context, r *authpb.DecideRequest) (auth.Decision, error) {
	l, err := authwire.Login(r.Login)
	if err != nil {
		return auth.Decision{}, &auth.Error{Code: auth.CodeInvalid, Err: err}
	}
	ctx, a, leave, err := s.opened.enter(ctx)
	if err != nil {
		return auth.Decision{}, &auth.Error{Code: auth.CodeInvalid, Err: err}
	}
	defer leave()
	d, err := a.Decide(ctx, l)
	if err != nil {
		return auth.Decision{}, err
	}
	if err := d.Validate(); err != nil {
		return auth.Decision{}, fmt.Errorf("the plugin's own decision cannot be used: %w", err)
	}
	return d, nil
}

// Watch sends changes.
func (s *authServer) Watch(_ *authpb.WatchRequest, stream authpb.Authorizer_WatchServer) error {
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	for {
		changes, err := s.changes.take(stream.Context())
		if err != nil {
			return err
		}
		for _, c := range changes {
			if err := stream.Send(authwire.ChangeMessage(c)); err != nil {
				return err
			}
		}
	}
}
