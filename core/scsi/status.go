package scsi

import "fmt"

// Status is a SCSI status code (SAM-5 5.3.1).
type Status uint8

// The status codes.
const (
	StatusGood                Status = 0x00
	StatusCheckCondition      Status = 0x02
	StatusConditionMet        Status = 0x04
	StatusBusy                Status = 0x08
	StatusReservationConflict Status = 0x18
	StatusTaskSetFull         Status = 0x28
	StatusACAActive           Status = 0x30
	StatusTaskAborted         Status = 0x40
)

// String names the status as SAM-5 does.
func (s Status) String() string {
	switch s {
	case StatusGood:
		return "GOOD"
	case StatusCheckCondition:
		return "CHECK CONDITION"
	case StatusConditionMet:
		return "CONDITION MET"
	case StatusBusy:
		return "BUSY"
	case StatusReservationConflict:
		return "RESERVATION CONFLICT"
	case StatusTaskSetFull:
		return "TASK SET FULL"
	case StatusACAActive:
		return "ACA ACTIVE"
	case StatusTaskAborted:
		return "TASK ABORTED"
	}
	return fmt.Sprintf("status %02Xh", uint8(s))
}

// Attr is a task attribute as SRP and SAM-5 encode it.
type Attr uint8

// The task attributes (SAM-5 8.6; SRP r16a 6.8).
const (
	AttrSimple      Attr = 0
	AttrHeadOfQueue Attr = 1
	AttrOrdered     Attr = 2
	AttrACA         Attr = 4
)
