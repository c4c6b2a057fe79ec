package pluginhost

import (
	"context"
	"errors"
	"sync"

	"github.com/gosrpt/gosrpt/sdk/host"
)

// Plugin is one supervised backstore plugin: at most one process at a time. Its methods may be called from any goroutine.
type Plugin struct {
	keeper[*host.Process]
	cfg Config

	// ops serialises what talks to the plugin: opening and closing of stores and queues. It is taken before mu.
	ops sync.Mutex

	stores map[*Store]struct{} // under mu
}

// ErrDown says that there is no process at the moment. The plugin is being restarted: try again.
var ErrDown = errors.New("the plugin is not running")

// ErrClosed says that the plugin, store or queue was closed.
var ErrClosed = errors.New("closed")

// Start starts a plugin and supervises it until Close. ctx bounds the first start, whose failure is Start's.
func Start(ctx context.Context, cfg Config) (*Plugin, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	p := &Plugin{cfg: cfg, stores: map[*Store]struct{}{}}
	err := p.begin(ctx, p, keeping{
		name: cfg.Name, path: cfg.path, ready: cfg.Ready, backoffMin: cfg.BackoffMin, backoffMax: cfg.BackoffMax,
		onChange: cfg.OnChange, log: cfg.Log, gone: "the plugin is gone, its commands wait for the next process",
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Plugin) start(ctx context.Context, path string) (*host.Process, error) {
	v, err := vet(kindBackstore, path, p.cfg.Settings, p.cfg.Log)
	if err != nil {
		return nil, err
	}
	defer v.close()
	return host.Start(ctx, host.Options{
		Path: v.path, Launch: v.launch, Args: p.cfg.Args, Env: p.cfg.Env, Arena: p.cfg.Arena, Slow: p.cfg.Slow, Log: p.cfg.Log,
	})
}

// Status tells how the plugin is.
func (p *Plugin) Status() Status { return p.snapshot() }

// Close ends the plugin: its queues, its stores in order, its process. The reactors must have let go of the queues. It
// may be called twice.
func (p *Plugin) Close() { p.close() }
