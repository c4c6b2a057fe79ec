package lu

import (
	"math/rand/v2"
	"testing"

	"github.com/gosrpt/gosrpt/core/scsi"
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
	if c.Status == scsi.StatusGood && c.asked > 0 && c.InUsed+c.OutUsed == 0 {
		r.t.Fatalf("% x: GOOD with a buffer of %d and nothing moved", cdb, c.asked)
	}
}

// FuzzCommand: any CDB with any buffers.
func FuzzCommand(f *testing.F) {
	for i := range disks[0].rows {
		row := &disks[0].rows[i]
		f.Add([]byte(row.Usage), uint32(512), uint32(512), uint8(0))
	}
	f.Add(scsi.AppendTransfer16(nil, scsi.OpWrite16, scsi.Extent{LBA: 1, Blocks: 3}, scsi.FlagFUA), uint32(1536), uint32(0), uint8(2))
	f.Add([]byte{0x9E, 0xFF}, uint32(0), uint32(1<<31), uint8(4))
	units := []*Unit{nil, NewMissing(scsi.Identity{}, luns{0}), NewWellKnown(scsi.Identity{}, luns{0})}
	r := diskRig(f)
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
	r := greeted(t, cfg, testInfo())
	rng := rand.New(rand.NewPCG(11, 12))
	for range 6000 {
		row := &disks[0].rows[rng.IntN(len(disks[0].rows))]
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
		r.try(cdb, rng.Uint32N(1<<rng.IntN(18)), rng.Uint32N(1<<rng.IntN(18)), 0)
		if rng.IntN(50) == 0 {
			r.dev.Attend(1, Attention(rng.Uint32N(256)))
		}
	}
	if s := r.g.Stats(); s.Reads == 0 || s.Writes == 0 {
		t.Errorf("no command reached the store: %+v", s)
	}
}
