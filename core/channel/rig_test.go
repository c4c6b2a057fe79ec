package channel

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

var actionNames = [...]string{
	ActStart: "start", ActLease: "lease", ActUnlease: "unlease", ActFetch: "fetch", ActCopy: "copy", ActReady: "ready",
	ActAbort: "abort", ActManage: "manage", ActWrite: "write", ActRespond: "respond", ActRepost: "repost",
	ActRelease: "release", ActCredReq: "credreq", ActLogout: "logout", ActDisconnect: "disconnect", ActDestroy: "destroy",
	ActAborted: "aborted", ActClosed: "closed", ActLeaseTable: "leaseTable", ActFetchTable: "fetchTable", ActWatch: "watch",
	ActReport: "report", ActStopFetch: "stopFetch",
}

var eventNames = [...]string{
	EvEstablished: "established", EvConnectFailed: "connectFailed", EvEstablishTimeout: "establishTimeout", EvRecv: "recv",
	EvRecvDone: "recvDone", EvFetched: "fetched", EvSent: "sent", EvAskSent: "askSent", EvLogoutSent: "logoutSent",
	EvTransportError: "transportError", EvDisconnected: "disconnected", EvDrainTimeout: "drainTimeout",
	EvNeedBuffer: "needBuffer", EvNeedData: "needData", EvBuffer: "buffer", EvBufferRefused: "bufferRefused",
	EvTable: "table", EvTableFetched: "tableFetched", EvAskTimeout: "askTimeout", EvTaskTimeout: "taskTimeout",
	EvReport: "report", EvFinished: "finished", EvManaged: "managed", EvAbort: "abort", EvAdmit: "admit", EvClose: "close",
}

// show prints an action as a row of a table has it: kind, slot index or buffer, N.
func show(a Action) string {
	s := actionNames[a.Kind]
	switch a.Kind {
	case ActStart, ActUnlease, ActReady, ActAbort, ActRespond, ActRelease, ActWatch, ActStopFetch:
		return fmt.Sprintf("%s %d", s, a.Slot.Index())
	case ActLeaseTable, ActFetchTable, ActLease, ActFetch, ActCopy, ActWrite, ActManage:
		return fmt.Sprintf("%s %d:%d", s, a.Slot.Index(), a.N)
	case ActRepost:
		return fmt.Sprintf("%s b%d", s, a.Buf)
	case ActCredReq, ActReport:
		return fmt.Sprintf("%s %+d", s, a.Delta)
	case ActLogout:
		return fmt.Sprintf("%s %d", s, a.Reason)
	case ActAborted:
		return fmt.Sprintf("%s #%d:%d", s, a.Op, a.N)
	}
	return s
}

func showAll(acts []Action) string {
	var s []string
	for _, a := range acts {
		s = append(s, show(a))
	}
	return strings.Join(s, ", ")
}

var testLimits = srp.CmdLimits{MaxTransfer: 1 << 20, MaxTable: 1024, ImmediateOffset: 68}

func testConfig() Config {
	return Config{Credits: 4, Slots: 6, Recvs: 6, Limits: testLimits, MaxTIIU: 512}
}

// rig is a Machine with the slots of its requests by tag.
type rig struct {
	t    *testing.T
	m    *Machine
	buf  uint32 // of the next unit received
	slot map[srp.Tag]Slot
	last []Action
}

func newRig(t *testing.T, cfg Config) *rig {
	return &rig{t: t, m: New(cfg), slot: map[srp.Tag]Slot{}}
}

// step feeds an event and returns the actions as text.
func (r *rig) step(ev Event) string {
	r.last = r.m.Step(ev, nil)
	for _, a := range r.last {
		switch a.Kind {
		case ActStart:
			r.slot[r.m.Cmd(a.Slot).Tag()] = a.Slot
		case ActManage:
			r.slot[r.m.TaskMgmt(a.Slot).Tag()] = a.Slot
		case ActRespond:
			r.slot[r.rsp(a.Slot).Tag()] = a.Slot
		}
	}
	return showAll(r.last)
}

// want feeds an event and compares the actions.
func (r *rig) want(ev Event, acts string) {
	r.t.Helper()
	if got := r.step(ev); got != acts {
		r.t.Fatalf("%s: got %q, want %q", eventNames[ev.Kind], got, acts)
	}
}

// recv feeds a unit in the next receive buffer.
func (r *rig) recv(iu []byte) Event {
	ev := Event{Kind: EvRecv, Buf: r.buf, IU: iu}
	r.buf++
	return ev
}

func (r *rig) rsp(s Slot) srp.Rsp {
	r.t.Helper()
	p, err := srp.ParseRsp(r.m.AppendRsp(s, nil))
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// on is an event about the request with tag t.
func (r *rig) on(k EventKind, t srp.Tag) Event { return Event{Kind: k, Slot: r.slot[t]} }

func lun(n uint32) srp.LUN {
	l, _ := srp.MakeLUN(n)
	return l
}

func direct(n uint32) srp.DataFields {
	return srp.DataFields{Format: srp.FormatDirect, List: []srp.Desc{{Addr: 0x1000, Key: 7, Length: n}}}
}

// partial is a table of n entries of 512 bytes, of which the unit has only the first few.
func partial(n, inUnit int) srp.DataFields {
	d := srp.DataFields{Format: srp.FormatIndirect, List: make([]srp.Desc, n), Remote: n - inUnit, Table: srp.Desc{Addr: 0x9000, Key: 8}}
	for i := range d.List {
		d.List[i] = srp.Desc{Addr: 0x10000 + uint64(i)*512, Key: 7, Length: 512}
	}
	return d
}

// rest is what is in the initiator's memory of a table that the unit does not have.
func rest(d srp.DataFields) (b []byte) {
	for _, e := range d.List[len(d.List)-d.Remote:] {
		b = e.Append(b)
	}
	return b
}

func readTable(t srp.Tag) []byte {
	f := srp.CmdFields{Tag: t, LUN: lun(3), CDB: []byte{0x28}, In: partial(8, 2)}
	return f.Append(nil)
}

func writeTable(t srp.Tag) []byte {
	f := srp.CmdFields{Tag: t, LUN: lun(3), CDB: []byte{0x2a}, Out: partial(8, 2)}
	return f.Append(nil)
}

func immediate(n int) srp.DataFields {
	return srp.DataFields{Format: srp.FormatImmediate, Immediate: make([]byte, n), ImmediateOffset: 68}
}

func read(t srp.Tag, n uint32) []byte {
	f := srp.CmdFields{Tag: t, LUN: lun(3), CDB: []byte{0x28}, In: direct(n)}
	return f.Append(nil)
}

func write(t srp.Tag, n uint32) []byte {
	f := srp.CmdFields{Tag: t, LUN: lun(3), CDB: []byte{0x2a}, Out: direct(n)}
	return f.Append(nil)
}

func writeImmediate(t srp.Tag, n int) []byte {
	f := srp.CmdFields{Tag: t, LUN: lun(3), CDB: []byte{0x2a}, Out: immediate(n)}
	return f.Append(nil)
}

func testReady(t srp.Tag) []byte {
	f := srp.CmdFields{Tag: t, LUN: lun(3), CDB: []byte{0}}
	return f.Append(nil)
}

func manage(t srp.Tag, f srp.TaskFunction, l srp.LUN, managed srp.Tag) []byte {
	tm := srp.TskMgmtFields{Tag: t, Function: f, LUN: l, Managed: managed}
	return tm.Append(nil)
}

// snapshot is everything a Machine knows, but for the count of ignored events.
func snapshot(m *Machine) string {
	c := *m
	c.stats.Ignored = 0
	return fmt.Sprintf("%+v", c)
}

// credits checks the invariant of design.md.
func (r *rig) credits() {
	r.t.Helper()
	w, u, o := r.m.Credits()
	if w+u+o != r.m.cfg.Credits {
		r.t.Fatalf("window %d + unanswered %d + owed %d != %d", w, u, o, r.m.cfg.Credits)
	}
	if r.m.posted < w {
		r.t.Fatalf("%d receives posted for a window of %d", r.m.posted, w)
	}
}
