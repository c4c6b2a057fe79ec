package conn

import (
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
}

func (k *clock) start(now time.Time, t Timing) {
	k.accepted, k.moved = now, now
	k.establish = now.Add(t.Establish)
}

func (k *clock) alive(now time.Time) { k.moved = now }
func (k *clock) busy(now time.Time)  { k.moved = now }

// deadline is when expire has something to do.
func (c *Channel) deadline() time.Time {
	k, t := &c.clock, &c.cfg.Timing
	switch {
	case c.ended:
		return time.Time{}
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
