package target

import (
	"bytes"
	"testing"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/srp"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// The commands of a store's powers over the wire: what they move, what is left over, and that no buffer stays behind.
func TestCommandsOfPowersOverTheWire(t *testing.T) {
	leaktest.Check(t)
	zero, data := make([]byte, 512), bytes.Repeat([]byte("gosrpt! "), 64)
	list := scsi.AppendUnmapList(nil, scsi.Extent{LBA: 4, Blocks: 2}, scsi.Extent{LBA: 9, Blocks: 1})
	unmap := scsi.AppendUnmap(nil, uint16(len(list)))
	long := scsi.Extent{LBA: 8, Blocks: 1500} // more than one buffer of plain writes
	same := func(e scsi.Extent, flags byte) []byte {
		return scsi.AppendTransfer16(nil, scsi.OpWriteSame16, e, flags)
	}
	caw := scsi.AppendCompareAndWrite(nil, scsi.Extent{LBA: 3, Blocks: 1}, scsi.FlagFUA)
	fill := bytes.Repeat([]byte{0xFF}, 512)
	const all = backstore.PowerUnmap | backstore.PowerWriteZeroes | backstore.PowerWriteSame | backstore.PowerCompareAndWrite
	tests := []struct {
		name     string
		powers   backstore.Powers
		cdb, out []byte
		left     srp.Residual // of data-out
		changed  []scsi.Extent
		to       []byte // what the changed blocks hold
	}{
		{"UNMAP", all, unmap, list, 0, []scsi.Extent{{LBA: 4, Blocks: 2}, {LBA: 9, Blocks: 1}}, zero},
		{"UNMAP in a larger buffer", all, unmap, append(bytes.Clone(list), data...), 512, []scsi.Extent{{LBA: 4, Blocks: 2}, {LBA: 9, Blocks: 1}}, zero},
		{"WRITE SAME by the store", all, same(long, 0), data, 0, []scsi.Extent{long}, data},
		{"WRITE SAME of zeroes", all, same(long, scsi.FlagUNMAP), zero, 0, []scsi.Extent{long}, zero},
		{"WRITE SAME by plain writes", backstore.PowerUnmap, same(long, 0), data, 0, []scsi.Extent{long}, data},
		{"WRITE SAME without data", all, same(long, scsi.FlagNDOB), nil, 0, []scsi.Extent{long}, zero},
		{"WRITE SAME without data by plain writes", backstore.PowerUnmap, same(long, scsi.FlagNDOB), nil, 0, []scsi.Extent{long}, zero},
		{"COMPARE AND WRITE", all, caw, append(bytes.Clone(fill), data...), 0, []scsi.Extent{{LBA: 3, Blocks: 1}}, data},
	}
	for _, immediate := range []bool{false, true} {
		for _, tt := range tests {
			g := newRig(t, func(g *rig) { g.powers, g.cfg.Immediate = tt.powers, immediate })
			for i := range g.memory.Bytes() {
				g.memory.Bytes()[i] = 0xFF
			}
			want := bytes.Clone(g.memory.Bytes())
			for _, e := range tt.changed {
				copy(want[e.LBA*512:], bytes.Repeat(tt.to, int(e.Blocks)))
			}
			s := g.ready()
			r, err := s.Do(t.Context(), srp.LUN{}, tt.cdb, tt.out, nil)
			if err != nil || r.Check() != nil || r.Out != tt.left {
				t.Errorf("%s: %v, %v, %d bytes left over, want %d", tt.name, err, r.Check(), r.Out, tt.left)
			}
			if !bytes.Equal(g.memory.Bytes(), want) {
				t.Errorf("%s: wrong content", tt.name)
			}
			s.Close()
			g.empty()
			g.shutdown()
		}
	}
}

func TestAMiscompareReachesTheInitiator(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, func(g *rig) { g.powers = backstore.PowerCompareAndWrite })
	s := g.ready()
	out := make([]byte, 1024)
	out[300] = 1
	r, err := s.Do(t.Context(), srp.LUN{}, scsi.AppendCompareAndWrite(nil, scsi.Extent{LBA: 3, Blocks: 1}, 0), out, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := scsi.ParseSense(r.Sense())
	if want := (scsi.Sense{Code: scsi.MiscompareDuringVerify, HasInfo: true, Info: 300}); got != want || err != nil || r.Out != 1024 {
		t.Errorf("%+v, %v, %d bytes left over", got, err, r.Out)
	}
	s.Close()
	g.empty()
}
