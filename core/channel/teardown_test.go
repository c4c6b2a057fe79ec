package channel

import (
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

func TestCauses(t *testing.T) {
	tests := []struct {
		name string
		evs  []Event
		want Cause
	}{
		{"timeout", []Event{{Kind: EvEstablishTimeout}}, CauseNotEstablished},
		{"failed", []Event{{Kind: EvConnectFailed}}, CauseNotEstablished},
		{"failed after the first unit", []Event{{Kind: EvEstablished}, {Kind: EvConnectFailed}}, CausePeer},
		{"disconnected", []Event{{Kind: EvDisconnected}}, CausePeer},
		{"flushed first", []Event{{Kind: EvRecvDone, Outcome: Flushed}, {Kind: EvDisconnected}}, CausePeer},
		{"error first", []Event{{Kind: EvRecvDone, Outcome: Failed}, {Kind: EvDisconnected}}, CauseTransport},
		{"device", []Event{{Kind: EvTransportError}, {Kind: EvDisconnected}}, CauseTransport},
		{"replaced", []Event{{Kind: EvClose, Cause: CauseReplaced}, {Kind: EvDisconnected}}, CauseReplaced},
		{"logged out", []Event{{Kind: EvRecv, IU: srp.AppendILogout(nil, 1)}, {Kind: EvDisconnected}}, CauseLogout},
		{"open", nil, CauseNone},
	}
	for _, tt := range tests {
		r := newRig(t, testConfig())
		for _, ev := range tt.evs {
			r.step(ev)
		}
		if r.m.Cause() != tt.want {
			t.Errorf("%s: %v", tt.name, r.m.Cause())
		}
	}
}

// everyState brings commands into each state a command can be in: tags 1 to 4.
func everyState(t *testing.T) *rig {
	cfg := testConfig()
	cfg.Credits, cfg.Slots, cfg.Recvs = 8, 8, 9
	r := newRig(t, cfg)
	r.step(r.recv(testReady(1))) // slot 0 executing
	r.step(r.recv(read(2, 512)))
	r.step(Event{Kind: EvNeedBuffer, Slot: r.slot[2], N: 512}) // slot 1 waitBuffer
	r.step(r.recv(write(3, 512)))
	r.step(Event{Kind: EvNeedData, Slot: r.slot[3], N: 512})
	r.step(r.on(EvBuffer, 3)) // slot 2 fetching
	r.step(r.recv(testReady(4)))
	r.step(r.on(EvFinished, 4))                                // slot 3 responding
	r.step(r.recv(manage(0x80, srp.FuncClearACA, lun(3), 0)))  // slot 4 managing
	r.step(r.recv(manage(0x81, srp.FuncAbortTask, lun(3), 4))) // slot 5 aborting: waits for slot 3
	r.want(r.recv(testReady(1)), "abort 0")                    // slot 6 overlapped: waits for slot 0
	r.want(Event{Kind: EvAbort, Op: 7, Scope: Scope{LUN: lun(9)}}, "aborted #7:0")
	return r
}

func TestILogoutDrainsEveryState(t *testing.T) {
	r := everyState(t)
	r.want(r.recv(srp.AppendILogout(nil, 1)), "unlease 1, abort 1, stopFetch 2, disconnect")
	r.want(r.on(EvFinished, 2), "release 1")
	r.want(Event{Kind: EvFetched, Slot: r.slot[3], Outcome: Flushed}, "abort 2")
	r.want(Event{Kind: EvSent, Slot: r.slot[4], Outcome: Flushed}, "release 3, release 5")
	r.want(r.on(EvFinished, 3), "release 2")
	r.want(r.on(EvFinished, 1), "release 0, release 6")
	r.want(Event{Kind: EvDisconnected}, "")
	if n, work := r.m.Waiting(); n != 1 || work {
		t.Errorf("waits for %d slots, work %v", n, work)
	}
	r.want(Event{Kind: EvManaged, Slot: r.slot[0x80]}, "release 4, closed")
}

func TestDisconnectEndsAllWork(t *testing.T) {
	r := everyState(t)
	r.want(Event{Kind: EvDisconnected}, "unlease 1, abort 1, stopFetch 2, abort 2, release 3, release 5")
	r.want(r.on(EvFetched, 3), "")
	r.want(r.on(EvSent, 4), "")
	r.want(r.on(EvFinished, 3), "release 2")
	r.want(r.on(EvFinished, 2), "release 1")
	r.want(r.on(EvManaged, 0x80), "release 4")
	r.want(r.on(EvFinished, 1), "release 0, release 6, closed")
}

func TestDrainTimeoutDestroysTheQP(t *testing.T) {
	r := everyState(t)
	r.want(Event{Kind: EvTransportError}, "unlease 1, abort 1, stopFetch 2, disconnect")
	r.want(Event{Kind: EvDrainTimeout}, "destroy, abort 2, release 3, release 5")
	r.want(Event{Kind: EvDrainTimeout}, "")
	r.want(r.on(EvFinished, 1), "release 0, release 6")
	r.want(r.on(EvFinished, 2), "release 1")
	r.want(r.on(EvFinished, 3), "release 2")
	r.want(r.on(EvManaged, 0x80), "release 4, closed")
}

func TestNoRDMAAndNoResponseWhileLoggingOut(t *testing.T) {
	r := everyState(t)
	r.want(Event{Kind: EvClose, Cause: CauseReplaced}, "unlease 1, abort 1, stopFetch 2, logout 4")
	r.want(r.on(EvFinished, 2), "release 1")
	r.want(r.on(EvFetched, 3), "abort 2")
	r.want(Event{Kind: EvFinished, Slot: r.slot[3], Result: Result{OutUsed: 512}}, "release 2")
	r.want(r.on(EvSent, 4), "release 3, release 5")
	r.want(r.on(EvManaged, 0x80), "release 4")
	r.want(r.on(EvFinished, 1), "release 0, release 6")
	r.want(Event{Kind: EvLogoutSent}, "disconnect")
	r.want(Event{Kind: EvDisconnected}, "closed")
}

func TestFailedWorkEndsTheChannel(t *testing.T) {
	tests := []struct {
		name string
		ev   func(r *rig) Event
		acts string
	}{
		{"read", func(r *rig) Event { return Event{Kind: EvFetched, Slot: r.slot[3], Outcome: Failed} },
			"unlease 1, abort 1, abort 2, disconnect"},
		{"response", func(r *rig) Event { return Event{Kind: EvSent, Slot: r.slot[4], Outcome: Failed} },
			"release 3, unlease 1, abort 1, stopFetch 2, disconnect, release 5"},
	}
	for _, tt := range tests {
		r := everyState(t)
		r.want(tt.ev(r), tt.acts)
		if r.m.Cause() != CauseTransport || r.m.State() != Draining {
			t.Errorf("%s: %v, %v", tt.name, r.m.Cause(), r.m.State())
		}
	}
}

func TestPendingUnitsAreDroppedAtTheEnd(t *testing.T) {
	cfg := testConfig()
	cfg.Held = true
	r := newRig(t, cfg)
	r.step(r.recv(testReady(1)))
	r.step(r.recv(srp.AppendILogout(nil, 1)))
	r.want(Event{Kind: EvDisconnected}, "closed")
	if _, u, _ := r.m.Credits(); u != 0 {
		t.Errorf("%d requests unanswered", u)
	}
}

func TestStatesAndCausesHaveNames(t *testing.T) {
	for s := Connecting; s <= Closed; s++ {
		if s.String() == "unknown" || s.String() == "" {
			t.Errorf("state %d has no name", s)
		}
	}
	for c := CauseNone; c <= CauseAdmin; c++ {
		if c.String() == "unknown" || c.String() == "" {
			t.Errorf("cause %d has no name", c)
		}
	}
	if State(0).String() != "unknown" || (Closed+1).String() != "unknown" || (CauseAdmin+1).String() != "unknown" {
		t.Error("a name for nothing")
	}
}

func TestNewRefusesInconsistentSizes(t *testing.T) {
	edits := map[string]func(*Config){
		"one credit":              func(c *Config) { c.Credits = 1 },
		"fewer slots":             func(c *Config) { c.Slots = 3 },
		"too many slots":          func(c *Config) { c.Slots = MaxSlots + 1 },
		"no receive for the rest": func(c *Config) { c.Recvs = 4 },
	}
	for name, edit := range edits {
		cfg := testConfig()
		edit(&cfg)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			New(cfg)
		}()
	}
}
