package conn

import (
	"sync/atomic"
	"time"
)

// parker is where a reactor sleeps. Without descriptors it waits on a Go channel, so that a reactor
// over in-memory providers runs under testing/synctest; with the first descriptor it changes over
// to an epoll descriptor of its own that is parked in Go's netpoller and holds no OS thread.
type parker struct {
	asleep atomic.Bool
	woken  atomic.Bool
	signal chan struct{}
	timer  *time.Timer
	poller atomic.Pointer[poller]
}

func newParker() *parker {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &parker{signal: make(chan struct{}, 1), timer: t}
}

// wake ends the current or the next park. It may be called from any goroutine and does not block.
func (p *parker) wake() {
	p.woken.Store(true)
	if !p.asleep.Load() {
		return
	}
	if ep := p.poller.Load(); ep != nil {
		ep.wake()
		return
	}
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

// watch makes fd's readability end a park. It is called by the owner.
func (p *parker) watch(fd int, t trigger) error {
	ep := p.poller.Load()
	if ep == nil {
		made, err := newPoller()
		if err != nil {
			return err
		}
		p.poller.Store(made)
		ep = made
	}
	return ep.add(fd, t)
}

// unwatch undoes watch.
func (p *parker) unwatch(fd int) {
	if ep := p.poller.Load(); ep != nil {
		ep.remove(fd)
	}
}

// park sleeps until wake, a watched descriptor, or the deadline; the zero deadline is none. arm is
// called when nothing that happens from then on can be missed; park returns at once if it says
// false. It may return for no reason.
func (p *parker) park(deadline time.Time, arm func() bool) {
	p.asleep.Store(true)
	if p.woken.Swap(false) {
		p.asleep.Store(false)
		return
	}
	if ep := p.poller.Load(); ep != nil {
		ep.park(deadline, arm)
	} else if arm() {
		p.wait(deadline)
	}
	p.asleep.Store(false)
	p.woken.Store(false)
}

func (p *parker) wait(deadline time.Time) {
	var expired <-chan time.Time
	if !deadline.IsZero() {
		p.timer.Reset(time.Until(deadline))
		expired = p.timer.C
	}
	select {
	case <-p.signal:
	case <-expired:
	}
	p.timer.Stop()
}

func (p *parker) close() error {
	if ep := p.poller.Load(); ep != nil {
		return ep.close()
	}
	return nil
}
