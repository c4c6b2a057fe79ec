package lu

import (
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// startCompare begins a COMPARE AND WRITE (SBC-3 5.2). Its data-out is what is expected and then as much to write, no more and
// no less.
func startCompare(u *Unit, t *Task) {
	g := u.dev.geo.Load()
	n, sense := t.locate(g, uint64(g.limits.MaxCompareAndWrite))
	switch {
	case !sense.IsZero():
		u.fail(t, sense)
	case g.info.ReadOnly || t.ReadOnly:
		u.fail(t, scsi.Sense{Code: scsi.WriteProtected})
	case n == 0:
		u.finish(t)
	case t.OutLen != 2*n:
		u.fail(t, scsi.Sense{Code: scsi.InvalidFieldInIU})
	default:
		t.Wanted = 2 * n
		u.needData(t, 2*n, 2*n)
	}
}

// readyCompare has the store do both in one step. FUA is as for WRITE.
func readyCompare(u *Unit, t *Task) { u.submitDurable(t, backstore.OpCompareAndWrite) }
