package plugintest

import (
	"context"
	"fmt"
	"sync"

	"github.com/gosrpt/gosrpt/sdk/auth"
	"github.com/gosrpt/gosrpt/sdk/auth/authtest"
	"github.com/gosrpt/gosrpt/sdk/host"
	"github.com/gosrpt/gosrpt/sdk/ioctx"
	"github.com/gosrpt/gosrpt/sdk/ioctx/ioctxtest"
)

// ofControl are the checks of a process without data.
var ofControl = []check{
	{"it is opened again after kill -9", checkControlKill},
}

func checkControlKill(r *run) {
	config := r.config(r.TB)
	p := r.opened(config)
	p.Kill()
	p.Close(r.within(endTime))
	if err := r.tryOpen(config); err != nil {
		r.Error(err)
	}
}

func (k *kit) authSubject() authtest.Subject {
	return authtest.Subject{Opener: authOpener{k}, Config: k.config, Allowed: k.o.Allowed, Denied: k.o.Denied, Revoke: k.change()}
}

func (k *kit) ioctxSubject() ioctxtest.Subject {
	return ioctxtest.Subject{Opener: ioctxOpener{k}, Config: k.config, Change: k.change()}
}

func (k *kit) controlWith(config map[string]string) host.ControlOptions {
	o := k.o.control()
	o.Config = config
	return o
}

// life is the end of a process that is opened once.
type life struct {
	c *host.Control
	// watching is the goroutine that takes its changes.
	watching sync.WaitGroup
	mu       sync.Mutex
	broken   error
}

// watch takes changes until the end. An end that nobody asked for is a breach.
func (l *life) watch(f func() error) {
	l.watching.Go(func() {
		err := f()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.broken = err
	})
}

// Close ends the process in order.
func (l *life) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	l.mu.Lock()
	err := l.broken
	l.mu.Unlock()
	l.c.Close(ctx)
	l.watching.Wait()
	if err != nil {
		return fmt.Errorf("the plugin's stream of changes: %w", err)
	}
	if s := l.c.Ending(); s != "exit status 0" {
		return fmt.Errorf("the process ended with %s", s)
	}
	return nil
}

// Notice is the plugin's line.
func (l *life) Notice() string { return l.c.Notice() }

type authOpener struct{ *kit }

func (o authOpener) Open(ctx context.Context, config map[string]string) (auth.Authorizer, error) {
	p, err := host.StartAuth(ctx, o.controlWith(config))
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	o.killers = append(o.killers, p.Kill)
	o.mu.Unlock()
	a := &remoteAuth{life: life{c: p.Control}, p: p}
	if p.Watches() {
		return watchedAuth{a}, nil
	}
	return a, nil
}

// remoteAuth is an authoriser in a process.
type remoteAuth struct {
	life
	p *host.Auth
}

func (a *remoteAuth) Decide(ctx context.Context, l auth.Login) (auth.Decision, error) {
	return a.p.Decide(ctx, l)
}

type watchedAuth struct{ *remoteAuth }

func (a watchedAuth) Watch(notify func(auth.Change)) {
	a.watch(func() error { return a.p.Watch(notify) })
}

type ioctxOpener struct{ *kit }

func (o ioctxOpener) Open(ctx context.Context, config map[string]string) (ioctx.Planner, error) {
	p, err := host.StartIOCtx(ctx, o.controlWith(config))
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	o.killers = append(o.killers, p.Kill)
	o.mu.Unlock()
	r := &remotePlanner{life: life{c: p.Control}, p: p}
	switch {
	case p.Watches() && p.Replans():
		return watchedReplanner{watchedPlanner{r}}, nil
	case p.Watches():
		return watchedPlanner{r}, nil
	case p.Replans():
		return replanner{r}, nil
	}
	return r, nil
}

// remotePlanner is a planner in a process.
type remotePlanner struct {
	life
	p *host.IOCtx
}

func (r *remotePlanner) Plan(ctx context.Context, s ioctx.Situation) (ioctx.Plan, error) {
	return r.p.Plan(ctx, s)
}

type watchedPlanner struct{ *remotePlanner }

func (r watchedPlanner) Watch(notify func(reason string)) {
	r.watch(func() error { return r.p.Watch(notify) })
}

type replanner struct{ *remotePlanner }

func (r replanner) Replan(ctx context.Context, s ioctx.Situation, p ioctx.Pressure) (ioctx.Plan, error) {
	return r.p.Replan(ctx, s, p)
}

type watchedReplanner struct{ watchedPlanner }

func (r watchedReplanner) Replan(ctx context.Context, s ioctx.Situation, p ioctx.Pressure) (ioctx.Plan, error) {
	return r.p.Replan(ctx, s, p)
}
