package srp

import "fmt"

// RejReason is the reason of an SRP_LOGIN_REJ (r16a 6.4).
type RejReason uint32

// Login reject reasons.
const (
	RejNoReason     RejReason = 0x00010000 // unable to establish the channel
	RejResources    RejReason = 0x00010001 // insufficient resources
	RejITIULength   RejReason = 0x00010002 // requested I->T IU length too large
	RejNexus        RejReason = 0x00010003 // unable to associate with the I_T nexus
	RejFormat       RejReason = 0x00010004 // unsupported data buffer descriptor format
	RejMultiChannel RejReason = 0x00010005 // one channel per I_T nexus only
	RejChannelLimit RejReason = 0x00010006 // channel limit of the I_T nexus reached
)

var rejNames = map[RejReason]string{
	RejNoReason:     "unable to establish RDMA channel, no reason specified",
	RejResources:    "insufficient RDMA channel resources",
	RejITIULength:   "requested I->T IU length not supported",
	RejNexus:        "unable to associate RDMA channel with specified I_T nexus",
	RejFormat:       "unsupported data buffer descriptor format",
	RejMultiChannel: "target supports a single RDMA channel per I_T nexus",
	RejChannelLimit: "RDMA channel limit of the I_T nexus reached",
}

// String says the reason in words.
func (r RejReason) String() string {
	if s, ok := rejNames[r]; ok {
		return s
	}
	return fmt.Sprintf("reject reason %08xh", uint32(r))
}

// LogoutReason is the reason of an SRP_T_LOGOUT (r16a 6.7).
type LogoutReason uint32

// Target logout reasons. Published implementations disagree on 5 to 9; these
// are the readings shared by most.
const (
	LogoutNoReason     LogoutReason = 0
	LogoutInactive     LogoutReason = 1 // channel inactive, resources reclaimed
	LogoutInvalidIU    LogoutReason = 2 // invalid type of information unit
	LogoutUnsolicited  LogoutReason = 3 // response without an outstanding request
	LogoutMultiChannel LogoutReason = 4 // replaced by a later login
	LogoutFormatOut    LogoutReason = 6 // unsupported data-out descriptor format
	LogoutFormatIn     LogoutReason = 7 // unsupported data-in descriptor format
	LogoutLength       LogoutReason = 8 // invalid IU length
)

var logoutNames = map[LogoutReason]string{
	LogoutNoReason:     "no reason specified",
	LogoutInactive:     "inactive RDMA channel",
	LogoutInvalidIU:    "invalid information unit type received",
	LogoutUnsolicited:  "response received with no corresponding request",
	LogoutMultiChannel: "disconnected by multi-channel action of a new login",
	LogoutFormatOut:    "unsupported data-out buffer descriptor format",
	LogoutFormatIn:     "unsupported data-in buffer descriptor format",
	LogoutLength:       "invalid information unit length",
}

// String says the reason in words.
func (r LogoutReason) String() string {
	if s, ok := logoutNames[r]; ok {
		return s
	}
	return fmt.Sprintf("logout reason %08xh", uint32(r))
}
