package conn

import (
	"errors"
	"fmt"
	"time"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/rdma"
)

var errNotEstablished = errors.New("conn: requests came in, but the connection was never established")

// counters are what the driver counts.
type counters struct {
	bytesIn, bytesOut uint64
	aborted           uint64
	failedWork        uint64
	probes, silent    uint64
}

// ChannelStats is a snapshot of a channel.
type ChannelStats struct {
	// Info describes the connection, State the channel, and Cause why it ended.
	Info  rdma.ConnInfo
	State channel.State
	Cause channel.Cause
	// Held tells that requests wait for Admit.
	Held bool
	// Err is what the initiator did wrong, Fault what went wrong on the queue pair.
	Err   error
	Fault Fault
	// Age is the time since the accept, Idle that since anything completed.
	Age, Idle time.Duration
	// Window is how many requests the initiator may send, Active how many await their answer.
	Window, Active uint32
	// Slots counts requests that are not over, those whose response is on its way included; Working
	// tells that work requests may be outstanding.
	Slots   int
	Working bool
	// Queued counts actions that wait for the send queue, and SendWork the work requests in it.
	Queued, SendWork int
	// BytesIn went to the initiator, BytesOut came from it.
	BytesIn, BytesOut uint64
	// Aborted counts commands that the handler was asked to end early, FailedWork the work requests
	// that failed, Probes the idle checks, Silent the times that the peer did not answer at all.
	Aborted, FailedWork, Probes, Silent uint64
	// Protocol is what the state machine counts.
	Protocol channel.Stats
}

// Stats returns a snapshot.
func (c *Channel) Stats() ChannelStats {
	now := c.cfg.Reactor.now
	s := ChannelStats{
		Info: c.info, Held: c.held, State: c.m.State(), Cause: c.why(), Err: c.m.Err(), Fault: c.fault,
		Age: now.Sub(c.clock.accepted), Idle: now.Sub(c.clock.moved),
		Queued: c.q.todo.n + c.q.fetches.todo.n, SendWork: c.q.used,
		BytesIn: c.stats.bytesIn, BytesOut: c.stats.bytesOut, Aborted: c.stats.aborted,
		FailedWork: c.stats.failedWork, Probes: c.stats.probes, Silent: c.stats.silent,
		Protocol: c.m.Stats(),
	}
	s.Window, s.Active, _ = c.m.Credits()
	s.Slots, s.Working = c.m.Waiting()
	return s
}

// why is the machine's cause. The machine cannot tell a connection that is lost on this side from one that the initiator ends.
func (c *Channel) why() channel.Cause {
	if cause := c.m.Cause(); cause != channel.CausePeer || !c.lost {
		return cause
	}
	return channel.CausePort
}

// WaitsFor tells the operator what a channel waits for that is not live and running; it is empty otherwise.
func (s *ChannelStats) WaitsFor() string {
	switch {
	case s.State == channel.Connecting:
		return "the initiator to complete the connection"
	case s.State == channel.Live && s.Held:
		return "the last commands of the channels it replaced"
	case s.State == channel.LoggingOut:
		return "the initiator to take the logout"
	case s.State == channel.Draining && s.Working:
		return "the queue pair to give its work back"
	case s.State == channel.Draining:
		return fmt.Sprintf("the stores to give %d commands back", s.Slots)
	}
	return ""
}

// abortTable holds the aborts of a channel that are under way.
type abortTable struct {
	last    uint32
	waiting map[uint32]func(uint32)
}

func (t *abortTable) add(done func(uint32)) uint32 {
	if t.waiting == nil {
		t.waiting = make(map[uint32]func(uint32))
	}
	t.last++
	t.waiting[t.last] = done
	return t.last
}

func (t *abortTable) done(op, n uint32) {
	f := t.waiting[op]
	delete(t.waiting, op)
	if f != nil {
		f(n)
	}
}

// finish ends those that the channel's end has overtaken.
func (t *abortTable) finish() {
	for op := range t.waiting {
		t.done(op, 0)
	}
}
