package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// Store is a store that is opened again in each process of its plugin. Its methods may be called from any goroutine.
type Store struct {
	p      *Plugin
	config map[string]string
	info   backstore.Info

	// Under p.ops.
	queues []*host.Queue
	closed bool

	// dead are the stores of dead processes whose I/O may not be over.
	dead []*host.Store

	open *host.Store // written under p.ops and p.mu; nil while it is not open
}

// ErrChanged says that a store is not what it was before the restart.
var ErrChanged = errors.New("the store has changed")

// Open opens a store. ctx bounds that.
func (p *Plugin) Open(ctx context.Context, config map[string]string) (*Store, error) {
	p.ops.Lock()
	defer p.ops.Unlock()
	proc, err := p.current()
	if err != nil {
		return nil, err
	}
	if err := p.fits(proc, config); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Ready)
	defer cancel()
	open, err := proc.Open(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("pluginhost: %s: %w", p.cfg.Name, err)
	}
	s := &Store{p: p, config: maps.Clone(config), info: open.Info(), open: open}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stores[s] = struct{}{}
	return s, nil
}

// Info describes the store, as it was opened first.
func (s *Store) Info() backstore.Info { return s.info }

// Waiting tells whether the store waits to be opened again, in a new process or at the next attempt. Its requests wait, too.
func (s *Store) Waiting() bool {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.open == nil
}

// NewQueue makes a queue to the store, for one reactor. While there is no process it is attached to none, and its requests
// wait. It is closed with CloseQueue.
func (s *Store) NewQueue(ctx context.Context, o host.QueueOptions) (*host.Queue, error) {
	s.p.ops.Lock()
	defer s.p.ops.Unlock()
	if s.closed {
		return nil, fmt.Errorf("pluginhost: %s: store: %w", s.p.cfg.Name, ErrClosed)
	}
	q, err := host.NewQueue(s.info, s.p.cfg.Arena, o)
	if err != nil {
		return nil, err
	}
	if s.open != nil {
		ctx, cancel := context.WithTimeout(ctx, s.p.cfg.Ready)
		defer cancel()
		if err := s.open.Attach(ctx, q); err != nil {
			return nil, errors.Join(err, q.Close())
		}
	}
	s.queues = append(s.queues, q)
	return q, nil
}

// CloseQueue ends a queue, as host.Queue.Close does.
func (s *Store) CloseQueue(q *host.Queue) error {
	s.p.ops.Lock()
	defer s.p.ops.Unlock()
	if i := slices.Index(s.queues, q); i >= 0 {
		s.queues = slices.Delete(s.queues, i, i+1)
	}
	return q.Close()
}

// closeQueues ends every queue. The caller holds p.ops.
func (s *Store) closeQueues() {
	for _, q := range s.queues {
		if err := q.Close(); err != nil {
			s.p.cfg.Log.Error("closing a queue", "plugin", s.p.cfg.Name, "error", err)
		}
	}
	s.queues, s.closed = nil, true
}

// Close ends the store's queues and closes it. ctx bounds the plugin's part. Without a process nothing proves the end of the last
// one's I/O: what that had of the arena stays tainted.
func (s *Store) Close(ctx context.Context) error {
	s.p.ops.Lock()
	defer s.p.ops.Unlock()
	if s.closed {
		return nil
	}
	s.closeQueues()
	open := s.open
	s.p.mu.Lock()
	s.open = nil
	delete(s.p.stores, s)
	s.p.mu.Unlock()
	if open == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.p.cfg.Stop)
	defer cancel()
	return open.Close(ctx)
}

// openWaiting opens, in a process, the stores that are not open, and attaches their queues. What fails is tried
// again at the next tick.
func (p *Plugin) openWaiting(proc *host.Process) {
	p.ops.Lock()
	defer p.ops.Unlock()
	p.mu.Lock()
	var waiting []*Store
	for s := range p.stores {
		if s.open == nil {
			waiting = append(waiting, s)
		}
	}
	p.mu.Unlock()
	for _, s := range waiting {
		if err := s.reopen(proc, p.cfg.Ready); err != nil && p.ctx.Err() == nil {
			p.cfg.Log.Error("cannot open a store again", "plugin", p.cfg.Name, "error", err)
			p.mu.Lock()
			p.status.LastError = err.Error()
			p.mu.Unlock()
		}
	}
}

// reopen opens the store in another process. The caller holds p.ops.
func (s *Store) reopen(proc *host.Process, within time.Duration) error {
	ctx, cancel := context.WithTimeout(s.p.ctx, within)
	defer cancel()
	open, err := proc.Open(ctx, s.config)
	if err != nil {
		return err
	}
	s.fenced()
	if err := same(s.info, open.Info()); err != nil {
		return errors.Join(err, open.Close(ctx))
	}
	for _, q := range s.queues {
		if err := open.Attach(ctx, q); err != nil {
			// A queue that is attached and one that is not are too much to sort out: the next process gets both.
			proc.Kill()
			s.dead = append(s.dead, open)
			return err
		}
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.open = open
	return nil
}

// fenced follows a successful Open: nothing of an earlier process reaches the store or the arena any more. The caller holds p.ops.
func (s *Store) fenced() {
	for _, d := range s.dead {
		d.Lift()
	}
	s.dead = nil
}

// lost notes that the process that the store was open in is dead, or has closed it. The caller holds p.ops and p.mu.
func (s *Store) lost() {
	if s.open != nil {
		s.dead = append(s.dead, s.open)
		s.open = nil
	}
}

// same holds a store against what initiators were told of it.
func same(was, is backstore.Info) error {
	switch {
	case is.BlockSize != was.BlockSize || is.Blocks < was.Blocks:
		return fmt.Errorf("%d blocks of %d bytes, were %d of %d: %w", is.Blocks, is.BlockSize, was.Blocks, was.BlockSize, ErrChanged)
	case is.ReadOnly && !was.ReadOnly:
		return fmt.Errorf("it is read-only now: %w", ErrChanged)
	case was.FUA && !is.FUA:
		return fmt.Errorf("it does not honour FUA any more: %w", ErrChanged)
	case is.WriteCache && !was.WriteCache:
		return fmt.Errorf("it has a volatile cache now: %w", ErrChanged)
	case is.MaxTransfer != 0 && (was.MaxTransfer == 0 || is.MaxTransfer < was.MaxTransfer):
		return fmt.Errorf("its longest transfer is %d bytes, was %d: %w", is.MaxTransfer, was.MaxTransfer, ErrChanged)
	}
	return samePowers(was, is)
}
