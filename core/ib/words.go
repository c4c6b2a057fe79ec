package ib

import "fmt"

// LID is a local identifier, the address of a port within an InfiniBand subnet (IBTA 4.1). Unused on Ethernet.
type LID uint16

// LIDPermissive is the LID that stands for "whoever receives it" (IBTA 4.1).
const LIDPermissive LID = 0xFFFF

// IsUnicast tells whether the LID may name one port: 0x0001..0xBFFF.
func (l LID) IsUnicast() bool { return l >= 1 && l <= 0xBFFF }

// PKey is a partition key: 15 bits of partition and the membership bit (IBTA 10.9).
type PKey uint16

// The default partition. RoCE devices know no other.
const (
	PKeyDefault        PKey = 0xFFFF
	PKeyDefaultLimited PKey = 0x7FFF
)

// IsFull tells whether the key is that of a full member.
func (k PKey) IsFull() bool { return k&0x8000 != 0 }

// Matches tells whether holders of the two keys may talk: same partition, valid (not 0), at least
// one a full member (IBTA 10.9).
func (k PKey) Matches(o PKey) bool {
	return k&0x7FFF == o&0x7FFF && k&0x7FFF != 0 && (k | o).IsFull()
}

// QPN is a queue pair number, 24 bits.
type QPN uint32

// Numbers with a fixed meaning. QP 1 is the General Services Interface (IBTA 13.5.1).
const (
	QPSubnetManagement QPN = 0
	QPGeneralServices  QPN = 1
	// QPNMask covers the bits that a QPN has.
	QPNMask QPN = 0xFF_FFFF
)

// QKeyGSI is the well-known Q_Key of QP 1 (IBTA 13.5.1).
const QKeyGSI uint32 = 0x8001_0000

// LinkLayer is what a port's frames travel on.
type LinkLayer uint8

// The link layers, numbered as in the verbs ABI.
const (
	LinkUnspecified LinkLayer = iota
	LinkInfiniBand
	LinkEthernet
)

// String names the link layer for the operator.
func (l LinkLayer) String() string {
	switch l {
	case LinkInfiniBand:
		return "InfiniBand"
	case LinkEthernet:
		return "Ethernet"
	}
	return "unspecified"
}

// PortState is a port's logical state (IBTA 14.2.5.6).
type PortState uint8

// The states, numbered as in PortInfo. On Ethernet a port is down or active.
const (
	PortNoChange PortState = iota
	PortDown
	PortInit
	PortArmed
	PortActive
)

// String names the state for the operator.
func (s PortState) String() string {
	names := [...]string{"unknown", "down", "initializing", "armed", "active"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// MTU is a path MTU in its wire code: 1 for 256 bytes to 5 for 4096 (IBTA 12.7, path packet payload MTU). It bounds the
// payload of a packet, headers excluded.
type MTU uint8

// The path MTUs.
const (
	MTU256 MTU = iota + 1
	MTU512
	MTU1024
	MTU2048
	MTU4096
)

// Valid tells whether the code stands for an MTU.
func (m MTU) Valid() bool { return m >= MTU256 && m <= MTU4096 }

// Bytes is the MTU in bytes, 0 if the code is not valid.
func (m MTU) Bytes() int {
	if !m.Valid() {
		return 0
	}
	return 128 << m
}

// String is the MTU in bytes.
func (m MTU) String() string {
	if !m.Valid() {
		return fmt.Sprintf("MTU code %d", uint8(m))
	}
	return fmt.Sprintf("%d bytes", m.Bytes())
}

// ParseMTU returns the code for exactly n bytes. Errors wrap ErrRange.
func ParseMTU(n int) (MTU, error) {
	m := LargestMTU(n)
	if m.Bytes() != n || n == 0 {
		return 0, fmt.Errorf("path MTU of %d bytes: %w, it is one of 256, 512, 1024, 2048, 4096", n, ErrRange)
	}
	return m, nil
}

// LargestMTU returns the code of the largest MTU that n bytes can hold, 0 if n is below 256.
func LargestMTU(n int) MTU {
	m := MTU(0)
	for m < MTU4096 && 128<<(m+1) <= n {
		m++
	}
	return m
}
