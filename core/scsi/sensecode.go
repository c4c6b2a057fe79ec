package scsi

import "fmt"

// Key is a sense key (SPC-4 4.5.6).
type Key uint8

// The sense keys.
const (
	KeyNoSense        Key = 0x0
	KeyRecoveredError Key = 0x1
	KeyNotReady       Key = 0x2
	KeyMediumError    Key = 0x3
	KeyHardwareError  Key = 0x4
	KeyIllegalRequest Key = 0x5
	KeyUnitAttention  Key = 0x6
	KeyDataProtect    Key = 0x7
	KeyAbortedCommand Key = 0xB
	KeyMiscompare     Key = 0xE
)

// SenseCode is a sense key with its additional sense code and qualifier, as key<<16 | ASC<<8 | ASCQ.
type SenseCode uint32

// The codes in use (SPC-4 annex F.2).
const (
	NoSense SenseCode = 0x00_00_00
	// BecomingReady: the logical unit is in process of becoming ready.
	BecomingReady SenseCode = 0x02_04_01
	// WriteError: data could not be put on the medium.
	WriteError SenseCode = 0x03_0C_00
	// UnrecoveredReadError: data could not be had from the medium.
	UnrecoveredReadError SenseCode = 0x03_11_00
	// InternalTargetFailure: the fault is the target's own.
	InternalTargetFailure SenseCode = 0x04_44_00
	// InvalidFieldInIU: the command and what came with it do not fit together.
	InvalidFieldInIU SenseCode = 0x05_0E_03
	// ParameterListLengthError: the parameter list ends inside a structure.
	ParameterListLengthError SenseCode = 0x05_1A_00
	InvalidOpcode            SenseCode = 0x05_20_00
	LBAOutOfRange            SenseCode = 0x05_21_00
	InvalidFieldInCDB        SenseCode = 0x05_24_00
	LUNNotSupported          SenseCode = 0x05_25_00
	// InvalidFieldInParameters: the fault is in the parameter list, not in the CDB.
	InvalidFieldInParameters SenseCode = 0x05_26_00
	SavingNotSupported       SenseCode = 0x05_39_00
	InvalidMessage           SenseCode = 0x05_49_00
	PowerOn                  SenseCode = 0x06_29_00
	DeviceReset              SenseCode = 0x06_29_03
	NexusLossOccurred        SenseCode = 0x06_29_07
	ModeParametersChanged    SenseCode = 0x06_2A_01
	CapacityChanged          SenseCode = 0x06_2A_09
	// CommandsCleared: another initiator's CLEAR TASK SET ended commands of this one.
	CommandsCleared     SenseCode = 0x06_2F_00
	InquiryDataChanged  SenseCode = 0x06_3F_03
	ReportedLUNsChanged SenseCode = 0x06_3F_0E
	WriteProtected      SenseCode = 0x07_27_00
	// SpaceAllocationFailed: a thin store has no room left.
	SpaceAllocationFailed SenseCode = 0x07_27_07
	// CommandAborted is ABORTED COMMAND without more to say: the initiator retries.
	CommandAborted SenseCode = 0x0B_00_00
	// MiscompareDuringVerify: what is on the medium is not what the initiator expected.
	MiscompareDuringVerify SenseCode = 0x0E_1D_00
)

// MakeSenseCode puts a code together.
func MakeSenseCode(k Key, asc, ascq uint8) SenseCode {
	return SenseCode(k)<<16 | SenseCode(asc)<<8 | SenseCode(ascq)
}

// Key is the sense key.
func (c SenseCode) Key() Key { return Key(c >> 16 & 0x0F) }

// ASC is the additional sense code.
func (c SenseCode) ASC() uint8 { return uint8(c >> 8) }

// ASCQ is the additional sense code qualifier.
func (c SenseCode) ASCQ() uint8 { return uint8(c) }

// String is the form key/ASC/ASCQ in hexadecimal that operators and logs use.
func (c SenseCode) String() string {
	return fmt.Sprintf("%02X/%02X/%02X", uint8(c.Key()), c.ASC(), c.ASCQ())
}
