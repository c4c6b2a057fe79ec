package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/pluginhost"
)

// supervised is a plugin that has been started once: from then on it is restarted without our help.
type supervised interface {
	comparable
	Status() pluginhost.Status
	Close()
}

// control is a plugin of the control plane. It is never on the path of a command. A first start that fails is tried again and
// again, like the opening of a LUN: what is wrong may be mended while the daemon serves.
type control[P supervised] struct {
	kind, plugin string
	log          hclog.Logger
	// launch starts the plugin, without says what its absence means.
	launch  func(ctx context.Context) (P, error)
	without string

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	work   sync.WaitGroup
	asked  questions

	mu     sync.Mutex // guards what follows
	proc   P          // none before a start has succeeded
	status pluginhost.Status
}

// init makes a plugin that is not started.
func (c *control[P]) init(d *daemon, kind, plugin, without string) {
	c.kind, c.plugin, c.without, c.log = kind, plugin, without, d.log.Named(kind)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.enter(pluginhost.StateStarting, nil)
}

// controlConfig is what the supervisor is told.
func (c *control[P]) controlConfig(d *daemon, own map[string]string) pluginhost.ControlConfig {
	p := &d.cfg.Plugin
	return pluginhost.ControlConfig{
		Name: c.kind, Config: own, Ready: p.StartTimeout, Hang: p.Hang, Log: c.log,
		Resolve: func() (string, error) { return pluginhost.Find(d.cfg.PluginDirs, c.plugin) },
	}
}

// start returns when the first attempt to start the plugin has been made, or ctx ends. The others are made in the background.
func (c *control[P]) start(ctx context.Context) {
	tried := make(chan struct{})
	c.work.Go(func() { persist(c.ctx, c.attempt, func() { close(tried) }, c.failed) })
	select {
	case <-tried:
	case <-ctx.Done():
	}
}

func (c *control[P]) attempt() error {
	c.enter(pluginhost.StateStarting, nil)
	p, err := c.launch(c.ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proc = p
	s := p.Status()
	c.log.Info("the plugin works", "plugin", c.plugin, "path", s.Path, "pid", s.PID)
	return nil
}

func (c *control[P]) failed(err error) {
	c.enter(pluginhost.StateDown, err)
	c.log.Error(c.without, "plugin", c.plugin, "error", err, "next", retryOpen)
}

// enter changes the state that holds before the first start. err, if there is one, is remembered.
func (c *control[P]) enter(s pluginhost.State, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.State, c.status.Since = s, time.Now()
	if err != nil {
		c.status.LastError = err.Error()
	}
}

// current is the plugin, or why there is none.
func (c *control[P]) current() (P, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var none P
	switch {
	case c.proc != none:
		return c.proc, nil
	case c.status.LastError != "":
		return none, fmt.Errorf("the %s plugin %s cannot be started and is tried again: %s", c.kind, c.plugin, c.status.LastError)
	}
	return none, fmt.Errorf("the %s plugin %s is being started", c.kind, c.plugin)
}

func (c *control[P]) snapshot() pluginhost.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	var none P
	if c.proc != none {
		return c.proc.Status()
	}
	return c.status
}

// close ends the plugin.
func (c *control[P]) close() {
	c.cancel()
	c.work.Wait()
	c.enter(pluginhost.StateClosed, nil)
	if p, err := c.current(); err == nil {
		p.Close()
	}
}

// questions are those that a plugin has been asked and has not answered.
type questions struct {
	mu    sync.Mutex
	last  uint64
	since map[uint64]time.Time
}

// begin counts a question until the function that it returns is called.
func (q *questions) begin() (end func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.since == nil {
		q.since = make(map[uint64]time.Time)
	}
	q.last++
	n := q.last
	q.since[n] = time.Now()
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.since, n)
	}
}

// open is how many there are, and the age of the oldest.
func (q *questions) open() (n int, oldest time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range q.since {
		oldest = max(oldest, time.Since(t))
	}
	return len(q.since), oldest
}
