package lu

import (
	"testing"

	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/store/storetest"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// What an initiator hears of each code. Only CodeIO, and codes that are none, speak of the medium.
func TestEachCodeBecomesItsSense(t *testing.T) {
	tests := []struct {
		code               backstore.Code
		status             scsi.Status
		read, write, flush scsi.SenseCode
	}{
		{backstore.CodeIO, scsi.StatusCheckCondition, scsi.UnrecoveredReadError, scsi.WriteError, scsi.WriteError},
		{backstore.CodeUnavailable, scsi.StatusCheckCondition, scsi.BecomingReady, scsi.BecomingReady, scsi.BecomingReady},
		{backstore.CodeBusy, scsi.StatusBusy, 0, 0, 0},
		{backstore.CodeNoSpace, scsi.StatusCheckCondition, scsi.SpaceAllocationFailed, scsi.SpaceAllocationFailed, scsi.SpaceAllocationFailed},
		{backstore.CodeReadOnly, scsi.StatusCheckCondition, scsi.WriteProtected, scsi.WriteProtected, scsi.WriteProtected},
		{backstore.CodeRange, scsi.StatusCheckCondition, scsi.LBAOutOfRange, scsi.LBAOutOfRange, scsi.LBAOutOfRange},
		{backstore.CodeNotSupported, scsi.StatusCheckCondition, scsi.InvalidOpcode, scsi.InvalidOpcode, scsi.InvalidOpcode},
		{backstore.CodeAborted, scsi.StatusCheckCondition, scsi.CommandAborted, scsi.CommandAborted, scsi.CommandAborted},
		{backstore.CodeInvalid, scsi.StatusCheckCondition, scsi.InternalTargetFailure, scsi.InternalTargetFailure, scsi.InternalTargetFailure},
		{backstore.Code(250), scsi.StatusCheckCondition, scsi.UnrecoveredReadError, scsi.WriteError, scsi.WriteError},
	}
	e := scsi.Extent{LBA: 1, Blocks: 1}
	for _, tt := range tests {
		t.Run(tt.code.String(), func(t *testing.T) {
			r := diskRig(t)
			r.b.Plan = func(*backstore.Request) storetest.Fault { return storetest.Fault{Code: tt.code, Skip: true} }
			cmds := []struct {
				c    *cmd
				want scsi.SenseCode
			}{
				{r.run(scsi.AppendTransfer10(nil, scsi.OpRead10, e, 0), nil, 512), tt.read},
				{r.run(scsi.AppendTransfer10(nil, scsi.OpWrite10, e, 0), make([]byte, 512), 0), tt.write},
				{r.run(scsi.AppendTransfer10(nil, scsi.OpSynchronizeCache10, e, 0), nil, 0), tt.flush},
			}
			for _, x := range cmds {
				if x.c.Status != tt.status {
					t.Fatalf("% x: %v, want %v", x.c.CDB, x.c.Status, tt.status)
				}
				if tt.status == scsi.StatusCheckCondition {
					r.wantSense(x.c, x.want)
				}
				if x.c.InUsed+x.c.OutUsed+x.c.Wanted != 0 {
					t.Errorf("% x: failed, yet %d, %d of %d moved", x.c.CDB, x.c.InUsed, x.c.OutUsed, x.c.Wanted)
				}
			}
		})
	}
}

// A store that is full refuses writes as DATA PROTECT, still reads, and takes writes again when there is room.
func TestAFullStoreRecoversWithoutARestart(t *testing.T) {
	r := diskRig(t)
	full := true
	r.b.Plan = func(q *backstore.Request) storetest.Fault {
		if full && q.Op == backstore.OpWrite {
			return storetest.Fault{Code: backstore.CodeNoSpace, Skip: true}
		}
		return storetest.Fault{}
	}
	e := scsi.Extent{Blocks: 8}
	write := scsi.AppendTransfer10(nil, scsi.OpWrite10, e, 0)
	r.wantSense(r.run(write, make([]byte, 4096), 0), scsi.SpaceAllocationFailed)
	r.wantGood(r.run(scsi.AppendTransfer10(nil, scsi.OpRead10, e, 0), nil, 4096))
	full = false
	r.wantGood(r.run(write, make([]byte, 4096), 0))
}
