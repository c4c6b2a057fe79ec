package srp

import "fmt"

// Opcode is byte 0 of every information unit. Bit 7 is set in those a target
// sends, bit 6 in responses (r16a 6.1).
type Opcode byte

// The information units of r16a.
const (
	OpLoginReq Opcode = 0x00
	OpTskMgmt  Opcode = 0x01
	OpCmd      Opcode = 0x02
	OpILogout  Opcode = 0x03
	OpCredRsp  Opcode = 0x41
	OpAerRsp   Opcode = 0x42
	OpTLogout  Opcode = 0x80
	OpCredReq  Opcode = 0x81
	OpAerReq   Opcode = 0x82
	OpLoginRsp Opcode = 0xC0
	OpRsp      Opcode = 0xC1
	OpLoginRej Opcode = 0xC2
)

// Sizes in bytes: of the whole unit where it is fixed, of its fixed part where
// data follows.
const (
	LoginReqLen     = 64 // as IB CM private data
	LoginReqRDMALen = 56 // as RDMA/CM private data, after the IP header
	LoginRspLen     = 52
	LoginRejLen     = 32
	TskMgmtLen      = 48
	CmdLen          = 48 // followed by additional CDB bytes and descriptors
	RspLen          = 36 // followed by response data and sense data
	ILogoutLen      = 16
	TLogoutLen      = 16
	CredReqLen      = 16
	CredRspLen      = 16
	AerReqLen       = 36 // followed by sense data
	AerRspLen       = 16

	// MinITIU is the least maximum I->T IU length an initiator may ask for.
	MinITIU = 64
	// MaxSense is the most sense data SPC-4 defines (4.5.1), in bytes.
	MaxSense = 252
)

var opcodeNames = map[Opcode]string{
	OpLoginReq: "SRP_LOGIN_REQ",
	OpTskMgmt:  "SRP_TSK_MGMT",
	OpCmd:      "SRP_CMD",
	OpILogout:  "SRP_I_LOGOUT",
	OpCredRsp:  "SRP_CRED_RSP",
	OpAerRsp:   "SRP_AER_RSP",
	OpTLogout:  "SRP_T_LOGOUT",
	OpCredReq:  "SRP_CRED_REQ",
	OpAerReq:   "SRP_AER_REQ",
	OpLoginRsp: "SRP_LOGIN_RSP",
	OpRsp:      "SRP_RSP",
	OpLoginRej: "SRP_LOGIN_REJ",
}

// String returns the name r16a gives the unit.
func (o Opcode) String() string {
	if s, ok := opcodeNames[o]; ok {
		return s
	}
	return fmt.Sprintf("opcode %02xh", byte(o))
}

// Tag is the eight opaque tag bytes, first byte most significant. It is echoed
// as it came; only equality means anything.
type Tag uint64

// String returns the tag as its sixteen hexadecimal digits in wire order.
func (t Tag) String() string { return fmt.Sprintf("%016x", uint64(t)) }

// SolNot bits of byte 1 in a request (r16a 6.2): which completions should
// interrupt the initiator.
const (
	SolNotSuccess   = 0x02 // SCSOLNT: a command that succeeds
	SolNotUnsuccess = 0x04 // UCSOLNT: a command that fails
)

// solNotSet is byte 1 of a T->I unit sent with solicited notification.
const solNotSet = 0x01
