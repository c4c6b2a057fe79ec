package scsi

import "encoding/binary"

// Vital product data page codes (SPC-4 7.8, SBC-3 6.6).
const (
	VPDSupported       uint8 = 0x00
	VPDSerial          uint8 = 0x80
	VPDIdentification  uint8 = 0x83
	VPDExtended        uint8 = 0x86
	VPDBlockLimits     uint8 = 0xB0
	VPDCharacteristics uint8 = 0xB1
	VPDProvisioning    uint8 = 0xB2
)

// beginPage appends a page's header; endPage fills in its length once the page is whole.
func beginPage(b []byte, peripheral, page byte) []byte { return append(b, peripheral, page, 0, 0) }

func endPage(b []byte, start int) []byte {
	binary.BigEndian.PutUint16(b[start+2:], uint16(len(b)-start-4))
	return b
}

// AppendVPDSupported appends page 00h. The pages are given in ascending order.
func AppendVPDSupported(b []byte, peripheral byte, pages []uint8) []byte {
	start := len(b)
	b = beginPage(b, peripheral, VPDSupported)
	return endPage(append(b, pages...), start)
}

// AppendVPDSerial appends page 80h: the serial number as it is, without padding or NUL.
func AppendVPDSerial(b []byte, peripheral byte, serial string) []byte {
	start := len(b)
	b = beginPage(b, peripheral, VPDSerial)
	return endPage(append(b, serial...), start)
}

// Fields of a designation descriptor (SPC-4 7.8.6.1).
const (
	codeBinary = 0x01
	codeASCII  = 0x02

	designatorT10      = 0x01
	designatorEUI64    = 0x02
	designatorNAA      = 0x03
	designatorRelative = 0x04
	designatorGroup    = 0x05

	// portDesignator is PIV with the target port association.
	portDesignator = 0x80 | 0x10
	// protocolSRP is the protocol identifier of SRP in the upper half byte (SPC-4 table 477).
	protocolSRP = 0x40
)

// AppendVPDIdentification appends page 83h: the logical unit's NAA name and T10 vendor id, which are the
// same through every port, and the names of the port, which are left out if port is nil.
func AppendVPDIdentification(b []byte, peripheral byte, id *Identity, port *TargetPort) []byte {
	start := len(b)
	b = beginPage(b, peripheral, VPDIdentification)
	if !id.NAA.IsZero() {
		b = append(b, codeBinary, designatorNAA, 0, id.NAA.n)
		b = append(b, id.NAA.b[:id.NAA.n]...)
		b = append(b, codeASCII, designatorT10, 0, byte(8+16+len(id.Serial)))
		b = appendPadded(b, id.Vendor, 8)
		b = appendPadded(b, id.Product, 16)
		b = append(b, id.Serial...)
	}
	if port != nil {
		b = port.appendDesignators(b)
	}
	return endPage(b, start)
}

func (p *TargetPort) appendDesignators(b []byte) []byte {
	b = append(b, protocolSRP|codeBinary, portDesignator|designatorRelative, 0, 4, 0, 0)
	b = binary.BigEndian.AppendUint16(b, p.RelativeID)
	b = append(b, protocolSRP|codeBinary, portDesignator|designatorGroup, 0, 4, 0, 0)
	b = binary.BigEndian.AppendUint16(b, p.Group)
	b = append(b, protocolSRP|codeBinary, portDesignator|designatorEUI64, 0, byte(len(p.ID)))
	return append(b, p.ID[:]...)
}

// AppendVPDExtended appends page 86h: simple, ordered and head of queue tasks are supported, and
// volatileCache tells whether a power failure may lose writes that were not synchronized.
func AppendVPDExtended(b []byte, peripheral byte, volatileCache bool) []byte {
	start := len(b)
	b = beginPage(b, peripheral, VPDExtended)
	const headOrderedSimple = 0x07
	b = append(b, 0, headOrderedSimple, bit(volatileCache, 0x01))
	return endPage(appendZeros(b, start+64-len(b)), start)
}

// BlockLimits is page B0h. What is not here is 0: not supported, or no limit.
type BlockLimits struct {
	// Granularity is OPTIMAL TRANSFER LENGTH GRANULARITY in blocks.
	Granularity uint16
	// MaxTransfer is the longest transfer in blocks; a longer one is refused. 0 means no limit.
	MaxTransfer uint32
	// OptimalTransfer is the transfer length in blocks beyond which there may be a delay; 0 means not told.
	OptimalTransfer uint32
	// MaxCompareAndWrite is the longest COMPARE AND WRITE in blocks; 0 means that there is none.
	MaxCompareAndWrite uint8
	// MaxUnmap is how many blocks, and MaxUnmapDescriptors how many descriptors, an UNMAP may have; 0 means that there is none.
	MaxUnmap, MaxUnmapDescriptors uint32
	// UnmapGranularity is OPTIMAL UNMAP GRANULARITY in blocks, from LBA 0 on; 0 means not told.
	UnmapGranularity uint32
	// MaxWriteSame is the longest WRITE SAME in blocks; 0 means not told. One of no blocks, which goes to the end of the
	// medium, is held to it, too: WSNZ is 0.
	MaxWriteSame uint64
}

// AppendVPD appends page B0h in its SBC-3 length (SBC-3 6.6.4).
func (l BlockLimits) AppendVPD(b []byte, peripheral byte) []byte {
	start := len(b)
	b = append(beginPage(b, peripheral, VPDBlockLimits), 0, l.MaxCompareAndWrite)
	b = binary.BigEndian.AppendUint16(b, l.Granularity)
	b = binary.BigEndian.AppendUint32(b, l.MaxTransfer)
	b = binary.BigEndian.AppendUint32(b, l.OptimalTransfer)
	b = append(b, 0, 0, 0, 0) // no PRE-FETCH
	b = binary.BigEndian.AppendUint32(b, l.MaxUnmap)
	b = binary.BigEndian.AppendUint32(b, l.MaxUnmapDescriptors)
	b = binary.BigEndian.AppendUint32(b, l.UnmapGranularity)
	const ugavalid = 0x80
	b = append(b, bit(l.UnmapGranularity != 0, ugavalid), 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, l.MaxWriteSame)
	return endPage(appendZeros(b, start+64-len(b)), start)
}

// AppendVPDCharacteristics appends page B1h. Rotation is the nominal medium rotation rate: 0 not
// told, 1 a medium that does not rotate, else revolutions a minute (SBC-3 6.6.2).
func AppendVPDCharacteristics(b []byte, peripheral byte, rotation uint16) []byte {
	start := len(b)
	b = beginPage(b, peripheral, VPDCharacteristics)
	b = binary.BigEndian.AppendUint16(b, rotation)
	return endPage(appendZeros(b, start+64-len(b)), start)
}

// Provisioning is page B2h; the zero value is a fully provisioned unit.
type Provisioning struct {
	// Thin tells that UNMAP, and the UNMAP bit of WRITE SAME, give blocks back.
	Thin bool
	// UnmapZeroes tells that what was given back reads as zeroes.
	UnmapZeroes bool
}

// AppendVPD appends page B2h (SBC-3 6.6.5). Nothing can be anchored.
func (p Provisioning) AppendVPD(b []byte, peripheral byte) []byte {
	const (
		byAll  = 0x80 | 0x40 | 0x20 // LBPU, LBPWS, LBPWS10
		zeroes = 0x04
		thin   = 0x02
	)
	start := len(b)
	b = append(beginPage(b, peripheral, VPDProvisioning), 0,
		bit(p.Thin, byAll)|bit(p.UnmapZeroes, zeroes), bit(p.Thin, thin), 0)
	return endPage(b, start)
}

func bit(set bool, value byte) byte {
	if set {
		return value
	}
	return 0
}
