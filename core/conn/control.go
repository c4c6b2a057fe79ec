package conn

import (
	"context"
	"sync"
	"sync/atomic"
)

// control carries functions from other goroutines into a reactor's.
type control struct {
	calls chan *call
	stop  chan struct{}
	ended chan struct{}
	once  *sync.Once
	begun *atomic.Bool
}

// call is a function on its way. Its state decides who may still give it up.
type call struct {
	f     func()
	state atomic.Int32
	done  chan struct{}
}

const (
	callWaiting int32 = iota
	callTaken
	callGivenUp
)

// controlDepth bounds the calls that wait to be run.
const controlDepth = 64

func newControl() control {
	return control{
		calls: make(chan *call, controlDepth), stop: make(chan struct{}), ended: make(chan struct{}),
		once: new(sync.Once), begun: new(atomic.Bool),
	}
}

func (c *control) begin() { c.begun.Store(true) }

// end stops the loop and waits for it. It returns whether this was the first call.
func (c *control) end(wake func()) bool {
	first := false
	c.once.Do(func() {
		first = true
		close(c.stop)
		if !c.begun.Load() {
			close(c.ended)
		}
	})
	wake()
	<-c.ended
	return first
}

func (c *control) stopping() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

func (c *control) pending() bool { return len(c.calls) > 0 }

// run runs up to n calls, and after each of them what has to follow before the next.
func (c *control) run(n int, after func()) {
	for range n {
		select {
		case k := <-c.calls:
			if k.state.CompareAndSwap(callWaiting, callTaken) {
				k.f()
				after()
			}
			close(k.done)
		default:
			return
		}
	}
}

// Call runs f in the reactor's goroutine and returns nil after f has returned. If it returns an
// error, ErrStopped or that of ctx, then f was not run and never will be. It must not be called from
// the reactor's goroutine.
func (r *Reactor) Call(ctx context.Context, f func()) error {
	c := &r.control
	if !c.begun.Load() {
		return ErrStopped
	}
	k := &call{f: f, done: make(chan struct{})}
	select {
	case c.calls <- k:
	case <-c.ended:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	r.Wake()
	select {
	case <-k.done:
		return nil
	case <-c.ended:
		return k.giveUp(ErrStopped)
	case <-ctx.Done():
		return k.giveUp(ctx.Err())
	}
}

func (k *call) giveUp(why error) error {
	if k.state.CompareAndSwap(callWaiting, callGivenUp) {
		return why
	}
	<-k.done // it is being run
	return nil
}
