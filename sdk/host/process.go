package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// Options say which plugin to start.
type Options struct {
	// Path is the executable, Args its arguments.
	Path string
	Args []string
	// Env is the process's environment, whole: nothing of this process's environment is passed on.
	Env []string
	// Arena is given to the plugin.
	Arena *Arena
	// Slow keeps the data on the gRPC connection although the plugin serves rings.
	Slow bool
	// Log gets what the plugin logs and prints.
	Log hclog.Logger
}

// Process is one life of a plugin. Its methods may be called from any goroutine.
type Process struct {
	bridge *bridge.Process
	arena  *Arena
	log    hclog.Logger
	ring   bool
	stream bool
	about  string
	token  atomic.Uint64
	// stalled is the watchdog's last measure, in nanoseconds.
	stalled atomic.Int64
	dead    chan struct{}
	faults  chan error

	mu    sync.Mutex
	links map[link]*Queue
	gone  bool
}

// Start starts a plugin and gives it the arena. ctx bounds that.
func Start(ctx context.Context, o Options) (*Process, error) {
	if o.Arena == nil || o.Log == nil {
		return nil, fmt.Errorf("host: plugin %s: an arena and a logger are needed", o.Path)
	}
	b, err := bridge.Start(ctx, bridge.Options{Path: o.Path, Args: o.Args, Env: o.Env, Log: o.Log})
	if err != nil {
		return nil, err
	}
	p := &Process{
		bridge: b, arena: o.Arena, log: o.Log,
		dead: make(chan struct{}), faults: make(chan error, 1), links: map[link]*Queue{},
	}
	if err := p.greet(ctx, o.Slow); err != nil {
		b.Kill()
		b.Stop(context.Background())
		return nil, fmt.Errorf("plugin %s: %w", o.Path, err)
	}
	go p.watch()
	go p.watchdog()
	return p, nil
}

func (p *Process) greet(ctx context.Context, slow bool) error {
	d, err := p.bridge.RPC().Describe(ctx, &backstorepb.DescribeRequest{})
	if err != nil {
		return fmt.Errorf("it does not describe itself; is it a backstore plugin? %w", err)
	}
	p.ring, p.stream, p.about = d.Ring && !slow, d.Transfer, d.Runtime
	if !p.ring {
		return nil
	}
	token, err := p.send(ctx, p.arena.mem.FD())
	if err != nil {
		return err
	}
	r, err := p.bridge.RPC().AttachArena(ctx, &backstorepb.AttachArenaRequest{
		Token: token, Size: uint64(len(p.arena.Bytes())),
	})
	return errors.Join(err, failed("attach the arena", r.GetError()))
}

// send passes descriptors under a new token.
func (p *Process) send(ctx context.Context, fds ...int) (uint64, error) {
	token := p.token.Add(1)
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(closeTime)
	}
	if err := p.bridge.Channel().Send(token, deadline, fds...); err != nil {
		return 0, fmt.Errorf("passing descriptors to the plugin: %w", err)
	}
	return token, nil
}

// Error is what a plugin answered to a call.
type Error struct {
	// Op is what was asked for.
	Op string
	// Code is one of sdk/backstore.
	Code backstore.Code
	// Text is the plugin's.
	Text string
}

// Error tells what the plugin refused and why.
func (e *Error) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("the plugin refused to %s: %v", e.Op, e.Code)
	}
	return fmt.Sprintf("the plugin refused to %s: %s", e.Op, e.Text)
}

func failed(op string, e *backstorepb.Error) error {
	if e == nil {
		return nil
	}
	c := backstore.CodeIO
	if e.Code != 0 && e.Code <= uint32(backstore.CodeInvalid) {
		c = backstore.Code(e.Code)
	}
	return &Error{Op: op, Code: c, Text: e.Text}
}

// watch gives back what the process held, once it is dead.
func (p *Process) watch() {
	<-p.bridge.Dead()
	p.mu.Lock()
	p.gone = true
	lost := maps.Clone(p.links)
	clear(p.links)
	p.mu.Unlock()
	for l, q := range lost {
		l.quiesce()
		_ = q.post(func(m *mailbox) { m.gone = append(m.gone, l) }) // a closed queue has seen to it itself
	}
	close(p.dead)
}

// Dead is closed when the process has ended and its queues know. Nothing of it touches the arena any more, but
// for io_uring requests in the kernel: the next process's Open waits for those.
func (p *Process) Dead() <-chan struct{} { return p.dead }

// Ending tells how the process ended, once Dead is closed.
func (p *Process) Ending() string { return p.bridge.Ending() }

// Faults delivers the first reason not to trust the process any more. Kill it then.
func (p *Process) Faults() <-chan error { return p.faults }

func (p *Process) fault(err error) {
	select {
	case p.faults <- err:
	default:
	}
}

// PID is the process's number.
func (p *Process) PID() int { return p.bridge.PID() }

// About is the plugin's word on what it was built with.
func (p *Process) About() string { return p.about }

// Ring tells whether data goes over shared-memory rings.
func (p *Process) Ring() bool { return p.ring }

// Kill kills the process and its process group. It does not wait: Dead tells.
func (p *Process) Kill() { p.bridge.Kill() }

// Close ends the process in order: it finishes what is under way and closes its stores. It is killed when ctx ends first. Close
// returns when it is dead and its queues know.
func (p *Process) Close(ctx context.Context) {
	p.bridge.Stop(ctx)
	<-p.dead
}

// Health asks the process whether it is well. ctx bounds the question.
func (p *Process) Health(ctx context.Context) error {
	h, err := p.bridge.RPC().Health(ctx, &backstorepb.HealthRequest{})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(h.Queues, func(q *backstorepb.QueueHealth) bool { return q.Broken != "" })
	if i >= 0 {
		return fmt.Errorf("host: the plugin says of queue %d: %s", h.Queues[i].Queue, h.Queues[i].Broken)
	}
	return nil
}
