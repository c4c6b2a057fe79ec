package channel

import "github.com/gosrpt/gosrpt/core/srp"

// State is where a channel is in its life. It only grows.
type State uint8

// The states; see design.md.
const (
	Connecting State = iota + 1
	Live
	LoggingOut
	Draining
	Closed
)

var stateNames = [...]string{
	Connecting: "connecting",
	Live:       "live",
	LoggingOut: "logging out",
	Draining:   "draining",
	Closed:     "closed",
}

// String returns the name of the state.
func (s State) String() string {
	if s == 0 || int(s) >= len(stateNames) {
		return "unknown"
	}
	return stateNames[s]
}

// Config is the size and the terms of one channel.
type Config struct {
	// Credits is the delta of the login response, 2 or more.
	Credits uint32
	// Slots is how many requests can be between receipt and the completion of
	// their response's SEND: Credits or more, MaxSlots at most. Further requests
	// wait in order.
	Slots int
	// Recvs is how many receives the driver posts before it accepts: Credits + 1 or
	// more, so that an unsolicited unit finds one.
	Recvs int
	// Limits are Terms.Limits.
	Limits srp.CmdLimits
	// MaxTIIU is the longest response in bytes, Terms.Rsp.MaxTIIU.
	MaxTIIU uint32
	// Held makes requests wait for EvAdmit; see Terms.Replace.
	Held bool
	// Notify are the LOSOLNT, CRSOLNT and AESOLNT bits of the login, of a channel to
	// which solicited notification was granted (SOLNTSUP).
	Notify srp.LoginFlags
	// SolNot tells that it was. Without it no unit asks for an interrupt.
	SolNot bool
}

// Stats counts what a channel has seen.
type Stats struct {
	Commands   uint64 // SRP_CMDs received
	TaskMgmt   uint64 // SRP_TSK_MGMTs received
	Responses  uint64 // SRP_RSPs handed to the driver
	Refused    uint64 // commands answered CHECK CONDITION by the channel itself
	NoBuffer   uint64 // commands answered BUSY for want of a buffer
	Vanished   uint64 // requests that ended without a response
	CredReqs   uint64 // SRP_CRED_REQs handed to the driver
	Reports    uint64 // SRP_AER_REQs handed to the driver
	Unreported uint64 // events for which SRP_AER_REQ had no room
	Tables     uint64 // indirect tables read from initiator memory
	Overdue    uint64 // task management requests that failed for taking too long
	Ignored    uint64 // events that changed nothing
	MostActive uint32 // most requests unanswered at one time
}

// Machine is one channel. New makes it.
type Machine struct {
	cfg   Config
	state State
	held  bool
	quiet bool // no work request is or will be outstanding
	cause Cause
	err   error

	window     window
	owed       uint32 // credits of vanished requests, to be returned
	unanswered uint32 // requests received and neither answered nor vanished
	managing   uint32 // task management requests among them that have a slot
	posted     uint32 // receives posted
	ask        ask
	reports    reportQueue

	slots   []slot
	free    []uint32
	busy    int
	seq     uint64 // of the last request given a slot
	tags    tagTable
	pending iuQueue
	ops     []op
	stats   Stats
	acts    []Action // of the Step under way
}

// New makes a channel that has been accepted. It panics if cfg breaks its own
// rules, which is the driver's fault, never a peer's.
func New(cfg Config) *Machine {
	if cfg.Credits < minCredits || cfg.Slots < int(cfg.Credits) || cfg.Slots > MaxSlots || cfg.Recvs <= int(cfg.Credits) {
		panic("channel: inconsistent Config")
	}
	m := &Machine{
		cfg:     cfg,
		state:   Connecting,
		held:    cfg.Held,
		window:  window{cfg.Credits},
		posted:  uint32(cfg.Recvs),
		slots:   make([]slot, cfg.Slots),
		free:    make([]uint32, cfg.Slots),
		tags:    newTagTable(cfg.Slots),
		pending: newIUQueue(cfg.Recvs),
		ops:     make([]op, 0, 4),
	}
	for i := range m.free {
		m.free[i] = uint32(cfg.Slots - 1 - i)
		m.slots[i].index = uint32(i)
	}
	return m
}

// Step takes one event, appends what is to be done, and returns the slice.
func (m *Machine) Step(ev Event, acts []Action) []Action {
	if m.state == Closed {
		m.stats.Ignored++
		return acts
	}
	m.acts = acts
	m.handle(&ev)
	m.settle()
	acts, m.acts = m.acts, nil
	return acts
}

func (m *Machine) handle(ev *Event) {
	switch ev.Kind {
	case EvEstablished:
		m.established()
	case EvConnectFailed, EvEstablishTimeout, EvDisconnected, EvDrainTimeout, EvTransportError, EvClose, EvLogoutSent:
		m.connectionEvent(ev)
	case EvRecv:
		m.receive(ev.Buf, ev.IU)
	case EvRecvDone:
		m.posted -= min(m.posted, 1)
		m.ended(ev.Outcome)
	case EvAskSent:
		m.askSent(ev.Outcome)
	case EvAskTimeout:
		m.askTimeout()
	case EvReport:
		m.report(ev.Scope.LUN, ev.Result.Sense)
	case EvAbort:
		m.addOp(op{id: ev.Op, scope: ev.Scope, before: m.seq + 1})
	case EvAdmit:
		m.held = false
	default:
		m.slotEvent(ev)
	}
}

// slotEvent handles the events of one request.
func (m *Machine) slotEvent(ev *Event) {
	s := m.lookup(ev.Slot)
	if s == nil {
		m.stats.Ignored++
		return
	}
	switch {
	case ev.Kind == EvNeedBuffer && s.state == executing:
		m.need(s, ev.N, 0, false)
	case ev.Kind == EvNeedData && s.state == executing:
		m.need(s, ev.N, ev.Room, true)
	case ev.Kind == EvTable && s.state == waitTable:
		m.tableLeased(s)
	case ev.Kind == EvTableFetched && s.state == fetchingTable:
		m.tableFetched(s, ev.Outcome, ev.IU)
	case ev.Kind == EvBuffer && s.state == waitBuffer:
		m.leased(s)
	case ev.Kind == EvBufferRefused && (s.state == waitBuffer || s.state == waitTable):
		m.noBuffer(s)
	case ev.Kind == EvFetched && s.state == fetching:
		m.fetched(s, ev.Outcome)
	case ev.Kind == EvFinished && s.state == executing:
		m.finished(s, &ev.Result)
	case ev.Kind == EvManaged && s.state == managing:
		m.managed(s, ev.Code)
	case ev.Kind == EvTaskTimeout && (s.state == aborting || s.state == managing):
		m.overdue(s)
	case ev.Kind == EvSent && s.state == responding:
		m.sent(s, ev.Outcome)
	default:
		m.stats.Ignored++
	}
}

// settle does what has become possible.
func (m *Machine) settle() {
	m.finishOps()
	m.runPending()
	m.askNext()
	if m.state == Draining && m.quiet && m.busy == 0 {
		m.state = Closed
		m.emit(Action{Kind: ActClosed})
	}
}

func (m *Machine) emit(a Action) { m.acts = append(m.acts, a) }

// State returns the state.
func (m *Machine) State() State { return m.state }

// Cause returns why the channel ended, CauseNone while it has not.
func (m *Machine) Cause() Cause { return m.cause }

// Err returns what the initiator did wrong, with CauseProtocol: a *srp.ParseError.
func (m *Machine) Err() error { return m.err }

// Stats returns the counts so far.
func (m *Machine) Stats() Stats { return m.stats }

// Credits returns how many requests the initiator may still send, how many
// await an answer, and how many credits are owed to it. On a live channel they
// sum to Config.Credits.
func (m *Machine) Credits() (window, unanswered, owed uint32) {
	return m.window.left(), m.unanswered, m.owed
}

// Waiting returns what an ending channel waits for: slots in use, and whether work
// requests are outstanding.
func (m *Machine) Waiting() (slots int, work bool) { return m.busy, !m.quiet }

// Cmd returns the command of a slot, from ActStart to ActRespond.
func (m *Machine) Cmd(s Slot) *srp.Cmd { return &m.slots[s.Index()].cmd }

// Data is the data buffer that the handler of a slot's command has asked for, from
// ActLeaseTable or ActFetch to ActRespond: the one that the command has.
func (m *Machine) Data(s Slot) *srp.Data { return m.slots[s.Index()].data() }

// Executing tells whether the handler has the command of a slot: it was given to
// it, and EvFinished has not come.
func (m *Machine) Executing(s Slot) bool {
	c := m.lookup(s)
	return c != nil && c.state == executing
}

// TaskMgmt returns the task management request of a slot, with ActManage.
func (m *Machine) TaskMgmt(s Slot) srp.TskMgmt { return m.slots[s.Index()].tm }

// AppendRsp appends the response of a slot, from ActRespond to ActRelease: at most
// Config.MaxTIIU bytes.
func (m *Machine) AppendRsp(s Slot, b []byte) []byte {
	return srp.AppendRsp(b, &m.slots[s.Index()].rsp, m.cfg.MaxTIIU)
}

// AppendControl appends the unit of ActCredReq, ActReport or ActLogout: at most
// MaxControl bytes.
func (m *Machine) AppendControl(a Action, b []byte) []byte {
	switch a.Kind {
	case ActLogout:
		l := srp.TLogout{Reason: a.Reason, SolNot: a.SolNot}
		return l.Append(b)
	case ActReport:
		r := m.ask.report
		q := srp.AerReq{Delta: a.Delta, Tag: a.Tag, LUN: r.lun, Sense: r.sense[:], SolNot: a.SolNot}
		return q.Append(b)
	}
	c := srp.CredReq{Delta: a.Delta, Tag: a.Tag, SolNot: a.SolNot}
	return c.Append(b)
}
