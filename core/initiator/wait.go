package initiator

import "time"

// waiter is where the session's goroutine sleeps.
type waiter interface {
	// wait calls arm; if that returns true, it sleeps until kick, the completion queue's wake-up,
	// or the deadline, if it is not zero.
	wait(arm func() bool, deadline time.Time)
	// kick ends the sleep. It may be called from any goroutine, and does not block.
	kick()
	close()
}

// chanWaiter is for completion queues that wake by a call. It works in a synctest bubble.
type chanWaiter struct {
	kicked chan struct{}
	timer  *time.Timer
}

func newChanWaiter() *chanWaiter {
	w := &chanWaiter{kicked: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}

func (w *chanWaiter) kick() {
	select {
	case w.kicked <- struct{}{}:
	default:
	}
}

func (w *chanWaiter) wait(arm func() bool, deadline time.Time) {
	if !arm() {
		return
	}
	if deadline.IsZero() {
		<-w.kicked
		return
	}
	w.timer.Reset(time.Until(deadline))
	select {
	case <-w.kicked:
	case <-w.timer.C:
	}
	w.timer.Stop()
}

func (w *chanWaiter) close() { w.timer.Stop() }
