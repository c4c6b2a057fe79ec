package scsi

import "encoding/binary"

// WellKnownReportLUNs is the LUN field of the REPORT LUNS well known logical unit (SAM-5 4.7.7).
const WellKnownReportLUNs uint64 = 0xC101_0000_0000_0000

// MaxLUN is the greatest LUN that flat space addressing holds.
const MaxLUN = 1<<14 - 1

// EncodeLUN is the 8-byte LUN field of n as a big-endian number: peripheral device addressing up
// to 255, flat space addressing from 256 to MaxLUN (SAM-5 4.7.6). Greater values are cut.
func EncodeLUN(n uint16) uint64 {
	if n < 256 {
		return uint64(n) << 48
	}
	return uint64(n&MaxLUN|0x4000) << 48
}

// DecodeLUN is the number that a LUN field addresses, in either form, and whether it is a single-level
// one. A well known LUN is not.
func DecodeLUN(field uint64) (uint16, bool) {
	first := uint16(field >> 48)
	if field<<16 != 0 || first >= 0x8000 {
		return 0, false
	}
	if first < 0x4000 {
		return first, first < 256
	}
	return first & MaxLUN, true
}

// Select report values of REPORT LUNS (SPC-4 6.33).
const (
	// ReportAddressable lists all but the well known logical units.
	ReportAddressable = 0x00
	// ReportWellKnown lists well known logical units only.
	ReportWellKnown = 0x01
	// ReportAll lists both.
	ReportAll = 0x02
)

// AppendLUNList appends REPORT LUNS parameter data that lists the LUN fields.
func AppendLUNList(b []byte, luns []uint64) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(8*len(luns)))
	b = append(b, 0, 0, 0, 0)
	for _, l := range luns {
		b = binary.BigEndian.AppendUint64(b, l)
	}
	return b
}

// LUNListSize is the length of AppendLUNList's data for n LUNs, in bytes.
func LUNListSize(n int) uint64 { return 8 + 8*uint64(n) }
