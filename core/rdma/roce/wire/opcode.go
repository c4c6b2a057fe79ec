package wire

import "fmt"

// Opcode is the operation of a packet: 3 bits of transport service, 5 bits of operation (IBTA 9.2, table 38).
type Opcode uint8

// The opcodes of the reliable connection service, of unreliable datagrams, and the congestion
// notification packet of RoCEv2. All others are refused by Parse.
const (
	SendFirst          Opcode = 0x00
	SendMiddle         Opcode = 0x01
	SendLast           Opcode = 0x02
	SendLastImm        Opcode = 0x03
	SendOnly           Opcode = 0x04
	SendOnlyImm        Opcode = 0x05
	WriteFirst         Opcode = 0x06
	WriteMiddle        Opcode = 0x07
	WriteLast          Opcode = 0x08
	WriteLastImm       Opcode = 0x09
	WriteOnly          Opcode = 0x0A
	WriteOnlyImm       Opcode = 0x0B
	ReadRequest        Opcode = 0x0C
	ReadResponseFirst  Opcode = 0x0D
	ReadResponseMiddle Opcode = 0x0E
	ReadResponseLast   Opcode = 0x0F
	ReadResponseOnly   Opcode = 0x10
	Acknowledge        Opcode = 0x11
	AtomicAcknowledge  Opcode = 0x12
	CompareSwap        Opcode = 0x13
	FetchAdd           Opcode = 0x14
	SendLastInv        Opcode = 0x16
	SendOnlyInv        Opcode = 0x17
	UDSendOnly         Opcode = 0x64
	UDSendOnlyImm      Opcode = 0x65
	Congestion         Opcode = 0x81
)

// Service is the transport service of an opcode.
type Service uint8

// The services, the top 3 bits of the opcode.
const (
	ServiceRC  Service = 0
	ServiceUC  Service = 1
	ServiceRD  Service = 2
	ServiceUD  Service = 3
	ServiceCNP Service = 4
)

type traits uint16

const (
	known traits = 1 << iota
	first        // first of several packets of a message
	middle
	last
	only
	request // travels from requester to responder
	reth
	aeth
	deth
	imm
	ieth
	data // may carry a payload
)

type opInfo struct {
	name   string
	header uint8 // bytes between the BTH and the payload
	traits
}

// ops says for each opcode what follows the BTH (IBTA table 38).
var ops = [256]opInfo{
	SendFirst:          {"SEND_FIRST", 0, known | first | request | data},
	SendMiddle:         {"SEND_MIDDLE", 0, known | middle | request | data},
	SendLast:           {"SEND_LAST", 0, known | last | request | data},
	SendLastImm:        {"SEND_LAST_IMM", 4, known | last | request | data | imm},
	SendOnly:           {"SEND_ONLY", 0, known | only | request | data},
	SendOnlyImm:        {"SEND_ONLY_IMM", 4, known | only | request | data | imm},
	WriteFirst:         {"WRITE_FIRST", 16, known | first | request | data | reth},
	WriteMiddle:        {"WRITE_MIDDLE", 0, known | middle | request | data},
	WriteLast:          {"WRITE_LAST", 0, known | last | request | data},
	WriteLastImm:       {"WRITE_LAST_IMM", 4, known | last | request | data | imm},
	WriteOnly:          {"WRITE_ONLY", 16, known | only | request | data | reth},
	WriteOnlyImm:       {"WRITE_ONLY_IMM", 20, known | only | request | data | reth | imm},
	ReadRequest:        {"READ_REQUEST", 16, known | only | request | reth},
	ReadResponseFirst:  {"READ_RESPONSE_FIRST", 4, known | first | data | aeth},
	ReadResponseMiddle: {"READ_RESPONSE_MIDDLE", 0, known | middle | data},
	ReadResponseLast:   {"READ_RESPONSE_LAST", 4, known | last | data | aeth},
	ReadResponseOnly:   {"READ_RESPONSE_ONLY", 4, known | only | data | aeth},
	Acknowledge:        {"ACKNOWLEDGE", 4, known | only | aeth},
	AtomicAcknowledge:  {"ATOMIC_ACKNOWLEDGE", 12, known | only | aeth},
	CompareSwap:        {"COMPARE_SWAP", 28, known | only | request},
	FetchAdd:           {"FETCH_ADD", 28, known | only | request},
	SendLastInv:        {"SEND_LAST_INVALIDATE", 4, known | last | request | data | ieth},
	SendOnlyInv:        {"SEND_ONLY_INVALIDATE", 4, known | only | request | data | ieth},
	UDSendOnly:         {"UD_SEND_ONLY", 8, known | only | request | data | deth},
	UDSendOnlyImm:      {"UD_SEND_ONLY_IMM", 12, known | only | request | data | deth | imm},
	Congestion:         {"CNP", 16, known | only},
}

func (o Opcode) has(t traits) bool { return ops[o].traits&t == t }

// Known tells whether the opcode is one of the constants above.
func (o Opcode) Known() bool { return o.has(known) }

// Service is the transport service.
func (o Opcode) Service() Service { return Service(o >> 5) }

// IsRequest tells whether the packet travels from requester to responder.
func (o Opcode) IsRequest() bool { return o.has(request) }

// Starts tells whether the packet is the first or the only one of its message.
func (o Opcode) Starts() bool { return ops[o].traits&(first|only) != 0 }

// Ends tells whether the packet is the last or the only one of its message.
func (o Opcode) Ends() bool { return ops[o].traits&(last|only) != 0 }

// IsSend tells whether the packet is part of an RC SEND.
func (o Opcode) IsSend() bool {
	return o <= SendOnlyImm || o == SendLastInv || o == SendOnlyInv
}

// IsWrite tells whether the packet is part of an RC RDMA WRITE.
func (o Opcode) IsWrite() bool { return o >= WriteFirst && o <= WriteOnlyImm }

// IsReadResponse tells whether the packet answers an RDMA READ.
func (o Opcode) IsReadResponse() bool { return o >= ReadResponseFirst && o <= ReadResponseOnly }

// HasRETH tells whether an RDMA header follows the BTH.
func (o Opcode) HasRETH() bool { return o.has(reth) }

// HasAETH tells whether an acknowledgement header follows the BTH.
func (o Opcode) HasAETH() bool { return o.has(aeth) }

// HasDETH tells whether a datagram header follows the BTH.
func (o Opcode) HasDETH() bool { return o.has(deth) }

// HasImm tells whether immediate data precedes the payload.
func (o Opcode) HasImm() bool { return o.has(imm) }

// HasInvalidate tells whether an R_Key to invalidate precedes the payload.
func (o Opcode) HasInvalidate() bool { return o.has(ieth) }

// HeaderSize is the length of BTH and extended headers together, in bytes: what precedes the payload.
func (o Opcode) HeaderSize() int { return BTHSize + int(ops[o].header) }

// String names the opcode as the specification does.
func (o Opcode) String() string {
	if !o.Known() {
		return fmt.Sprintf("opcode %#02x", uint8(o))
	}
	return ops[o].name
}
