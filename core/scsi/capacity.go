package scsi

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

const (
	capacity10Size = 8
	capacity16Size = 32
)

// Bits of byte 14 of READ CAPACITY(16) data.
const (
	lbpme = 0x80
	lbprz = 0x40
)

// Capacity is what READ CAPACITY tells.
type Capacity struct {
	// Blocks is the number of logical blocks, at least 1.
	Blocks uint64
	// BlockSize is the logical block size in bytes.
	BlockSize uint32
	// PhysicalBlockSize is a power of two multiple of BlockSize, in bytes; 0 means BlockSize.
	PhysicalBlockSize uint32
	// Thin tells that blocks can be unmapped (LBPME), and UnmapZeroes that they then read as zeroes (LBPRZ).
	Thin, UnmapZeroes bool
}

// Append10 appends READ CAPACITY(10) parameter data (SBC-3 5.15.2). A last LBA that needs more than
// 32 bits is told as FFFFFFFFh, which sends the initiator to READ CAPACITY(16).
func (c Capacity) Append10(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(min(c.Blocks-1, math.MaxUint32)))
	return binary.BigEndian.AppendUint32(b, c.BlockSize)
}

// Append16 appends READ CAPACITY(16) parameter data (SBC-3 5.16.2): no protection information, lowest aligned LBA 0.
func (c Capacity) Append16(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, c.Blocks-1)
	b = binary.BigEndian.AppendUint32(b, c.BlockSize)
	b = append(b, 0, c.exponent(), bit(c.Thin, lbpme)|bit(c.UnmapZeroes, lbprz))
	var rest [capacity16Size - 15]byte
	return append(b, rest[:]...)
}

// exponent is LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT.
func (c Capacity) exponent() byte {
	if c.BlockSize == 0 || c.PhysicalBlockSize <= c.BlockSize {
		return 0
	}
	return byte(bits.Len32(c.PhysicalBlockSize/c.BlockSize)-1) & 0x0F
}

// ParseCapacity10 reads READ CAPACITY(10) data. Blocks is 1<<32 if the device says that it has more
// than fit; errors wrap ErrShort.
func ParseCapacity10(b []byte) (Capacity, error) {
	if len(b) < capacity10Size {
		return Capacity{}, fmt.Errorf("READ CAPACITY(10) data of %d bytes: %w", len(b), ErrShort)
	}
	return Capacity{
		Blocks:    uint64(binary.BigEndian.Uint32(b[0:4])) + 1,
		BlockSize: binary.BigEndian.Uint32(b[4:8]),
	}, nil
}

// ParseCapacity16 reads READ CAPACITY(16) data of 14 bytes or more. Errors wrap ErrShort or
// ErrRange.
func ParseCapacity16(b []byte) (Capacity, error) {
	if len(b) < 14 {
		return Capacity{}, fmt.Errorf("READ CAPACITY(16) data of %d bytes: %w", len(b), ErrShort)
	}
	last := binary.BigEndian.Uint64(b[0:8])
	if last == math.MaxUint64 {
		return Capacity{}, fmt.Errorf("last LBA %Xh: %w", last, ErrRange)
	}
	c := Capacity{Blocks: last + 1, BlockSize: binary.BigEndian.Uint32(b[8:12])}
	c.PhysicalBlockSize = c.BlockSize << (b[13] & 0x0F)
	if len(b) > 14 {
		c.Thin, c.UnmapZeroes = b[14]&lbpme != 0, b[14]&lbprz != 0
	}
	return c, nil
}
