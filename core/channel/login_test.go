package channel

import (
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

var (
	ourID   = srp.MakePortID(0x0002c90300112233, 0x0002c90300112233)
	otherID = srp.MakePortID(0x0002c90300112233, 0x0002c90300112234)
)

func testPolicy() Policy {
	return Policy{
		Targets: []srp.PortID{otherID, ourID}, MaxITIU: 8276, MaxTIIU: 512, Credits: 64, MaxChannels: 8,
		Immediate: true, MaxImmediateOffset: 512, MaxTransfer: 1 << 24,
	}
}

func testLogin() srp.LoginReq {
	return srp.LoginReq{
		Tag: 0x1122334455667788, MaxITIU: 8260, Formats: 6, Flags: srp.LoginImmediate, ImmediateOffset: 68,
		Initiator: srp.MakePortID(0, 0x0002c90300a1b2c3), Target: ourID,
	}
}

func TestLoginRefusals(t *testing.T) {
	type edit func(*srp.LoginReq, *Policy)
	tests := []struct {
		name     string
		edit     edit
		existing int
		reason   srp.RejReason
	}{
		{"reserved flag 04h", func(r *srp.LoginReq, _ *Policy) { r.Flags |= 0x04 }, 0, srp.RejNoReason},
		{"reserved flag 08h", func(r *srp.LoginReq, _ *Policy) { r.Flags |= 0x08 }, 0, srp.RejNoReason},
		{"action 2", func(r *srp.LoginReq, _ *Policy) { r.Flags |= 2 }, 0, srp.RejNoReason},
		{"action 3", func(r *srp.LoginReq, _ *Policy) { r.Flags |= 3 }, 0, srp.RejNoReason},
		{"length 0", func(r *srp.LoginReq, _ *Policy) { r.MaxITIU = 0 }, 0, srp.RejITIULength},
		{"length 63", func(r *srp.LoginReq, _ *Policy) { r.MaxITIU = 63 }, 0, srp.RejITIULength},
		{"length max+1", func(r *srp.LoginReq, _ *Policy) { r.MaxITIU = 8277 }, 0, srp.RejITIULength},
		{"length FFFFFFFF", func(r *srp.LoginReq, _ *Policy) { r.MaxITIU = 0xffffffff }, 0, srp.RejITIULength},
		{"no format", func(r *srp.LoginReq, _ *Policy) { r.Formats = 0 }, 0, srp.RejFormat},
		{"unknown format only", func(r *srp.LoginReq, _ *Policy) { r.Formats = 1 }, 0, srp.RejFormat},
		{"unknown format too", func(r *srp.LoginReq, _ *Policy) { r.Formats = 0x0e }, 0, srp.RejFormat},
		{"target's first half", func(r *srp.LoginReq, _ *Policy) { r.Target[0]++ }, 0, srp.RejNexus},
		{"target's second half", func(r *srp.LoginReq, _ *Policy) { r.Target[8]++ }, 0, srp.RejNexus},
		{"zero target", func(r *srp.LoginReq, _ *Policy) { r.Target = srp.PortID{} }, 0, srp.RejNexus},
		{"zero initiator", func(r *srp.LoginReq, _ *Policy) { r.Initiator = srp.PortID{} }, 0, srp.RejNexus},
		{"no targets", func(_ *srp.LoginReq, p *Policy) { p.Targets = nil }, 0, srp.RejNexus},
		{"one credit", func(_ *srp.LoginReq, p *Policy) { p.Credits = 1 }, 0, srp.RejResources},
		{"multi, nexus full", func(r *srp.LoginReq, _ *Policy) { r.Flags |= 1 }, 8, srp.RejChannelLimit},
		{"multi, one channel a nexus", func(r *srp.LoginReq, p *Policy) { r.Flags |= 1; p.MaxChannels = 1 }, 1, srp.RejMultiChannel},
		{"single, no channels allowed", func(_ *srp.LoginReq, p *Policy) { p.MaxChannels = 0 }, 0, srp.RejChannelLimit},
		// The order of the checks.
		{"flags before length", func(r *srp.LoginReq, _ *Policy) { r.Flags |= 2; r.MaxITIU = 0 }, 0, srp.RejNoReason},
		{"length before format", func(r *srp.LoginReq, _ *Policy) { r.MaxITIU = 0; r.Formats = 0 }, 0, srp.RejITIULength},
		{"format before target", func(r *srp.LoginReq, _ *Policy) { r.Formats = 0; r.Target[0]++ }, 0, srp.RejFormat},
	}
	for _, tt := range tests {
		r, p := testLogin(), testPolicy()
		tt.edit(&r, &p)
		if terms, reason, ok := CheckLogin(&r, &p, tt.existing); ok || reason != tt.reason || terms != (Terms{}) {
			t.Errorf("%s: %v, %v, %+v", tt.name, ok, reason, terms)
		}
	}
}

func TestLoginTerms(t *testing.T) {
	tests := []struct {
		name     string
		action   srp.MultiChannelAction
		existing int
		result   srp.LoginRspFlags
		replace  bool
	}{
		{"single, none", srp.ActionSingle, 0, srp.ResultNoExisting, false},
		{"single, some", srp.ActionSingle, 3, srp.ResultTerminated, true},
		{"single, full", srp.ActionSingle, 8, srp.ResultTerminated, true},
		{"multi, none", srp.ActionMulti, 0, srp.ResultNoExisting, false},
		{"multi, some", srp.ActionMulti, 7, srp.ResultMaintained, false},
	}
	for _, tt := range tests {
		r, p := testLogin(), testPolicy()
		r.Flags |= srp.LoginFlags(tt.action)
		terms, _, ok := CheckLogin(&r, &p, tt.existing)
		want := srp.LoginRsp{
			Delta: 64, Tag: r.Tag, MaxITIU: 8276, MaxTIIU: 512, Formats: 6,
			Flags: srp.LoginRspImmediate | srp.LoginRspSolNot | tt.result,
		}
		if !ok || terms.Rsp != want || terms.Replace != tt.replace {
			t.Errorf("%s: %v, %+v", tt.name, ok, terms)
		}
		if terms.Limits != (srp.CmdLimits{MaxTransfer: 1 << 24, ImmediateOffset: 68}) {
			t.Errorf("%s: limits %+v", tt.name, terms.Limits)
		}
	}
}

func TestLoginLengthLimitsAreInclusive(t *testing.T) {
	for _, n := range []uint32{64, 80, 580, 8260, 8276} {
		r, p := testLogin(), testPolicy()
		r.MaxITIU = n
		if _, reason, ok := CheckLogin(&r, &p, 0); !ok {
			t.Errorf("%d: %v", n, reason)
		}
	}
	for _, f := range []srp.BufferFormats{srp.FormatsDirect, srp.FormatsIndirect} {
		r, p := testLogin(), testPolicy()
		r.Formats = f
		if _, reason, ok := CheckLogin(&r, &p, 0); !ok {
			t.Errorf("formats %04x: %v", f, reason)
		}
	}
}

func TestImmediateDataIsGrantedOnlyWhereItFits(t *testing.T) {
	tests := []struct {
		name    string
		flags   srp.LoginFlags
		offset  uint16
		maxITIU uint32
		policy  bool
		granted bool
	}{
		{"as Linux asks", srp.LoginImmediate, 68, 8276, true, true},
		{"not asked", 0, 68, 8276, true, false},
		{"not offered", srp.LoginImmediate, 68, 8276, false, false},
		{"offset 0", srp.LoginImmediate, 0, 8276, true, false},
		{"offset 51", srp.LoginImmediate, 51, 8276, true, false},
		{"offset 52", srp.LoginImmediate, 52, 8276, true, true},
		{"offset 512", srp.LoginImmediate, 512, 8276, true, true},
		{"offset 513", srp.LoginImmediate, 513, 8276, true, false},
		{"offset 65535", srp.LoginImmediate, 65535, 8276, true, false},
		{"no room for a block", srp.LoginImmediate, 68, 579, true, false},
		{"room for one block", srp.LoginImmediate, 68, 580, true, true},
	}
	for _, tt := range tests {
		r, p := testLogin(), testPolicy()
		r.Flags, r.ImmediateOffset, r.MaxITIU = tt.flags, tt.offset, 64
		p.Immediate, p.MaxITIU = tt.policy, tt.maxITIU
		terms, reason, ok := CheckLogin(&r, &p, 0)
		if !ok {
			t.Fatalf("%s: %v", tt.name, reason)
		}
		granted := terms.Rsp.Flags&srp.LoginRspImmediate != 0
		if granted != tt.granted || granted != (terms.Limits.ImmediateOffset == tt.offset && tt.offset != 0) {
			t.Errorf("%s: granted %v, offset %d", tt.name, granted, terms.Limits.ImmediateOffset)
		}
	}
}

func TestImmediateOffsetIsThePlansToBound(t *testing.T) {
	for _, tt := range []struct {
		bound   uint32
		offset  uint16
		granted bool
	}{{0, 52, false}, {51, 52, false}, {68, 68, true}, {68, 69, false}, {4096, 4096, true}, {1 << 31, 65535, false}} {
		r, p := testLogin(), testPolicy()
		p.MaxImmediateOffset, r.ImmediateOffset = tt.bound, tt.offset
		terms, _, _ := CheckLogin(&r, &p, 0)
		if got := terms.Rsp.Flags&srp.LoginRspImmediate != 0; got != tt.granted {
			t.Errorf("offset %d of %d: granted %v", tt.offset, tt.bound, got)
		}
	}
}

func TestRejectEchoesTheTag(t *testing.T) {
	want := srp.LoginRej{Reason: srp.RejNexus, Tag: 42, Formats: 6}
	if got := Reject(42, srp.RejNexus); got != want {
		t.Errorf("got %+v", got)
	}
}

func TestCheckLoginAllocatesNothing(t *testing.T) {
	r, p := testLogin(), testPolicy()
	bad := r
	bad.Target[0]++
	n := testing.AllocsPerRun(100, func() {
		_, _, ok := CheckLogin(&r, &p, 0)
		_, _, no := CheckLogin(&bad, &p, 0)
		if !ok || no {
			t.Fatal("wrong decision")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
