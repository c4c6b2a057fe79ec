package hca

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// port is one port of a device.
type port struct {
	dev   *device
	num   int
	agent agent
	kick  chan struct{}

	mu     sync.Mutex
	cache  rdma.Port
	fresh  bool // cache has changed since the user was told
	since  time.Time
	reads  uint64
	queue  []rdma.AsyncKind // events that wait, each kind once
	failed string           // why the last refresh failed
}

func newPort(d *device, num int) *port {
	p := &port{dev: d, num: num, kick: make(chan struct{}, 1), cache: rdma.Port{Num: num}}
	p.agent.port = p
	return p
}

// post queues an event. One that waits already is not queued twice.
func (p *port) post(k rdma.AsyncKind) {
	p.mu.Lock()
	if !slices.Contains(p.queue, k) {
		p.queue = append(p.queue, k)
	}
	p.mu.Unlock()
	p.wake()
}

func (p *port) wake() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

func (p *port) next() (rdma.AsyncKind, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return 0, false
	}
	k := p.queue[0]
	p.queue = slices.Delete(p.queue, 0, 1)
	return k, true
}

// run handles events, and tries again what has failed, until the device ends.
func (p *port) run() {
	defer p.agent.close()
	retry := time.NewTimer(p.dev.table.cfg.Retry)
	defer retry.Stop()
	for {
		select {
		case <-p.dev.ctx.Done():
			return
		case <-p.kick:
		case <-retry.C:
			if p.unfinished() {
				p.refresh()
			}
		}
		for p.dev.ctx.Err() == nil {
			k, ok := p.next()
			if !ok {
				break
			}
			done := p.handle(k)
			p.dev.table.history.add(rdma.AsyncEvent{Kind: k, Device: p.dev.dev.Name(), Port: p.num}, done)
		}
		retry.Reset(p.dev.table.cfg.Retry)
	}
}

// unfinished tells whether something about the port has to be tried again.
func (p *port) unfinished() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed != "" || p.agent.wanted()
}

// handle does what an event asks for and says what that was.
func (p *port) handle(k rdma.AsyncKind) string {
	switch k {
	case rdma.AsyncPortError:
		p.clear()
		return "cache cleared"
	case rdma.AsyncUnknown:
		p.dev.table.unknown.Add(1)
		return "counted; " + p.refresh()
	}
	return p.refresh()
}

// answers is what requests to the port are answered from; nil if they are not.
func (p *port) answers() *mad.Agent {
	p.mu.Lock()
	link := p.cache.Link
	p.mu.Unlock()
	if a := p.dev.table.ibAgent.Load(); a != nil && link == ib.LinkInfiniBand {
		return a
	}
	return p.dev.table.agent.Load()
}

// clear forgets what a link gave to the port: it is down.
func (p *port) clear() {
	p.mu.Lock()
	old := p.cache
	p.mu.Unlock()
	p.store(rdma.Port{Num: p.num, GUID: old.GUID, Link: old.Link, State: ib.PortDown})
}

// refresh reads the port anew, makes sure that its agent is registered, and says what has changed. It may be called any number of
// times.
func (p *port) refresh() string {
	now, err := p.read()
	if err != nil {
		p.mu.Lock()
		news := p.failed != err.Error()
		p.failed = err.Error()
		p.mu.Unlock()
		if news && p.dev.ctx.Err() == nil {
			p.dev.table.log.Warn("a port cannot be read, trying again", "device", p.dev.dev.Name(), "port", p.num, "error", err)
		}
		return "not refreshed: " + err.Error()
	}
	said := []string{"refreshed: " + p.store(now)}
	if s := p.agent.open(); s != "" {
		said = append(said, s)
	}
	return strings.Join(said, "; ")
}

func (p *port) read() (rdma.Port, error) {
	list, err := p.dev.dev.Ports()
	if err != nil {
		return rdma.Port{}, err
	}
	for _, q := range list {
		if q.Num == p.num {
			return q, nil
		}
	}
	return rdma.Port{}, fmt.Errorf("the device has no port %d any more", p.num)
}

// store puts a reading into the cache and says what is different.
func (p *port) store(now rdma.Port) string {
	p.mu.Lock()
	diff := differences(p.cache, now)
	p.cache, p.failed = now, ""
	p.reads++
	if diff != "" {
		p.fresh, p.since = true, time.Now()
	}
	p.mu.Unlock()
	if diff == "" {
		return "no change"
	}
	p.dev.wake()
	p.dev.table.log.Info("port", "device", p.dev.dev.Name(), "port", p.num, "now", diff)
	return diff
}

// changed returns the port as it is, and whether that is news for the user.
func (p *port) changed() (rdma.Port, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := p.fresh
	p.fresh = false
	return p.cache, fresh
}

// differences lists what of a port differs, as it is now.
func differences(old, now rdma.Port) string {
	var d []string
	add := func(differs bool, format string, args ...any) {
		if differs {
			d = append(d, fmt.Sprintf(format, args...))
		}
	}
	add(old.State != now.State || old.Active != now.Active, "state %s", now.State)
	add(old.LID != now.LID || old.LMC != now.LMC, "LID %d/%d", now.LID, now.LMC)
	add(old.SMLID != now.SMLID, "SM LID %d", now.SMLID)
	add(old.MTU != now.MTU, "MTU %d", now.MTU)
	add(!slices.Equal(old.GIDs, now.GIDs) || !slices.Equal(old.Addrs, now.Addrs), "%d GIDs %v", len(now.GIDs), now.Addrs)
	add(!slices.Equal(old.PKeys, now.PKeys), "%d P_Keys", len(now.PKeys))
	add(old.GUID != now.GUID, "GUID %s", now.GUID)
	return strings.Join(d, ", ")
}
