package lu

import (
	"bytes"

	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// locateSame is locate for a WRITE SAME, in which no blocks mean all up to the end of the medium (SBC-3 5.42).
func (t *Task) locateSame(g *geometry) (n uint64, sense scsi.Sense) {
	c := t.cdb()
	e := c.Extent()
	if e.Blocks == 0 && e.LBA < g.info.Blocks {
		e.Blocks = g.info.Blocks - e.LBA
	}
	if e.Blocks == 0 {
		return 0, scsi.Sense{Code: scsi.LBAOutOfRange}
	}
	return t.locateExtent(g, e, g.limits.MaxWriteSame)
}

// startSame begins a WRITE SAME. A data-out buffer that is not one block, or is there in spite of NDOB, is refused, though
// it may be long enough: what the initiator thinks that it asked for is anybody's guess.
func startSame(u *Unit, t *Task) {
	g, c := u.dev.geo.Load(), t.cdb()
	n, sense := t.locateSame(g)
	data := uint64(g.info.BlockSize)
	if c.NoData() {
		data = 0
	}
	switch {
	case !sense.IsZero():
		u.fail(t, sense)
		return
	case g.info.ReadOnly || t.ReadOnly:
		u.fail(t, scsi.Sense{Code: scsi.WriteProtected})
		return
	case t.OutLen != data:
		u.fail(t, scsi.Sense{Code: scsi.InvalidFieldInIU})
		return
	}
	t.Wanted, t.state.left = data, int64(n)
	if data > 0 {
		u.needData(t, data, g.sameRoom(n))
		return
	}
	switch t.state.op = g.sameOp(c, true); t.state.op {
	case backstore.OpUnmap, backstore.OpWriteZeroes:
		u.stepSame(t)
	default:
		u.needBuffer(t, g.sameRoom(n))
	}
}

func readySame(u *Unit, t *Task) {
	g, buf := u.dev.geo.Load(), t.Buf[:t.state.need]
	if t.cdb().NoData() {
		clear(buf)
	}
	block := buf[:g.info.BlockSize]
	t.state.op = g.sameOp(t.cdb(), isZero(block))
	if t.state.op == backstore.OpWrite {
		repeat(buf, len(block))
	}
	u.stepSame(t)
}

// isZero tells whether every byte is 0.
func isZero(b []byte) bool { return b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1]) }

// repeat fills b with copies of its first n bytes.
func repeat(b []byte, n int) {
	for ; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// stepSame asks the store for the next part: plain writes go by the buffer, everything else is one part.
func (u *Unit) stepSame(t *Task) {
	off, n := t.state.off, t.state.left
	switch op := t.state.op; op {
	case backstore.OpWrite:
		u.ask(t, op, 0, off, t.Buf[:min(int64(t.state.need), n)], 0)
	case backstore.OpWriteSame:
		u.ask(t, op, 0, off, t.Buf[:u.dev.geo.Load().info.BlockSize], n)
	case backstore.OpWriteZeroes:
		var flags backstore.Flags
		if t.cdb().MayUnmap() {
			flags = backstore.MayUnmap
		}
		u.ask(t, op, flags, off, nil, n)
	default:
		u.ask(t, op, 0, off, nil, n)
	}
}

// storedSame goes on until all is written. The status comes then: a WRITE SAME that fails may have written a part.
func storedSame(u *Unit, t *Task) {
	n := t.state.req.Extent()
	t.state.off += n
	if t.state.left -= n; t.state.left > 0 {
		u.stepSame(t)
		return
	}
	t.OutUsed = t.Wanted
	u.finish(t)
}
