package rc

import "github.com/gosrpt/gosrpt/core/ib"

// Opcode is the BTH opcode; the upper three bits, the transport, are 0 for RC.
type Opcode uint8

// The opcodes that the machine speaks (IBTA vol 1, table 38). It refuses the others.
const (
	OpSendFirst   Opcode = 0x00
	OpSendMiddle  Opcode = 0x01
	OpSendLast    Opcode = 0x02
	OpSendOnly    Opcode = 0x04
	OpWriteFirst  Opcode = 0x06
	OpWriteMiddle Opcode = 0x07
	OpWriteLast   Opcode = 0x08
	OpWriteOnly   Opcode = 0x0A
	OpReadRequest Opcode = 0x0C
	OpReadFirst   Opcode = 0x0D
	OpReadMiddle  Opcode = 0x0E
	OpReadLast    Opcode = 0x0F
	OpReadOnly    Opcode = 0x10
	OpAck         Opcode = 0x11
)

const lastRequestOpcode = 0x17

// HasRETH tells whether packets of the opcode carry VA, RKey and DMALen.
func (o Opcode) HasRETH() bool {
	return o == OpWriteFirst || o == OpWriteOnly || o == OpReadRequest
}

// HasAETH tells whether packets of the opcode carry Syndrome and MSN.
func (o Opcode) HasAETH() bool {
	return o == OpReadFirst || o == OpReadLast || o == OpReadOnly || o == OpAck
}

func (o Opcode) isResponse() bool { return o >= OpReadFirst && o <= OpAck }

// AETH syndromes (IBTA vol 1, table 45 and 46).
const (
	syndromeAck      = 0x00
	syndromeRNR      = 0x20
	syndromeNak      = 0x60
	syndromeMask     = 0x60
	syndromeNoLimit  = 0x1F
	nakSequence      = 0x60
	nakInvalid       = 0x61
	nakAccess        = 0x62
	nakOperation     = 0x63
	aethDetail       = 0x1F
	maxMessageLength = 1 << 31
)

// Packet is one packet of an RC queue pair, its headers decoded.
type Packet struct {
	Op        Opcode
	AckReq    bool
	Solicited bool
	// Syndrome and MSN are the AETH, where Op.HasAETH.
	Syndrome uint8
	MSN      uint32
	PSN      ib.PSN
	// RKey, VA and DMALen are the RETH, where Op.HasRETH.
	RKey   uint32
	DMALen uint32
	VA     uint64
	// Payload is the payload without padding. In a packet from Next it is the work's own memory,
	// and MoreLen bytes of More, from its start, continue it.
	Payload []byte
	More    [][]byte
	MoreLen int
}

// PayloadLen is the length of the whole payload.
func (p *Packet) PayloadLen() int { return len(p.Payload) + p.MoreLen }

// AppendPayload appends the whole payload to b.
func (p *Packet) AppendPayload(b []byte) []byte {
	b = append(b, p.Payload...)
	left := p.MoreLen
	for _, s := range p.More {
		if left <= 0 {
			break
		}
		s = s[:min(len(s), left)]
		b = append(b, s...)
		left -= len(s)
	}
	return b
}

// packetsOf is how many packets carry n bytes; an empty message takes one.
func packetsOf(n, mtu uint32) uint32 {
	if n == 0 {
		return 1
	}
	return (n-1)/mtu + 1
}

// scale is the number that a credit code 0..30 stands for, and the time in units of 10 us that an
// RNR timer code 1..31 stands for (IBTA vol 1, 9.7.7.2.1 and table 45): 1, 2, 3, 4, 6, 8, 12, ...
func scale(code uint8) uint32 {
	switch {
	case code < 2:
		return uint32(code)
	case code&1 == 0:
		return 1 << (code / 2)
	}
	return 3 << ((code - 3) / 2)
}

// rnrDelay is the pause that an RNR timer code asks for, in nanoseconds.
func rnrDelay(code uint8) int64 {
	if code &= aethDetail; code != 0 {
		return int64(scale(code)) * 10_000
	}
	return 655_360_000
}
