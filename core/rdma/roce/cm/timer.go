package cm

import "container/heap"

// timers is a heap of connections by deadline.
type timers []*conn

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].due < t[j].due }
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].slot, t[j].slot = i, j
}

// Push is for container/heap.
func (t *timers) Push(x any) {
	c := x.(*conn)
	c.slot = len(*t)
	*t = append(*t, c)
}

// Pop is for container/heap.
func (t *timers) Pop() any {
	last := len(*t) - 1
	c := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	c.slot = -1
	return c
}

// arm sets the connection's deadline.
func (m *Machine) arm(c *conn, due int64) {
	c.due = due
	if c.slot >= 0 {
		heap.Fix(&m.timers, c.slot)
		return
	}
	heap.Push(&m.timers, c)
}

func (m *Machine) disarm(c *conn) {
	if c.slot >= 0 {
		heap.Remove(&m.timers, c.slot)
	}
}

// Deadline is when a Tick is due, on the clock of Step, and false if none is.
func (m *Machine) Deadline() (at int64, ok bool) {
	if len(m.timers) == 0 {
		return 0, false
	}
	return m.timers[0].due, true
}

func (m *Machine) tick() {
	for len(m.timers) > 0 && m.timers[0].due <= m.now {
		m.expired(m.timers[0])
	}
}

// expired handles a deadline. It always moves or removes the deadline.
func (m *Machine) expired(c *conn) {
	switch c.state {
	case StateReqRcvd:
		m.refuse(c, &REJFields{Reason: ReasonNoResources}, CauseUnanswered)
	case StateReqSent, StateRepSent, StateDreqSent:
		m.repeat(c)
	case StateTimewait:
		m.release(c)
	case StateRefused:
		m.forget(c)
	case StateNone, StateEstablished:
		m.disarm(c)
	}
}

// start sends c.msg and expects an answer.
func (m *Machine) start(c *conn, retries int, most int64) {
	c.retries, c.most = retries, max(most, m.cfg.RetryInterval)
	c.interval = m.cfg.RetryInterval
	m.send(c.handle, c.peer, c.msg)
	m.arm(c, min(m.now+c.interval, c.limit))
}

// repeat sends c.msg once more, or gives up.
func (m *Machine) repeat(c *conn) {
	if c.retries == 0 || m.now >= c.limit {
		m.giveUp(c)
		return
	}
	c.retries--
	c.interval = min(2*c.interval, c.most)
	m.stats.Retransmits++
	m.send(c.handle, c.peer, c.msg)
	m.arm(c, min(m.now+c.interval, c.limit))
}

// giveUp ends a connection whose peer does not answer. One that was never established tells the peer,
// who finds the connection by the adapter's GUID (IBTA 12.6.7.2, reason 4).
func (m *Machine) giveUp(c *conn) {
	m.stats.Timeouts++
	if c.state == StateDreqSent {
		m.end(c, CauseTimeout)
		m.enterTimewait(c)
		return
	}
	m.reject(c, &REJFields{Reason: ReasonTimeout})
	m.end(c, CauseTimeout)
	m.release(c)
}
