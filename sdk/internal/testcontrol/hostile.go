package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc"

	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
	authpb "github.com/gosrpt/gosrpt/sdk/proto/auth/v1"
	ioctxpb "github.com/gosrpt/gosrpt/sdk/proto/ioctx/v1"
)

// serveHostile serves the bare protocol, broken in one place.
func serveHostile(how string) {
	h := hostile{how: how}
	switch how {
	case "wide-luns", "empty-answer", "no-stream", "odd-change", "cut-stream", "strange-code":
		bridge.ServeServices(func(r grpc.ServiceRegistrar) { authpb.RegisterAuthorizerServer(r, hostileAuth{hostile: h}) })
	case "empty-plan", "wild-plan":
		bridge.ServeServices(func(r grpc.ServiceRegistrar) { ioctxpb.RegisterPlannerServer(r, hostileIOCtx{hostile: h}) })
	default:
		fmt.Fprintf(os.Stderr, "testcontrol: hostile how? %q\n", how)
		os.Exit(2)
	}
}

type hostile struct{ how string }

type hostileAuth struct {
	authpb.UnimplementedAuthorizerServer
	hostile
}

func (hostileAuth) Describe(context.Context, *authpb.DescribeRequest) (*authpb.DescribeResponse, error) {
	return &authpb.DescribeResponse{Runtime: "hostile\x1b[2J"}, nil
}

func (h hostileAuth) Open(context.Context, *authpb.OpenRequest) (*authpb.OpenResponse, error) {
	return &authpb.OpenResponse{Watch: h.how == "no-stream" || h.how == "odd-change" || h.how == "cut-stream"}, nil
}

func (h hostileAuth) Decide(context.Context, *authpb.DecideRequest) (*authpb.DecideResponse, error) {
	switch h.how {
	case "wide-luns":
		return &authpb.DecideResponse{Decision: &authpb.Decision{Allow: true, Luns: []*authpb.Lun{{Lun: 1<<16 + 1, Name: "a"}}}}, nil
	case "strange-code":
		return &authpb.DecideResponse{Error: &authpb.Error{Code: 1 << 20, Text: "fake\nline"}, Decision: &authpb.Decision{Allow: true, AllLuns: true}}, nil
	}
	return &authpb.DecideResponse{}, nil
}

func (h hostileAuth) Watch(_ *authpb.WatchRequest, s authpb.Authorizer_WatchServer) error {
	switch h.how {
	case "no-stream":
		return errors.New("changed my mind")
	case "odd-change":
		return s.Send(&authpb.WatchResponse{Revoke: true})
	}
	return s.SendHeader(nil)
}

type hostileIOCtx struct {
	ioctxpb.UnimplementedPlannerServer
	hostile
}

func (hostileIOCtx) Describe(context.Context, *ioctxpb.DescribeRequest) (*ioctxpb.DescribeResponse, error) {
	return &ioctxpb.DescribeResponse{}, nil
}

func (hostileIOCtx) Open(context.Context, *ioctxpb.OpenRequest) (*ioctxpb.OpenResponse, error) {
	return &ioctxpb.OpenResponse{}, nil
}

func (h hostileIOCtx) Plan(context.Context, *ioctxpb.PlanRequest) (*ioctxpb.PlanResponse, error) {
	if h.how == "wild-plan" {
		return &ioctxpb.PlanResponse{Plan: &ioctxpb.Numbers{Credits: 1<<32 - 1, ArenaSize: 1<<64 - 1, MaxWaitNs: 1<<64 - 1}}, nil
	}
	return &ioctxpb.PlanResponse{}, nil
}
