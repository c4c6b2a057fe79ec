package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gosrpt/gosrpt/sdk/host"
)

// tick is how often a running plugin is looked at: for a hang, and for stores that wait to be opened.
const tick = time.Second

// ErrHang says that a plugin was killed because it left requests untaken.
var ErrHang = errors.New("the plugin hangs")

// supervise follows one process after another:
//
//	running   fault, hang   the process is killed; then as dead
//	running   dead          a pause (none at first), then starting
//	running   tick          stores that are not open are tried again
//	starting  success       every store is opened and every queue attached; running
//	starting  failure       down for a longer pause; then starting
//	any       Close         queues, stores and process end in this order; closed
func (p *Plugin) supervise(proc *host.Process) {
	defer close(p.done)
	pause := time.Duration(0)
	for {
		began := time.Now()
		err := p.follow(proc)
		if p.ctx.Err() != nil {
			p.end(proc)
			return
		}
		p.bury(proc, err)
		if time.Since(began) >= steady {
			pause = 0
		}
		if proc, pause = p.raise(pause); proc == nil {
			p.end(nil)
			return
		}
	}
}

// follow returns why a process has ended, when it has, or when the plugin is closed.
func (p *Plugin) follow(proc *host.Process) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return nil
		case <-proc.Dead():
			return fmt.Errorf("the process ended: %s", proc.Ending())
		case err := <-proc.Faults():
			return p.kill(proc, err)
		case <-t.C:
			if d := proc.Stalled(); d >= p.cfg.Hang {
				return p.kill(proc, fmt.Errorf("requests have waited for %v: %w", d, ErrHang))
			}
			p.openWaiting(proc)
		}
	}
}

// kill kills a process and waits for its death: until then it may touch the arena.
func (p *Plugin) kill(proc *host.Process, err error) error {
	p.cfg.Log.Error("killing the plugin", "plugin", p.cfg.Name, "pid", proc.PID(), "reason", err)
	proc.Kill()
	<-proc.Dead()
	return err
}

// bury forgets a dead process.
func (p *Plugin) bury(proc *host.Process, err error) {
	p.cfg.Log.Error("the plugin is gone, its commands wait for the next process",
		"plugin", p.cfg.Name, "pid", proc.PID(), "reason", err)
	p.ops.Lock()
	p.mu.Lock()
	p.proc = nil
	for s := range p.stores {
		s.open = nil
	}
	p.mu.Unlock()
	p.ops.Unlock()
	proc.Close(context.Background()) // it is dead: this frees what it left
	p.enter(StateDown, err)
}

// raise brings up the next process, after pause, and tries until it succeeds or the plugin is closed.
func (p *Plugin) raise(pause time.Duration) (*host.Process, time.Duration) {
	for {
		if !p.sleep(pause) {
			return nil, 0
		}
		pause = min(max(2*pause, p.cfg.BackoffMin), p.cfg.BackoffMax)
		p.enter(StateStarting, nil)
		proc, err := p.launch(p.ctx)
		if err == nil {
			p.mu.Lock()
			p.status.Restarts++
			p.mu.Unlock()
			p.openWaiting(proc)
			p.enter(StateRunning, nil)
			p.cfg.Log.Info("the plugin is back", "plugin", p.cfg.Name, "pid", proc.PID())
			return proc, pause
		}
		if p.ctx.Err() != nil {
			return nil, 0
		}
		p.cfg.Log.Error("cannot start the plugin", "plugin", p.cfg.Name, "error", err, "next", pause)
		p.enter(StateDown, err)
	}
}

func (p *Plugin) sleep(pause time.Duration) bool {
	p.mu.Lock()
	p.status.Next = time.Now().Add(pause)
	p.mu.Unlock()
	if pause == 0 {
		return p.ctx.Err() == nil
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-p.ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// end is Close's work.
func (p *Plugin) end(proc *host.Process) {
	p.ops.Lock()
	defer p.ops.Unlock()
	p.mu.Lock()
	stores := p.stores
	p.stores = map[*Store]struct{}{}
	p.proc = nil
	p.mu.Unlock()
	for s := range stores {
		s.closeQueues()
	}
	if proc != nil {
		ctx, cancel := context.WithTimeout(context.Background(), p.cfg.Stop)
		defer cancel()
		proc.Close(ctx) // closes the stores
	}
	p.enter(StateClosed, nil)
}
