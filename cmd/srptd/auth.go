package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/core/target"
	"github.com/gosrpt/gosrpt/sdk/auth"
)

// authorizer is the auth plugin. While it does not answer, every login is refused, and sessions stay as they are.
type authorizer struct {
	control[*pluginhost.Auth]
	// target is told of changes. Before there is one nobody can have logged in, so that no change concerns anybody.
	target  atomic.Pointer[target.Target]
	timeout time.Duration // of one decision
}

func newAuthorizer(d *daemon) *authorizer {
	a := &authorizer{timeout: d.cfg.Auth.Timeout}
	a.init(d, "auth", d.cfg.Auth.Plugin, "the auth plugin cannot be started, every login is refused until it can")
	a.launch = func(ctx context.Context) (*pluginhost.Auth, error) {
		cfg := pluginhost.AuthConfig{ControlConfig: a.controlConfig(d, d.cfg.Auth.Config), Changed: a.changed}
		cfg.Call = a.timeout
		return pluginhost.StartAuth(ctx, cfg)
	}
	return a
}

// Decide implements target.Decider.
func (a *authorizer) Decide(ctx context.Context, l auth.Login) (auth.Decision, error) {
	p, err := a.current()
	if err != nil {
		return auth.Decision{}, err
	}
	defer a.asked.begin()()
	begin := time.Now()
	d, err := p.Decide(ctx, l)
	if err != nil && time.Since(begin) >= a.timeout {
		err = fmt.Errorf("auth.timeout of %v is over: %w", a.timeout, err)
	}
	return d, err
}

func (a *authorizer) changed(c auth.Change) {
	if t := a.target.Load(); t != nil {
		t.AuthChanged(c)
	}
}
