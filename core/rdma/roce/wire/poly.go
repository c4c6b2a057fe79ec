package wire

import "hash/crc32"

// The CRC register is a polynomial over GF(2) modulo the CRC's, reflected: bit 31 is x^0.
// One zero byte of message multiplies it by x^8.

// afterID is how many bytes the undo of Verify covers besides the packet: the 2 of the IPv4
// identification, 14 to the end of the IP header, 8 of the UDP header.
const afterID = 2 + 14 + 8

// byteTables maps a 16-bit big-endian field to what it adds to the CRC at the end of the prefix.
type byteTables struct{ hi, lo [256]uint32 }

func (t *byteTables) at(v uint16) uint32 { return t.hi[v>>8] ^ t.lo[v&0xFF] }

// tables is constant.
var tables = makeTables()

type crcTables struct {
	ipLen, ipID, udpLen byteTables // IPv4
	len6                byteTables // IPv6: payload length and UDP length, always equal
	// undo[k] is x^-8k: multiplying by it takes k zero bytes back out of a register.
	undo [MaxPacket + afterID + 1]uint32
}

func makeTables() *crcTables {
	t := new(crcTables)
	t.ipLen.add(prefix4Size - 8 - 2)
	t.ipID.add(prefix4Size - 8 - 4)
	t.udpLen.add(8 - 4)
	t.len6.add(prefix6Size - 8 - 4)
	t.len6.add(8 - 4)
	t.undo[0] = 1 << 31
	t.undo[1] = undoByte(t.undo[0])
	for k := 2; k < len(t.undo); k++ {
		t.undo[k] = mul(t.undo[k-1], t.undo[1])
	}
	return t
}

// add puts in a field whose first byte is left bytes before the end of the prefix.
func (t *byteTables) add(left int) {
	for v := range 256 {
		t.hi[v] ^= zeroBytes(crc32.IEEETable[v], left-1)
		t.lo[v] ^= zeroBytes(crc32.IEEETable[v], left-2)
	}
}

// zeroBytes runs n zero bytes of message through the register.
func zeroBytes(reg uint32, n int) uint32 {
	for range n {
		reg = reg>>8 ^ crc32.IEEETable[reg&0xFF]
	}
	return reg
}

// undoByte takes one zero byte of message back. The entries of the CRC table differ in their top
// bytes, so the one that was used is known.
func undoByte(reg uint32) uint32 {
	for i, e := range crc32.IEEETable {
		if e>>24 == reg>>24 {
			return (reg^e)<<8 | uint32(i)
		}
	}
	panic("wire: the CRC table is not a permutation in its top byte")
}

// mul multiplies two registers modulo the CRC's polynomial. Four chains, one for each byte of a,
// run side by side.
func mul(a, b0 uint32) (p uint32) {
	b1 := zeroBytes(b0, 1)
	b2 := zeroBytes(b1, 1)
	b3 := zeroBytes(b2, 1)
	for range 8 {
		p ^= b0&bit(a, 31) ^ b1&bit(a, 23) ^ b2&bit(a, 15) ^ b3&bit(a, 7)
		a <<= 1
		b0, b1, b2, b3 = timesX(b0), timesX(b1), timesX(b2), timesX(b3)
	}
	return p
}

// bit spreads bit n of a over a word.
func bit(a uint32, n int) uint32 { return -(a >> n & 1) }

func timesX(reg uint32) uint32 { return reg>>1 ^ crc32.IEEE&-(reg&1) }

// checksum is crc32.ChecksumIEEE for short input on the stack: it keeps b from escaping.
func checksum(b []byte) uint32 {
	reg := ^uint32(0)
	for _, v := range b {
		reg = reg>>8 ^ crc32.IEEETable[byte(reg)^v]
	}
	return ^reg
}
