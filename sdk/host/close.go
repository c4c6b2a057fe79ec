package host

import "context"

// succeed makes p the queue's next process, if the one before is dead.
func (q *Queue) succeed(p *Process) (generation uint32, err error) {
	q.mailbox.Lock()
	defer q.mailbox.Unlock()
	switch {
	case q.mailbox.closed:
		return 0, errClosed
	case q.mailbox.owner != nil && !q.mailbox.owner.isDead():
		return 0, errAttached
	}
	q.mailbox.owner = p
	q.mailbox.generation++
	return q.mailbox.generation, nil
}

// forget undoes succeed.
func (q *Queue) forget() {
	q.mailbox.Lock()
	defer q.mailbox.Unlock()
	q.mailbox.owner = nil
}

func (p *Process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// Close ends the queue: when it returns, no process touches the data of its requests, and those that were outstanding have no
// result. A plugin that does not let go in time is killed; what it had is tainted then, see Arena.Tainted. The goroutine that
// called the queue must have stopped doing so, and Attach must have returned. Close may be called twice.
func (q *Queue) Close() error {
	q.mailbox.Lock()
	closed, owner := q.mailbox.closed, q.mailbox.owner
	q.mailbox.closed = true
	links := map[link]bool{}
	for _, l := range append(q.mailbox.gone, q.mailbox.next, q.link) {
		if l != nil {
			links[l] = true
		}
	}
	q.mailbox.Unlock()
	if closed {
		return nil
	}
	for l := range links {
		let := owner != nil && owner.drop(l) && owner.evict(l)
		l.quiesce()
		if !let {
			q.taint(l)
		}
		l.release()
	}
	q.link = nil
	return q.bell.Close()
}

// evict has the process let go of a link, or kills it: then let is false.
func (p *Process) evict(l link) (let bool) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	err := l.detach(ctx)
	if err != nil {
		p.fault(err)
		p.Kill()
		<-p.bridge.Dead()
	}
	return err == nil
}
