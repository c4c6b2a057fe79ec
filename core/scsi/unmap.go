package scsi

import "encoding/binary"

// Sizes in an UNMAP parameter list (SBC-3 5.28.2).
const (
	unmapHeaderSize     = 8
	unmapDescriptorSize = 16
)

// UnmapList is a view of an UNMAP parameter list.
type UnmapList []byte

// ParseUnmap returns the parameter list b and how many block descriptors it has, or the sense that refuses it. UNMAP DATA
// LENGTH tells nothing that UNMAP BLOCK DESCRIPTOR DATA LENGTH does not, and is not looked at. A descriptor of
// which the latter leaves out a part is none.
//
// Descriptors beyond the list's end are an error. The Linux kernel's target leaves them out and answers GOOD, so that the
// initiator takes for unmapped what is not.
func ParseUnmap(b []byte) (list UnmapList, descriptors int, sense Sense) {
	if len(b) < unmapHeaderSize {
		return nil, 0, Sense{Code: ParameterListLengthError}
	}
	n := int(binary.BigEndian.Uint16(b[2:4]))
	if n > len(b)-unmapHeaderSize {
		return nil, 0, Sense{Code: ParameterListLengthError}
	}
	return UnmapList(b), n / unmapDescriptorSize, Sense{}
}

// At is the extent of descriptor i, which is one of those that ParseUnmap counted.
func (l UnmapList) At(i int) Extent {
	d := l[unmapHeaderSize+i*unmapDescriptorSize:]
	return Extent{LBA: binary.BigEndian.Uint64(d[0:8]), Blocks: uint64(binary.BigEndian.Uint32(d[8:12]))}
}

// UnmapCountByte is the offset of UNMAP BLOCK DESCRIPTOR DATA LENGTH.
const UnmapCountByte = 2

// UnmapBlocksByte is the offset of NUMBER OF LOGICAL BLOCKS in descriptor i.
func UnmapBlocksByte(i int) uint16 { return uint16(unmapHeaderSize + i*unmapDescriptorSize + 8) }

// AppendUnmapList appends an UNMAP parameter list, as an initiator builds it, of at most 4095 extents.
func AppendUnmapList(b []byte, extents ...Extent) []byte {
	n := uint16(len(extents) * unmapDescriptorSize)
	b = binary.BigEndian.AppendUint16(b, n+unmapHeaderSize-2)
	b = binary.BigEndian.AppendUint16(b, n)
	b = append(b, 0, 0, 0, 0)
	for _, e := range extents {
		b = binary.BigEndian.AppendUint64(b, e.LBA)
		b = binary.BigEndian.AppendUint32(b, uint32(e.Blocks))
		b = append(b, 0, 0, 0, 0)
	}
	return b
}
