package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
	authpb "github.com/gosrpt/gosrpt/sdk/proto/auth/v1"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
	ioctxpb "github.com/gosrpt/gosrpt/sdk/proto/ioctx/v1"
	pluginpb "github.com/gosrpt/gosrpt/sdk/proto/plugin/v1"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

// The kinds of plugins.
const (
	KindBackstore = "backstore"
	KindAuth      = "auth"
	KindIOCtx     = "ioctx"
)

// About is what a plugin says of itself before anything is opened.
type About struct {
	// Kind is one of the kinds.
	Kind string
	// Runtime is what it was built with.
	Runtime string
	// Protocol is the major version of the protocol that both sides speak.
	Protocol int
	// Ring and Transfer are the data paths of a backstore.
	Ring, Transfer bool
	// Description counts if Described: an old plugin has none.
	Description schema.Description
	Described   bool
}

// describedTime is how long a plugin that was only described has to end.
const describedTime = 5 * time.Second

// Describe starts a plugin of any kind, asks it what it is, and ends it. Config counts for nothing. ctx bounds it.
func Describe(ctx context.Context, o ControlOptions) (About, error) {
	if o.Log == nil {
		return About{}, fmt.Errorf("host: plugin %s: a logger is needed", o.Path)
	}
	b, err := bridge.Start(ctx, bridge.Options{Path: o.Path, Args: o.Args, Env: o.Env, Log: o.Log})
	if err != nil {
		return About{}, err
	}
	a, err := about(ctx, b)
	if err != nil {
		b.Kill()
		err = fmt.Errorf("plugin %s: %w", o.Path, err)
	}
	// It has opened nothing, and so has nothing to finish.
	end, cancel := context.WithTimeout(ctx, describedTime)
	defer cancel()
	b.Stop(end)
	return a, err
}

// about asks for each kind in turn.
func about(ctx context.Context, b *bridge.Process) (About, error) {
	a := About{Protocol: b.Major()}
	var d *pluginpb.Description
	back, err := b.RPC().Describe(ctx, &backstorepb.DescribeRequest{})
	a.Kind, a.Runtime, a.Ring, a.Transfer, d = KindBackstore, back.GetRuntime(), back.GetRing(), back.GetTransfer(), back.GetDescription()
	if status.Code(err) == codes.Unimplemented {
		var r *authpb.DescribeResponse
		r, err = authpb.NewAuthorizerClient(b.Conn()).Describe(ctx, &authpb.DescribeRequest{})
		a.Kind, a.Runtime, d = KindAuth, r.GetRuntime(), r.GetDescription()
	}
	if status.Code(err) == codes.Unimplemented {
		var r *ioctxpb.DescribeResponse
		r, err = ioctxpb.NewPlannerClient(b.Conn()).Describe(ctx, &ioctxpb.DescribeRequest{})
		a.Kind, a.Runtime, d = KindIOCtx, r.GetRuntime(), r.GetDescription()
	}
	if status.Code(err) == codes.Unimplemented {
		return About{}, errors.New("it serves none of the kinds backstore, auth and ioctx")
	}
	if err != nil {
		return About{}, fmt.Errorf("it does not describe itself: %w", err)
	}
	a.Runtime = line(a.Runtime)
	a.Description, a.Described = descriptionOf(d)
	return a, nil
}

// maxSettings is how many settings are shown.
const maxSettings = 1000

// descriptionOf reads a message; all of its text becomes fit to be shown.
func descriptionOf(m *pluginpb.Description) (schema.Description, bool) {
	if m == nil {
		return schema.Description{}, false
	}
	d := schema.Description{Name: line(m.Name), Version: line(m.Version), Summary: line(m.Summary)}
	for _, s := range m.Settings[:min(len(m.Settings), maxSettings)] {
		if s == nil {
			continue
		}
		set := schema.Setting{
			Key: line(s.Key), Kind: schema.Kind(min(s.Kind, 255)), Help: line(s.Help), Default: line(s.Default), Required: s.Required,
			Min: s.Min, Max: s.Max, Secret: s.Secret,
		}
		for _, c := range s.Choices[:min(len(s.Choices), maxSettings)] {
			set.Choices = append(set.Choices, line(c))
		}
		d.Settings = append(d.Settings, set)
	}
	return d, true
}
