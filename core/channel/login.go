package channel

import (
	"slices"

	"github.com/gosrpt/gosrpt/core/srp"
)

// Formats is what a target does: direct and indirect descriptors.
const Formats = srp.FormatsDirect | srp.FormatsIndirect

const (
	// minImmediateOffset leaves room for an SRP_CMD and its immediate descriptor.
	minImmediateOffset = srp.CmdLen + srp.ImmediateLen
	// minImmediateRoom is the least immediate data worth a grant: one block.
	minImmediateRoom = 512
	// minCredits is the fewest an initiator can work with: it keeps one for task
	// management.
	minCredits = 2
)

// Policy is what a target port offers at login.
type Policy struct {
	// Targets are the target port ids of the port.
	Targets []srp.PortID
	// MaxITIU is the size in bytes of the receive buffers, at least
	// srp.MinITIU. The I/O controller profile must say the same number.
	MaxITIU uint32
	// MaxTIIU is the size in bytes of the longest response. Initiators size their
	// buffers by it once: it must never change.
	MaxTIIU uint32
	// Credits is the number of requests that a channel may have outstanding.
	Credits uint32
	// MaxChannels is the most channels of one I_T nexus.
	MaxChannels int
	// Immediate permits immediate data, MaxImmediateOffset bounds its offset in bytes, and so what an initiator can
	// make a receive buffer waste.
	Immediate          bool
	MaxImmediateOffset uint32
	// MaxTransfer is the longest data buffer of a command in bytes.
	MaxTransfer uint32
}

// Terms is what a login has settled.
type Terms struct {
	Rsp    srp.LoginRsp  // to accept with
	Limits srp.CmdLimits // for Config
	// Replace: the nexus' existing channels must be terminated, and this one be
	// held until their commands have ended.
	Replace bool
	// Notify are the LOSOLNT, CRSOLNT and AESOLNT bits of the request, for Config.
	Notify srp.LoginFlags
}

// CheckLogin decides on a login: terms, or the reason to reject with. existing
// is the number of channels that the I_T nexus has. The initiator is not
// authorised by this. The checks come in the order of r16a 6.4's reasons, cheap
// ones first, and leave nothing behind.
func CheckLogin(r *srp.LoginReq, p *Policy, existing int) (Terms, srp.RejReason, bool) {
	if reason, ok := checkRequest(r, p); !ok {
		return Terms{}, reason, false
	}
	result, reason, ok := multiChannel(r.Flags.Action(), existing, p.MaxChannels)
	if !ok {
		return Terms{}, reason, false
	}
	t := Terms{
		Rsp: srp.LoginRsp{
			Delta:   int32(p.Credits),
			Tag:     r.Tag,
			MaxITIU: p.MaxITIU,
			MaxTIIU: p.MaxTIIU,
			Formats: Formats,
			Flags:   result | srp.LoginRspSolNot,
		},
		Limits:  srp.CmdLimits{MaxTransfer: p.MaxTransfer},
		Replace: result == srp.ResultTerminated,
		Notify:  r.Flags & (srp.LoginLogoutSolNot | srp.LoginCredSolNot | srp.LoginAerSolNot),
	}
	if grantImmediate(r, p) {
		t.Rsp.Flags |= srp.LoginRspImmediate
		t.Limits.ImmediateOffset = r.ImmediateOffset
	}
	return t, 0, true
}

func checkRequest(r *srp.LoginReq, p *Policy) (srp.RejReason, bool) {
	switch {
	case r.Flags&srp.LoginReserved != 0, r.Flags.Action() > srp.ActionMulti:
		return srp.RejNoReason, false
	case r.MaxITIU < srp.MinITIU, r.MaxITIU > p.MaxITIU:
		return srp.RejITIULength, false
	case r.Formats&^Formats != 0, r.Formats&Formats == 0:
		return srp.RejFormat, false
	case r.Initiator.IsZero(), !slices.Contains(p.Targets, r.Target):
		return srp.RejNexus, false
	case p.Credits < minCredits:
		return srp.RejResources, false
	}
	return 0, true
}

// multiChannel returns the multi-channel result; false if the nexus is full.
func multiChannel(a srp.MultiChannelAction, existing, limit int) (srp.LoginRspFlags, srp.RejReason, bool) {
	switch {
	case a == srp.ActionSingle && existing > 0:
		return srp.ResultTerminated, 0, true
	case existing >= limit && limit == 1:
		return 0, srp.RejMultiChannel, false
	case existing >= limit:
		return 0, srp.RejChannelLimit, false
	case existing > 0:
		return srp.ResultMaintained, 0, true
	}
	return srp.ResultNoExisting, 0, true
}

func grantImmediate(r *srp.LoginReq, p *Policy) bool {
	off := r.ImmediateOffset
	return p.Immediate && r.Flags&srp.LoginImmediate != 0 &&
		off >= minImmediateOffset && uint32(off) <= p.MaxImmediateOffset &&
		uint32(off)+minImmediateRoom <= p.MaxITIU
}

// Reject returns the SRP_LOGIN_REJ for a login.
func Reject(t srp.Tag, reason srp.RejReason) srp.LoginRej {
	return srp.LoginRej{Reason: reason, Tag: t, Formats: Formats}
}
