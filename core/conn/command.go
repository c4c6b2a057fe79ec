package conn

import (
	"encoding/binary"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/srp"
)

// cmdState is the engine's part of a Command.
type cmdState struct {
	ch    *Channel
	slot  channel.Slot
	arena *ioctx.Arena
	lease ioctx.Lease
	table tableState
}

// Session is the I_T nexus that a channel belongs to.
type Session struct {
	// Initiator and Target are the port identifiers, which name the nexus.
	Initiator, Target srp.PortID
	// ID is one of each nexus: commands of sessions with the same ID share their turns at data buffers.
	ID uint64
	// User is the Handler's state.
	User any
}

// begin prepares c for the request in slot.
func (c *Command) begin(slot channel.Slot, iu *srp.Cmd) {
	c.slot = slot
	c.IU = iu
	c.OutLen, c.InLen = uint64(iu.DataOut().Len()), uint64(iu.DataIn().Len())
}

// GetBuffer leases n bytes of a for data-in; Handler.DataReady follows, perhaps before GetBuffer
// returns. If no buffer comes free in time the command is over, with status BUSY: Handler.Abort
// follows instead. One lease a command.
func (c *Command) GetBuffer(a *ioctx.Arena, n uint64) {
	c.arena = a
	c.ch.feed(&channel.Event{Kind: channel.EvNeedBuffer, Slot: c.slot, N: clamp32(n)})
}

// Fetch leases room bytes of a, at least n, and fills the first n of them from the initiator's data-out buffer, of
// which there must be that many; Handler.DataReady follows, or Handler.Abort, as for GetBuffer.
func (c *Command) Fetch(a *ioctx.Arena, n, room uint64) {
	c.arena = a
	c.ch.feed(&channel.Event{Kind: channel.EvNeedData, Slot: c.slot, N: clamp32(n), Room: clamp32(room)})
}

// Data is the leased buffer, or nil.
func (c *Command) Data() []byte { return c.lease.Bytes() }

// Finish ends the command: data-in is written, then the response is sent. It is called once for each Handler.Start.
func (c *Command) Finish(r Result) {
	c.ch.feed(&channel.Event{Kind: channel.EvFinished, Slot: c.slot, Result: channel.Result{
		Status: r.Status, Sense: r.Sense, OutUsed: clamp32(r.OutUsed), InUsed: clamp32(r.InUsed), Wanted: r.Wanted,
	}})
}

// Channel is the channel that the command came in on.
func (c *Command) Channel() *Channel { return c.ch }

// Session is the nexus' session.
func (c *Command) Session() *Session { return c.ch.cfg.Session }

// clamp32 limits n to 32 bits: no buffer of a command is longer.
func clamp32(n uint64) uint32 { return uint32(min(n, 1<<32-1)) }

// Granted and Refused are the ends of a wait for a buffer, or for table room.
func (c *Command) Granted(l *ioctx.Lease) {
	k := channel.EvBuffer
	if l == &c.table.lease {
		k = channel.EvTable
	}
	c.ch.feed(&channel.Event{Kind: k, Slot: c.slot})
}

// Refused tells the channel that no buffer came free in time.
func (c *Command) Refused(*ioctx.Lease) {
	c.ch.feed(&channel.Event{Kind: channel.EvBufferRefused, Slot: c.slot}) // table room is counted until ActRelease
}

// turn is in whose name a buffer is asked for.
func (c *Command) turn() ioctx.Turn {
	lun := c.IU.LUN()
	return ioctx.Turn{Nexus: c.ch.cfg.Session.ID, Unit: binary.BigEndian.Uint64(lun[:])}
}

// release gives the buffer back, or its place in the line.
func (c *Command) release() {
	c.unlease()
	c.IU, c.arena = nil, nil
}

// unlease gives buffer and table room back, or their places in line. A wait that was refused meanwhile left nothing to give.
func (c *Command) unlease() {
	giveBack(&c.lease)
	c.ch.giveTable(c)
}

func giveBack(l *ioctx.Lease) {
	if l.Held() || l.Waiting() {
		l.Release()
	}
}

// TaskManagement is one task management function being performed. Its methods are called by the
// Handler in the reactor's goroutine.
type TaskManagement struct {
	// IU is the request; it is a copy.
	IU srp.TskMgmt
	// Aborted is how many commands of its own channel the function has ended already.
	Aborted int

	ch   *Channel
	slot channel.Slot
}

// Finish ends the function: the initiator is told code, unless it has taken longer than Timing.Task and the initiator was told
// that it failed. It is called once for each Handler.TaskManagement.
func (t *TaskManagement) Finish(code srp.RspCode) {
	t.ch.feed(&channel.Event{Kind: channel.EvManaged, Slot: t.slot, Code: code})
}

// Channel is the channel that the request came in on.
func (t *TaskManagement) Channel() *Channel { return t.ch }

// Session is the nexus' session.
func (t *TaskManagement) Session() *Session { return t.ch.cfg.Session }
