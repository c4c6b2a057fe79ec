package lu

import (
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// startUnmap begins an UNMAP (SBC-3 5.28). A list of no bytes asks for nothing and is no error.
func startUnmap(u *Unit, t *Task) {
	n := t.cdb().ParameterListLength()
	switch {
	case u.dev.geo.Load().info.ReadOnly || t.ReadOnly:
		u.fail(t, scsi.Sense{Code: scsi.WriteProtected})
	case n == 0:
		u.finish(t)
	case t.OutLen < n:
		u.fail(t, scsi.Sense{Code: scsi.InvalidFieldInIU})
	default:
		t.Wanted = n
		u.needData(t, n, n)
	}
}

// readyUnmap checks the whole list before it does anything: a list with an error leaves all as it was.
func readyUnmap(u *Unit, t *Task) {
	g := u.dev.geo.Load()
	list, n, sense := scsi.ParseUnmap(t.Buf[:t.state.need])
	if sense.IsZero() {
		sense = g.checkUnmap(list, n)
	}
	if !sense.IsZero() {
		u.fail(t, sense)
		return
	}
	t.state.item, t.state.items = 0, n
	u.stepUnmap(t)
}

// checkUnmap checks n descriptors. The limit of blocks is that of the whole command, as SBC-3 6.6.4 has it; the Linux
// kernel's target takes it for that of one descriptor.
func (g *geometry) checkUnmap(list scsi.UnmapList, n int) scsi.Sense {
	if uint32(n) > g.limits.MaxUnmapDescriptors {
		return scsi.InvalidParameter(scsi.UnmapCountByte)
	}
	blocks := uint64(0)
	for i := range n {
		e := list.At(i)
		if !e.Within(g.info.Blocks) {
			return scsi.Sense{Code: scsi.LBAOutOfRange}
		}
		if blocks += e.Blocks; blocks > uint64(g.limits.MaxUnmap) {
			return scsi.InvalidParameter(scsi.UnmapBlocksByte(i))
		}
	}
	return scsi.Sense{}
}

// stepUnmap asks the store for the next descriptor that has blocks. The list lies in memory that the store's process can
// write to, so it is held to the geometry once more.
func (u *Unit) stepUnmap(t *Task) {
	g, list := u.dev.geo.Load(), scsi.UnmapList(t.Buf[:t.state.need])
	for t.state.item < t.state.items {
		e := list.At(t.state.item)
		t.state.item++
		if !e.Within(g.info.Blocks) {
			u.fail(t, scsi.Sense{Code: scsi.LBAOutOfRange})
			return
		}
		if e.Blocks > 0 {
			bs := uint64(g.info.BlockSize)
			u.ask(t, backstore.OpUnmap, 0, int64(e.LBA*bs), nil, int64(e.Blocks*bs))
			return
		}
	}
	t.OutUsed = t.state.need
	u.finish(t)
}
