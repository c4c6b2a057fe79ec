package scsi

import "encoding/binary"

// The first byte of INQUIRY data: peripheral qualifier and device type (SPC-4 6.4.2).
const (
	// PeripheralDisk is a direct-access block device that is there.
	PeripheralDisk byte = 0x00
	// PeripheralWellKnown is a well known logical unit.
	PeripheralWellKnown byte = 0x1E
	// PeripheralNone says that no logical unit can be at this LUN.
	PeripheralNone byte = 0x7F
)

// inquirySize is the length of standard INQUIRY data here, version descriptors included.
const inquirySize = 96

// Version descriptors (SPC-4 table 142).
const (
	versionSAM5 = 0x00A0
	versionSRP  = 0x0940
	versionSPC4 = 0x0460
	versionSBC3 = 0x04C0
)

// AppendStandardInquiry appends standard INQUIRY data: SPC-4, hierarchical LUNs, several ports,
// command queuing, no target port group support, no protection information.
func AppendStandardInquiry(b []byte, peripheral byte, id *Identity) []byte {
	start := len(b)
	const (
		spc4       = 0x06
		hisup      = 0x10
		format2    = 0x02
		multiPort  = 0x10
		cmdQueuing = 0x02
	)
	b = append(b, peripheral, 0, spc4, hisup|format2, inquirySize-5, 0, multiPort, cmdQueuing)
	b = appendPadded(b, id.Vendor, 8)
	b = appendPadded(b, id.Product, 16)
	b = appendPadded(b, id.Revision, 4)
	b = appendZeros(b, 58-36)
	for _, v := range [...]uint16{versionSAM5, versionSRP, versionSPC4} {
		b = binary.BigEndian.AppendUint16(b, v)
	}
	if peripheral == PeripheralDisk {
		b = binary.BigEndian.AppendUint16(b, versionSBC3)
	}
	return appendZeros(b, start+inquirySize-len(b))
}

func appendZeros(b []byte, n int) []byte {
	for range n {
		b = append(b, 0)
	}
	return b
}
