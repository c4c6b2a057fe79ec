package srp

import "encoding/binary"

// BufferFormats is the bit mask of data buffer descriptor formats in login units.
type BufferFormats uint16

// Descriptor formats of the mask.
const (
	FormatsDirect   BufferFormats = 0x0002
	FormatsIndirect BufferFormats = 0x0004
)

// LoginFlags is the request flags byte of SRP_LOGIN_REQ.
type LoginFlags byte

// Flags of SRP_LOGIN_REQ.
const (
	LoginLogoutSolNot LoginFlags = 0x10 // LOSOLNT
	LoginCredSolNot   LoginFlags = 0x20 // CRSOLNT
	LoginAerSolNot    LoginFlags = 0x40 // AESOLNT
	LoginImmediate    LoginFlags = 0x80 // immediate data requested (SRP-2)

	// LoginReserved has the bits that must be zero.
	LoginReserved LoginFlags = 0x0c

	actionMask LoginFlags = 0x03
)

// MultiChannelAction is what a login wants done with the channels its I_T nexus
// already has (r16a 6.2, table of MULTI-CHANNEL ACTION).
type MultiChannelAction byte

// Actions; other values are reserved.
const (
	ActionSingle MultiChannelAction = 0 // terminate them
	ActionMulti  MultiChannelAction = 1 // keep them
)

// Action returns the multi-channel action.
func (f LoginFlags) Action() MultiChannelAction { return MultiChannelAction(f & actionMask) }

// LoginReq is an SRP_LOGIN_REQ, whichever of its two forms carried it.
type LoginReq struct {
	Tag             Tag
	MaxITIU         uint32 // longest I->T IU the initiator wants to send, bytes
	Formats         BufferFormats
	Flags           LoginFlags
	ImmediateOffset uint16 // from the start of an SRP_CMD, bytes; with LoginImmediate
	Initiator       PortID
	Target          PortID
}

// ParseLoginReq parses the 64-byte form that IB CM carries; bytes beyond it are
// CM padding. On a ProblemOpcode error the returned request still has the tag,
// to answer with.
func ParseLoginReq(b []byte) (LoginReq, error) {
	if len(b) < LoginReqLen {
		return LoginReq{}, fail(OpLoginReq, ProblemShort, uint64(len(b)), LoginReqLen)
	}
	r := LoginReq{
		Tag:             Tag(binary.BigEndian.Uint64(b[8:])),
		MaxITIU:         binary.BigEndian.Uint32(b[16:]),
		Formats:         BufferFormats(binary.BigEndian.Uint16(b[24:])),
		Flags:           LoginFlags(b[26]),
		ImmediateOffset: binary.BigEndian.Uint16(b[28:]),
		Initiator:       PortID(b[32:48]),
		Target:          PortID(b[48:64]),
	}
	return r, loginType(b[0])
}

// ParseLoginReqRDMA parses the 56-byte form that RDMA/CM carries after its IP
// header, else as ParseLoginReq. The listener's kind tells the form, never the
// bytes: both may begin with zeros.
func ParseLoginReqRDMA(b []byte) (LoginReq, error) {
	if len(b) < LoginReqRDMALen {
		return LoginReq{}, fail(OpLoginReq, ProblemShort, uint64(len(b)), LoginReqRDMALen)
	}
	r := LoginReq{
		Tag:             Tag(binary.BigEndian.Uint64(b)),
		Formats:         BufferFormats(binary.BigEndian.Uint16(b[8:])),
		Flags:           LoginFlags(b[10]),
		MaxITIU:         binary.BigEndian.Uint32(b[12:]),
		Initiator:       PortID(b[16:32]),
		Target:          PortID(b[32:48]),
		ImmediateOffset: binary.BigEndian.Uint16(b[48:]),
	}
	return r, loginType(b[11])
}

func loginType(t byte) error {
	if Opcode(t) != OpLoginReq {
		return fail(Opcode(t), ProblemOpcode, uint64(t), uint64(OpLoginReq))
	}
	return nil
}

// Append appends the 64-byte form.
func (r *LoginReq) Append(b []byte) []byte {
	b = append(b, byte(OpLoginReq), 0, 0, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Tag))
	b = binary.BigEndian.AppendUint32(b, r.MaxITIU)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Formats))
	b = append(b, byte(r.Flags), 0)
	b = binary.BigEndian.AppendUint16(b, r.ImmediateOffset)
	b = append(b, 0, 0)
	b = append(b, r.Initiator[:]...)
	return append(b, r.Target[:]...)
}

// AppendRDMA appends the 56-byte form.
func (r *LoginReq) AppendRDMA(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(r.Tag))
	b = binary.BigEndian.AppendUint16(b, uint16(r.Formats))
	b = append(b, byte(r.Flags), byte(OpLoginReq))
	b = binary.BigEndian.AppendUint32(b, r.MaxITIU)
	b = append(b, r.Initiator[:]...)
	b = append(b, r.Target[:]...)
	b = binary.BigEndian.AppendUint16(b, r.ImmediateOffset)
	return append(b, 0, 0, 0, 0, 0, 0)
}

// LoginRspFlags is the response flags byte of SRP_LOGIN_RSP.
type LoginRspFlags byte

// Flags of SRP_LOGIN_RSP. The low two bits are the multi-channel result.
const (
	ResultNoExisting LoginRspFlags = 0x00 // the nexus had no channels
	ResultTerminated LoginRspFlags = 0x01 // its channels were terminated
	ResultMaintained LoginRspFlags = 0x02 // its channels were kept
	ResultMask       LoginRspFlags = 0x03

	LoginRspSolNot    LoginRspFlags = 0x10 // SOLNTSUP
	LoginRspImmediate LoginRspFlags = 0x80 // immediate data granted (SRP-2)
)

// LoginRsp is an SRP_LOGIN_RSP.
type LoginRsp struct {
	Delta   int32 // requests the initiator may have outstanding to begin with
	Tag     Tag
	MaxITIU uint32 // longest IU the target accepts, bytes
	MaxTIIU uint32 // longest IU the target sends, bytes
	Formats BufferFormats
	Flags   LoginRspFlags
}

// ParseLoginRsp parses an SRP_LOGIN_RSP; bytes beyond it are CM padding.
func ParseLoginRsp(b []byte) (LoginRsp, error) {
	if err := fixed(b, OpLoginRsp, LoginRspLen); err != nil {
		return LoginRsp{}, err
	}
	return LoginRsp{
		Delta:   int32(binary.BigEndian.Uint32(b[4:])),
		Tag:     Tag(binary.BigEndian.Uint64(b[8:])),
		MaxITIU: binary.BigEndian.Uint32(b[16:]),
		MaxTIIU: binary.BigEndian.Uint32(b[20:]),
		Formats: BufferFormats(binary.BigEndian.Uint16(b[24:])),
		Flags:   LoginRspFlags(b[26]),
	}, nil
}

// Append appends the 52 bytes of the unit.
func (r *LoginRsp) Append(b []byte) []byte {
	b = appendHeader(b, OpLoginRsp, 0, uint32(r.Delta), r.Tag)
	b = binary.BigEndian.AppendUint32(b, r.MaxITIU)
	b = binary.BigEndian.AppendUint32(b, r.MaxTIIU)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Formats))
	b = append(b, byte(r.Flags))
	return append(b, make([]byte, 25)...)
}

// LoginRej is an SRP_LOGIN_REJ.
type LoginRej struct {
	Reason  RejReason
	Tag     Tag
	Formats BufferFormats // what the target supports
}

// ParseLoginRej parses an SRP_LOGIN_REJ; bytes beyond it are CM padding.
func ParseLoginRej(b []byte) (LoginRej, error) {
	if err := fixed(b, OpLoginRej, LoginRejLen); err != nil {
		return LoginRej{}, err
	}
	return LoginRej{
		Reason:  RejReason(binary.BigEndian.Uint32(b[4:])),
		Tag:     Tag(binary.BigEndian.Uint64(b[8:])),
		Formats: BufferFormats(binary.BigEndian.Uint16(b[24:])),
	}, nil
}

// Append appends the 32 bytes of the unit. Initiators read all of them without
// looking at the length: never send fewer.
func (r *LoginRej) Append(b []byte) []byte {
	b = appendHeader(b, OpLoginRej, 0, uint32(r.Reason), r.Tag)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Formats))
	return append(b, 0, 0, 0, 0, 0, 0)
}

// appendHeader appends the 16 bytes most T->I units begin with.
func appendHeader(b []byte, op Opcode, solNot byte, word uint32, t Tag) []byte {
	b = append(b, byte(op), solNot, 0, 0)
	b = binary.BigEndian.AppendUint32(b, word)
	return binary.BigEndian.AppendUint64(b, uint64(t))
}
