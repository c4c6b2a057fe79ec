package nexus

import (
	"fmt"
	"strings"
	"testing"
)

// Joining and leaving. s and m are logins with the single- and the multi-channel
// action; a number is a channel.
//
//	channels            s                        m                leave
//	none                admit                    admit            .
//	1                   terminate 1              admit            lost
//	1 ending, 2 held    terminate 2 (3 is held)  (3 is held)      of 1: admit 2; of 2: nothing
//
// Task management by channel 1 of two, LUN 3:
//
//	function        own found  other channel        the unit   answer
//	ABORT TASK      yes        .                    .          complete
//	ABORT TASK      no         abort by tag         .          complete, after it
//	ABORT TASK SET  any        abort on LUN         .          complete, after it
//	CLEAR TASK SET  any        abort on LUN         clear      complete, after both
//	LUN RESET       any        abort on LUN         reset      complete, after both
//	any, unmapped   any        .                    .          failed
//	others          any        .                    .          not supported

func show(a Action) string {
	switch a.Kind {
	case ActTerminate:
		return fmt.Sprintf("terminate %d", a.Channel)
	case ActAdmit:
		return fmt.Sprintf("admit %d", a.Channel)
	case ActAbort:
		s := fmt.Sprintf("abort on %d #%d lun %d", a.Channel, a.Op, a.LUN)
		if a.ByTag {
			s += fmt.Sprintf(" tag %d", a.Tag)
		}
		if a.TaskAborted {
			s += " TAS"
		}
		return s
	case ActUnit:
		return fmt.Sprintf("unit #%d lun %d reset %v", a.Op, a.LUN, a.Reset)
	case ActAnswer:
		return fmt.Sprintf("answer %d/%d: %d", a.Channel, a.Request, a.Code)
	case ActAttention:
		return fmt.Sprintf("attention lun %d %v", a.LUN, a.Attention)
	case ActCleared:
		return fmt.Sprintf("cleared #%d", a.Op)
	case ActLost:
		return "lost"
	}
	return "?"
}

type rig struct {
	t *testing.T
	n Nexus
}

func (r *rig) want(ev Event, acts string) {
	r.t.Helper()
	var s []string
	for _, a := range r.n.Step(ev, nil) {
		s = append(s, show(a))
	}
	if got := strings.Join(s, ", "); got != acts {
		r.t.Fatalf("event %+v:\n got %q\nwant %q", ev, got, acts)
	}
}

func join(c Channel, single bool) Event { return Event{Kind: EvJoin, Channel: c, Single: single} }
func leave(c Channel) Event             { return Event{Kind: EvLeave, Channel: c} }

// two returns a nexus with channels 1 and 2, both running.
func two(t *testing.T) *rig {
	r := &rig{t: t}
	r.want(join(1, true), "admit 1")
	r.want(join(2, false), "admit 2")
	return r
}

func TestMultiChannelLoginsAreAdmittedAtOnce(t *testing.T) {
	r := two(t)
	r.want(join(3, false), "admit 3")
	if r.n.Channels() != 3 {
		t.Errorf("%d channels", r.n.Channels())
	}
	r.want(leave(2), "")
	r.want(leave(1), "")
	r.want(leave(3), "lost")
}

func TestSingleLoginWaitsForTheChannelsItReplaces(t *testing.T) {
	r := two(t)
	r.want(join(3, true), "terminate 1, terminate 2")
	if r.n.Channels() != 1 {
		t.Errorf("%d channels", r.n.Channels())
	}
	r.want(join(4, false), "") // held, too
	r.want(leave(2), "")
	r.want(leave(1), "admit 3, admit 4")
	r.want(join(5, false), "admit 5")
}

func TestSingleLoginReplacesAHeldOne(t *testing.T) {
	r := two(t)
	r.want(join(3, true), "terminate 1, terminate 2")
	r.want(join(4, true), "terminate 3")
	r.want(leave(1), "")
	r.want(leave(2), "")
	r.want(leave(3), "admit 4")
	if r.n.Channels() != 1 {
		t.Errorf("%d channels", r.n.Channels())
	}
}

func TestHeldChannelMayLeave(t *testing.T) {
	r := &rig{t: t}
	r.want(join(1, true), "admit 1")
	r.want(join(2, true), "terminate 1")
	r.want(leave(2), "")
	r.want(leave(1), "lost")
}

func TestEventsOfStrangersChangeNothing(t *testing.T) {
	r := two(t)
	r.want(Event{Kind: EvManage, Channel: 1, Function: UnitReset, LUN: 3, Known: true},
		"abort on 2 #1 lun 3, unit #1 lun 3 reset true")
	before := fmt.Sprintf("%+v", r.n)
	for _, ev := range []Event{
		join(1, true), leave(9), {}, {Kind: 99},
		{Kind: EvAborted, Channel: 1, Op: 1}, {Kind: EvAborted, Channel: 2, Op: 2}, {Kind: EvAborted, Channel: 9, Op: 1},
		{Kind: EvUnitDone, Op: 7},
	} {
		r.want(ev, "")
	}
	if after := fmt.Sprintf("%+v", r.n); after != before {
		t.Errorf("%s became %s", before, after)
	}
}

func TestTaskManagementFunctions(t *testing.T) {
	const known = true
	tests := []struct {
		name  string
		f     Function
		known bool
		found uint32
		acts  string
	}{
		{"abort task, found", AbortTask, known, 1, "answer 1/7: 0"},
		{"abort task, not found", AbortTask, known, 0, "abort on 2 #1 lun 3 tag 42"},
		{"abort task set", AbortTaskSet, known, 4, "abort on 2 #1 lun 3"},
		{"clear task set", ClearTaskSet, known, 0, "abort on 2 #1 lun 3, unit #1 lun 3 reset false"},
		{"LUN reset", UnitReset, known, 0, "abort on 2 #1 lun 3, unit #1 lun 3 reset true"},
		{"abort task, unmapped", AbortTask, !known, 0, "answer 1/7: 5"},
		{"abort task set, unmapped", AbortTaskSet, !known, 0, "answer 1/7: 5"},
		{"clear task set, unmapped", ClearTaskSet, !known, 0, "answer 1/7: 5"},
		{"LUN reset, unmapped", UnitReset, !known, 0, "answer 1/7: 5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := two(t)
			r.want(Event{
				Kind: EvManage, Channel: 1, Request: 7, Function: tt.f, LUN: 3, Known: tt.known, Tag: 42, N: tt.found,
			}, tt.acts)
		})
	}
}

func TestEveryOtherFunctionIsNotSupported(t *testing.T) {
	for f := range 256 {
		switch Function(f) {
		case AbortTask, AbortTaskSet, ClearTaskSet, UnitReset:
			continue
		}
		for _, known := range []bool{true, false} {
			r := two(t)
			r.want(Event{Kind: EvManage, Channel: 1, Function: Function(f), Known: known}, "answer 1/0: 4")
		}
	}
}

func TestAnswerWaitsForChannelsAndUnit(t *testing.T) {
	reset := Event{Kind: EvManage, Channel: 1, Request: 7, Function: UnitReset, LUN: 3, Known: true}
	const asked = "abort on 2 #1 lun 3, unit #1 lun 3 reset true"
	aborted, done := Event{Kind: EvAborted, Channel: 2, Op: 1, N: 2}, Event{Kind: EvUnitDone, Op: 1}

	r := two(t)
	r.want(reset, asked)
	r.want(aborted, "")
	r.want(aborted, "")
	r.want(done, "answer 1/7: 0")
	r.want(done, "")

	r = two(t)
	r.want(reset, asked)
	r.want(done, "")
	r.want(leave(2), "answer 1/7: 0") // gone is as good as aborted
}

func TestAbortOnASingleChannelNeedsNobody(t *testing.T) {
	r := &rig{t: t}
	r.want(join(1, true), "admit 1")
	for _, f := range []Function{AbortTask, AbortTaskSet} {
		r.want(Event{Kind: EvManage, Channel: 1, Function: f, Known: true}, "answer 1/0: 0")
	}
}

func TestManagementOfAChannelThatNeverJoinedFails(t *testing.T) {
	r := &rig{t: t}
	r.want(Event{Kind: EvManage, Channel: 1, Function: UnitReset, Known: true}, "answer 1/0: 5")
}

func TestOperationsOverlap(t *testing.T) {
	r := two(t)
	set := func(c Channel, req uint32) Event {
		return Event{Kind: EvManage, Channel: c, Request: req, Function: AbortTaskSet, LUN: 3, Known: true}
	}
	r.want(set(1, 7), "abort on 2 #1 lun 3")
	r.want(set(2, 8), "abort on 1 #2 lun 3")
	r.want(set(1, 9), "abort on 2 #3 lun 3")
	r.want(Event{Kind: EvAborted, Channel: 2, Op: 3}, "answer 1/9: 0")
	r.want(leave(2), "answer 1/7: 0") // and with it went its request 8's own interest
	r.want(Event{Kind: EvAborted, Channel: 1, Op: 2}, "answer 2/8: 0")
}

func TestClearByAnotherNexus(t *testing.T) {
	tests := []struct {
		name       string
		reset, tas bool
		found      uint32
		first      string
		last       string
	}{
		{"reset", true, false, 0, "attention lun 3 06/29/03, abort on 1 #1 lun 3, abort on 2 #1 lun 3", "cleared #77"},
		{"reset, TAS", true, true, 1, "attention lun 3 06/29/03, abort on 1 #1 lun 3 TAS, abort on 2 #1 lun 3 TAS", "cleared #77"},
		{"clear, none found", false, false, 0, "abort on 1 #1 lun 3, abort on 2 #1 lun 3", "cleared #77"},
		{"clear", false, false, 1, "abort on 1 #1 lun 3, abort on 2 #1 lun 3", "attention lun 3 06/2F/00, cleared #77"},
		{"clear, TAS", false, true, 1, "abort on 1 #1 lun 3 TAS, abort on 2 #1 lun 3 TAS", "cleared #77"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := two(t)
			r.want(Event{Kind: EvClear, Op: 77, LUN: 3, Reset: tt.reset, TaskAborted: tt.tas}, tt.first)
			r.want(Event{Kind: EvAborted, Channel: 1, Op: 1, N: tt.found}, "")
			r.want(Event{Kind: EvAborted, Channel: 2, Op: 1}, tt.last)
		})
	}
}

func TestClearOfANexusWithoutChannels(t *testing.T) {
	r := &rig{t: t}
	r.want(Event{Kind: EvClear, Op: 5, LUN: 3, Reset: true}, "attention lun 3 06/29/03, cleared #5")
	r.want(Event{Kind: EvClear, Op: 6, LUN: 3}, "cleared #6")
}

func TestFunctionsUnderWayAreBounded(t *testing.T) {
	r := two(t)
	set := func(req uint32) Event {
		return Event{Kind: EvManage, Channel: 1, Request: req, Function: AbortTaskSet, LUN: 3, Known: true}
	}
	for i := range uint32(maxOps) {
		r.want(set(i), fmt.Sprintf("abort on 2 #%d lun 3", i+1))
	}
	r.want(set(999), "answer 1/999: 5")
	r.want(Event{Kind: EvAborted, Channel: 2, Op: 1}, "answer 1/0: 0")
	r.want(set(1000), fmt.Sprintf("abort on 2 #%d lun 3", maxOps+1))
}
