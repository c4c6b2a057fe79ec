package pluginhost

import (
	"context"

	"github.com/gosrpt/gosrpt/sdk/auth"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// AuthConfig is the configuration of an auth plugin.
type AuthConfig struct {
	ControlConfig
	// Changed, if set, is called for each change that the plugin tells of, and with a change that concerns everybody when
	// another process has taken over: it may decide otherwise. It is called from one goroutine at a time and may ask
	// the plugin; the next change waits for it. It must not call Close, which waits for it.
	Changed func(auth.Change)
}

// Auth is a supervised auth plugin. Its methods may be called from any goroutine.
type Auth struct{ m minder[*host.Auth] }

// StartAuth starts an auth plugin and supervises it until Close. ctx bounds the first start, whose failure is StartAuth's.
func StartAuth(ctx context.Context, cfg AuthConfig) (*Auth, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	changed := cfg.Changed
	if changed == nil {
		changed = func(auth.Change) {}
	}
	a := &Auth{}
	a.m.of, a.m.cfg, a.m.host = kindAuth, cfg.ControlConfig, host.StartAuth
	tell := func(c auth.Change) {
		a.m.telling.Lock()
		defer a.m.telling.Unlock()
		changed(c)
	}
	a.m.watch = func(p *host.Auth) error { return p.Watch(tell) }
	a.m.back = func() { tell(auth.Change{Reason: "the auth plugin was restarted"}) }
	if err := a.m.mind(ctx, "the auth plugin is gone, logins are refused until it is back"); err != nil {
		return nil, err
	}
	return a, nil
}

// Decide asks the plugin about a login. An error means that there is no decision, and so that the login is to be refused.
func (a *Auth) Decide(ctx context.Context, l auth.Login) (auth.Decision, error) {
	return ask(ctx, &a.m, func(ctx context.Context, p *host.Auth) (auth.Decision, error) { return p.Decide(ctx, l) })
}

// Upgrade replaces the plugin's process by one of another executable: that is started and opened with the same configuration,
// then it is asked in place of the old one, which ends when it has answered what it was asked. Changed is called as after a restart.
// If the new one cannot be started or opened the old one stays. ctx bounds the start.
func (a *Auth) Upgrade(ctx context.Context, o UpgradeOptions) (Upgrade, error) {
	return a.m.upgrade(ctx, o)
}

// Status tells how the plugin is.
func (a *Auth) Status() Status { return a.m.snapshot() }

// Close ends the plugin. It may be called twice.
func (a *Auth) Close() { a.m.close() }
