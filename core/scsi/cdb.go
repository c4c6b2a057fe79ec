package scsi

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sentinels that the package's errors wrap.
var (
	// ErrShort: bytes end before the structure does.
	ErrShort = errors.New("too short")
	// ErrRange: a value is outside what the standard or the field allows.
	ErrRange = errors.New("out of range")
	// ErrSyntax: a text is no valid form of the value.
	ErrSyntax = errors.New("invalid syntax")
)

// MaxCDB is the longest CDB with a fixed length, in bytes.
const MaxCDB = 16

// CDB is a view of a command descriptor block of 6, 10, 12 or 16 bytes (SPC-4 4.3).
type CDB []byte

// ParseCDB returns the CDB at the start of b, whose length the group code fixes. Errors wrap
// ErrShort, or ErrRange for an opcode whose group does not fix a length.
func ParseCDB(b []byte) (CDB, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("CDB of 0 bytes: %w", ErrShort)
	}
	n := Opcode(b[0]).CDBSize()
	if n == 0 {
		return nil, fmt.Errorf("%v has no fixed CDB length: %w", Opcode(b[0]), ErrRange)
	}
	if len(b) < n {
		return nil, fmt.Errorf("%v in %d of %d bytes: %w", Opcode(b[0]), len(b), n, ErrShort)
	}
	return CDB(b[:n]), nil
}

// Opcode is byte 0.
func (c CDB) Opcode() Opcode { return Opcode(c[0]) }

// ServiceAction is bits 4 to 0 of byte 1.
func (c CDB) ServiceAction() uint8 { return c[1] & 0x1F }

// Control is the CONTROL byte, the last one (SAM-5 5.2).
func (c CDB) Control() uint8 { return c[len(c)-1] }

// Extent is a run of logical blocks.
type Extent struct {
	// LBA is the first logical block address.
	LBA uint64
	// Blocks is the number of logical blocks.
	Blocks uint64
}

// Within tells whether the extent lies in a medium of capacity blocks. An empty extent may start at
// the end: it is the last block, LBA plus length, that must exist (SBC-3 5.8).
func (e Extent) Within(capacity uint64) bool {
	return e.Blocks <= capacity && e.LBA <= capacity-e.Blocks
}

// Extent is the LOGICAL BLOCK ADDRESS and the length field of a READ, WRITE, WRITE SAME, COMPARE AND WRITE or
// SYNCHRONIZE CACHE CDB (SBC-3 5.2 to 5.44). A length of 0 in the 6-byte CDBs means 256 blocks.
func (c CDB) Extent() Extent {
	switch len(c) {
	case 6:
		e := Extent{LBA: uint64(binary.BigEndian.Uint32(c[0:4]) & 0x1FFFFF), Blocks: uint64(c[4])}
		if e.Blocks == 0 {
			e.Blocks = 256
		}
		return e
	case 10:
		return Extent{uint64(binary.BigEndian.Uint32(c[2:6])), uint64(binary.BigEndian.Uint16(c[7:9]))}
	case 12:
		return Extent{uint64(binary.BigEndian.Uint32(c[2:6])), uint64(binary.BigEndian.Uint32(c[6:10]))}
	default:
		e := Extent{binary.BigEndian.Uint64(c[2:10]), uint64(binary.BigEndian.Uint32(c[10:14]))}
		if c.Opcode() == OpCompareAndWrite {
			e.Blocks = uint64(c[13])
		}
		return e
	}
}

// LengthByte is the offset of the first byte of the field that Extent.Blocks comes from.
func (c CDB) LengthByte() uint16 {
	switch {
	case len(c) == 6:
		return 4
	case len(c) == 10:
		return 7
	case len(c) == 12:
		return 6
	case c.Opcode() == OpCompareAndWrite:
		return 13
	default:
		return 10
	}
}

// LBAByte is the offset of the first byte of the LOGICAL BLOCK ADDRESS field.
func (c CDB) LBAByte() uint16 {
	if len(c) == 6 {
		return 1
	}
	return 2
}

// Bits of byte 1 of READ and WRITE CDBs of 10 bytes and more (SBC-3 5.8).
const (
	// FlagFUA is FORCE UNIT ACCESS.
	FlagFUA = 0x08
	// FlagDPO is DISABLE PAGE OUT.
	FlagDPO = 0x10
	// FlagIMMED in byte 1 of SYNCHRONIZE CACHE asks for the status before the work is done.
	FlagIMMED = 0x02
	// FlagUNMAP in byte 1 of WRITE SAME permits to unmap instead of writing zeroes (SBC-3 5.42).
	FlagUNMAP = 0x08
	// FlagNDOB in byte 1 of WRITE SAME(16) tells that there is no data-out buffer: the block is zeroes (SBC-3 5.43).
	FlagNDOB = 0x01
)

// FUA tells whether a READ, WRITE or COMPARE AND WRITE CDB asks for the medium itself; READ(6) and WRITE(6) cannot.
func (c CDB) FUA() bool { return len(c) > 6 && c[1]&FlagFUA != 0 }

// MayUnmap tells whether a WRITE SAME CDB has the UNMAP bit.
func (c CDB) MayUnmap() bool { return c[1]&FlagUNMAP != 0 }

// NoData tells whether a WRITE SAME CDB comes without a block; WRITE SAME(10) cannot.
func (c CDB) NoData() bool { return c.Opcode() == OpWriteSame16 && c[1]&FlagNDOB != 0 }

// ParameterListLength is the PARAMETER LIST LENGTH of an UNMAP CDB in bytes (SBC-3 5.28).
func (c CDB) ParameterListLength() uint64 { return uint64(binary.BigEndian.Uint16(c[7:9])) }

// AllocationLength is how many bytes of parameter data the CDB allows, for the commands of this
// package that have such a field; 0 for the others.
func (c CDB) AllocationLength() uint64 {
	switch c.Opcode() {
	case OpRequestSense, OpModeSense6:
		return uint64(c[4])
	case OpInquiry:
		return uint64(binary.BigEndian.Uint16(c[3:5]))
	case OpModeSense10:
		return uint64(binary.BigEndian.Uint16(c[7:9]))
	case OpReportLUNs, OpMaintenanceIn:
		return uint64(binary.BigEndian.Uint32(c[6:10]))
	case OpServiceActionIn16:
		return uint64(binary.BigEndian.Uint32(c[10:14]))
	case OpReadCapacity10:
		return capacity10Size
	}
	return 0
}
