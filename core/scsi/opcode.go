package scsi

import "fmt"

// Opcode is the first byte of a CDB.
type Opcode uint8

// The operation codes that this package has bytes for (SPC-4 table, SBC-3 table 33).
const (
	OpTestUnitReady      Opcode = 0x00
	OpRequestSense       Opcode = 0x03
	OpRead6              Opcode = 0x08
	OpWrite6             Opcode = 0x0A
	OpInquiry            Opcode = 0x12
	OpModeSense6         Opcode = 0x1A
	OpReadCapacity10     Opcode = 0x25
	OpRead10             Opcode = 0x28
	OpWrite10            Opcode = 0x2A
	OpSynchronizeCache10 Opcode = 0x35
	OpWriteSame10        Opcode = 0x41
	OpUnmap              Opcode = 0x42
	OpModeSense10        Opcode = 0x5A
	OpRead16             Opcode = 0x88
	OpCompareAndWrite    Opcode = 0x89
	OpWrite16            Opcode = 0x8A
	OpSynchronizeCache16 Opcode = 0x91
	OpWriteSame16        Opcode = 0x93
	OpServiceActionIn16  Opcode = 0x9E
	OpReportLUNs         Opcode = 0xA0
	OpMaintenanceIn      Opcode = 0xA3
	OpRead12             Opcode = 0xA8
	OpWrite12            Opcode = 0xAA
)

// The service actions of OpServiceActionIn16 and OpMaintenanceIn.
const (
	SAReadCapacity16   = 0x10
	SAReportOperations = 0x0C
)

// String names the command; an unknown code is shown in hexadecimal.
func (o Opcode) String() string {
	if name, ok := opcodeNames[o]; ok {
		return name
	}
	return fmt.Sprintf("opcode %02Xh", uint8(o))
}

var opcodeNames = map[Opcode]string{
	OpTestUnitReady:      "TEST UNIT READY",
	OpRequestSense:       "REQUEST SENSE",
	OpRead6:              "READ(6)",
	OpWrite6:             "WRITE(6)",
	OpInquiry:            "INQUIRY",
	OpModeSense6:         "MODE SENSE(6)",
	OpReadCapacity10:     "READ CAPACITY(10)",
	OpRead10:             "READ(10)",
	OpWrite10:            "WRITE(10)",
	OpSynchronizeCache10: "SYNCHRONIZE CACHE(10)",
	OpWriteSame10:        "WRITE SAME(10)",
	OpUnmap:              "UNMAP",
	OpModeSense10:        "MODE SENSE(10)",
	OpRead16:             "READ(16)",
	OpCompareAndWrite:    "COMPARE AND WRITE",
	OpWrite16:            "WRITE(16)",
	OpSynchronizeCache16: "SYNCHRONIZE CACHE(16)",
	OpWriteSame16:        "WRITE SAME(16)",
	OpServiceActionIn16:  "SERVICE ACTION IN(16)",
	OpReportLUNs:         "REPORT LUNS",
	OpMaintenanceIn:      "MAINTENANCE IN",
	OpRead12:             "READ(12)",
	OpWrite12:            "WRITE(12)",
}

// CDBSize is the length that the group code in the opcode's three upper bits fixes (SPC-4 table
// 25), or 0 where it does not: variable length, reserved and vendor specific codes.
func (o Opcode) CDBSize() int {
	switch o >> 5 {
	case 0:
		return 6
	case 1, 2:
		return 10
	case 4:
		return 16
	case 5:
		return 12
	}
	return 0
}

// HasServiceAction tells whether bits 4 to 0 of byte 1 are a service action. It knows the codes
// that SPC-4 and SBC-3 give service actions to, whether or not anything here implements them.
func (o Opcode) HasServiceAction() bool {
	switch o {
	case 0x3B, 0x3C, 0x5E, 0x5F, 0x7F, 0x83, 0x84, 0x9B, 0x9D, 0x9E, 0x9F, 0xA3, 0xA4, 0xA9, 0xAB:
		return true
	}
	return false
}
