package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Pausing: how a queue goes from one process to the next while both live.
//
//	state      event              then
//	working    pause              paused: nothing is sent, what was sent ends; then Pause returns
//	paused     resume             working: what was held is sent
//	paused     detach             none, as after gone; nothing is sent again
//	paused     gone               none; what was sent is held; Pause returns
//	any        next               working

// Pause keeps the queue from sending, and returns when its process has nothing of it any more: because that is done, or because
// the process is dead. New requests are held, up to QueueOptions.Hold from now on. The goroutine that calls the queue must go on doing
// so. Resume or an Attach ends the pause; after an error, Resume is to be called.
func (q *Queue) Pause(ctx context.Context) error {
	quiet := make(chan struct{})
	err := q.post(func(m *mailbox) { m.pause, m.resume = quiet, false })
	if err != nil {
		return err
	}
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("host: requests are still under way: %w", ctx.Err())
	}
}

// Resume has the queue send again what it holds, if it has a process.
func (q *Queue) Resume() error {
	return q.post(func(m *mailbox) { m.pause, m.resume = nil, true })
}

// follow is what a new link does to what was not read yet: it ends a pause.
func (m *mailbox) follow(l link) {
	if m.pause != nil {
		close(m.pause)
	}
	m.next, m.pause, m.resume = l, nil, false
}

// pause begins a pause of which quiet is told the calm.
func (q *Queue) pause(quiet chan struct{}) {
	q.paused, q.quiet = true, quiet
	q.down()
}

// resume ends a pause that led nowhere.
func (q *Queue) resume() {
	q.paused, q.quiet = false, nil
	if q.sending() {
		q.since = time.Time{}
		q.sendHeld()
	}
}

// settle tells who waits for the calm.
func (q *Queue) settle() {
	if q.quiet == nil || slices.ContainsFunc(q.slots, func(s slot) bool { return s.state == slotSent }) {
		return
	}
	close(q.quiet)
	q.quiet = nil
}

// Detach has the store's process let go of a paused queue, which can then be attached to another store, of whichever process. An
// error leaves it to the caller to kill the process; its death detaches the queue, too.
func (s *Store) Detach(ctx context.Context, q *Queue) error {
	l := s.p.linkOf(q)
	if l == nil {
		return errDead
	}
	if err := l.detach(ctx); err != nil {
		return fmt.Errorf("host: detach a queue: %w", err)
	}
	if !s.p.drop(l) {
		return errDead
	}
	l.quiesce()
	q.forget()
	err := q.post(func(m *mailbox) { m.gone = append(m.gone, l) })
	if errors.Is(err, errClosed) {
		l.release()
	}
	return err
}

// linkOf is the process's link of a queue; nil if there is none, or the process is dead.
func (p *Process) linkOf(q *Queue) link {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l, of := range p.links {
		if of == q {
			return l
		}
	}
	return nil
}
