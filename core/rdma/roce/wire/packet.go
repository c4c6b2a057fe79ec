package wire

import "github.com/gosrpt/gosrpt/core/ib"

// ParseError is why Parse or CheckPayload refused a packet. It is a number, so that refusing
// costs nothing, and serves as an index for counters.
type ParseError uint8

// The reasons.
const (
	ErrShort ParseError = iota
	ErrLong
	ErrOpcode
	ErrVersion
	ErrAlign
	ErrPad
	ErrUnexpectedPayload
	ErrPayloadSize
	// NumParseErrors is how many reasons there are.
	NumParseErrors
)

// Error says what was wrong.
func (e ParseError) Error() string {
	names := [NumParseErrors]string{
		ErrShort:             "shorter than the headers of its opcode",
		ErrLong:              "longer than the largest path MTU allows",
		ErrOpcode:            "unknown opcode",
		ErrVersion:           "unknown transport version",
		ErrAlign:             "not a whole number of words",
		ErrPad:               "more padding than payload",
		ErrUnexpectedPayload: "payload after an opcode that has none",
		ErrPayloadSize:       "payload length does not fit opcode and path MTU",
	}
	if e >= NumParseErrors {
		return "roce packet: refused"
	}
	return "roce packet: " + names[e]
}

// MaxPayload is the largest payload, that of the largest path MTU.
const MaxPayload = 4096

// MaxPacket is the longest packet: WRITE ONLY with immediate data, a full payload, and the ICRC.
const MaxPacket = BTHSize + RETHSize + ImmDtSize + MaxPayload + ICRCSize

// IP and UDP header lengths, which together with MaxPacket decide the interface MTU that a path MTU needs.
const (
	IPv4Overhead = 20 + 8
	IPv6Overhead = 40 + 8
)

// PathMTU is the largest path MTU that an interface of linkMTU bytes can carry in any packet with a
// payload, 0 if not even 256 bytes fit.
func PathMTU(linkMTU int, v6 bool) ib.MTU {
	over := IPv4Overhead
	if v6 {
		over = IPv6Overhead
	}
	return ib.LargestMTU(linkMTU - over - BTHSize - RETHSize - ImmDtSize - ICRCSize)
}

// Packet is a view of a RoCEv2 packet: UDP payload from BTH to ICRC. Parse makes it; its accessors
// then need no check. Those of extended headers may only be called when the opcode has the header.
type Packet []byte

// Parse checks that b is a packet with a known opcode whose headers, padding and ICRC are all
// there. Whether the payload fits the connection is CheckPayload's to say, for the answer to
// that is a NAK; the answer to an error of Parse is silence (IBTA 9.6). Nothing is copied.
func Parse(b []byte) (Packet, error) {
	if len(b) < BTHSize+ICRCSize {
		return nil, ErrShort
	}
	if len(b) > MaxPacket {
		return nil, ErrLong
	}
	h := BTH(b)
	op := h.Opcode()
	body := len(b) - op.HeaderSize() - ICRCSize
	switch {
	case !op.Known():
		return nil, ErrOpcode
	case h.Version() != 0:
		return nil, ErrVersion
	case body < 0:
		return nil, ErrShort
	case body&3 != 0:
		return nil, ErrAlign
	case body > MaxPayload:
		return nil, ErrLong
	case !op.has(data) && (body != 0 || h.Pad() != 0):
		return nil, ErrUnexpectedPayload
	case h.Pad() > body:
		return nil, ErrPad
	}
	return Packet(b), nil
}

// Opcode is the operation.
func (p Packet) Opcode() Opcode { return Opcode(p[0]) }

// BTH is the base transport header.
func (p Packet) BTH() BTH { return BTH(p[:BTHSize]) }

// RETH is the RDMA header; only if Opcode().HasRETH().
func (p Packet) RETH() RETH { return RETH(p[BTHSize : BTHSize+RETHSize]) }

// AETH is the acknowledgement header; only if Opcode().HasAETH().
func (p Packet) AETH() AETH { return AETH(p[BTHSize : BTHSize+AETHSize]) }

// DETH is the datagram header; only if Opcode().HasDETH().
func (p Packet) DETH() DETH { return DETH(p[BTHSize : BTHSize+DETHSize]) }

// ImmDt is the immediate data, or the R_Key to invalidate; only if Opcode().HasImm() or
// Opcode().HasInvalidate().
func (p Packet) ImmDt() ImmDt {
	end := p.Opcode().HeaderSize()
	return ImmDt(p[end-ImmDtSize : end])
}

// Payload is the payload without padding, a part of p.
func (p Packet) Payload() []byte {
	return p[p.Opcode().HeaderSize() : len(p)-ICRCSize-p.BTH().Pad()]
}

// CheckPayload checks the payload's length against opcode and path MTU: exactly the MTU in first
// and middle packets, 1 to MTU in last ones, 0 to MTU in only ones (IBTA 9.7.4). It
// returns ErrPayloadSize or nil.
func (p Packet) CheckPayload(mtu ib.MTU) error {
	n, most := len(p.Payload()), mtu.Bytes()
	op := p.Opcode()
	switch {
	case n > most:
		return ErrPayloadSize
	case op.has(first) || op.has(middle):
		if n != most || p.BTH().Pad() != 0 {
			return ErrPayloadSize
		}
	case op.has(last) && n == 0:
		return ErrPayloadSize
	}
	return nil
}
