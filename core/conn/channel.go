package conn

import (
	"errors"
	"fmt"
	"time"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// ChannelConfig is the configuration of a Channel.
type ChannelConfig struct {
	// Reactor runs the channel. It must serve Device.
	Reactor *Reactor
	Device  rdma.Device
	// Plan sizes the rings and queues.
	Plan ioctx.Plan
	// Receives, if not nil, is the pool that the channel receives from, and Share how many receives it was promised there: at least one
	// more than its credits. The promise is the channel's from Accept on.
	Receives *ReceivePool
	Share    int
	// Terms is what the login has settled.
	Terms channel.Terms
	// Held keeps the requests of the channel waiting until Admit.
	Held bool
	// Handler executes commands.
	Handler Handler
	// Session is the I_T nexus.
	Session *Session
	// Timing bounds the channel's waits. Zero values are replaced by those of DefaultTiming.
	Timing Timing
	// OnEnd, if not nil, is called in the reactor's goroutine when nothing of the channel is left.
	OnEnd func(*Channel)
}

// Channel is one SRP channel on a queue pair. Its methods are called in the reactor's goroutine.
type Channel struct {
	// User is the application's.
	User any

	cfg   ChannelConfig
	m     *channel.Machine
	qp    rdma.QP
	id    uint64
	recv  receives
	send  *ioctx.Ring
	slots []slotState
	q     sendQueue
	share tableShare
	acts  []channel.Action
	// running is set while acts are being carried out.
	running bool
	limit   uint64 // longest piece of data

	info        rdma.ConnInfo
	held        bool
	established bool
	ended       bool
	lost        bool // for a reason of this side
	clock       clock
	aborts      abortTable
	stats       counters
	fault       Fault
}

// slotState is what the driver keeps for a slot of the machine.
type slotState struct {
	cmd Command
}

// NewChannel makes the buffers and the state of a channel, with a call of Handler.NewState for each
// slot. It may be called from any goroutine, as it may take long. Accept, or Discard, follows.
func NewChannel(cfg ChannelConfig) (*Channel, error) {
	p := &cfg.Plan
	cfg.Timing = cfg.Timing.withDefaults()
	recv, err := newReceives(&cfg)
	if err != nil {
		return nil, err
	}
	send, err := ioctx.NewRing(cfg.Device, p.Responses+ioctx.ReservedResponses, p.MaxResponseIU)
	if err != nil {
		return nil, errors.Join(err, recv.discard())
	}
	limits := cfg.Terms.Limits
	limits.MaxTable = cfg.Reactor.tables.longest(limits.MaxTransfer)
	c := &Channel{
		cfg: cfg, recv: recv, send: send,
		m: channel.New(channel.Config{
			Credits: uint32(cfg.Terms.Rsp.Delta), Slots: p.Responses, Recvs: recv.share,
			Limits: limits, MaxTIIU: min(cfg.Terms.Rsp.MaxTIIU, p.MaxResponseIU), Held: cfg.Held,
			SolNot: cfg.Terms.Rsp.Flags&srp.LoginRspSolNot != 0, Notify: cfg.Terms.Notify,
		}),
		slots: make([]slotState, p.Responses),
		q:     newSendQueue(sendDepth(p, cfg.Device.Attr()), 2*p.Responses+recv.share+2, p.Responses),
		acts:  make([]channel.Action, 0, 64),
		held:  cfg.Held,
		limit: max(min(uint64(cfg.Device.Attr().MaxMessage), pieceSize), 1),
	}
	c.share.most = cfg.Reactor.tables.share()
	for i := range c.slots {
		s := &c.slots[i]
		s.cmd.ch = c
		s.cmd.User = cfg.Handler.NewState(&s.cmd)
	}
	return c, nil
}

// sendDepth is the plan's, as far as the device can do it.
func sendDepth(p *ioctx.Plan, a rdma.DeviceAttr) int {
	if a.MaxQPWork > 0 {
		return max(min(p.SendWork, a.MaxQPWork), 1)
	}
	return p.SendWork
}

// Accept makes the queue pair, posts the receives and answers req. After an error, which leaves
// req to the caller, the channel is as before; Discard it.
func (c *Channel) Accept(req rdma.ConnRequest) error {
	r := c.cfg.Reactor
	cq, err := r.cq(c.cfg.Device)
	if err != nil {
		return err
	}
	id := r.clients.add(c)
	qp, err := cq.NewQP(c.recv.queuePair(rdma.QPConfig{User: id, SendDepth: c.q.depth, MaxSGE: 1}))
	if err != nil {
		r.clients.remove(id)
		c.recv.refused(err)
		return err
	}
	c.id, c.qp = id, qp
	if err = c.recv.postAll(qp); err == nil {
		rsp := c.cfg.Terms.Rsp
		err = qp.Accept(req, rsp.Append(nil))
	}
	if err != nil {
		r.clients.remove(id)
		c.qp = nil
		return errors.Join(err, qp.Close())
	}
	c.info = qp.Info()
	c.clock.start(r.now, c.cfg.Timing)
	r.expectAt(c.deadline())
	return nil
}

// Discard frees a channel that was never accepted.
func (c *Channel) Discard() error { return errors.Join(c.recv.discard(), c.send.Close()) }

// Admit lets a held channel run.
func (c *Channel) Admit() {
	c.held = false
	c.feed(&channel.Event{Kind: channel.EvAdmit})
}

// Close ends the channel with a reason for the initiator: CauseReplaced, CauseInactive or
// CauseAdmin. OnEnd follows, within the bounds of Timing and of the handler.
func (c *Channel) Close(cause channel.Cause) {
	c.feed(&channel.Event{Kind: channel.EvClose, Cause: cause})
}

// Abort ends the commands in scope early. done is called once, perhaps before Abort returns, when
// nothing of them moves any more: n is how many there were. It is called, too, if the channel ends.
func (c *Channel) Abort(scope channel.Scope, done func(n uint32)) {
	if c.ended {
		done(0)
		return
	}
	op := c.aborts.add(done)
	c.feed(&channel.Event{Kind: channel.EvAbort, Op: op, Scope: scope})
}

// Report tells the initiator of an event of a logical unit by SRP_AER_REQ, if it said at login that it cares for
// those. sense is that of the unit attention that tells everybody; up to channel.SenseLen bytes are sent.
func (c *Channel) Report(lun srp.LUN, sense []byte) {
	c.feed(&channel.Event{Kind: channel.EvReport, Scope: channel.Scope{LUN: lun}, Result: channel.Result{Sense: sense}})
}

// Session is the nexus' session.
func (c *Channel) Session() *Session { return c.cfg.Session }

// Ended tells whether nothing of the channel is left.
func (c *Channel) Ended() bool { return c.ended }

// finish frees everything; the machine is closed.
func (c *Channel) finish() {
	c.ended = true
	var err error
	if c.qp != nil {
		err = c.qp.Close()
	}
	c.cfg.Reactor.clients.remove(c.id)
	if err := errors.Join(err, c.recv.end(c), c.send.Close()); err != nil {
		c.fault.note(err)
	}
	c.aborts.finish()
	if c.cfg.OnEnd != nil {
		c.cfg.OnEnd(c)
	}
}

func (c *Channel) device() rdma.Device { return c.cfg.Device }

// kill ends the channel when the reactor has ended, or its device goes. Buffers that a handler still holds stay as
// they are, mapped, until it gives them back.
func (c *Channel) kill() {
	if c.ended {
		return
	}
	c.lost = true
	c.q.clear()
	if err := errors.Join(c.qp.Close(), c.recv.unregister(), c.send.Unregister()); err != nil {
		c.fault.note(err)
	}
	c.dropTables() // the room is the reactor's, which may be ending
	c.feed(&channel.Event{Kind: channel.EvDisconnected})
}

// Timing bounds the waits of a channel.
type Timing struct {
	// Establish is how long the initiator has to complete the connection.
	Establish time.Duration
	// Probe is how long a channel may be idle before a zero-length RDMA WRITE asks the transport
	// whether the peer is still there.
	Probe time.Duration
	// Dead is how long work may be outstanding without anything completing before the peer counts
	// as gone. A peer that vanishes is found after Probe + Dead at the latest; the transport's own
	// retries usually find it sooner.
	Dead time.Duration
	// Ask is how long the initiator has to answer SRP_CRED_REQ and SRP_AER_REQ.
	Ask time.Duration
	// Task is how long task management may take before it has failed: longer than a store may take for a command. Linux gives up
	// after 5 seconds and then replaces the session, and would take a failure of ABORT TASK before that for success.
	Task time.Duration
	// Logout is how long an ending channel waits for SRP_T_LOGOUT to be acknowledged, and Drain how
	// long it then waits for its work to end, before the queue pair is destroyed.
	Logout, Drain time.Duration
}

// DefaultTiming finds a peer that has vanished within 30 seconds.
func DefaultTiming() Timing {
	return Timing{Establish: 30 * time.Second, Probe: 10 * time.Second, Dead: 20 * time.Second,
		Ask: 20 * time.Second, Task: 90 * time.Second,
		Logout: time.Second, Drain: 10 * time.Second}
}

func (t Timing) withDefaults() Timing {
	d := DefaultTiming()
	for _, f := range []struct{ v, def *time.Duration }{
		{&t.Establish, &d.Establish}, {&t.Probe, &d.Probe}, {&t.Dead, &d.Dead},
		{&t.Ask, &d.Ask}, {&t.Task, &d.Task},
		{&t.Logout, &d.Logout}, {&t.Drain, &d.Drain},
	} {
		if *f.v <= 0 {
			*f.v = *f.def
		}
	}
	return t
}

// Fault is the first thing that went wrong on a channel's queue pair.
type Fault struct {
	// Op and Status are those of the failed work, if it was work.
	Op     rdma.Op
	Status rdma.Status
	// Err is set if a call failed.
	Err error
}

func (f *Fault) none() bool { return f.Err == nil && f.Status == rdma.StatusOK }

func (f *Fault) note(err error) {
	if f.none() {
		f.Err = err
	}
}

func (f *Fault) noteWork(op rdma.Op, s rdma.Status) {
	if f.none() {
		f.Op, f.Status = op, s
	}
}

// String describes the fault, or is empty.
func (f Fault) String() string {
	ops := [...]string{rdma.OpSend: "SEND", rdma.OpWrite: "RDMA WRITE", rdma.OpRead: "RDMA READ", rdma.OpRecv: "RECEIVE"}
	switch {
	case f.Err != nil:
		return f.Err.Error()
	case f.Status != rdma.StatusOK && int(f.Op) < len(ops):
		return fmt.Sprintf("%s: %v", ops[f.Op], f.Status)
	}
	return ""
}
