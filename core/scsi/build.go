package scsi

import "encoding/binary"

// The initiator's side: CDBs as an initiator builds them. Each function appends one CDB to b.

// AppendTransfer6 appends READ(6) or WRITE(6). Only the low 21 bits of the LBA fit, and 256 blocks are written as 0.
func AppendTransfer6(b []byte, op Opcode, e Extent) []byte {
	return append(b, byte(op), byte(e.LBA>>16)&0x1F, byte(e.LBA>>8), byte(e.LBA), byte(e.Blocks), 0)
}

// AppendTransfer10 appends READ(10), WRITE(10), WRITE SAME(10) or SYNCHRONIZE CACHE(10) with flags as byte 1.
func AppendTransfer10(b []byte, op Opcode, e Extent, flags byte) []byte {
	b = append(b, byte(op), flags)
	b = binary.BigEndian.AppendUint32(b, uint32(e.LBA))
	b = append(b, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(e.Blocks))
	return append(b, 0)
}

// AppendTransfer12 appends READ(12) or WRITE(12) with flags as byte 1.
func AppendTransfer12(b []byte, op Opcode, e Extent, flags byte) []byte {
	b = append(b, byte(op), flags)
	b = binary.BigEndian.AppendUint32(b, uint32(e.LBA))
	b = binary.BigEndian.AppendUint32(b, uint32(e.Blocks))
	return append(b, 0, 0)
}

// AppendTransfer16 appends READ(16), WRITE(16), WRITE SAME(16) or SYNCHRONIZE CACHE(16) with flags as byte 1.
func AppendTransfer16(b []byte, op Opcode, e Extent, flags byte) []byte {
	b = append(b, byte(op), flags)
	b = binary.BigEndian.AppendUint64(b, e.LBA)
	b = binary.BigEndian.AppendUint32(b, uint32(e.Blocks))
	return append(b, 0, 0)
}

// AppendCompareAndWrite appends COMPARE AND WRITE, of at most 255 blocks, with flags as byte 1.
func AppendCompareAndWrite(b []byte, e Extent, flags byte) []byte {
	b = append(b, byte(OpCompareAndWrite), flags)
	b = binary.BigEndian.AppendUint64(b, e.LBA)
	return append(b, 0, 0, 0, byte(e.Blocks), 0, 0)
}

// AppendUnmap appends UNMAP with a parameter list of n bytes.
func AppendUnmap(b []byte, n uint16) []byte {
	return append(b, byte(OpUnmap), 0, 0, 0, 0, 0, 0, byte(n>>8), byte(n), 0)
}

// AppendInquiry appends INQUIRY for the standard data.
func AppendInquiry(b []byte, alloc uint16) []byte {
	return append(b, byte(OpInquiry), 0, 0, byte(alloc>>8), byte(alloc), 0)
}

// AppendInquiryVPD appends INQUIRY for one vital product data page.
func AppendInquiryVPD(b []byte, page uint8, alloc uint16) []byte {
	return append(b, byte(OpInquiry), 1, page, byte(alloc>>8), byte(alloc), 0)
}

// AppendTestUnitReady appends TEST UNIT READY.
func AppendTestUnitReady(b []byte) []byte { return append(b, 0, 0, 0, 0, 0, 0) }

// AppendRequestSense appends REQUEST SENSE for the fixed format.
func AppendRequestSense(b []byte, alloc uint8) []byte {
	return append(b, byte(OpRequestSense), 0, 0, 0, alloc, 0)
}

// AppendReadCapacity10 appends READ CAPACITY(10).
func AppendReadCapacity10(b []byte) []byte {
	return append(b, byte(OpReadCapacity10), 0, 0, 0, 0, 0, 0, 0, 0, 0)
}

// AppendReadCapacity16 appends READ CAPACITY(16).
func AppendReadCapacity16(b []byte, alloc uint32) []byte {
	b = append(b, byte(OpServiceActionIn16), SAReadCapacity16, 0, 0, 0, 0, 0, 0, 0, 0)
	return append(binary.BigEndian.AppendUint32(b, alloc), 0, 0)
}

// AppendModeSense6 appends MODE SENSE(6) for the current values of a page.
func AppendModeSense6(b []byte, page, subpage, alloc uint8) []byte {
	return append(b, byte(OpModeSense6), 0, page&0x3F, subpage, alloc, 0)
}

// AppendReportLUNs appends REPORT LUNS.
func AppendReportLUNs(b []byte, report uint8, alloc uint32) []byte {
	b = append(b, byte(OpReportLUNs), 0, report, 0, 0, 0)
	return append(binary.BigEndian.AppendUint32(b, alloc), 0, 0)
}

// AppendReportOperations appends REPORT SUPPORTED OPERATION CODES. Options is byte 2: RCTD and
// the reporting options.
func AppendReportOperations(b []byte, options uint8, op Opcode, sa uint16, alloc uint32) []byte {
	b = append(b, byte(OpMaintenanceIn), SAReportOperations, options, byte(op))
	b = binary.BigEndian.AppendUint16(b, sa)
	return append(binary.BigEndian.AppendUint32(b, alloc), 0, 0)
}
