package channel

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

const tmTag = srp.Tag(0x80)

// finishTM ends the management request and returns its response.
func (r *rig) finishTM(code srp.RspCode) srp.Rsp {
	r.t.Helper()
	r.step(Event{Kind: EvManaged, Slot: r.slot[tmTag], Code: code})
	return r.rsp(r.slot[tmTag])
}

func TestTaskManagementMeansTheRightCommands(t *testing.T) {
	// Commands: tag 1 and 2 on LUN 3, tag 3 on LUN 4.
	flat := srp.LUN{0x40, 3}
	tests := []struct {
		name    string
		iu      []byte
		aborts  string
		manages string // at once
	}{
		{"abort task", manage(tmTag, srp.FuncAbortTask, lun(3), 2), "abort 1", ""},
		{"abort task, LUN spelled flat", manage(tmTag, srp.FuncAbortTask, flat, 2), "abort 1", ""},
		{"abort task, wrong LUN", manage(tmTag, srp.FuncAbortTask, lun(4), 2), "", "manage 3:0"},
		{"abort task, unknown tag", manage(tmTag, srp.FuncAbortTask, lun(3), 99), "", "manage 3:0"},
		{"abort task set", manage(tmTag, srp.FuncAbortTaskSet, lun(3), 0), "abort 0, abort 1", ""},
		{"clear task set", manage(tmTag, srp.FuncClearTaskSet, lun(4), 0), "abort 2", ""},
		{"LUN reset", manage(tmTag, srp.FuncLUNReset, lun(3), 0xffffffff), "abort 0, abort 1", ""},
		{"LUN reset, nothing there", manage(tmTag, srp.FuncLUNReset, lun(9), 0), "", "manage 3:0"},
		{"clear ACA", manage(tmTag, srp.FuncClearACA, lun(3), 0), "", "manage 3:0"},
		{"target reset", manage(tmTag, srp.FuncTargetReset, lun(3), 0), "", "manage 3:0"},
		{"unknown function", manage(tmTag, 0x7f, lun(3), 1), "", "manage 3:0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, testConfig())
			four := srp.CmdFields{Tag: 3, LUN: lun(4), CDB: []byte{0}}
			r.step(r.recv(testReady(1)))
			r.step(r.recv(testReady(2)))
			r.step(r.recv(four.Append(nil)))
			r.want(r.recv(tt.iu), strings.TrimSuffix("watch 3, "+tt.aborts+tt.manages, ", "))
			r.credits()
		})
	}
}

func TestAbortIsAnsweredAfterTheLastVictim(t *testing.T) {
	r := newRig(t, testConfig())
	r.want(r.recv(testReady(1)), "start 0")
	r.want(r.recv(write(2, 4096)), "start 1")
	r.step(Event{Kind: EvNeedData, Slot: r.slot[2], N: 4096})
	r.want(r.on(EvBuffer, 2), "fetch 1:4096")
	r.want(r.recv(manage(tmTag, srp.FuncAbortTaskSet, lun(3), 0)), "watch 2, abort 0, stopFetch 1")
	r.want(r.on(EvFinished, 1), "repost b0, release 0")
	r.want(r.on(EvFetched, 2), "abort 1")
	r.want(r.on(EvFinished, 2), "repost b1, release 1, manage 2:2")
	p := r.finishTM(srp.RspComplete)
	if code, ok := p.Code(); !ok || code != 0 || p.Delta() != 3 || p.Tag() != tmTag || p.Status() != 0 {
		t.Errorf("response %x", []byte(p))
	}
	if len(p) != 40 {
		t.Errorf("%d bytes", len(p))
	}
	r.credits()
	if w, _, _ := r.m.Credits(); w != 4 {
		t.Errorf("window %d", w)
	}
}

func TestAbortWaitsForAPostedResponse(t *testing.T) {
	r := newRig(t, testConfig())
	r.step(r.recv(testReady(1)))
	r.want(r.on(EvFinished, 1), "repost b0, respond 0")
	r.want(r.recv(manage(tmTag, srp.FuncAbortTask, lun(3), 1)), "watch 1")
	r.want(r.on(EvSent, 1), "release 0, manage 1:0")
}

func TestTaskManagementCodesAreEchoed(t *testing.T) {
	for _, code := range []srp.RspCode{srp.RspComplete, srp.RspNotSupported, srp.RspFailed} {
		r := newRig(t, testConfig())
		r.step(r.recv(manage(tmTag, 0x40, lun(0), 0)))
		p := r.finishTM(code)
		if got, ok := p.Code(); !ok || got != code || p.Delta() != 1 {
			t.Errorf("code %d: %x", code, []byte(p))
		}
		r.want(r.on(EvSent, tmTag), "release 0")
		r.credits()
	}
}

func TestTaskManagementWithATagInUseIsInvalid(t *testing.T) {
	r := newRig(t, testConfig())
	r.step(r.recv(testReady(tmTag)))
	cmd := r.slot[tmTag]
	r.want(r.recv(manage(tmTag, srp.FuncLUNReset, lun(3), 0)), "repost b1, respond 1")
	if code, _ := r.rsp(r.slot[tmTag]).Code(); code != srp.RspFieldsInvalid {
		t.Errorf("code %d", code)
	}
	r.want(Event{Kind: EvFinished, Slot: cmd}, "repost b0, respond 0")
	r.credits()
}

func TestManagementIsNotATask(t *testing.T) {
	r := newRig(t, testConfig())
	r.want(r.recv(manage(tmTag, srp.FuncLUNReset, lun(3), 0)), "watch 0, manage 0:0")
	r.want(r.recv(manage(0x81, srp.FuncAbortTask, lun(3), tmTag)), "watch 1, manage 1:0")
	r.want(Event{Kind: EvAbort, Op: 1, Scope: Scope{AllLUNs: true}}, "aborted #1:0")
}

var overlappedSense = []byte{0x70, 0, 0x0b, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x4e, 0, 0, 0, 0, 0}

func TestOverlappedCommandEndsBoth(t *testing.T) {
	r := newRig(t, testConfig())
	r.want(r.recv(write(1, 4096)), "start 0")
	old := r.slot[1]
	r.step(Event{Kind: EvNeedData, Slot: old, N: 4096})
	r.want(r.on(EvBuffer, 1), "fetch 0:4096")
	r.want(r.recv(read(1, 4096)), "stopFetch 0")
	r.want(Event{Kind: EvFetched, Slot: old}, "abort 0")
	r.want(Event{Kind: EvFinished, Slot: old}, "repost b0, release 0, repost b1, respond 1")
	p := r.rsp(r.slot[1])
	if p.Status() != 2 || !bytes.Equal(p.Sense(), overlappedSense) || p.Delta() != 2 || p.In() != 4096 {
		t.Errorf("response %x", []byte(p))
	}
	r.credits()
	r.want(r.recv(testReady(1)), "start 0")
}

func TestOverlapWithMalformedCommand(t *testing.T) {
	r := newRig(t, testConfig())
	r.want(r.recv(testReady(1)), "start 0")
	old := r.slot[1]
	bad := srp.CmdFields{Tag: 1, Attr: 7, CDB: []byte{0}}
	r.want(r.recv(bad.Append(nil)), "abort 0")
	r.want(Event{Kind: EvFinished, Slot: old}, "repost b0, release 0, repost b1, respond 1")
	if p := r.rsp(r.slot[1]); !bytes.Equal(p.Sense(), overlappedSense) {
		t.Errorf("response %x", []byte(p))
	}
}

func TestCommandWithTheTagOfManagement(t *testing.T) {
	r := newRig(t, testConfig())
	r.want(r.recv(manage(tmTag, srp.FuncLUNReset, lun(3), 0)), "watch 0, manage 0:0")
	tm := r.slot[tmTag]
	r.want(r.recv(testReady(tmTag)), "repost b1, respond 1")
	if p := r.rsp(r.slot[tmTag]); !bytes.Equal(p.Sense(), overlappedSense) {
		t.Errorf("response %x", []byte(p))
	}
	r.want(Event{Kind: EvManaged, Slot: tm}, "repost b0, respond 0")
	r.credits()
}

func TestThirdCommandWithOneTagEndsTheChannel(t *testing.T) {
	r := newRig(t, testConfig())
	r.want(r.recv(testReady(1)), "start 0")
	old := r.slot[1]
	r.want(r.recv(testReady(1)), "abort 0")
	r.want(r.recv(testReady(1)), "logout 0")
	r.want(Event{Kind: EvFinished, Slot: old}, "release 0, release 1")
	if r.m.Cause() != CauseProtocol {
		t.Errorf("cause %v", r.m.Cause())
	}
}

func TestAbortedOverlapVanishes(t *testing.T) {
	r := newRig(t, testConfig())
	r.want(r.recv(testReady(1)), "start 0")
	old := r.slot[1]
	r.want(r.recv(testReady(1)), "abort 0")
	r.want(Event{Kind: EvAbort, Op: 9, Scope: Scope{ByTag: true, Tag: 1, LUN: lun(3)}}, "")
	r.want(Event{Kind: EvFinished, Slot: old}, "repost b0, release 0, repost b1, release 1, aborted #9:2, credreq +2")
	r.credits()
}

func TestTaskAbortedStatus(t *testing.T) {
	scope := Scope{AllLUNs: true, TaskAborted: true}
	r := newRig(t, testConfig())
	r.want(r.recv(read(1, 4096)), "start 0")
	r.want(Event{Kind: EvAbort, Op: 5, Scope: scope}, "abort 0")
	r.want(r.on(EvFinished, 1), "repost b0, respond 0")
	if p := r.rsp(r.slot[1]); p.Status() != statusTaskAborted || p.In() != 4096 {
		t.Errorf("response %x", []byte(p))
	}
	r.want(r.on(EvSent, 1), "release 0, aborted #5:1")
	r.credits()
}

func TestTaskAbortedStatusOfAnOverlappedCommand(t *testing.T) {
	r := newRig(t, testConfig())
	r.want(r.recv(testReady(1)), "start 0")
	old := r.slot[1]
	r.want(r.recv(testReady(1)), "abort 0")
	r.want(Event{Kind: EvAbort, Op: 5, Scope: Scope{AllLUNs: true, TaskAborted: true}}, "")
	r.want(Event{Kind: EvFinished, Slot: old}, "repost b0, release 0, repost b1, respond 1")
	if p := r.rsp(r.slot[1]); p.Status() != statusTaskAborted {
		t.Errorf("response %x", []byte(p))
	}
}

func TestOwnAbortOverridesTaskAborted(t *testing.T) {
	r := newRig(t, testConfig())
	r.want(r.recv(testReady(1)), "start 0")
	r.want(Event{Kind: EvAbort, Op: 5, Scope: Scope{AllLUNs: true, TaskAborted: true}}, "abort 0")
	r.want(r.recv(manage(tmTag, srp.FuncAbortTask, lun(3), 1)), "watch 1")
	r.want(r.on(EvFinished, 1), "repost b0, release 0, aborted #5:1, manage 1:1")
	r.credits()
}

func TestAbortsOverlapEachOther(t *testing.T) {
	r := newRig(t, testConfig())
	r.want(r.recv(testReady(1)), "start 0")
	r.want(Event{Kind: EvAbort, Op: 1, Scope: Scope{LUN: lun(3)}}, "abort 0")
	r.want(Event{Kind: EvAbort, Op: 2, Scope: Scope{LUN: lun(4)}}, "aborted #2:0")
	r.want(Event{Kind: EvAbort, Op: 3, Scope: Scope{AllLUNs: true}}, "")
	r.want(r.recv(testReady(2)), "start 1") // newer: none of their business
	r.want(r.on(EvFinished, 1), "repost b0, release 0, aborted #1:1, aborted #3:1")
	r.want(r.on(EvFinished, 2), "repost b1, respond 1")
	r.credits()
}

func TestHandlerThatAsksWhileBeingAbortedIsIgnored(t *testing.T) {
	r := newRig(t, testConfig())
	r.want(r.recv(read(1, 4096)), "start 0")
	r.want(Event{Kind: EvAbort, Op: 1, Scope: Scope{AllLUNs: true}}, "abort 0")
	r.want(Event{Kind: EvNeedBuffer, Slot: r.slot[1], N: 4096}, "")
	r.want(r.on(EvFinished, 1), "repost b0, release 0, aborted #1:1, credreq +1")
}
