package conn

import (
	"slices"
	"time"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// clock is the time a channel keeps.
type clock struct {
	accepted  time.Time
	establish time.Time // deadline, until established
	drainBy   time.Time // deadline of an ending channel; zero before
	// moved is when something last completed, or when the send queue stopped being idle.
	moved time.Time
	// askBy is the deadline of the last request of the target.
	askBy time.Time
	// tasks are the deadlines of task management, in order.
	tasks []taskDeadline
}

// taskDeadline is when a task management request has failed.
type taskDeadline struct {
	slot channel.Slot
	by   time.Time
}

func (k *clock) start(now time.Time, t Timing) {
	k.accepted, k.moved = now, now
	k.establish = now.Add(t.Establish)
}

func (k *clock) alive(now time.Time) { k.moved = now }
func (k *clock) busy(now time.Time)  { k.moved = now }

// watch starts the deadline of a task management request.
func (c *Channel) watch(s channel.Slot) {
	d := taskDeadline{s, c.cfg.Reactor.now.Add(c.cfg.Timing.Task)}
	c.clock.tasks = append(c.clock.tasks, d)
	c.cfg.Reactor.expectAt(d.by)
}

// unwatch forgets the deadline of a request, if there is one.
func (k *clock) unwatch(s channel.Slot) {
	if len(k.tasks) > 0 {
		k.tasks = slices.DeleteFunc(k.tasks, func(d taskDeadline) bool { return d.slot == s })
	}
}

// deadline is when expire has something to do.
func (c *Channel) deadline() time.Time {
	if c.ended {
		return time.Time{}
	}
	d := c.connectionDeadline()
	if c.m.State() == channel.Live {
		d = earliest(d, c.clock.askBy)
		if len(c.clock.tasks) > 0 {
			d = earliest(d, c.clock.tasks[0].by)
		}
	}
	return d
}

// connectionDeadline is the deadline of the connection itself.
func (c *Channel) connectionDeadline() time.Time {
	k, t := &c.clock, &c.cfg.Timing
	switch {
	case c.m.State() > channel.Live:
		return k.drainBy
	case !c.established:
		return k.establish
	case c.q.used > 0:
		return k.moved.Add(t.Dead)
	}
	return k.moved.Add(t.Probe)
}

// expire is called when deadline has come.
func (c *Channel) expire() {
	c.expireRequests(c.cfg.Reactor.now)
	if d := c.connectionDeadline(); !c.ended && !d.IsZero() && !c.cfg.Reactor.now.Before(d) {
		c.expireConnection()
	}
}

// expireRequests fails the task management requests whose time is up, and ends a channel whose initiator has not answered.
func (c *Channel) expireRequests(now time.Time) {
	k := &c.clock
	for len(k.tasks) > 0 && !now.Before(k.tasks[0].by) {
		slot := k.tasks[0].slot
		k.tasks = slices.Delete(k.tasks, 0, 1)
		c.feed(&channel.Event{Kind: channel.EvTaskTimeout, Slot: slot})
	}
	if !k.askBy.IsZero() && !now.Before(k.askBy) {
		k.askBy = time.Time{}
		if c.m.Asking() {
			c.feed(&channel.Event{Kind: channel.EvAskTimeout})
		}
	}
}

func (c *Channel) expireConnection() {
	switch {
	case c.m.State() > channel.Live:
		c.clock.drainBy = time.Time{} // once
		c.feed(&channel.Event{Kind: channel.EvDrainTimeout})
	case !c.established:
		c.clock.establish = time.Time{}
		c.feed(&channel.Event{Kind: channel.EvEstablishTimeout})
		if c.m.State() == channel.Live { // it sent requests and never finished the connection
			c.broken(errNotEstablished)
		}
	case c.q.used > 0:
		c.stats.silent++
		c.fault.noteWork(rdma.OpSend, rdma.StatusRetryExceeded)
		c.feed(&channel.Event{Kind: channel.EvTransportError})
	default:
		c.probe()
		c.clock.busy(c.cfg.Reactor.now)
	}
}
