package srp

import "encoding/binary"

// RspFlags is byte 18 of SRP_RSP.
type RspFlags byte

// Flags of SRP_RSP.
const (
	RspValid    RspFlags = 0x01 // RSPVALID: response data present
	RspSense    RspFlags = 0x02 // SNSVALID: sense data present
	RspOutOver  RspFlags = 0x04 // DOOVER
	RspOutUnder RspFlags = 0x08 // DOUNDER
	RspInOver   RspFlags = 0x10 // DIOVER
	RspInUnder  RspFlags = 0x20 // DIUNDER
)

// RspCode is the response code in the response data of an SRP_RSP (r16a 6.9).
type RspCode uint8

// Response codes.
const (
	RspComplete      RspCode = 0x00 // no failure, or task management function complete
	RspFieldsInvalid RspCode = 0x02 // request fields invalid
	RspNotSupported  RspCode = 0x04 // task management function not supported
	RspFailed        RspCode = 0x05 // task management function failed
)

// rspDataLen is the length of response data, when there is any.
const rspDataLen = 4

// Residual is the difference between a data buffer and what was moved: positive,
// bytes of the buffer not used (under); negative, bytes the command would have
// moved beyond the buffer (over).
type Residual int64

// Count returns the residual count field, saturated to 32 bits.
func (r Residual) Count() uint32 {
	if r < 0 {
		r = -r
	}
	return uint32(min(r, 1<<32-1))
}

func (r Residual) flag(over, under RspFlags) RspFlags {
	switch {
	case r < 0:
		return over
	case r > 0:
		return under
	}
	return 0
}

// RspFields is what a target puts into an SRP_RSP. Response data and sense data
// exclude each other in practice: an initiator takes the status of a command
// whatever the response code says, so only task management has a code.
type RspFields struct {
	Tag     Tag
	Delta   int32 // credits returned
	SolNot  bool
	Status  byte // SCSI status
	Out     Residual
	In      Residual
	Sense   []byte
	HasCode bool // response data present
	Code    RspCode
}

// AppendRsp appends the unit: at most limit bytes, the maximum T->I length of
// the login. Sense data is cut to fit, the rest never is.
func AppendRsp(b []byte, f *RspFields, limit uint32) []byte {
	sense := f.senseWithin(limit)
	flags := f.Out.flag(RspOutOver, RspOutUnder) | f.In.flag(RspInOver, RspInUnder)
	var code uint32
	if f.HasCode {
		flags |= RspValid
		code = rspDataLen
	}
	if len(sense) > 0 {
		flags |= RspSense
	}
	b = appendHeader(b, OpRsp, solNot(f.SolNot), uint32(f.Delta), f.Tag)
	b = append(b, 0, 0, byte(flags), f.Status)
	b = binary.BigEndian.AppendUint32(b, f.Out.Count())
	b = binary.BigEndian.AppendUint32(b, f.In.Count())
	b = binary.BigEndian.AppendUint32(b, uint32(len(sense)))
	b = binary.BigEndian.AppendUint32(b, code)
	if f.HasCode {
		b = append(b, 0, 0, 0, byte(f.Code))
	}
	return append(b, sense...)
}

func (f *RspFields) senseWithin(limit uint32) []byte {
	room := int64(limit) - RspLen
	if f.HasCode {
		room -= rspDataLen
	}
	room = min(max(room, 0), MaxSense)
	return f.Sense[:min(int64(len(f.Sense)), room)]
}

// Rsp is an SRP_RSP, a view of the received bytes.
type Rsp []byte

// ParseRsp checks that response data and sense data lie within b, the bytes
// received for one unit.
func ParseRsp(b []byte) (Rsp, error) {
	if err := fixed(b, OpRsp, RspLen); err != nil {
		return nil, err
	}
	r := Rsp(b)
	end := RspLen + uint64(r.dataLen()) + uint64(r.senseLen())
	if end > uint64(len(b)) {
		return nil, fail(OpRsp, ProblemVariable, end, uint64(len(b)))
	}
	return r, nil
}

func (r Rsp) senseLen() uint32 { return binary.BigEndian.Uint32(r[28:]) }
func (r Rsp) dataLen() uint32  { return binary.BigEndian.Uint32(r[32:]) }

// Delta returns the credits that come with the response; it may be negative.
func (r Rsp) Delta() int32 { return int32(binary.BigEndian.Uint32(r[4:])) }

// Tag returns the tag of the request answered.
func (r Rsp) Tag() Tag { return Tag(binary.BigEndian.Uint64(r[8:])) }

// SolNot reports whether the response came with solicited notification.
func (r Rsp) SolNot() bool { return r[1]&solNotSet != 0 }

// Flags returns byte 18.
func (r Rsp) Flags() RspFlags { return RspFlags(r[18]) }

// Status returns the SCSI status.
func (r Rsp) Status() byte { return r[19] }

// Out returns the data-out residual.
func (r Rsp) Out() Residual {
	return residual(binary.BigEndian.Uint32(r[20:]), r.Flags(), RspOutOver, RspOutUnder)
}

// In returns the data-in residual.
func (r Rsp) In() Residual {
	return residual(binary.BigEndian.Uint32(r[24:]), r.Flags(), RspInOver, RspInUnder)
}

func residual(n uint32, f, over, under RspFlags) Residual {
	switch {
	case f&under != 0:
		return Residual(n)
	case f&over != 0:
		return -Residual(n)
	}
	return 0
}

// Sense returns the sense data, nil if there is none or it is not valid.
func (r Rsp) Sense() []byte {
	if r.Flags()&RspSense == 0 {
		return nil
	}
	start := RspLen + r.dataLen()
	return r[start : start+r.senseLen()]
}

// Code returns the response code; ok is false if the response has none.
func (r Rsp) Code() (c RspCode, ok bool) {
	if r.Flags()&RspValid == 0 || r.dataLen() < rspDataLen {
		return 0, false
	}
	return RspCode(r[RspLen+3]), true
}
