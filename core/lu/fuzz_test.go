package lu

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// try runs one command of hostile content. The rig checks that Done comes once, that nothing is written outside the
// buffer and that no more is used than there is.
func (r *rig) try(cdb []byte, out, in uint32, attr uint8) {
	r.cmds, r.order = r.cmds[:0], r.order[:0]
	c := r.make(cdb, make([]byte, out%(1<<20)), uint64(in))
	c.Attr = attr
	r.u.Start(&c.Task)
	r.turn()
	if c.dones != 1 {
		r.t.Fatalf("% x: done %d times", cdb, c.dones)
	}
	noData := c.CDB[0] == byte(scsi.OpWriteSame16) && c.CDB[1]&scsi.FlagNDOB != 0 // the buffer is for zeroes of our own
	if c.Status == scsi.StatusGood && c.asked > 0 && c.InUsed+c.OutUsed == 0 && !noData {
		r.t.Fatalf("% x: GOOD with a buffer of %d and nothing moved", cdb, c.asked)
	}
}

// FuzzCommand: any CDB with any buffers.
func FuzzCommand(f *testing.F) {
	every := disks[allFeatures].rows
	for i := range every {
		row := &every[i]
		f.Add([]byte(row.Usage), uint32(512), uint32(512), uint8(0))
	}
	f.Add(scsi.AppendTransfer16(nil, scsi.OpWrite16, scsi.Extent{LBA: 1, Blocks: 3}, scsi.FlagFUA), uint32(1536), uint32(0), uint8(2))
	f.Add([]byte{0x9E, 0xFF}, uint32(0), uint32(1<<31), uint8(4))
	units := []*Unit{nil, NewMissing(scsi.Identity{}, luns{0}), NewWellKnown(scsi.Identity{}, luns{0})}
	r := powered(f, everyPower, wide)
	units[0] = r.u
	f.Fuzz(func(t *testing.T, cdb []byte, out, in uint32, attr uint8) {
		r.t = t
		for _, r.u = range units {
			r.try(cdb, out, in, attr)
		}
	})
}

// The same with random CDBs that are nearly right: a row's opcode, and few bits beyond its mask.
func TestRandomCommandsOfKnownOpcodes(t *testing.T) {
	cfg := testConfig()
	cfg.Inventory = luns{0, 1, 2}
	info := testInfo()
	info.Powers, info.UnmapZeroes = everyPower, true
	r := greeted(t, cfg, info)
	every := disks[allFeatures].rows
	rng := rand.New(rand.NewPCG(11, 12))
	for range 6000 {
		row := &every[rng.IntN(len(every))]
		cdb := make([]byte, len(row.Usage))
		for i := range cdb {
			cdb[i] = byte(rng.Uint32()) & row.Usage[i]
			if rng.IntN(3) > 0 {
				cdb[i] &= byte(1 << rng.IntN(8))
			}
			if rng.IntN(200) == 0 {
				cdb[i] ^= 1 << rng.IntN(8)
			}
		}
		cdb[0] = byte(row.Op)
		if row.HasSA {
			cdb[1] = byte(row.SA)
		}
		out := uint32(512) // which is right for WRITE SAME
		if rng.IntN(2) == 0 {
			out = rng.Uint32N(1 << rng.IntN(18))
		}
		r.try(cdb, out, rng.Uint32N(1<<rng.IntN(18)), 0)
		if rng.IntN(50) == 0 {
			r.dev.Attend(1, Attention(rng.Uint32N(256)))
		}
	}
	if s := r.g.Stats(); s.Reads == 0 || s.Writes == 0 || s.ZeroWrites == 0 {
		t.Errorf("no command reached the store: %+v", s)
	}
}

// FuzzChange: any UNMAP, WRITE SAME or COMPARE AND WRITE with any data, on a disk with any powers. One that is GOOD has done to the
// blocks what a plain model of it does, and one that fails has done nothing.
func FuzzChange(f *testing.F) {
	for _, c := range changes() {
		for _, powers := range []uint8{1, 2, 4, 8, 15} {
			f.Add(c.cdb, c.out, powers)
		}
	}
	f.Add(same16(scsi.Extent{LBA: 1000}, 0), bytes.Repeat([]byte{3}, 512), uint8(2))
	var rigs [everyPower + 1]*rig
	f.Fuzz(func(t *testing.T, cdb, out []byte, powers uint8) {
		p := backstore.Powers(powers) & everyPower
		if rigs[p] == nil {
			rigs[p] = powered(t, p, wide)
		}
		r := rigs[p]
		r.t = t
		r.cmds, r.order = r.cmds[:0], r.order[:0]
		c := r.make(cdb, out, 0)
		switch scsi.Opcode(c.CDB[0]) {
		case scsi.OpUnmap, scsi.OpWriteSame10, scsi.OpWriteSame16, scsi.OpCompareAndWrite:
		default:
			return
		}
		want := bytes.Clone(r.mem.Bytes())
		r.u.Start(&c.Task)
		r.turn()
		if c.dones != 1 {
			t.Fatalf("% x: done %d times", c.CDB, c.dones)
		}
		if c.Status == scsi.StatusGood {
			modelChange(c.CDB, out, want)
		}
		if !bytes.Equal(r.mem.Bytes(), want) {
			t.Fatalf("% x: %v, and other content than that says", c.CDB, c.Status)
		}
	})
}

// modelChange does to disk what a command that was GOOD must have done. Unmapped blocks are zero.
func modelChange(cdb, out, disk []byte) {
	part := func(e scsi.Extent) []byte { return disk[e.LBA*512 : (e.LBA+e.Blocks)*512] }
	op := scsi.Opcode(cdb[0])
	c := scsi.CDB(cdb[:op.CDBSize()])
	switch op {
	case scsi.OpUnmap:
		if len(out) < 24 || c.ParameterListLength() == 0 {
			return
		}
		for d := out[8 : 8+(int(out[2])<<8|int(out[3]))]; len(d) >= 16; d = d[16:] {
			lba := uint64(0)
			for _, b := range d[:8] {
				lba = lba<<8 | uint64(b)
			}
			clear(part(scsi.Extent{LBA: lba, Blocks: uint64(d[8])<<24 | uint64(d[9])<<16 | uint64(d[10])<<8 | uint64(d[11])}))
		}
	case scsi.OpCompareAndWrite:
		e := c.Extent()
		copy(part(e), out[e.Blocks*512:])
	default:
		e := c.Extent()
		if e.Blocks == 0 {
			e.Blocks = testBlocks - e.LBA
		}
		if c.NoData() {
			out = make([]byte, 512)
		}
		copy(part(e), bytes.Repeat(out, int(e.Blocks)))
	}
}
