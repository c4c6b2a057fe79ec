package lu

import (
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// outcome is what an initiator is told when a store ends a request with a code other than CodeOK. It is the only
// place that decides it. What a retry can help with is BUSY, NOT READY or ABORTED COMMAND, which
// initiators retry; MEDIUM ERROR is only said when the store says that the medium failed.
func outcome(op backstore.Op, code backstore.Code) (scsi.Status, scsi.SenseCode) {
	switch code {
	case backstore.CodeUnavailable:
		return scsi.StatusCheckCondition, scsi.BecomingReady
	case backstore.CodeBusy:
		return scsi.StatusBusy, scsi.NoSense
	case backstore.CodeNoSpace:
		return scsi.StatusCheckCondition, scsi.SpaceAllocationFailed
	case backstore.CodeReadOnly:
		return scsi.StatusCheckCondition, scsi.WriteProtected
	case backstore.CodeRange:
		return scsi.StatusCheckCondition, scsi.LBAOutOfRange
	case backstore.CodeNotSupported:
		return scsi.StatusCheckCondition, scsi.InvalidOpcode
	case backstore.CodeAborted:
		return scsi.StatusCheckCondition, scsi.CommandAborted
	case backstore.CodeMiscompare:
		return scsi.StatusCheckCondition, scsi.MiscompareDuringVerify
	case backstore.CodeInvalid:
		return scsi.StatusCheckCondition, scsi.InternalTargetFailure
	}
	if op == backstore.OpRead {
		return scsi.StatusCheckCondition, scsi.UnrecoveredReadError
	}
	return scsi.StatusCheckCondition, scsi.WriteError
}

// failStore ends a task that the store failed.
func (u *Unit) failStore(t *Task, op backstore.Op, code backstore.Code) {
	status, sense := outcome(op, code)
	if status == scsi.StatusCheckCondition {
		s := scsi.Sense{Code: sense}
		if code == backstore.CodeMiscompare {
			s.HasInfo, s.Info = true, uint64(t.state.req.At) // SBC-3 5.2
		}
		u.fail(t, s)
		return
	}
	t.Status, t.Sense = status, nil
	t.OutUsed, t.InUsed, t.Wanted = 0, 0, 0
	u.finish(t)
}
