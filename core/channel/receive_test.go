package channel

import (
	"errors"
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

func unit(op srp.Opcode, n int) []byte {
	b := make([]byte, n)
	if n > 0 {
		b[0] = byte(op)
	}
	return b
}

// Every unit that a target must not be sent, and the SRP_T_LOGOUT it gets.
func TestProtocolErrorsEndTheChannel(t *testing.T) {
	format := func(f byte) []byte {
		b := testReady(1)
		b[5] = f
		return b
	}
	short := read(1, 4096)
	cut := writeImmediate(1, 512)
	tests := []struct {
		name    string
		iu      []byte
		problem srp.Problem
		logout  string
	}{
		{"empty", nil, srp.ProblemShort, "logout 8"},
		{"LOGIN_REQ", unit(srp.OpLoginReq, 64), srp.ProblemOpcode, "logout 2"},
		{"unknown 04h", unit(0x04, 64), srp.ProblemOpcode, "logout 2"},
		{"unknown FFh, one byte", unit(0xff, 1), srp.ProblemOpcode, "logout 2"},
		{"T_LOGOUT", unit(srp.OpTLogout, 16), srp.ProblemOpcode, "logout 2"},
		{"CRED_REQ", unit(srp.OpCredReq, 16), srp.ProblemOpcode, "logout 2"},
		{"AER_REQ", unit(srp.OpAerReq, 36), srp.ProblemOpcode, "logout 2"},
		{"LOGIN_RSP", unit(srp.OpLoginRsp, 52), srp.ProblemOpcode, "logout 2"},
		{"RSP", unit(srp.OpRsp, 36), srp.ProblemOpcode, "logout 2"},
		{"LOGIN_REJ", unit(srp.OpLoginRej, 32), srp.ProblemOpcode, "logout 2"},
		{"TSK_MGMT of 47", unit(srp.OpTskMgmt, 47), srp.ProblemShort, "logout 8"},
		{"CMD of 47", unit(srp.OpCmd, 47), srp.ProblemShort, "logout 8"},
		{"I_LOGOUT of 15", unit(srp.OpILogout, 15), srp.ProblemShort, "logout 8"},
		{"CRED_RSP of 15", unit(srp.OpCredRsp, 15), srp.ProblemShort, "logout 8"},
		{"AER_RSP of 15", unit(srp.OpAerRsp, 15), srp.ProblemShort, "logout 8"},
		{"CRED_RSP, nothing asked", srp.AppendCredRsp(nil, 0), srp.ProblemUnsolicited, "logout 3"},
		{"AER_RSP, nothing asked", srp.AppendAerRsp(nil, 0), srp.ProblemUnsolicited, "logout 3"},
		{"data-out format 4", format(0x40), srp.ProblemFormatOut, "logout 6"},
		{"data-in format 3", format(0x03), srp.ProblemFormatIn, "logout 7"},
		{"descriptor cut off", short[:len(short)-1], srp.ProblemDescriptorArea, "logout 8"},
		{"immediate data cut off", cut[:len(cut)-1], srp.ProblemImmediateRange, "logout 8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, testConfig())
			r.want(r.recv(testReady(9)), "start 0")
			r.want(r.recv(tt.iu), "abort 0, "+tt.logout)
			if r.m.State() != LoggingOut || r.m.Cause() != CauseProtocol || !errors.Is(r.m.Err(), tt.problem) {
				t.Errorf("%v, %v, %v", r.m.State(), r.m.Cause(), r.m.Err())
			}
			r.want(r.recv(testReady(2)), "") // nobody listens any more
			r.want(r.on(EvFinished, 9), "release 0")
			r.want(Event{Kind: EvLogoutSent}, "disconnect")
			r.want(Event{Kind: EvDisconnected}, "closed")
		})
	}
}

func TestImmediateWithoutAGrantIsAProtocolError(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.ImmediateOffset = 0
	r := newRig(t, cfg)
	r.want(r.recv(writeImmediate(1, 512)), "logout 6")
}

func TestMoreRequestsThanCreditsEndTheChannel(t *testing.T) {
	r := newRig(t, testConfig())
	for tag := range srp.Tag(4) {
		r.step(r.recv(testReady(tag)))
		r.credits()
	}
	if w, u, _ := r.m.Credits(); w != 0 || u != 4 {
		t.Fatalf("window %d, unanswered %d", w, u)
	}
	r.want(r.recv(testReady(5)), "abort 0, abort 1, abort 2, abort 3, logout 0")
	if !errors.Is(r.m.Err(), srp.ProblemCredit) {
		t.Errorf("%v", r.m.Err())
	}
}

func TestManagementTakesACreditToo(t *testing.T) {
	cfg := testConfig()
	cfg.Credits = 2
	r := newRig(t, cfg)
	r.step(r.recv(testReady(1)))
	r.step(r.recv(manage(2, srp.FuncAbortTask, lun(3), 99)))
	r.want(r.recv(manage(3, srp.FuncAbortTask, lun(3), 99)), "abort 0, logout 0")
}

func TestResponsesTakeNoCredit(t *testing.T) {
	cfg := testConfig()
	cfg.Credits = 2
	r := newRig(t, cfg)
	r.step(r.recv(testReady(1)))
	r.step(r.recv(testReady(2)))
	r.want(Event{Kind: EvAbort, Op: 1, Scope: Scope{ByTag: true, Tag: 1, LUN: lun(3)}}, "abort 0")
	r.want(r.on(EvFinished, 1), "repost b0, release 0, aborted #1:1, credreq +1")
	r.credits()
	tag := r.last[3].Tag
	r.want(r.recv(srp.AppendCredRsp(nil, tag)), "repost b2")
	r.credits()
	r.want(r.recv(srp.AppendCredRsp(nil, tag)), "abort 1, logout 3") // answered already
}

func TestCreditResponseWithAnotherTagIsUnsolicited(t *testing.T) {
	r := newRig(t, testConfig())
	r.step(r.recv(testReady(1)))
	r.step(Event{Kind: EvAbort, Op: 1, Scope: Scope{AllLUNs: true}})
	r.want(r.on(EvFinished, 1), "repost b0, release 0, aborted #1:1, credreq +1")
	r.want(r.recv(srp.AppendCredRsp(nil, r.last[3].Tag+1)), "logout 3")
}

func TestCreditRequestIsNotRepeatedBeforeItsResponse(t *testing.T) {
	cfg := testConfig()
	r := newRig(t, cfg)
	all := Scope{AllLUNs: true}
	r.step(r.recv(testReady(1)))
	r.step(Event{Kind: EvAbort, Op: 1, Scope: all})
	r.want(r.on(EvFinished, 1), "repost b0, release 0, aborted #1:1, credreq +1")
	tag := r.last[3].Tag
	r.step(r.recv(testReady(2)))
	r.step(Event{Kind: EvAbort, Op: 2, Scope: all})
	r.want(r.on(EvFinished, 2), "repost b1, release 0, aborted #2:1")
	r.want(Event{Kind: EvAskSent}, "")
	r.want(r.recv(srp.AppendCredRsp(nil, tag)), "repost b2, credreq +1")
	if r.last[1].Tag == tag {
		t.Error("the tag of the last request is used again")
	}
	r.credits()
}

func TestOwedCreditsRideOnTheNextResponse(t *testing.T) {
	r := newRig(t, testConfig())
	r.step(r.recv(testReady(1)))
	r.step(r.recv(testReady(2)))
	r.step(Event{Kind: EvAbort, Op: 1, Scope: Scope{ByTag: true, Tag: 1, LUN: lun(3)}})
	r.want(r.on(EvFinished, 1), "repost b0, release 0, aborted #1:1") // the window is 2: no hurry
	r.want(r.on(EvFinished, 2), "repost b1, respond 1")
	if d := r.rsp(r.slot[2]).Delta(); d != 2 {
		t.Errorf("delta %d", d)
	}
	r.credits()
}

func TestCreditRequestBytes(t *testing.T) {
	got, err := srp.ParseCredReq((&Machine{}).AppendControl(Action{Kind: ActCredReq, Delta: 3, Tag: 7}, nil))
	if err != nil || got != (srp.CredReq{Delta: 3, Tag: 7}) {
		t.Errorf("%+v, %v", got, err)
	}
	lo, err := srp.ParseTLogout((&Machine{}).AppendControl(Action{Kind: ActLogout, Reason: srp.LogoutLength}, nil))
	if err != nil || lo != (srp.TLogout{Reason: srp.LogoutLength}) {
		t.Errorf("%+v, %v", lo, err)
	}
}

func TestHeldChannelKeepsTheOrder(t *testing.T) {
	cfg := testConfig()
	cfg.Held = true
	r := newRig(t, cfg)
	r.want(Event{Kind: EvEstablished}, "")
	r.want(r.recv(testReady(1)), "")
	r.want(r.recv(read(2, 512)), "")
	r.want(r.recv(manage(tmTag, srp.FuncAbortTask, lun(3), 1)), "")
	r.credits()
	r.want(Event{Kind: EvAdmit}, "start 0, start 1, watch 2, abort 0")
	r.want(Event{Kind: EvAdmit}, "")
	r.credits()
}

func TestHeldChannelNoticesTooManyRequests(t *testing.T) {
	cfg := testConfig()
	cfg.Held = true
	r := newRig(t, cfg)
	for tag := range srp.Tag(4) {
		r.want(r.recv(testReady(tag)), "")
	}
	r.want(r.recv(testReady(4)), "logout 0")
	r.want(Event{Kind: EvAdmit}, "")
}

func TestRequestsWaitForASlot(t *testing.T) {
	cfg := testConfig()
	cfg.Credits, cfg.Slots, cfg.Recvs = 2, 2, 5
	r := newRig(t, cfg)
	for tag := range srp.Tag(2) {
		r.step(r.recv(testReady(tag)))
		r.step(r.on(EvFinished, tag)) // the response is posted, its completion is late
	}
	r.want(r.recv(testReady(7)), "")
	r.want(r.recv(testReady(8)), "")
	r.credits()
	r.want(r.on(EvSent, 1), "release 1, start 1")
	r.want(r.on(EvSent, 0), "release 0, start 0")
	if r.m.Cmd(r.slot[7]).Tag() != 7 || r.slot[7].Index() != 1 {
		t.Error("requests were taken out of order")
	}
	r.credits()
}

func TestFirstUnitEstablishes(t *testing.T) {
	r := newRig(t, testConfig())
	if r.m.State() != Connecting {
		t.Fatal(r.m.State())
	}
	r.want(r.recv(testReady(1)), "start 0")
	if r.m.State() != Live {
		t.Fatal(r.m.State())
	}
	before := snapshot(r.m)
	r.want(Event{Kind: EvEstablished}, "")
	r.want(Event{Kind: EvEstablishTimeout}, "")
	if snapshot(r.m) != before {
		t.Error("a late EvEstablished changed the channel")
	}
}

func TestUnitsOutOfNowhereAreIgnored(t *testing.T) {
	cfg := testConfig()
	r := newRig(t, cfg)
	for range cfg.Recvs {
		r.step(r.recv(nil))
	}
	before := snapshot(r.m)
	r.want(r.recv(testReady(1)), "")
	if snapshot(r.m) != before {
		t.Error("a receive that was never posted changed the channel")
	}
}
