package conn

import (
	"slices"
	"time"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/ioctx"
)

// feed gives the machine an event and carries out what it asks for. Called from within an action,
// as when a handler answers at once, it leaves that to the outer call.
func (c *Channel) feed(ev *channel.Event) {
	if c.ended {
		return
	}
	c.acts = c.m.Step(*ev, c.acts)
	if c.running {
		return
	}
	c.running = true
	for i := 0; i < len(c.acts); i++ {
		c.do(c.acts[i])
	}
	c.acts = c.acts[:0]
	c.running = false
}

// do carries out one action.
func (c *Channel) do(a channel.Action) {
	switch a.Kind {
	case channel.ActWrite, channel.ActRepost, channel.ActRespond:
		c.enqueue(a)
	case channel.ActFetch, channel.ActFetchTable:
		c.q.fetches.todo.push(a)
		c.cfg.Reactor.clients.markReady(c.id)
	case channel.ActStopFetch:
		c.stopFetch(a.Slot)
	case channel.ActCredReq, channel.ActReport:
		c.enqueue(a)
		c.clock.askBy = c.cfg.Reactor.now.Add(c.cfg.Timing.Ask)
		c.cfg.Reactor.expectAt(c.clock.askBy)
	case channel.ActWatch:
		c.watch(a.Slot)
	case channel.ActLogout:
		c.enqueue(a)
		c.drainFor(c.cfg.Timing.Logout)
	case channel.ActDisconnect:
		c.disconnect()
	case channel.ActDestroy:
		c.q.clear()
		c.note(c.qp.Close())
	case channel.ActAborted:
		c.aborts.done(a.Op, a.N)
	case channel.ActClosed:
		c.finish()
	default:
		c.doSlot(a)
	}
}

// doSlot carries out an action that concerns the handler and the buffer of one request.
func (c *Channel) doSlot(a channel.Action) {
	s := &c.slots[a.Slot.Index()]
	switch a.Kind {
	case channel.ActStart:
		s.cmd.begin(a.Slot, c.m.Cmd(a.Slot))
		c.cfg.Handler.Start(&s.cmd)
	case channel.ActLeaseTable:
		c.leaseTable(&s.cmd, a)
	case channel.ActLease:
		c.acquire(s.cmd.arena, &s.cmd.lease, channel.EvBuffer, &s.cmd, uint64(a.N))
	case channel.ActUnlease:
		s.cmd.unlease()
	case channel.ActCopy:
		copy(s.cmd.lease.Bytes()[:a.N], c.m.Cmd(a.Slot).DataOut().Immediate())
		c.stats.bytesOut += uint64(a.N)
	case channel.ActReady:
		c.cfg.Handler.DataReady(&s.cmd)
	case channel.ActAbort:
		// The handler may have finished the command in a Start that stood before this in the same Step.
		if c.m.Executing(a.Slot) {
			c.stats.aborted++
			c.cfg.Handler.Abort(&s.cmd)
		}
	case channel.ActManage:
		c.cfg.Handler.TaskManagement(&TaskManagement{
			ch: c, slot: a.Slot, IU: slices.Clone(c.m.TaskMgmt(a.Slot)), Aborted: int(a.N),
		})
	case channel.ActRelease:
		s.cmd.release()
		c.clock.unwatch(a.Slot)
	}
}

// acquire gets a command buffer or table room; granted is the event that tells so.
func (c *Channel) acquire(from *ioctx.Arena, l *ioctx.Lease, granted channel.EventKind, cmd *Command, n uint64) {
	ok, err := from.Acquire(l, n, cmd.turn(), cmd, c.cfg.Reactor.now)
	switch {
	case err != nil:
		c.feed(&channel.Event{Kind: channel.EvBufferRefused, Slot: cmd.slot})
	case ok:
		c.feed(&channel.Event{Kind: granted, Slot: cmd.slot})
	}
}

func (c *Channel) enqueue(a channel.Action) {
	if a.Kind == channel.ActRepost {
		c.recv.left++
	}
	c.q.push(a)
	c.cfg.Reactor.clients.markReady(c.id)
}

func (c *Channel) disconnect() {
	c.q.clear()
	c.recv.drop()
	c.drainFor(c.cfg.Timing.Drain)
	c.note(c.qp.Disconnect())
}

func (c *Channel) note(err error) {
	if err != nil {
		c.fault.note(err)
	}
}

// drainFor gives an ending channel d for its next step.
func (c *Channel) drainFor(d time.Duration) {
	c.clock.drainBy = c.cfg.Reactor.now.Add(d)
	c.cfg.Reactor.expectAt(c.clock.drainBy)
}
