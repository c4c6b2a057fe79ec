package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gosrpt/gosrpt/sdk/host"
)

// Upgrade replaces the plugin's process by one of another executable, while initiators stay logged in: the new one is started
// and checked, then requests are held, the stores go from the old one to the new one, and what was held goes on. Whatever fails
// before the new process has all stores leaves them with the old one. Whichever of the two dies meanwhile, the other one or its
// restart serves. ctx bounds the start; what follows is bounded by the options. Errors wrap ErrUpgrading, ErrQuiesce,
// ErrRolledBack, ErrChanged or ErrClosed, where one of these fits.
//
//	new does not start, is not well     nothing has happened
//	old does not end its requests       resume; old serves
//	old dies                            new serves; its Open waits for the fence
//	old does not let go                 it is killed; new serves
//	new does not open, is another       killed; opened in old again; old serves
//	new dies before it has all stores   the same
//	both die                            restart
func (p *Plugin) Upgrade(ctx context.Context, o UpgradeOptions) (Upgrade, error) {
	return p.upgrade(ctx, o)
}

// check asks a new process how it is.
func (p *Plugin) check(ctx context.Context, proc *host.Process) error { return proc.Health(ctx) }

// takeOver hands the stores from one process to the next, and returns the one that has them.
func (p *Plugin) takeOver(old *host.Process, h *handover[*host.Process]) *host.Process {
	p.ops.Lock()
	defer p.ops.Unlock()
	begin := time.Now()
	stores := p.openStores()
	held := heldBy(stores)
	if err := p.quiesce(old, stores, h.step); err != nil {
		p.resume(stores)
		p.discard(h.proc)
		h.end(err)
		return old
	}
	p.letGo(old, stores, h.step)
	pauses, err := p.open(h.proc, stores, h.step, begin)
	if err == nil && dead(h.proc) {
		err = fmt.Errorf("it ended: %s", h.proc.Ending())
	}
	if err != nil {
		h.end(fmt.Errorf("%w: %w", ErrRolledBack, p.rollBack(old, h.proc, stores, err)))
		return old
	}
	for i := range pauses {
		pauses[i].Waited = stores[i].held() - held[i]
	}
	h.report.Pauses = pauses
	p.succeed(old, h, p.retire)
	h.end(nil)
	return h.proc
}

// openStores lists the stores that are open. The caller holds p.ops.
func (p *Plugin) openStores() []*Store {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []*Store
	for s := range p.stores {
		if s.open != nil {
			list = append(list, s)
		}
	}
	return list
}

// held counts the requests that have waited for a process.
func (s *Store) held() uint64 {
	var n uint64
	for _, q := range s.queues {
		n += q.Counters().Held
	}
	return n
}

func heldBy(stores []*Store) []uint64 {
	var list []uint64
	for _, s := range stores {
		list = append(list, s.held())
	}
	return list
}

// quiesce holds the requests of every store, and returns when the old process has done what it had, or is dead.
func (p *Plugin) quiesce(old *host.Process, stores []*Store, step time.Duration) error {
	ctx, cancel := context.WithTimeout(p.ctx, step)
	defer cancel()
	err := each(stores, func(_ int, s *Store) error {
		var errs []error
		for _, q := range s.queues {
			errs = append(errs, q.Pause(ctx))
		}
		return errors.Join(errs...)
	})
	if err == nil || dead(old) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrQuiesce, err)
}

func (p *Plugin) resume(stores []*Store) {
	for _, s := range stores {
		for _, q := range s.queues {
			if err := q.Resume(); err != nil {
				p.cfg.Log.Error("a queue stays held", "plugin", p.cfg.Name, "error", err)
			}
		}
	}
}

// letGo closes the stores in the old process. If that does not let go it is killed: what it had done is what counts, and the new
// process's Open waits for the rest.
func (p *Plugin) letGo(old *host.Process, stores []*Store, step time.Duration) {
	ctx, cancel := context.WithTimeout(p.ctx, step)
	defer cancel()
	err := each(stores, func(_ int, s *Store) error {
		for _, q := range s.queues {
			if err := s.open.Detach(ctx, q); err != nil {
				return err
			}
		}
		return s.open.Close(ctx)
	})
	if err != nil && !dead(old) {
		_ = p.kill(old, err) // the error is logged there, and changes nothing
	}
	if err != nil {
		<-old.Dead()
	}
	p.drop(stores)
}

// drop notes that no process has the stores.
func (p *Plugin) drop(stores []*Store) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range stores {
		s.lost()
	}
}

// open opens the stores in a process and attaches their queues. It tells of each when that had been done.
func (p *Plugin) open(proc *host.Process, stores []*Store, within time.Duration, begin time.Time) ([]Pause, error) {
	pauses := make([]Pause, len(stores))
	err := each(stores, func(i int, s *Store) error {
		err := s.reopen(proc, within)
		pauses[i] = Pause{Store: s, Time: time.Since(begin)}
		return err
	})
	return pauses, err
}

// rollBack ends the new process, and opens in the old one again what is open in neither. What cannot be opened is tried again
// at each tick.
func (p *Plugin) rollBack(old, proc *host.Process, stores []*Store, why error) error {
	p.cfg.Log.Error("the new process cannot take over, the old one goes on", "plugin", p.cfg.Name, "error", why)
	p.discard(proc)
	p.drop(stores)
	if dead(old) {
		return errors.Join(why, fmt.Errorf("the old process ended: %s", old.Ending()))
	}
	_, err := p.open(old, stores, p.cfg.Ready, time.Now())
	return errors.Join(why, err)
}

// retire ends a process that has no stores any more.
func (p *Plugin) retire(old *host.Process) {
	ctx, cancel := context.WithTimeout(context.Background(), p.cfg.Stop)
	defer cancel()
	old.Close(ctx)
}

func dead(proc *host.Process) bool {
	select {
	case <-proc.Dead():
		return true
	default:
		return false
	}
}

// each calls f for all stores at once.
func each(stores []*Store, f func(i int, s *Store) error) error {
	errs := make([]error, len(stores))
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() { errs[i] = f(i, s) })
	}
	all.Wait()
	return errors.Join(errs...)
}
