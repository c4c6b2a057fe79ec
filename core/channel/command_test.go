package channel

import (
	"bytes"
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

// What each event does to a command in each of its states: testdata/transitions.txt.

// slotEvents are the events that name a slot.
var slotEvents = []EventKind{
	EvTableFetched, EvFetched, EvSent, EvTaskTimeout, EvNeedBuffer, EvNeedData, EvTable, EvBuffer, EvBufferRefused, EvFinished, EvManaged,
}

func TestEventsOfAnotherSlotChangeNothing(t *testing.T) {
	for _, st := range situations() {
		for _, k := range slotEvents {
			r := tableRig(t)
			slot := st.reach(r)
			before := snapshot(r.m)
			for _, s := range []Slot{slot + MaxSlots, 2, 5, 6, MaxSlots - 1} {
				r.want(Event{Kind: k, Slot: s, N: 1}, "")
			}
			if snapshot(r.m) != before {
				t.Errorf("%s: a foreign %s changed the channel", st.name, eventNames[k])
			}
		}
	}
}

func TestAVoidSlotIsIgnored(t *testing.T) {
	r := newRig(t, testConfig())
	r.want(r.recv(testReady(1)), "start 0")
	old := r.slot[1]
	r.want(r.on(EvFinished, 1), "repost b0, respond 0")
	r.want(r.on(EvSent, 1), "release 0")
	r.want(r.recv(testReady(2)), "start 0")
	for _, k := range slotEvents {
		r.want(Event{Kind: k, Slot: old}, "")
	}
	r.want(r.on(EvFinished, 2), "repost b1, respond 0")
}

func TestResultsBecomeResponses(t *testing.T) {
	sense := bytes.Repeat([]byte{0x70}, 18)
	tests := []struct {
		name   string
		iu     []byte
		need   EventKind
		result Result
		write  uint32
		status byte
		out    srp.Residual
		in     srp.Residual
	}{
		{"read, all", read(1, 4096), EvNeedBuffer, Result{InUsed: 4096, Wanted: 4096}, 4096, 0, 0, 0},
		{"read, short", read(1, 4096), EvNeedBuffer, Result{InUsed: 36, Wanted: 36}, 36, 0, 0, 4060},
		{"read, CDB wants more", read(1, 4096), EvNeedBuffer, Result{InUsed: 4096, Wanted: 8192}, 4096, 0, 0, -4096},
		{"read, CDB wants 2^63", read(1, 4096), EvNeedBuffer, Result{InUsed: 4096, Wanted: 1 << 63}, 4096, 0, 0, -(1<<32 - 1)},
		{"read, handler claims too much", read(1, 512), EvNeedBuffer, Result{InUsed: 4096}, 512, 0, 0, 0},
		{"read, no buffer leased", read(1, 512), 0, Result{InUsed: 512}, 0, 0, 0, 512},
		{"read, failed", read(1, 4096), 0, Result{Status: 2, Sense: sense, Wanted: 8192}, 0, 2, 0, 4096},
		{"write, all", write(1, 4096), EvNeedData, Result{OutUsed: 4096, Wanted: 4096}, 0, 0, 0, 0},
		{"write, short", write(1, 4096), EvNeedData, Result{OutUsed: 512, Wanted: 512}, 0, 0, 3584, 0},
		{"write, CDB wants more", write(1, 4096), EvNeedData, Result{OutUsed: 4096, Wanted: 4608}, 0, 0, -512, 0},
		{"write, nothing goes back", write(1, 4096), EvNeedData, Result{OutUsed: 4096, InUsed: 4096}, 0, 0, 0, 0},
		{"write, failed", write(1, 4096), 0, Result{Status: 2, Sense: sense}, 0, 2, 4096, 0},
		{"no data, CDB wants some", testReady(1), 0, Result{Wanted: 512}, 0, 0, 0, 0},
		{"conflict", testReady(1), 0, Result{Status: 0x18}, 0, 0x18, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, testConfig())
			r.step(r.recv(tt.iu))
			if tt.need != 0 {
				r.step(Event{Kind: tt.need, Slot: r.slot[1], N: 4096})
				r.step(r.on(EvBuffer, 1))
				r.step(r.on(EvFetched, 1))
			}
			r.step(Event{Kind: EvFinished, Slot: r.slot[1], Result: tt.result})
			var wrote uint32
			for _, a := range r.last {
				if a.Kind == ActWrite {
					wrote = a.N
				}
			}
			p := r.rsp(r.slot[1])
			if wrote != tt.write || p.Status() != tt.status || p.Out() != tt.out || p.In() != tt.in {
				t.Errorf("wrote %d, status %02x, out %d, in %d", wrote, p.Status(), p.Out(), p.In())
			}
			if !bytes.Equal(p.Sense(), tt.result.Sense) || p.Delta() != 1 || p.Tag() != 1 {
				t.Errorf("sense %x, delta %d, tag %v", p.Sense(), p.Delta(), p.Tag())
			}
			if _, has := p.Code(); has {
				t.Error("a command was answered with a response code")
			}
		})
	}
}

func TestExecutingTellsWhetherTheHandlerHasTheCommand(t *testing.T) {
	cfg := testConfig()
	cfg.Held = true
	r := newRig(t, cfg)
	r.step(r.recv(testReady(1)))
	r.step(r.recv(manage(0x80, srp.FuncAbortTask, lun(3), 1)))
	r.want(Event{Kind: EvAdmit}, "start 0, watch 1, abort 0")
	s := r.slot[1]
	if !r.m.Executing(s) {
		t.Error("not while the handler has it")
	}
	r.want(Event{Kind: EvFinished, Slot: s}, "repost b0, release 0, manage 1:1") // while ActStart is carried out
	if r.m.Executing(s) || r.m.Executing(r.slot[0x80]) || r.m.Executing(MaxSlots-1) {
		t.Error("ActAbort would reach a handler that has finished")
	}
}

func TestNoBufferIsBusy(t *testing.T) {
	r := newRig(t, testConfig())
	r.step(r.recv(read(1, 4096)))
	r.step(Event{Kind: EvNeedBuffer, Slot: r.slot[1], N: 4096})
	r.step(r.on(EvBufferRefused, 1))
	r.step(Event{Kind: EvFinished, Slot: r.slot[1], Result: Result{InUsed: 4096}})
	if p := r.rsp(r.slot[1]); p.Status() != statusBusy || p.In() != 4096 || len(p.Sense()) != 0 {
		t.Errorf("response %x", []byte(p))
	}
	if r.m.Stats().NoBuffer != 1 {
		t.Errorf("stats %+v", r.m.Stats())
	}
}

func TestDataOutIsCutToTheInitiatorsBuffer(t *testing.T) {
	r := newRig(t, testConfig())
	r.step(r.recv(write(1, 512)))
	r.want(Event{Kind: EvNeedData, Slot: r.slot[1], N: 4096}, "lease 0:512")
	r.want(r.on(EvBuffer, 1), "fetch 0:512")
}

func TestRoomMakesTheBufferLargerNotTheData(t *testing.T) {
	for _, tt := range []struct {
		n, room uint32
		lease   string
	}{{512, 8192, "lease 0:8192"}, {512, 0, "lease 0:512"}, {512, 100, "lease 0:512"}, {4096, 8192, "lease 0:8192"}} {
		r := newRig(t, testConfig())
		r.step(r.recv(write(1, 512)))
		r.want(Event{Kind: EvNeedData, Slot: r.slot[1], N: tt.n, Room: tt.room}, tt.lease)
		r.want(r.on(EvBuffer, 1), "fetch 0:512")
		r = newRig(t, testConfig())
		r.step(r.recv(writeImmediate(1, 512)))
		r.want(Event{Kind: EvNeedData, Slot: r.slot[1], N: tt.n, Room: tt.room}, tt.lease)
		r.want(r.on(EvBuffer, 1), "copy 0:512, ready 0")
	}
	r := newRig(t, testConfig())
	r.step(r.recv(read(1, 512)))
	r.want(Event{Kind: EvNeedBuffer, Slot: r.slot[1], N: 512, Room: 4096}, "lease 0:512")
}

func TestRefusedCommandGetsCheckConditionAndItsCreditBack(t *testing.T) {
	wrap := srp.CmdFields{Tag: 1, LUN: lun(3), CDB: []byte{0x28}, In: direct(4096)}
	wrap.In.List[0].Addr = ^uint64(0)
	attr := srp.CmdFields{Tag: 1, Attr: 7, CDB: []byte{0}}
	both := srp.CmdFields{Tag: 1, CDB: []byte{0}, In: direct(1), Out: direct(1)}
	remote := srp.CmdFields{Tag: 1, CDB: []byte{0x28}, In: partial(65, 1)}
	tests := map[string][]byte{
		"descriptor wraps":   wrap.Append(nil),
		"reserved attribute": attr.Append(nil),
		"bidirectional":      both.Append(nil),
		"remote table":       remote.Append(nil),
		"transfer too long":  read(1, 1<<20+1),
	}
	for name, iu := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, testConfig())
			r.want(r.recv(iu), "repost b0, respond 0")
			p := r.rsp(r.slot[1])
			sense := []byte{0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0, 0, 0}
			if p.Status() != 2 || !bytes.Equal(p.Sense(), sense) || p.Delta() != 1 || p.Tag() != 1 {
				t.Errorf("response %x", []byte(p))
			}
			r.credits()
			r.want(r.on(EvSent, 1), "release 0")
		})
	}
}

func TestATagIsFreeOnceItsResponseIsPosted(t *testing.T) {
	r := newRig(t, testConfig())
	r.want(r.recv(testReady(1)), "start 0")
	first := r.slot[1]
	r.want(r.on(EvFinished, 1), "repost b0, respond 0")
	r.want(r.recv(testReady(1)), "start 1")
	r.want(Event{Kind: EvSent, Slot: first}, "release 0")
	r.want(r.on(EvFinished, 1), "repost b1, respond 1")
	r.credits()
}
