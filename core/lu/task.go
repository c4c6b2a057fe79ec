package lu

import (
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/store"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Task is one SCSI command on its way through a logical unit. It is embedded in the channel's
// preallocated command, so that a command allocates nothing. The reactor that owns the channel makes all calls.
//
// Life: Unit.Start looks at CDB and either finishes at once, or asks the Host for a data buffer
// (NeedBuffer) or for the initiator's data (NeedData), at most once a task. The Host calls Unit.DataReady when Buf is
// there. The unit then finishes at once or submits to its store, and later calls Host.Done with
// Status, Sense and the transfer counts filled in. Between Start and Done the unit holds the task; Done is called
// exactly once for each Start, perhaps before Start returns, and the unit does not touch the task after it.
//
// Between NeedBuffer or NeedData and DataReady nothing of the unit touches Buf, so Unit.Abort ends such a task at once;
// DataReady is not called after it.
type Task struct {
	// CDB is the command descriptor block, 16 bytes or more, valid until Done.
	CDB []byte
	// LUN is the LUN field of the command as received (SAM-5 4.7).
	LUN uint64
	// OutLen and InLen are the sizes of the initiator's data-out and data-in buffers in bytes.
	OutLen, InLen uint64
	// Attr is the task attribute: 0 simple, 1 head of queue, 2 ordered, 4 ACA.
	Attr uint8
	// ReadOnly refuses the nexus what writes, whatever the store allows.
	ReadOnly bool
	// Nexus identifies the I_T nexus in the unit's tables.
	Nexus NexusID
	// Port is the target port that the command came through, as VPD page 83h names it; nil leaves it out.
	Port *scsi.TargetPort
	// Host is who runs the task.
	Host Host
	// Slot is the Host's own handle.
	Slot uint32

	// Buf is the data buffer, set by the Host before DataReady. It is arena memory of the unit's
	// store (any memory for a unit without a store), and its length is what was asked for.
	Buf []byte

	// Status, Sense, OutUsed and InUsed are the result, valid at Done: how many bytes of the
	// initiator's data-out were consumed, and how many bytes of Buf go to its data-in buffer. Sense is the
	// task's own memory, valid until the next Start; nil if there is none.
	Status  scsi.Status
	Sense   []byte
	OutUsed uint64
	InUsed  uint64
	// Wanted is how many bytes the command would have moved through a buffer that was large enough, from
	// which the Host derives residuals: more than the buffer is an overflow, and a buffer of which less was used
	// an underflow. It is 0 for a command that failed.
	Wanted uint64
	// Aborted tells at Done that Abort cut the task short. Status is then TASK ABORTED, for a Host
	// that has to send one.
	Aborted bool

	senseBuf [scsi.SenseSize]byte
	state    taskState
}

// NexusID identifies an I_T nexus; 0 is none.
type NexusID uint64

// Host runs tasks on behalf of a channel. Its methods are called in the reactor's goroutine and do not block. They may call back
// into the unit (DataReady, Start of another task) before they return.
type Host interface {
	// NeedBuffer asks for a data buffer of n bytes for data-in; n > 0.
	NeedBuffer(t *Task, n uint64)
	// NeedData asks for a data buffer of room bytes, at least n, whose first n are the first of the initiator's data-out
	// buffer; 0 < n <= t.OutLen. The others may have any content.
	NeedData(t *Task, n, room uint64)
	// Done ends the task. The host owns it, and Buf, again.
	Done(t *Task)
}

// phase says who is to move a task on.
type phase uint8

const (
	phaseIdle   phase = iota // the Host's: not started, or done
	phaseHeld                // waits in the unit for an ordered task
	phaseActive              // inside a call of the unit
	phaseBuffer              // waits for Unit.DataReady
	phaseStore               // with the store
)

// taskState is the unit's part of a Task.
type taskState struct {
	phase phase
	row   *row
	// need is how many bytes of Buf the Host was asked for.
	need uint64
	// off is the byte offset in the store.
	off int64
	// flush is a flush that has to come before the read, or after the write.
	flush bool
	// op and left are what a WRITE SAME asks the store for, and how many bytes of the store it still has to change.
	op   backstore.Op
	left int64
	// item is the next of the items descriptors of an UNMAP.
	item, items int
	req         store.Request
	next        *Task // in the unit's queue of held tasks
}

// cdb is the CDB proper, in the length of its opcode. There is a row, so there is a length.
func (t *Task) cdb() scsi.CDB { return scsi.CDB(t.CDB[:len(t.state.row.Usage)]) }

// setSense fills in CHECK CONDITION; nothing was moved.
func (t *Task) setSense(s scsi.Sense) {
	s.Put(&t.senseBuf)
	t.Status, t.Sense = scsi.StatusCheckCondition, t.senseBuf[:]
	t.OutUsed, t.InUsed, t.Wanted = 0, 0, 0
}
