package cm

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

// The transition table. One row for each event that does something in a state; every pair of
// state and event that has no row must change nothing: no action, no error, same state, same deadline.
//
// est-p and est-a are an established connection of the passive and of the active side. "other" is another
// REQ with the communication id of the connection; "same-qp" a REQ with a new id, but the QPN of the connection.
// REJ-t is a REJ with reason 4 of a peer that never learned our id. Actions: a message sent, with
// the reason of a REJ; +request, +established; -cause for ActionEnded; free for ActionReleased;
// !ERR for a refused command.
const table = `
none     | req       | req-rcvd | +request
none     | other     | req-rcvd | +request
none     | same-qp   | req-rcvd | +request
none     | rep       | none     | REJ6
none     | rep2      | none     | REJ6
none     | dreq      | none     | DREP
none     | dreq-qpn  | none     | DREP
none     | dreq-peer | none     | DREP
none     | rep-peer  | none     | REJ6
none     | accept    | none     | !unknown
none     | reject    | none     | !unknown
none     | disc      | none     | !unknown

req-sent | same-qp   | req-sent | +request
req-sent | req       | req-sent | +request
req-sent | other     | req-sent | +request
req-sent | mra-req   | req-sent | timer
req-sent | rej       | none     | -rejected free
req-sent | rej-req   | none     | -rejected free
req-sent | rej-10    | timewait | -rejected
req-sent | rej-wrong | none     | -rejected free
req-sent | rep       | est-a    | +established RTU
req-sent | rep2      | est-a    | +established RTU
req-sent | dreq      | req-sent | DREP
req-sent | dreq-qpn  | req-sent | DREP
req-sent | dreq-peer | req-sent | DREP
req-sent | rep-peer  | req-sent | REJ6
req-sent | tick      | req-sent | REQ timer
req-sent | accept    | req-sent | !state
req-sent | reject    | req-sent | !state
req-sent | disc      | none     | REJ4 -local free

req-rcvd | req       | req-rcvd | MRA
req-rcvd | other     | none     | REJ10 -stale free
req-rcvd | same-qp   | none     | -stale free +request
req-rcvd | rej       | none     | -rejected free
req-rcvd | rej-10    | timewait | -rejected
req-rcvd | rej-t     | none     | -rejected free
req-rcvd | tick      | refused  | REJ3 -unanswered free
req-rcvd | dreq-peer | req-rcvd | DREP
req-rcvd | rep-peer  | req-rcvd | REJ6
req-rcvd | accept    | rep-sent | REP timer
req-rcvd | reject    | refused  | REJ28 -local free
req-rcvd | disc      | refused  | REJ28 -local free

rep-sent | req       | rep-sent | REP
rep-sent | other     | none     | REJ10 -stale free
rep-sent | same-qp   | none     | -stale free +request
rep-sent | mra-rep   | rep-sent | timer
rep-sent | rej       | none     | -rejected free
rep-sent | rej-10    | timewait | -rejected
rep-sent | rej-t     | none     | -rejected free
rep-sent | rtu       | est-p    | +established
rep-sent | traffic   | est-p    | +established
rep-sent | dreq      | timewait | +established DREP -peer
rep-sent | dreq-peer | rep-sent | DREP
rep-sent | rep-peer  | rep-sent | REJ6
rep-sent | tick      | rep-sent | REP timer
rep-sent | accept    | rep-sent | !state
rep-sent | reject    | rep-sent | !state
rep-sent | disc      | none     | REJ28 -local free

est-p    | other     | timewait | REJ10 -stale DREQ
est-p    | same-qp   | timewait | -stale DREQ +request
est-p    | rej       | timewait | -rejected
est-p    | rej-10    | timewait | -rejected
est-p    | dreq      | timewait | DREP -peer
est-p    | dreq-peer | est-p    | DREP
est-p    | rep-peer  | est-p    | REJ6
est-p    | accept    | est-p    | !state
est-p    | reject    | est-p    | !state
est-p    | disc      | dreq-sent| DREQ timer

est-a    | other     | timewait | REJ10 -stale DREQ
est-a    | req       | timewait | REJ10 -stale DREQ
est-a    | same-qp   | timewait | -stale DREQ +request
est-a    | rej       | timewait | -rejected
est-a    | rej-10    | timewait | -rejected
est-a    | rep       | est-a    | RTU
est-a    | dreq      | timewait | DREP -peer
est-a    | dreq-peer | est-a    | DREP
est-a    | rep-peer  | est-a    | REJ6
est-a    | accept    | est-a    | !state
est-a    | reject    | est-a    | !state
est-a    | disc      | dreq-sent| DREQ timer

dreq-sent| other     | timewait | REJ10 -local
dreq-sent| same-qp   | timewait | -local +request
dreq-sent| rej       | timewait | -local
dreq-sent| rej-10    | timewait | -local
dreq-sent| dreq      | timewait | DREP -local
dreq-sent| dreq-peer | dreq-sent| DREP
dreq-sent| rep-peer  | dreq-sent| REJ6
dreq-sent| drep      | timewait | -local
dreq-sent| tick      | dreq-sent| DREQ timer
dreq-sent| accept    | dreq-sent| !state
dreq-sent| reject    | dreq-sent| !state

timewait | req       | timewait | REJ10
timewait | other     | timewait | REJ10
timewait | same-qp   | timewait | +request
timewait | dreq      | timewait | DREP
timewait | dreq-peer | timewait | DREP
timewait | rep-peer  | timewait | REJ6
timewait | tick      | none     | free
timewait | accept    | timewait | !state
timewait | reject    | timewait | !state

refused  | req       | refused  | REJ28
refused  | other     | none     | +request
refused  | same-qp   | refused  | +request
refused  | dreq-peer | refused  | DREP
refused  | rep-peer  | refused  | REJ6
refused  | tick      | none     |
refused  | accept    | refused  | !unknown
refused  | reject    | refused  | !unknown
refused  | disc      | refused  | !unknown
`

// fixture is a machine with one connection, and what the peer knows of it.
type fixture struct {
	t             *testing.T
	m             *Machine
	now           int64
	conn          Handle
	local, remote uint32 // communication ids
	tid           uint64
}

const (
	hereQPN  ib.QPN = 0x77
	thereQPN ib.QPN = 0x11
)

func newFixture(t *testing.T) *fixture {
	n := uint32(100)
	m := New(Config{CAGUID: 0xCA, Rand: func() uint32 { n += 7; return n }})
	if err := m.Listen(ServiceID(5555)); err != nil {
		t.Fatal(err)
	}
	return &fixture{t: t, m: m, now: 1000, remote: srpREQ().LocalCommID, tid: 42}
}

// step runs one event, and returns the actions and the error in the table's notation.
func (f *fixture) step(ev Event) string {
	f.t.Helper()
	actions, err := f.m.Step(f.now, ev, nil)
	words := f.describe(actions)
	switch {
	case errors.Is(err, ErrUnknown):
		words = append(words, "!unknown")
	case errors.Is(err, ErrState):
		words = append(words, "!state")
	case err != nil:
		f.t.Fatalf("%T: %v", ev, err)
	}
	return strings.Join(words, " ")
}

func (f *fixture) describe(actions []Action) (words []string) {
	for _, a := range actions {
		switch a.Kind {
		case ActionSend:
			msg, err := ParseMessage(a.MAD)
			if err != nil {
				f.t.Fatalf("sends no message: %v", err)
			}
			w := msg.Attr().String()
			if msg.Attr() == AttrREJ {
				w += fmt.Sprint(uint16(msg.REJ().Reason()))
			}
			words = append(words, w)
		case ActionRequest:
			words = append(words, "+request")
			if f.conn == 0 {
				f.conn = a.Conn
			}
		case ActionEstablished:
			words = append(words, "+established")
		case ActionEnded:
			words = append(words, "-"+map[Cause]string{CauseLocal: "local", CausePeer: "peer", CauseRejected: "rejected",
				CauseTimeout: "timeout", CauseStale: "stale", CauseUnanswered: "unanswered"}[a.Cause])
		case ActionReleased:
			words = append(words, "free")
		}
	}
	return words
}

func (f *fixture) mad(mad []byte, err error) Event {
	if err != nil {
		f.t.Fatal(err)
	}
	return Received{Peer: gidThere, MAD: mad}
}

func (f *fixture) req(change func(*REQFields), tid uint64) Event {
	r := srpREQ()
	if change != nil {
		change(r)
	}
	return f.mad(r.Append(nil, tid))
}

func (f *fixture) rep(commID uint32) Event {
	r := REPFields{LocalCommID: commID, RemoteCommID: f.local, LocalQPN: thereQPN, StartingPSN: 9}
	return f.mad(r.Append(nil, f.tid))
}

func (f *fixture) rej(local, remote uint32, about Refused, reason Reason) Event {
	r := REJFields{LocalCommID: local, RemoteCommID: remote, Refused: about, Reason: reason}
	return f.mad(r.Append(nil, f.tid))
}

func (f *fixture) dreq(peer ib.GID, qpn ib.QPN) Event {
	return Received{Peer: peer, MAD: AppendDREQ(nil, 77, f.remote, f.local, qpn)}
}

func (f *fixture) connect() Event {
	f.conn = f.m.NewHandle()
	return Connect{Conn: f.conn, Local: gidHere, Peer: gidThere, ServiceID: ServiceID(5555), QPN: hereQPN, RecvPSN: 3, PathMTU: ib.MTU1024, AckTimeout: 19}
}

// enter brings the connection into a state of the table.
func (f *fixture) enter(state string) {
	f.t.Helper()
	passive := []Event{f.req(nil, f.tid), Accept{Conn: 1, QPN: hereQPN, RecvPSN: 5, InitiatorDepth: 4}, Traffic{1}, Disconnect{1}}
	var events []Event
	switch state {
	case "none":
		f.local = 0xDEAD
	case "req-sent":
		events = []Event{f.connect()}
	case "req-rcvd":
		events = passive[:1]
	case "rep-sent":
		events = passive[:2]
	case "est-p":
		events = passive[:3]
	case "dreq-sent":
		events = passive[:4]
	case "refused":
		events = []Event{passive[0], Reject{Conn: 1, Reason: ReasonConsumer}}
	case "timewait":
		events = passive[:3]
	case "est-a":
		events = []Event{f.connect()}
	}
	for _, ev := range events {
		f.step(ev)
	}
	if c := f.m.conns[f.conn]; c != nil {
		f.local = c.local
	}
	switch state {
	case "timewait":
		f.step(f.dreq(gidThere, hereQPN))
	case "est-a":
		f.step(f.rep(f.remote))
	}
}

// state is the table's name of the connection's state.
func (f *fixture) state() string {
	c := f.m.conns[f.conn]
	if c == nil {
		return "none"
	}
	names := map[State]string{StateReqSent: "req-sent", StateReqRcvd: "req-rcvd", StateRepSent: "rep-sent", StateDreqSent: "dreq-sent",
		StateTimewait: "timewait", StateRefused: "refused", StateEstablished: "est-a"}
	if c.state == StateEstablished && c.passive {
		return "est-p"
	}
	return names[c.state]
}

var tableStates = []string{"none", "req-sent", "req-rcvd", "rep-sent", "est-p", "est-a", "dreq-sent", "timewait", "refused"}

// tableEvents makes each event of the table, which may depend on the connection.
var tableEvents = map[string]func(*fixture) Event{
	"req":       func(f *fixture) Event { return f.req(nil, f.tid) },
	"other":     func(f *fixture) Event { return f.req(func(r *REQFields) { r.LocalQPN, r.StartingPSN = 0x12, 1 }, 43) },
	"same-qp":   func(f *fixture) Event { return f.req(func(r *REQFields) { r.LocalCommID = 0x5151 }, 44) },
	"mra-req":   func(f *fixture) Event { return f.mad(AppendMRA(nil, f.tid, f.remote, f.local, RefusedREQ, 22), nil) },
	"mra-rep":   func(f *fixture) Event { return f.mad(AppendMRA(nil, f.tid, f.remote, f.local, RefusedREP, 22), nil) },
	"mra-other": func(f *fixture) Event { return f.mad(AppendMRA(nil, f.tid, f.remote, f.local, RefusedOther, 22), nil) },
	"rej": func(f *fixture) Event {
		if c := f.m.conns[f.conn]; c != nil && c.remote == 0 {
			return f.rej(0, f.local, RefusedREQ, ReasonConsumer)
		}
		return f.rej(f.remote, f.local, RefusedREP, ReasonConsumer)
	},
	"rej-req": func(f *fixture) Event { return f.rej(0, f.local, RefusedREQ, ReasonInvalidService) },
	"rej-10": func(f *fixture) Event {
		if c := f.m.conns[f.conn]; c != nil && c.remote == 0 {
			return f.rej(0, f.local, RefusedREQ, ReasonStaleConnection)
		}
		return f.rej(f.remote, f.local, RefusedREP, ReasonStaleConnection)
	},
	"rej-t":     func(f *fixture) Event { return f.rej(f.remote, 0, RefusedREQ, ReasonTimeout) },
	"rej-wrong": func(f *fixture) Event { return f.rej(f.remote+1, f.local, RefusedREP, ReasonConsumer) },
	"rep":       func(f *fixture) Event { return f.rep(f.remote) },
	"rep2":      func(f *fixture) Event { return f.rep(f.remote + 1) },
	"rtu":       func(f *fixture) Event { return f.mad(AppendRTU(nil, f.tid, f.remote, f.local), nil) },
	"rtu-wrong": func(f *fixture) Event { return f.mad(AppendRTU(nil, f.tid, f.remote+1, f.local), nil) },
	"rtu-peer":  func(f *fixture) Event { return Received{gidHere, AppendRTU(nil, f.tid, f.remote, f.local)} },
	"dreq":      func(f *fixture) Event { return f.dreq(gidThere, hereQPN) },
	"dreq-qpn":  func(f *fixture) Event { return f.dreq(gidThere, hereQPN+1) },
	"dreq-peer": func(f *fixture) Event { return f.dreq(gidHere, hereQPN) },
	"drep":      func(f *fixture) Event { return f.mad(AppendDREP(nil, 1, f.remote, f.local), nil) },
	"drep-peer": func(f *fixture) Event { return Received{gidHere, AppendDREP(nil, 1, f.remote, f.local)} },
	"rep-peer":  func(f *fixture) Event { e := f.rep(f.remote).(Received); e.Peer = gidHere; return e },
	"rej-peer": func(f *fixture) Event {
		e := f.rej(f.remote, f.local, RefusedREP, ReasonConsumer).(Received)
		e.Peer = gidHere
		return e
	},
	"mra-peer": func(f *fixture) Event {
		return Received{gidHere, AppendMRA(nil, f.tid, f.remote, f.local, RefusedREP, 22)}
	},
	"mra-wrong": func(f *fixture) Event { return f.mad(AppendMRA(nil, f.tid, f.remote+1, f.local, RefusedREP, 22), nil) },
	"lap":       func(f *fixture) Event { m, _ := beginIDs(nil, AttrLAP, 1, f.remote, f.local); return f.mad(m, nil) },
	"early":     func(f *fixture) Event { return Tick{} },
	"tick": func(f *fixture) Event {
		if at, ok := f.m.Deadline(); ok {
			f.now = at
		}
		return Tick{}
	},
	"traffic": func(f *fixture) Event { return Traffic{f.conn} },
	"accept":  func(f *fixture) Event { return Accept{Conn: f.conn, QPN: hereQPN, RecvPSN: 5} },
	"reject":  func(f *fixture) Event { return Reject{Conn: f.conn, Reason: ReasonConsumer} },
	"disc":    func(f *fixture) Event { return Disconnect{f.conn} },
}

func parseTable(t *testing.T) map[string]string {
	rows := make(map[string]string)
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		key := cells[0] + " " + cells[1]
		if _, twice := rows[key]; twice || tableEvents[cells[1]] == nil {
			t.Fatalf("bad row %q", line)
		}
		rows[key] = cells[2] + ": " + cells[3]
	}
	return rows
}

func TestTransitionTable(t *testing.T) {
	rows := parseTable(t)
	for _, state := range tableStates {
		for name, event := range tableEvents {
			key := state + " " + name
			want, listed := rows[key]
			if !listed {
				want = state + ": "
			}
			delete(rows, key)
			f := newFixture(t)
			f.enter(state)
			if got := f.state(); got != state {
				t.Fatalf("set-up of %s ends in %s", state, got)
			}
			before := f.due()
			got := f.step(event(f))
			if f.due() != before && f.state() == state || f.state() == "dreq-sent" && state != "dreq-sent" || name == "accept" && f.state() == "rep-sent" && state == "req-rcvd" {
				got = strings.TrimSpace(got + " timer")
			}
			if got = f.state() + ": " + got; got != want {
				t.Errorf("%s, %s: %q, want %q", state, name, got, want)
			}
			f.checkTables()
		}
	}
	for key := range rows {
		t.Errorf("row %q is of no known state", key)
	}
}

func (f *fixture) due() int64 {
	if c := f.m.conns[f.conn]; c != nil && c.slot >= 0 {
		return c.due
	}
	return -1
}

// checkTables checks that the machine's tables agree with each other.
func (f *fixture) checkTables() {
	f.t.Helper()
	if err := consistent(f.m); err != nil {
		f.t.Error(err)
	}
}

func consistent(m *Machine) error {
	half, live, ended := 0, 0, 0
	for h, c := range m.conns {
		switch {
		case c.handle != h || m.byLocal[c.local] != c:
			return fmt.Errorf("connection %d is not found by its id", h)
		case c.live() && m.byQP[c.remoteQP()] != c:
			return fmt.Errorf("connection %d in %v does not hold its peer's QP", h, c.state)
		case c.state == StateNone:
			return fmt.Errorf("connection %d is in no state", h)
		case (c.slot >= 0) != (c.state != StateEstablished):
			return fmt.Errorf("connection %d in %v: deadline %v", h, c.state, c.slot >= 0)
		}
		if c.state.halfOpen() {
			half++
		}
		if c.live() {
			live++
		}
		if m.kept(c.state) != nil {
			ended++
		}
	}
	perPeer := 0
	for _, n := range m.halfOpenPeer {
		perPeer += n
	}
	if half != m.halfOpen || half != perPeer || live != len(m.byQP) || ended != m.refused.Len()+m.waiting.Len() {
		return fmt.Errorf("half open %d, %d, %d; live %d, %d; ended %d, %d", half, m.halfOpen, perPeer, live, len(m.byQP), ended, m.refused.Len()+m.waiting.Len())
	}
	if len(m.byLocal) != len(m.conns) || len(m.byRemote) > len(m.conns) || len(m.timers) > len(m.conns) {
		return fmt.Errorf("%d connections, but tables of %d, %d, %d", len(m.conns), len(m.byLocal), len(m.byRemote), len(m.timers))
	}
	return nil
}
