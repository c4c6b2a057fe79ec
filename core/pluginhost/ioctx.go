package pluginhost

import (
	"context"

	"github.com/gosrpt/gosrpt/sdk/host"
	"github.com/gosrpt/gosrpt/sdk/ioctx"
)

// IOCtxConfig is the configuration of an ioctx plugin.
type IOCtxConfig struct {
	ControlConfig
	// Changed, if set, is called when the plugin may plan otherwise than before: it said so, or another process has taken over.
	// It is called from one goroutine at a time and may ask the plugin; the next change waits for it. It must not call Close,
	// which waits for it.
	Changed func(reason string)
}

// IOCtx is a supervised ioctx plugin. Its methods may be called from any goroutine.
type IOCtx struct{ m minder[*host.IOCtx] }

// StartIOCtx starts an ioctx plugin and supervises it until Close. ctx bounds the first start, whose failure is StartIOCtx's.
func StartIOCtx(ctx context.Context, cfg IOCtxConfig) (*IOCtx, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	changed := cfg.Changed
	if changed == nil {
		changed = func(string) {}
	}
	p := &IOCtx{}
	p.m.of, p.m.cfg, p.m.host = kindIOCtx, cfg.ControlConfig, host.StartIOCtx
	tell := func(reason string) {
		p.m.telling.Lock()
		defer p.m.telling.Unlock()
		changed(reason)
	}
	p.m.watch = func(h *host.IOCtx) error { return h.Watch(tell) }
	p.m.back = func() { tell("the ioctx plugin was restarted") }
	if err := p.m.mind(ctx, "the ioctx plugin is gone, the plan in force stays in force"); err != nil {
		return nil, err
	}
	return p, nil
}

// Plan asks the plugin for a plan. An error means that there is none, and so that the plan in force stays in force.
func (p *IOCtx) Plan(ctx context.Context, s ioctx.Situation) (ioctx.Plan, error) {
	return ask(ctx, &p.m, func(ctx context.Context, h *host.IOCtx) (ioctx.Plan, error) { return h.Plan(ctx, s) })
}

// Replan asks for a plan under pressure. Of a plugin that takes none the answer is the plan in force.
func (p *IOCtx) Replan(ctx context.Context, s ioctx.Situation, pressure ioctx.Pressure) (ioctx.Plan, error) {
	return ask(ctx, &p.m, func(ctx context.Context, h *host.IOCtx) (ioctx.Plan, error) {
		if !h.Replans() {
			return s.InForce, nil
		}
		return h.Replan(ctx, s, pressure)
	})
}

// Upgrade replaces the plugin's process by one of another executable: that is started and opened with the same configuration,
// then it is asked in place of the old one, which ends when it has answered what it was asked. Changed is called as after a restart.
// If the new one cannot be started or opened the old one stays. ctx bounds the start.
func (p *IOCtx) Upgrade(ctx context.Context, o UpgradeOptions) (Upgrade, error) {
	return p.m.upgrade(ctx, o)
}

// Status tells how the plugin is.
func (p *IOCtx) Status() Status { return p.m.snapshot() }

// Close ends the plugin. It may be called twice.
func (p *IOCtx) Close() { p.m.close() }
