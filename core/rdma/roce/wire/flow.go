package wire

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/gosrpt/gosrpt/core/ib"
)

// Flow computes and verifies the invariant CRC of packets that go in one direction between two UDP
// endpoints. It holds the CRC over what is constant: the 8 bytes of ones, the IP header and the UDP
// header. It is a small value; copy it freely. Make one per peer and direction.
//
// The CRC is CRC-32 (IEEE 802.3, reflected) over 8 bytes FF, the IP header, the UDP header and the
// packet up to the ICRC, with the fields that routers change replaced by ones: type of service,
// TTL and header checksum of IPv4; traffic class, flow label and hop limit of IPv6; the UDP
// checksum; byte 4 of the BTH. It is stored little-endian (IBTA annex A17).
//
// For IPv4 the header is taken to be 20 bytes with DF set. Its identification is covered. Packets
// sent by an unconnected UDP socket that never fragments have 0, and the i-th segment of a
// segmented send has i.
type Flow struct {
	base uint32 // CRC of the prefix with its length and identification fields zero
	v6   bool
}

// NewFlow makes the flow from src to dst. It is an IPv4 flow if both are IPv4-mapped.
func NewFlow(src, dst ib.GID, srcPort, dstPort uint16) Flow {
	var b [prefix6Size]byte
	if src.Is4() && dst.Is4() {
		return Flow{base: checksum(appendPrefix4(b[:0], src, dst, srcPort, dstPort))}
	}
	return Flow{base: checksum(appendPrefix6(b[:0], src, dst, srcPort, dstPort)), v6: true}
}

// Lengths of the CRC's prefix: 8 bytes of ones, IP header, UDP header.
const (
	prefix4Size = 8 + 20 + 8
	prefix6Size = 8 + 40 + 8
)

func appendPrefix4(b []byte, src, dst ib.GID, srcPort, dstPort uint16) []byte {
	b = binary.BigEndian.AppendUint64(b, ^uint64(0))
	b = append(b, 0x45, 0xFF, 0, 0, 0, 0, 0x40, 0, 0xFF, 17, 0xFF, 0xFF)
	b = append(b, src[12:]...)
	b = append(b, dst[12:]...)
	return appendUDP(b, srcPort, dstPort)
}

func appendPrefix6(b []byte, src, dst ib.GID, srcPort, dstPort uint16) []byte {
	b = binary.BigEndian.AppendUint64(b, ^uint64(0))
	b = append(b, 0x6F, 0xFF, 0xFF, 0xFF, 0, 0, 17, 0xFF)
	b = append(b, src[:]...)
	b = append(b, dst[:]...)
	return appendUDP(b, srcPort, dstPort)
}

func appendUDP(b []byte, srcPort, dstPort uint16) []byte {
	b = binary.BigEndian.AppendUint16(b, srcPort)
	b = binary.BigEndian.AppendUint16(b, dstPort)
	return append(b, 0, 0, 0xFF, 0xFF)
}

// prefix is the CRC before the BTH of a packet of n bytes, ICRC included. CRC is linear: the
// length and identification fields are xored into the constant part.
func (f Flow) prefix(n int, id uint16) uint32 {
	udp := uint16(n + 8)
	if f.v6 {
		return f.base ^ tables.len6.at(udp)
	}
	return f.base ^ tables.ipLen.at(udp+20) ^ tables.ipID.at(id) ^ tables.udpLen.at(udp)
}

// Sum is the ICRC of the packet whose bytes from BTH to padding are b. IPv6 ignores id. At least a BTH
// must be there. Byte 4 of b is changed and restored during the call.
func (f Flow) Sum(b []byte, id uint16) uint32 {
	crc := f.prefix(len(b)+ICRCSize, id)
	resv := b[4]
	b[4] = 0xFF
	crc = crc32.Update(crc, crc32.IEEETable, b)
	b[4] = resv
	return crc
}

// SumVec is Sum of a packet that lies in pieces, for sending payload from where it is. The first
// piece holds at least the BTH.
func (f Flow) SumVec(parts [][]byte, id uint16) uint32 {
	n := ICRCSize
	for _, part := range parts {
		n += len(part)
	}
	crc := f.prefix(n, id)
	head := parts[0]
	resv := head[4]
	head[4] = 0xFF
	for _, part := range parts {
		crc = crc32.Update(crc, crc32.IEEETable, part)
	}
	head[4] = resv
	return crc
}

// Seal appends the ICRC of dst[from:], which is a packet from BTH to padding.
func (f Flow) Seal(dst []byte, from int, id uint16) []byte {
	return binary.LittleEndian.AppendUint32(dst, f.Sum(dst[from:], id))
}

// Put writes the ICRC into the last 4 bytes of p, a packet that is complete but for them.
func (f Flow) Put(p []byte, id uint16) {
	end := len(p) - ICRCSize
	binary.LittleEndian.PutUint32(p[end:], f.Sum(p[:end], id))
}

// AppendICRC appends a sum in its wire order.
func AppendICRC(dst []byte, sum uint32) []byte { return binary.LittleEndian.AppendUint32(dst, sum) }

// ICRC is the packet's invariant CRC as it was received.
func (p Packet) ICRC() uint32 { return binary.LittleEndian.Uint32(p[len(p)-ICRCSize:]) }

// Verify tells whether the ICRC of a received packet is right.
//
// On IPv6 the check is of all 32 bits and id is 0. On IPv4 a UDP socket does not show the
// identification that the ICRC covers. So Verify finds the one identification that would make the
// ICRC right: the ICRC with identification 0 differs from the received one by a linear function of
// the 16 bits, which is inverted. A result with more than 16 bits means that the packet is
// damaged; id is the sender's identification otherwise. A damaged packet passes with a
// probability of about 2^-16, single-bit errors never do.
//
// p is changed during the call, and restored.
func (f Flow) Verify(p Packet) (id uint16, ok bool) {
	n := len(p) - ICRCSize
	diff := p.ICRC() ^ f.Sum(p[:n], 0)
	if f.v6 || diff == 0 {
		return 0, diff == 0
	}
	if n > MaxPacket {
		return 0, false
	}
	reg := mul(diff, tables.undo[n+afterID])
	return uint16(reg<<8 | reg>>8&0xFF), reg>>16 == 0
}
