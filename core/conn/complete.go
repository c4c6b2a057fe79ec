package conn

import (
	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// complete takes a completion of the queue pair.
func (c *Channel) complete(w *rdma.Completion) {
	c.clock.alive(c.cfg.Reactor.now)
	k, n := splitID(w.ID)
	switch {
	case w.Op == rdma.OpEvent:
		c.event(w)
	case k == kindRecv:
		c.received(n, w)
	default:
		c.sent(k, n, w)
	}
}

func (c *Channel) event(w *rdma.Completion) {
	if w.Cause != nil {
		c.lost = true
		c.fault.note(w.Cause)
	}
	switch w.Event {
	case rdma.EventEstablished:
		c.established = true
		c.info = c.qp.Info()
		c.cfg.Reactor.expectAt(c.deadline())
		c.cfg.Reactor.clients.markReady(c.id)
		c.feed(&channel.Event{Kind: channel.EvEstablished})
	case rdma.EventRejected, rdma.EventFailed:
		c.feed(&channel.Event{Kind: channel.EvConnectFailed})
	case rdma.EventDisconnected:
		c.feed(&channel.Event{Kind: channel.EvDisconnected})
	}
}

// outcome translates a status and keeps the first fault.
func (c *Channel) outcome(w *rdma.Completion) channel.Outcome {
	switch w.Status {
	case rdma.StatusOK:
		return channel.Done
	case rdma.StatusFlushed:
		return channel.Flushed
	}
	c.stats.failedWork++
	c.fault.noteWork(w.Op, w.Status)
	return channel.Failed
}

// sent takes the completion of work of the send queue.
func (c *Channel) sent(k kind, slot uint32, w *rdma.Completion) {
	o := c.outcome(w)
	if o == channel.Done {
		c.q.completed()
		if c.q.used == 0 {
			c.cfg.Reactor.expectAt(c.deadline())
		}
		c.cfg.Reactor.clients.markReady(c.id)
	}
	ev := channel.Event{Slot: channel.Slot(slot), Outcome: o}
	switch k {
	case kindTable:
		ev.Kind = channel.EvTableFetched
		ev.IU = c.slots[ev.Slot.Index()].cmd.table.lease.Bytes()
	case kindFetched:
		ev.Kind = channel.EvFetched
	case kindRespond:
		ev.Kind = channel.EvSent
	case kindAsk:
		ev.Kind = channel.EvAskSent
	case kindLogout:
		ev.Kind = channel.EvLogoutSent
	default:
		if o != channel.Failed {
			return // a flush is followed by EventDisconnected
		}
		ev.Kind = channel.EvTransportError
	}
	c.feed(&ev)
}
