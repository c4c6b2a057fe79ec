package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gosrpt/gosrpt/sdk/host"
)

// Plugin is one supervised plugin: at most one process at a time. Its methods may be called from any goroutine.
type Plugin struct {
	cfg    Config
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{} // closed when the supervisor has ended

	// ops serialises what talks to the plugin: opening and closing of stores and queues. It is taken before mu.
	ops sync.Mutex

	mu     sync.Mutex
	proc   *host.Process // nil without one
	stores map[*Store]struct{}
	status Status
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
	p := &Plugin{cfg: cfg, done: make(chan struct{}), stores: map[*Store]struct{}{}}
	p.status = Status{Name: cfg.Name, State: StateStarting, Since: time.Now()}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	proc, err := p.launch(ctx)
	if err != nil {
		p.cancel()
		return nil, fmt.Errorf("pluginhost: %s: %w", cfg.Name, err)
	}
	p.enter(StateRunning, nil)
	go p.supervise(proc)
	return p, nil
}

// launch starts a process and makes it the current one.
func (p *Plugin) launch(ctx context.Context) (*host.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Ready)
	defer cancel()
	path, err := p.cfg.path()
	if err != nil {
		return nil, err
	}
	proc, err := host.Start(ctx, host.Options{
		Path: path, Args: p.cfg.Args, Env: p.cfg.Env, Arena: p.cfg.Arena, Slow: p.cfg.Slow, Log: p.cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proc, p.status.Path = proc, path
	return proc, nil
}

// current is the process, or ErrDown or ErrClosed.
func (p *Plugin) current() (*host.Process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.status.State == StateClosed:
		return nil, fmt.Errorf("pluginhost: %s: %w", p.cfg.Name, ErrClosed)
	case p.proc == nil:
		return nil, fmt.Errorf("pluginhost: %s: %w; %s", p.cfg.Name, ErrDown, p.status.LastError)
	}
	return p.proc, nil
}

// Close ends the plugin: its queues, its stores in order, its process. The reactors must have let go of the queues. It
// may be called twice.
func (p *Plugin) Close() {
	p.cancel()
	<-p.done
}
