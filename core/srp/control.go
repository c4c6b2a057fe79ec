package srp

import "encoding/binary"

// AppendILogout appends an SRP_I_LOGOUT, 16 bytes.
func AppendILogout(b []byte, t Tag) []byte { return appendHeader(b, OpILogout, 0, 0, t) }

// ParseILogout returns the tag of an SRP_I_LOGOUT.
func ParseILogout(b []byte) (Tag, error) { return parseTagged(b, OpILogout, ILogoutLen) }

// AppendCredRsp appends an SRP_CRED_RSP, 16 bytes; t is the tag of the request.
func AppendCredRsp(b []byte, t Tag) []byte { return appendHeader(b, OpCredRsp, 0, 0, t) }

// ParseCredRsp returns the tag of an SRP_CRED_RSP.
func ParseCredRsp(b []byte) (Tag, error) { return parseTagged(b, OpCredRsp, CredRspLen) }

// AppendAerRsp appends an SRP_AER_RSP, 16 bytes; t is the tag of the request.
func AppendAerRsp(b []byte, t Tag) []byte { return appendHeader(b, OpAerRsp, 0, 0, t) }

// ParseAerRsp returns the tag of an SRP_AER_RSP.
func ParseAerRsp(b []byte) (Tag, error) { return parseTagged(b, OpAerRsp, AerRspLen) }

func parseTagged(b []byte, op Opcode, size int) (Tag, error) {
	if err := fixed(b, op, size); err != nil {
		return 0, err
	}
	return Tag(binary.BigEndian.Uint64(b[8:])), nil
}

// TLogout is an SRP_T_LOGOUT. It says why the target is about to disconnect; no
// answer exists, and an initiator need not act on it.
type TLogout struct {
	Reason LogoutReason
	Tag    Tag
	SolNot bool
}

// ParseTLogout parses an SRP_T_LOGOUT.
func ParseTLogout(b []byte) (TLogout, error) {
	if err := fixed(b, OpTLogout, TLogoutLen); err != nil {
		return TLogout{}, err
	}
	return TLogout{
		Reason: LogoutReason(binary.BigEndian.Uint32(b[4:])),
		Tag:    Tag(binary.BigEndian.Uint64(b[8:])),
		SolNot: b[1]&solNotSet != 0,
	}, nil
}

// Append appends the 16 bytes of the unit.
func (l *TLogout) Append(b []byte) []byte {
	return appendHeader(b, OpTLogout, solNot(l.SolNot), uint32(l.Reason), l.Tag)
}

// CredReq is an SRP_CRED_REQ: it moves the initiator's window outside of a
// response. At most one target request may be outstanding on a channel.
type CredReq struct {
	Delta  int32
	Tag    Tag // the target's own
	SolNot bool
}

// ParseCredReq parses an SRP_CRED_REQ.
func ParseCredReq(b []byte) (CredReq, error) {
	if err := fixed(b, OpCredReq, CredReqLen); err != nil {
		return CredReq{}, err
	}
	return CredReq{
		Delta:  int32(binary.BigEndian.Uint32(b[4:])),
		Tag:    Tag(binary.BigEndian.Uint64(b[8:])),
		SolNot: b[1]&solNotSet != 0,
	}, nil
}

// Append appends the 16 bytes of the unit.
func (c *CredReq) Append(b []byte) []byte {
	return appendHeader(b, OpCredReq, solNot(c.SolNot), uint32(c.Delta), c.Tag)
}

// AerReq is an SRP_AER_REQ, an asynchronous event report.
type AerReq struct {
	Delta  int32
	Tag    Tag // the target's own
	LUN    LUN
	Sense  []byte // a view of the unit when parsed
	SolNot bool
}

// ParseAerReq parses an SRP_AER_REQ.
func ParseAerReq(b []byte) (AerReq, error) {
	if err := fixed(b, OpAerReq, AerReqLen); err != nil {
		return AerReq{}, err
	}
	end := AerReqLen + uint64(binary.BigEndian.Uint32(b[28:]))
	if end > uint64(len(b)) {
		return AerReq{}, fail(OpAerReq, ProblemVariable, end, uint64(len(b)))
	}
	return AerReq{
		Delta:  int32(binary.BigEndian.Uint32(b[4:])),
		Tag:    Tag(binary.BigEndian.Uint64(b[8:])),
		LUN:    LUN(b[20:28]),
		Sense:  b[AerReqLen:end],
		SolNot: b[1]&solNotSet != 0,
	}, nil
}

// Append appends the unit.
func (a *AerReq) Append(b []byte) []byte {
	b = appendHeader(b, OpAerReq, solNot(a.SolNot), uint32(a.Delta), a.Tag)
	b = append(b, 0, 0, 0, 0)
	b = append(b, a.LUN[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(a.Sense)))
	b = append(b, 0, 0, 0, 0)
	return append(b, a.Sense...)
}

func solNot(on bool) byte {
	if on {
		return solNotSet
	}
	return 0
}
