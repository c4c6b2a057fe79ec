package conn

import (
	"fmt"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// work turns what waits in the send queue into work requests, as many as there is room for, and
// hands them over: receives first, so that each is posted before the response that returns its
// credit. A turn of the reactor hands over one stage of each channel.
func (c *Channel) work() bool {
	if !c.established || c.ended {
		return false
	}
	idle := c.q.used == 0
	for c.q.mayFetch() {
		c.stageFetch()
	}
	for c.q.todo.n > 0 && c.stageNext() {
	}
	err := c.recv.post(c.qp)
	if err == nil {
		err = c.q.post(c.qp)
	}
	if err != nil {
		c.broken(err)
		return false
	}
	if idle && c.q.used > 0 {
		c.clock.busy(c.cfg.Reactor.now)
		c.cfg.Reactor.expectAt(c.deadline())
	}
	return c.q.mayFetch() || c.q.todo.n > 0 && c.q.room()
}

// broken ends the channel after a post that should have been taken.
func (c *Channel) broken(err error) {
	c.note(err)
	c.feed(&channel.Event{Kind: channel.EvTransportError})
}

// stageNext stages one work request, or one receive, of the action at the head. It returns false
// if there is no room.
func (c *Channel) stageNext() bool {
	a := c.q.todo.first()
	if a.Kind == channel.ActRepost {
		if c.recv.full() {
			return false
		}
		c.recv.stage(a.Buf)
		c.q.todo.pop()
		return true
	}
	if !c.q.room() {
		return false
	}
	if a.Kind == channel.ActWrite {
		c.stageData(&c.q.lane, c.m.Cmd(a.Slot).DataIn(), rdma.OpWrite)
	} else {
		c.stageUnit(a)
	}
	return true
}

// stageData stages the next piece of the data of the command at the head of l: what is left of one descriptor, up to
// the longest piece. The length of the buffer was checked against the descriptors when the command
// was parsed, so they never run out; if they did, the channel would end rather than move anything else.
func (c *Channel) stageData(l *lane, d *srp.Data, op rdma.Op) {
	a, p := l.todo.first(), &l.place
	total := uint64(a.N)
	for p.desc < d.Count() && p.off >= uint64(d.At(p.desc).Length) {
		p.desc, p.off = p.desc+1, 0
	}
	if p.desc >= d.Count() {
		c.misfit(a, "descriptors end before the data")
		return
	}
	at := d.At(p.desc)
	n := min(uint64(at.Length)-p.off, total-p.done, c.limit)
	sge, ok := c.slots[a.Slot.Index()].cmd.lease.SGE(c.cfg.Device, p.done, n)
	if !ok {
		c.misfit(a, "data does not fit the buffer")
		return
	}
	w := rdma.Work{ID: workID(kindPart, uint32(a.Slot)), Op: op, RemoteAddr: at.Addr + p.off, RKey: at.Key}
	p.done, p.off = p.done+n, p.off+n
	last := p.done == total
	if last && op == rdma.OpRead {
		w.ID = workID(kindFetched, uint32(a.Slot))
	}
	if last && op == rdma.OpRead || n == pieceSize || c.q.shouldSignal(w.Op, n) {
		w.Flags = rdma.Signaled
	}
	c.q.add(w, sge)
	c.countData(op, n)
	if last {
		l.next()
	}
}

// stageTable stages the READ of the next piece of the indirect table of the command at the head of l.
func (c *Channel) stageTable(l *lane) {
	a, p := l.todo.first(), &l.place
	at, total := c.m.Data(a.Slot).Remote(), uint64(a.N)
	n := min(total-p.done, c.limit)
	sge, ok := c.slots[a.Slot.Index()].cmd.table.lease.SGE(c.cfg.Device, p.done, n)
	if !ok {
		c.misfit(a, "the table does not fit the room for it")
		return
	}
	w := rdma.Work{ID: workID(kindPart, uint32(a.Slot)), Op: rdma.OpRead, RemoteAddr: at.Addr + p.done, RKey: at.Key}
	p.done += n
	last := p.done == total
	if last {
		w.ID = workID(kindTable, uint32(a.Slot))
	}
	if last || c.q.shouldSignal(w.Op, n) {
		w.Flags = rdma.Signaled
	}
	c.q.add(w, sge)
	if last {
		l.next()
	}
}

func (c *Channel) countData(op rdma.Op, n uint64) {
	if op == rdma.OpRead {
		c.stats.bytesOut += n
		return
	}
	c.stats.bytesIn += n
}

// misfit ends the channel: descriptors or buffer do not hold what was promised.
func (c *Channel) misfit(a *channel.Action, what string) {
	slot := a.Slot
	c.q.clear()
	c.broken(fmt.Errorf("conn: command in slot %d: %s", slot.Index(), what))
}

// stageUnit stages the SEND of an information unit, in the buffer of its own.
func (c *Channel) stageUnit(a *channel.Action) {
	var k kind
	buf := 0
	switch a.Kind {
	case channel.ActRespond:
		k, buf = kindRespond, a.Slot.Index()
	case channel.ActCredReq, channel.ActReport:
		k, buf = kindAsk, len(c.slots)
	case channel.ActLogout:
		k, buf = kindLogout, len(c.slots)+1
	}
	b := c.send.Buffer(buf)[:0]
	if k == kindRespond {
		b = c.m.AppendRsp(a.Slot, b)
	} else {
		b = c.m.AppendControl(*a, b)
	}
	flags := rdma.Signaled
	if a.SolNot {
		flags |= rdma.Solicited
	}
	c.q.add(rdma.Work{ID: workID(k, uint32(a.Slot)), Op: rdma.OpSend, Flags: flags}, c.send.SGE(buf, uint64(len(b))))
	c.q.todo.pop()
}

// probe asks the transport whether the peer is still there: an RDMA WRITE of nothing, which needs
// no memory (IBTA vol 1, C9-88).
func (c *Channel) probe() {
	if !c.q.room() {
		return
	}
	c.q.add(rdma.Work{ID: workID(kindProbe, 0), Op: rdma.OpWrite, Flags: rdma.Signaled}, rdma.SGE{})
	c.stats.probes++
	c.cfg.Reactor.clients.markReady(c.id)
}
