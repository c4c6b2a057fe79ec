package channel

import "github.com/gosrpt/gosrpt/core/srp"

// Slot names one request of a channel: the index of its slot in the low 16 bits,
// so that a driver can keep an array beside the Machine, and a generation above,
// so that a late event cannot hit the slot's next user.
type Slot uint32

const (
	slotIndexBits = 16
	// MaxSlots is the most slots a channel can have.
	MaxSlots = 1 << slotIndexBits
)

// Index returns the number of the slot, 0 <= Index < Config.Slots.
func (s Slot) Index() int { return int(s & (MaxSlots - 1)) }

// EventKind says what happened. See the package comment for who feeds it when.
type EventKind uint8

// The events. Each comment names the fields that it uses.
const (
	EvEstablished      EventKind = iota + 1
	EvConnectFailed              // the QP will complete nothing more once destroyed
	EvEstablishTimeout           // ignored once the channel is Live
	EvRecv                       // Buf, IU
	EvRecvDone                   // Buf, Outcome: Flushed or Failed
	EvTableFetched               // Slot, Outcome, IU: the bytes read
	EvFetched                    // Slot, Outcome
	EvSent                       // Slot, Outcome
	EvAskSent                    // Outcome
	EvLogoutSent                 // Outcome
	EvTransportError             //
	EvDisconnected               // all work has completed, or never will
	EvDrainTimeout               // ignored before LoggingOut
	EvAskTimeout                 // ignored if the last ask has been answered
	EvTaskTimeout                // Slot
	EvNeedBuffer                 // Slot, N; this or EvNeedData at most once a command
	EvNeedData                   // Slot, N, Room; N beyond the initiator's buffer is cut to it
	EvTable                      // Slot
	EvBuffer                     // Slot
	EvBufferRefused              // Slot: the command ends with BUSY
	EvFinished                   // Slot, Result
	EvManaged                    // Slot, Code
	EvAbort                      // Op, Scope
	EvReport                     // Scope.LUN, Result.Sense, which is copied
	EvAdmit                      //
	EvClose                      // Cause
	evEnd
)

// Event is one thing that happened.
type Event struct {
	Kind    EventKind
	Outcome Outcome
	Code    srp.RspCode
	Cause   Cause
	Slot    Slot
	Buf     uint32
	Op      uint32
	N       uint32
	Room    uint32 // of EvNeedData: the size of the buffer, if that is more than N
	IU      []byte // stays in place until ActRepost of Buf, or ActClosed
	Result  Result
	Scope   Scope
}

// Outcome is how work ended.
type Outcome uint8

// Outcomes. What was not done ends the channel.
const (
	Done    Outcome = iota
	Flushed         // not done because the connection had ended
	Failed          // not done: this is why the connection ends
)

// Result is how the handler ended a command.
type Result struct {
	Status  byte   // SCSI status
	Sense   []byte // copied within Step
	OutUsed uint32 // bytes of data-out consumed
	InUsed  uint32 // bytes of the leased buffer that go to the initiator
	Wanted  uint64 // bytes the CDB asked to move; 0: as many as were used
}

// Scope says which commands an EvAbort means: those on LUN that have a slot.
type Scope struct {
	LUN     srp.LUN
	AllLUNs bool    // any LUN
	ByTag   bool    // only the command with Tag
	Tag     srp.Tag // with ByTag
	// TaskAborted makes them end with status TASK ABORTED instead of vanishing
	// (SAM-5 5.6, TAS bit, for tasks of other nexuses).
	TaskAborted bool
}

// ActionKind says what the driver must do.
type ActionKind uint8

// The actions. Each comment names the fields it carries, and what must follow.
const (
	// ActStart: give the command Cmd(Slot) to the handler. EvNeedBuffer,
	// EvNeedData or EvFinished follows.
	ActStart ActionKind = iota + 1
	// ActLeaseTable: get Slot room for N bytes of its indirect table, the length of
	// Data(Slot).Remote(). EvTable or EvBufferRefused follows, unless ActUnlease comes
	// first. It comes before ActLease, and the room stays the slot's until ActRelease.
	ActLeaseTable
	// ActFetchTable: RDMA READ the N bytes of Data(Slot).Remote() into that room.
	// EvTableFetched follows once, after the last READ has completed.
	ActFetchTable
	// ActLease: get Slot a buffer of N bytes. EvBuffer or EvBufferRefused follows,
	// unless ActUnlease comes first.
	ActLease
	// ActUnlease: stop waiting for table room or buffer, and give back what of them
	// Slot has, as it may have come while this action waited its turn. None of the
	// events need follow, and none counts.
	ActUnlease
	// ActFetch: RDMA READ the first N bytes of Cmd(Slot).DataOut() into the
	// buffer. EvFetched follows once, after the last READ has completed.
	ActFetch
	// ActStopFetch: read no more of Slot's data than has been posted, or little more. EvFetched
	// follows all the same, as soon as nothing of the fetch is outstanding, unless it has already.
	ActStopFetch
	// ActCopy: copy the first N bytes of Cmd(Slot).DataOut().Immediate() into the
	// buffer. Nothing follows.
	ActCopy
	// ActReady: tell the handler that the buffer is there and, after ActFetch or
	// ActCopy, filled. EvFinished follows.
	ActReady
	// ActAbort: ask the handler to end the command early. EvFinished follows. Skip it
	// unless Executing(Slot): the handler may have finished while this action waited
	// its turn.
	ActAbort
	// ActManage: give TaskMgmt(Slot) to the handler; N commands of this channel
	// have been aborted for it, and none is left. EvManaged follows.
	ActManage
	// ActWrite: RDMA WRITE the first N bytes of the buffer to
	// Cmd(Slot).DataIn(), unsignaled. An ActRespond for Slot comes behind.
	ActWrite
	// ActRespond: SEND what AppendRsp(Slot) builds, signaled. EvSent follows.
	ActRespond
	// ActRepost: post receive Buf again. Its bytes are no longer looked at.
	ActRepost
	// ActRelease: Slot is free; give its buffer back. The Slot is void.
	ActRelease
	// ActWatch: start the deadline of the task management request Slot.
	// EvTaskTimeout follows, unless ActRelease comes first.
	ActWatch
	// ActCredReq, ActReport: SEND what AppendControl builds, and start the deadline of
	// asks anew. EvAskSent follows. One of them is outstanding at a time.
	ActCredReq
	ActReport
	// ActLogout: SEND what AppendControl builds, then start the drain timer.
	// EvLogoutSent follows.
	ActLogout
	// ActDisconnect: disconnect the QP, and start the drain timer unless it runs.
	// All its work completes, then EvDisconnected follows.
	ActDisconnect
	// ActDestroy: close the QP at once. No event of its work may follow.
	ActDestroy
	// ActAborted: EvAbort Op is done: N commands were aborted, none is left.
	ActAborted
	// ActClosed: nothing is left. The QP may be closed, receive buffers and the
	// Machine forgotten. It is the last action.
	ActClosed
)

// Action is one thing to do.
type Action struct {
	Kind   ActionKind
	Slot   Slot
	Buf    uint32
	N      uint32
	Op     uint32
	Delta  int32            // of ActCredReq and ActReport
	Tag    srp.Tag          // of ActCredReq and ActReport
	Reason srp.LogoutReason // of ActLogout
	// SolNot, of all that SEND: with the solicited-event bit.
	SolNot bool
}

// Cause is why a channel ended.
type Cause uint8

// The causes. EvClose takes the last three.
const (
	CauseNone           Cause = iota
	CauseNotEstablished       // the initiator did not complete the connection
	CausePeer                 // the connection ended
	CauseLogout               // SRP_I_LOGOUT
	CauseTransport            // work failed
	CauseProtocol             // the initiator broke the protocol: see Machine.Err
	CausePort                 // the port is gone, or does not carry the connection any more
	CauseReplaced             // a later login terminated the nexus' channels
	CauseInactive             // reclaimed
	CauseAdmin                // the operator wants it
)

var causeNames = [...]string{
	CauseNone:           "open",
	CauseNotEstablished: "not established",
	CausePeer:           "disconnected by the initiator",
	CauseLogout:         "logged out by the initiator",
	CauseTransport:      "transport error",
	CauseProtocol:       "protocol error",
	CausePort:           "lost with its port or address",
	CauseReplaced:       "replaced by a new login",
	CauseInactive:       "inactive",
	CauseAdmin:          "closed by the operator",
}

// String says the cause in words.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return "unknown"
}

// logout returns the reason to log out with.
func (c Cause) logout() srp.LogoutReason {
	switch c {
	case CauseReplaced:
		return srp.LogoutMultiChannel
	case CauseInactive:
		return srp.LogoutInactive
	}
	return srp.LogoutNoReason
}
