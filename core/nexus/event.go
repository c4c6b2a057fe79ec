package nexus

import "github.com/gosrpt/gosrpt/core/scsi"

// Channel is the owner's name of a channel, unique within the nexus.
type Channel uint64

// Function is a task management function, with the codes of SRP (r16a 6.10).
type Function uint8

// The functions that are known. CLEAR ACA is refused as every other is: the
// target has no ACA conditions (NORMACA is 0).
const (
	AbortTask    Function = 0x01
	AbortTaskSet Function = 0x02
	ClearTaskSet Function = 0x04
	UnitReset    Function = 0x08
)

// Code is the answer to task management, with the codes of SRP (r16a 6.9).
type Code uint8

// Answers. An unknown LUN is Failed: SRP has no code of its own for it.
const (
	Complete     Code = 0x00
	NotSupported Code = 0x04
	Failed       Code = 0x05
)

// EventKind says what happened; see the package comment.
type EventKind uint8

// The events. Each comment names the fields that it uses.
const (
	EvJoin     EventKind = iota + 1 // Channel, Single
	EvLeave                         // Channel
	EvManage                        // Channel, Request, Function, LUN, Known, Tag, N
	EvAborted                       // Channel, Op, N
	EvUnitDone                      // Op
	EvClear                         // Op, LUN, Reset, TaskAborted
)

// Event is one thing that happened.
type Event struct {
	Kind        EventKind
	Single      bool
	Known       bool
	Reset       bool // the function was LOGICAL UNIT RESET, else CLEAR TASK SET
	TaskAborted bool // the TAS bit of the logical unit's Control mode page
	Function    Function
	Channel     Channel
	Request     uint32 // the channel's name of the request
	Op          uint32
	N           uint32
	LUN         uint64 // the LUN field
	Tag         uint64 // of the task to abort
}

// ActionKind says what is to be done.
type ActionKind uint8

// The actions. Each comment names the fields it carries, and what must follow.
const (
	// ActTerminate: end Channel, replaced by a new login. EvLeave follows.
	ActTerminate ActionKind = iota + 1
	// ActAdmit: let Channel run.
	ActAdmit
	// ActAbort: have Channel abort commands on LUN, only the one with Tag if ByTag,
	// with status TASK ABORTED if TaskAborted, else without a response. EvAborted or
	// EvLeave follows.
	ActAbort
	// ActUnit: have the unit behind LUN do what Reset says to every other nexus:
	// EvClear to each that has it, and its ActCleared; and, with Reset, to itself.
	// EvUnitDone follows.
	ActUnit
	// ActAnswer: answer Request of Channel with Code.
	ActAnswer
	// ActAttention: raise Attention for LUN in this nexus.
	ActAttention
	// ActCleared: EvClear Op is done.
	ActCleared
	// ActLost: the last channel is gone: I_T nexus loss (SAM-5 6.3.4). Forget the
	// nexus, unless a channel joins again.
	ActLost
)

// Action is one thing to do.
type Action struct {
	Kind        ActionKind
	Code        Code
	ByTag       bool
	TaskAborted bool
	Reset       bool
	Channel     Channel
	Request     uint32
	Op          uint32
	Attention   scsi.SenseCode
	LUN         uint64
	Tag         uint64
}
