package channel

import (
	"os"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

// testdata/transitions.txt is the whole transition table: a block for each state of a channel and
// of a request, and in it a line for each stimulus, which is an event with its outcome:
//
//	state
//		stimulus, stimulus: action, action
//
// A dot stands for stimuli that must change nothing, and "!" for a change without an action.

// stimuli are the events in every variant that matters. s is the request under test, if there is one.
var stimuli = []struct {
	name string
	ev   func(r *rig, s Slot) Event
}{
	{"established", plain(EvEstablished)},
	{"connectFailed", plain(EvConnectFailed)},
	{"establishTimeout", plain(EvEstablishTimeout)},
	{"recv", func(r *rig, _ Slot) Event { return r.recv(testReady(0x55)) }},
	{"recv logout", func(r *rig, _ Slot) Event { return r.recv(srp.AppendILogout(nil, 0x56)) }},
	{"recv garbage", func(r *rig, _ Slot) Event { return r.recv(unit(0x7e, 20)) }},
	{"recvDone flushed", of(Event{Kind: EvRecvDone, Outcome: Flushed})},
	{"recvDone failed", of(Event{Kind: EvRecvDone, Outcome: Failed})},
	{"tableFetched", func(_ *rig, s Slot) Event { return Event{Kind: EvTableFetched, Slot: s, IU: rest(partial(8, 2))} }},
	{"tableFetched wrong", func(_ *rig, s Slot) Event { return Event{Kind: EvTableFetched, Slot: s, IU: make([]byte, 6*16)} }},
	{"tableFetched failed", failed(EvTableFetched)},
	{"fetched", plain(EvFetched)},
	{"fetched failed", failed(EvFetched)},
	{"sent", plain(EvSent)},
	{"sent failed", failed(EvSent)},
	{"askSent", plain(EvAskSent)},
	{"askSent failed", failed(EvAskSent)},
	{"logoutSent", plain(EvLogoutSent)},
	{"logoutSent failed", failed(EvLogoutSent)},
	{"transportError", plain(EvTransportError)},
	{"disconnected", plain(EvDisconnected)},
	{"drainTimeout", plain(EvDrainTimeout)},
	{"askTimeout", plain(EvAskTimeout)},
	{"taskTimeout", plain(EvTaskTimeout)},
	{"needBuffer", func(_ *rig, s Slot) Event { return Event{Kind: EvNeedBuffer, Slot: s, N: 4096} }},
	{"needData", func(_ *rig, s Slot) Event { return Event{Kind: EvNeedData, Slot: s, N: 4096} }},
	{"table", plain(EvTable)},
	{"buffer", plain(EvBuffer)},
	{"bufferRefused", plain(EvBufferRefused)},
	{"finished", func(_ *rig, s Slot) Event {
		return Event{Kind: EvFinished, Slot: s, Result: Result{InUsed: 4096, OutUsed: 4096}}
	}},
	{"managed", plain(EvManaged)},
	{"abort", of(Event{Kind: EvAbort, Op: 9, Scope: Scope{LUN: lun(3)}})},
	{"abort with status", of(Event{Kind: EvAbort, Op: 9, Scope: Scope{LUN: lun(3), TaskAborted: true}})},
	{"report", of(Event{Kind: EvReport, Scope: Scope{LUN: lun(3)}, Result: Result{Sense: []byte{0x70, 0, 6}}})},
	{"admit", plain(EvAdmit)},
	{"close replaced", of(Event{Kind: EvClose, Cause: CauseReplaced})},
	{"close admin", of(Event{Kind: EvClose, Cause: CauseAdmin})},
	{"close inactive", of(Event{Kind: EvClose, Cause: CauseInactive})},
	{"close for no reason", of(Event{Kind: EvClose, Cause: CauseLogout})},
	{"no event", plain(0)},
	{"no such event", plain(evEnd)},
}

func of(ev Event) func(*rig, Slot) Event {
	return func(_ *rig, s Slot) Event { ev.Slot = s; return ev }
}
func plain(k EventKind) func(*rig, Slot) Event  { return of(Event{Kind: k}) }
func failed(k EventKind) func(*rig, Slot) Event { return of(Event{Kind: k, Outcome: Failed}) }

// situation is a state, and how a new channel gets there; reach returns the request under test.
type situation struct {
	name    string
	channel State
	slot    slotState // free: the channel's own state is under test
	reach   func(r *rig) Slot
}

// request makes a situation of a request: units come in, then events about tag 1.
func request(name string, st slotState, iu []byte, evs ...Event) situation {
	return situation{name, Live, st, func(r *rig) Slot {
		r.step(r.recv(iu))
		for _, ev := range evs {
			if ev.Kind != EvAbort && ev.Kind != EvClose {
				ev.Slot = r.slot[1]
			}
			if ev.Kind == EvTableFetched {
				ev.IU = rest(partial(8, 2))
			}
			r.step(ev)
		}
		return r.slot[1]
	}}
}

func situations() []situation {
	needIn, needOut := Event{Kind: EvNeedBuffer, N: 4096}, Event{Kind: EvNeedData, N: 4096}
	table, read8, buffer := Event{Kind: EvTable}, Event{Kind: EvTableFetched}, Event{Kind: EvBuffer}
	fetched, finished := Event{Kind: EvFetched}, Event{Kind: EvFinished, Result: Result{InUsed: 4096}}
	cut := Event{Kind: EvAbort, Op: 8, Scope: Scope{LUN: lun(3)}}
	list := []situation{
		{"channel: Connecting", Connecting, free, func(*rig) Slot { return 0 }},
		{"channel: Live", Live, free, func(r *rig) Slot { r.step(Event{Kind: EvEstablished}); return 0 }},
		{"channel: Live, held", Live, free, func(r *rig) Slot {
			r.m.held = true
			r.step(r.recv(testReady(1)))
			return 0
		}},
		{"channel: Live, asking", Live, free, func(r *rig) Slot {
			r.step(Event{Kind: EvEstablished})
			r.want(Event{Kind: EvReport}, "report +0")
			return 0
		}},
		{"channel: LoggingOut", LoggingOut, free, func(r *rig) Slot {
			r.step(Event{Kind: EvEstablished})
			r.step(Event{Kind: EvClose, Cause: CauseAdmin})
			return 0
		}},
		{"channel: Draining", Draining, free, func(r *rig) Slot { r.step(Event{Kind: EvTransportError}); return 0 }},
		{"channel: Draining, no work left", Draining, free, func(r *rig) Slot {
			r.step(r.recv(testReady(1)))
			r.step(Event{Kind: EvDisconnected})
			return MaxSlots - 1
		}},
		{"channel: Closed", Closed, free, func(r *rig) Slot { r.step(Event{Kind: EvDisconnected}); return 0 }},
		request("command: executing", executing, testReady(1)),
		request("command: executing, data-in", executing, read(1, 4096)),
		request("command: executing, table", executing, readTable(1)),
		request("command: waitTable", waitTable, readTable(1), needIn),
		request("command: fetchingTable", fetchingTable, readTable(1), needIn, table),
		request("command: fetchingTable, aborted", fetchingTable, writeTable(1), needOut, table, cut),
		request("command: waitBuffer, data-in", waitBuffer, readTable(1), needIn, table, read8),
		request("command: waitBuffer, data-out", waitBuffer, writeTable(1), needOut, table, read8),
		request("command: waitBuffer, immediate", waitBuffer, writeImmediate(1, 512), needOut),
		request("command: fetching", fetching, writeTable(1), needOut, table, read8, buffer),
		request("command: fetching, aborted", fetching, write(1, 4096), needOut, buffer, cut),
		request("command: executing, buffer filled", executing, write(1, 4096), needOut, buffer, fetched),
		request("command: executing, buffer leased", executing, read(1, 4096), needIn, buffer),
		request("command: executing, aborted", executing, read(1, 4096), cut),
		request("command: responding", responding, read(1, 4096), needIn, buffer, finished),
		request("task: managing", managing, manage(1, srp.FuncLUNReset, lun(3), 0)),
		request("task: responding", responding, manage(1, srp.FuncLUNReset, lun(3), 0), Event{Kind: EvManaged}),
	}
	return append(list,
		situation{"command: overlapped", Live, overlapped, func(r *rig) Slot {
			r.step(r.recv(testReady(1)))
			r.step(r.recv(testReady(1)))
			return Slot(1)
		}},
		situation{"task: aborting", Live, aborting, func(r *rig) Slot {
			r.step(r.recv(testReady(2)))
			r.step(r.recv(manage(1, srp.FuncLUNReset, lun(3), 0)))
			return Slot(1)
		}},
	)
}

// tableRig is a channel whose initiator wants to hear of everything.
func tableRig(t *testing.T) *rig {
	cfg := testConfig()
	cfg.SolNot, cfg.Notify = true, srp.LoginAerSolNot
	return newRig(t, cfg)
}

// parseTransitions reads the table: cells by state and stimulus.
func parseTransitions(t *testing.T, text string) map[string]map[string]string {
	t.Helper()
	table := map[string]map[string]string{}
	var block map[string]string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case line[0] != '\t':
			block = map[string]string{}
			table[line] = block
		default:
			names, cell, ok := strings.Cut(line, ": ")
			if !ok || block == nil {
				t.Fatalf("not a line of the table: %q", line)
			}
			for name := range strings.SplitSeq(strings.TrimSpace(names), ", ") {
				if _, twice := block[name]; twice {
					t.Fatalf("%q is in the table twice", line)
				}
				block[name] = cell
			}
		}
	}
	return table
}

func TestTransitionTableIsWhole(t *testing.T) {
	text, err := os.ReadFile("testdata/transitions.txt")
	if err != nil {
		t.Fatal(err)
	}
	table := parseTransitions(t, string(text))
	events := map[EventKind]bool{}
	for _, s := range stimuli {
		events[s.ev(newRig(t, testConfig()), 0).Kind] = true
	}
	for k := EventKind(1); k < evEnd; k++ {
		if !events[k] {
			t.Errorf("event %d (%s) has no row", k, eventNames[k])
		}
	}
	states, slots := map[State]bool{}, map[slotState]bool{}
	for _, s := range situations() {
		if s.slot == free {
			states[s.channel] = true
		}
		slots[s.slot] = true
		for _, e := range stimuli {
			if table[s.name][e.name] == "" {
				t.Errorf("%s / %s has no cell", s.name, e.name)
			}
		}
		if n := len(table[s.name]); n > len(stimuli) {
			t.Errorf("%s has %d cells for %d stimuli", s.name, n, len(stimuli))
		}
	}
	for s := Connecting; s <= Closed; s++ {
		if !states[s] {
			t.Errorf("state %v has no block", s)
		}
	}
	for s := free; s < slotStates; s++ {
		if !slots[s] {
			t.Errorf("state %d of requests has no block", s)
		}
	}
	if len(table) != len(situations()) {
		t.Errorf("the table has %d blocks, there are %d states", len(table), len(situations()))
	}
}

func TestEveryTransition(t *testing.T) {
	text, err := os.ReadFile("testdata/transitions.txt")
	if err != nil {
		t.Fatal(err)
	}
	table := parseTransitions(t, string(text))
	for _, s := range situations() {
		for _, e := range stimuli {
			got := transition(t, s, e.ev)
			if want := table[s.name][e.name]; got != want {
				t.Errorf("%s / %s: got %q, want %q", s.name, e.name, got, want)
			}
		}
	}
}

// transition brings a new channel into a situation and tells what an event does there.
func transition(t *testing.T, s situation, ev func(*rig, Slot) Event) string {
	t.Helper()
	r := tableRig(t)
	slot := s.reach(r)
	if r.m.State() != s.channel || s.slot != free && r.m.slots[slot.Index()].state != s.slot {
		t.Fatalf("%s: the channel is %v, the request in state %d", s.name, r.m.State(), r.m.slots[slot.Index()].state)
	}
	before := snapshot(r.m)
	acts := r.step(ev(r, slot))
	if r.m.State() == Live {
		r.credits()
	}
	switch {
	case acts != "":
		return acts
	case snapshot(r.m) != before:
		return "!"
	}
	return "."
}
