package lu

import (
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// locate checks what commands with an extent have in common, of which most is the longest in blocks, sets the offset,
// and returns how many bytes of the store the CDB is about.
func (t *Task) locate(g *geometry, most uint64) (n uint64, sense scsi.Sense) {
	return t.locateExtent(g, t.cdb().Extent(), most)
}

func (t *Task) locateExtent(g *geometry, e scsi.Extent, most uint64) (n uint64, sense scsi.Sense) {
	switch {
	case !e.Within(g.info.Blocks):
		return 0, scsi.Sense{Code: scsi.LBAOutOfRange}
	case e.Blocks > most:
		return 0, scsi.InvalidField(t.cdb().LengthByte(), scsi.NoBit)
	}
	bs := uint64(g.info.BlockSize)
	t.state.off = int64(e.LBA * bs)
	return e.Blocks * bs, scsi.Sense{}
}

// startRead begins a READ. An initiator's buffer that is too short is filled, and the residual tells of the rest; only
// the blocks that it needs are read.
func startRead(u *Unit, t *Task) {
	g := u.dev.geo.Load()
	n, sense := t.locate(g, g.maxBlocks)
	switch {
	case !sense.IsZero():
		u.fail(t, sense)
		return
	case n > 0 && t.InLen == 0 && t.OutLen > 0:
		u.fail(t, scsi.Sense{Code: scsi.InvalidFieldInIU})
		return
	}
	t.Wanted = n
	fits := n
	if bs := uint64(g.info.BlockSize); t.InLen < n {
		fits = (t.InLen + bs - 1) / bs * bs
	}
	if fits == 0 {
		u.finish(t)
		return
	}
	// FUA reads what is on the medium: what a volatile cache holds gets there first (SBC-3 5.8).
	t.state.flush = t.cdb().FUA() && g.info.WriteCache
	u.needBuffer(t, fits)
}

func readyRead(u *Unit, t *Task) {
	if t.state.flush {
		u.submit(t, backstore.OpFlush, 0)
		return
	}
	u.submit(t, backstore.OpRead, 0)
}

func storedRead(u *Unit, t *Task) {
	if t.state.flush {
		t.state.flush = false
		u.submit(t, backstore.OpRead, 0)
		return
	}
	t.InUsed = min(t.InLen, t.state.need)
	u.finish(t)
}

// startWrite begins a WRITE. An initiator that sends less than the CDB says is refused and nothing is written: half of
// what it asked for, answered with GOOD, would be a loss that it may not notice.
func startWrite(u *Unit, t *Task) {
	g := u.dev.geo.Load()
	n, sense := t.locate(g, g.maxBlocks)
	switch {
	case !sense.IsZero():
		u.fail(t, sense)
		return
	case g.info.ReadOnly || t.ReadOnly:
		u.fail(t, scsi.Sense{Code: scsi.WriteProtected})
		return
	case t.OutLen < n:
		u.fail(t, scsi.Sense{Code: scsi.InvalidFieldInIU})
		return
	}
	t.Wanted = n
	if n == 0 {
		u.finish(t)
		return
	}
	u.needData(t, n, n)
}

func readyWrite(u *Unit, t *Task) { u.submitDurable(t, backstore.OpWrite) }

// submitDurable gives the store a request that writes. FUA is the store's business if it can, else a flush after the write.
func (u *Unit) submitDurable(t *Task, op backstore.Op) {
	info := &u.dev.geo.Load().info
	var flags backstore.Flags
	if t.cdb().FUA() {
		if info.FUA {
			flags = backstore.FUA
		} else {
			t.state.flush = info.WriteCache
		}
	}
	u.submit(t, op, flags)
}

func storedWrite(u *Unit, t *Task) {
	if t.state.flush {
		t.state.flush = false
		u.submit(t, backstore.OpFlush, 0)
		return
	}
	t.OutUsed = t.state.need
	u.finish(t)
}

// startSynchronize begins a SYNCHRONIZE CACHE, which makes everything durable, whatever range it names. With IMMED the
// status comes when the work is done, too: so an error reaches the command that asked, not a later one as a deferred
// error, which initiators drop.
func startSynchronize(u *Unit, t *Task) {
	if !t.cdb().Extent().Within(u.dev.geo.Load().info.Blocks) {
		u.fail(t, scsi.Sense{Code: scsi.LBAOutOfRange})
		return
	}
	u.submit(t, backstore.OpFlush, 0)
}

func storedSynchronize(u *Unit, t *Task) { u.finish(t) }
