package srp

import (
	"encoding/binary"
	"fmt"
)

// TaskFunction is a task management function (r16a 6.10).
type TaskFunction uint8

// Task management functions.
const (
	FuncAbortTask    TaskFunction = 0x01
	FuncAbortTaskSet TaskFunction = 0x02
	FuncClearTaskSet TaskFunction = 0x04
	FuncLUNReset     TaskFunction = 0x08
	FuncTargetReset  TaskFunction = 0x20 // withdrawn
	FuncClearACA     TaskFunction = 0x40
)

var functionNames = map[TaskFunction]string{
	FuncAbortTask:    "ABORT TASK",
	FuncAbortTaskSet: "ABORT TASK SET",
	FuncClearTaskSet: "CLEAR TASK SET",
	FuncLUNReset:     "LOGICAL UNIT RESET",
	FuncTargetReset:  "TARGET RESET",
	FuncClearACA:     "CLEAR ACA",
}

// String returns the name SAM-5 gives the function.
func (f TaskFunction) String() string {
	if s, ok := functionNames[f]; ok {
		return s
	}
	return fmt.Sprintf("task management function %02xh", uint8(f))
}

// TskMgmt is an SRP_TSK_MGMT, a view of the received bytes.
type TskMgmt []byte

// ParseTskMgmt checks type and length of b, the bytes received for one unit.
func ParseTskMgmt(b []byte) (TskMgmt, error) {
	if err := fixed(b, OpTskMgmt, TskMgmtLen); err != nil {
		return nil, err
	}
	return TskMgmt(b), nil
}

// SolNot returns the solicited notification bits.
func (t TskMgmt) SolNot() byte { return t[1] }

// Tag returns the tag of this request.
func (t TskMgmt) Tag() Tag { return Tag(binary.BigEndian.Uint64(t[8:])) }

// LUN returns the logical unit addressed.
func (t TskMgmt) LUN() LUN { return LUN(t[20:28]) }

// Function returns the function wanted.
func (t TskMgmt) Function() TaskFunction { return TaskFunction(t[30]) }

// Managed returns the tag of the task to abort; FuncAbortTask only.
func (t TskMgmt) Managed() Tag { return Tag(binary.BigEndian.Uint64(t[32:])) }

// TskMgmtFields is what an initiator puts into an SRP_TSK_MGMT.
type TskMgmtFields struct {
	Tag      Tag
	LUN      LUN
	Function TaskFunction
	Managed  Tag
	SolNot   byte
}

// Append appends the 48 bytes of the unit.
func (f *TskMgmtFields) Append(b []byte) []byte {
	b = append(b, byte(OpTskMgmt), f.SolNot, 0, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(f.Tag))
	b = append(b, 0, 0, 0, 0)
	b = append(b, f.LUN[:]...)
	b = append(b, 0, 0, byte(f.Function), 0)
	b = binary.BigEndian.AppendUint64(b, uint64(f.Managed))
	return append(b, 0, 0, 0, 0, 0, 0, 0, 0)
}
