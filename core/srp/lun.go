package srp

import (
	"encoding/binary"
	"encoding/hex"
)

// LUN is the 8-byte logical unit number of SAM-5 4.7.
type LUN [8]byte

// LUNKind is how a LUN addresses.
type LUNKind uint8

// Kinds of LUN.
const (
	LUNInvalid    LUNKind = iota // names no logical unit a target can have
	LUNUnit                      // a logical unit, by peripheral or flat addressing
	LUNReportLUNs                // the REPORT LUNS well-known logical unit, C1 01
)

// MaxLUN is the largest number flat space addressing holds.
const MaxLUN = 1<<14 - 1

const (
	lunMethodShift = 6
	lunPeripheral  = 0
	lunFlat        = 1
	lunNumberMask  = 0x3f
)

// MakeLUN encodes n the way REPORT LUNS should: peripheral addressing below
// 256, flat space addressing above. ok is false if n exceeds MaxLUN.
func MakeLUN(n uint32) (l LUN, ok bool) {
	if n > MaxLUN {
		return LUN{}, false
	}
	if n > 0xff {
		l[0] = lunFlat<<lunMethodShift | byte(n>>8)
	}
	l[1] = byte(n)
	return l, true
}

// ReportLUNs returns the REPORT LUNS well-known logical unit number.
func ReportLUNs() LUN { return LUN{0xc1, 0x01} }

// Decode returns the number and the kind. Peripheral addressing of a bus other
// than 0, other address methods and any byte set beyond the first level make
// the kind LUNInvalid.
func (l LUN) Decode() (n uint32, k LUNKind) {
	if binary.BigEndian.Uint64(l[:])<<16 != 0 {
		return 0, LUNInvalid
	}
	switch {
	case l[0] == lunPeripheral:
		return uint32(l[1]), LUNUnit
	case l[0]>>lunMethodShift == lunFlat:
		return uint32(l[0]&lunNumberMask)<<8 | uint32(l[1]), LUNUnit
	case l == ReportLUNs():
		return 0, LUNReportLUNs
	}
	return 0, LUNInvalid
}

// String returns the sixteen hexadecimal digits.
func (l LUN) String() string { return hex.EncodeToString(l[:]) }
