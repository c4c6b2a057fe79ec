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

// ErrHang says that a plugin was killed because it left requests untaken, or questions unanswered.
var ErrHang = errors.New("the plugin hangs")

// follow returns when a backstore's process has ended:
//
//	fault, hang   it is killed; then as dead
//	dead          why, is returned
//	tick          stores that are not open are tried again
//	upgrade       whoever has the stores then is followed
//	close         nothing is returned
func (p *Plugin) follow(proc *host.Process) (*host.Process, error) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return proc, nil
		case <-proc.Dead():
			return proc, fmt.Errorf("the process ended: %s", proc.Ending())
		case err := <-proc.Faults():
			return proc, p.kill(proc, err)
		case h := <-p.handovers:
			proc = p.takeOver(proc, h)
		case <-t.C:
			if d := proc.Stalled(); d >= p.cfg.Hang {
				return proc, p.kill(proc, fmt.Errorf("requests have waited for %v: %w", d, ErrHang))
			}
			p.openWaiting(proc)
		}
	}
}

// arrived opens every store in the new process and attaches every queue.
func (p *Plugin) arrived(proc *host.Process) { p.openWaiting(proc) }

// bury forgets a dead process.
func (p *Plugin) bury(proc *host.Process) {
	p.ops.Lock()
	p.mu.Lock()
	p.proc = nil
	for s := range p.stores {
		s.lost()
	}
	p.mu.Unlock()
	p.ops.Unlock()
	proc.Close(context.Background()) // it is dead: this frees what it left
}

// finish ends queues, stores and process, in this order.
func (p *Plugin) finish(proc *host.Process) {
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
}
