package lu

import (
	"bytes"
	"testing"

	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/store"
	"github.com/gosrpt/gosrpt/core/store/storetest"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

func TestCompareAndWriteWritesWhatWasExpected(t *testing.T) {
	for _, e := range []scsi.Extent{{LBA: 0, Blocks: 1}, {LBA: 5, Blocks: 8}, {LBA: testBlocks - 1, Blocks: 1}} {
		r := powered(t, caw, wide)
		log := r.asked()
		n, off := e.Blocks*512, e.LBA*512
		want := bytes.Clone(r.mem.Bytes())
		data := bytes.Repeat([]byte{0x3C}, int(n))
		out := append(bytes.Clone(want[off:off+n]), data...)
		copy(want[off:], data)
		c := r.run(scsi.AppendCompareAndWrite(nil, e, 0), out, 0)
		r.wantGood(c)
		if !bytes.Equal(r.mem.Bytes(), want) || c.OutUsed != 2*n || c.Wanted != 2*n || c.InUsed != 0 {
			t.Errorf("%+v: %d of %d, or wrong content", e, c.OutUsed, c.Wanted)
		}
		if len(*log) != 1 || (*log)[0][:9] != "compare/0" {
			t.Errorf("%v", *log)
		}
	}
}

// A difference is MISCOMPARE with the place of its first byte, and nothing is written.
func TestCompareAndWriteTellsTheFirstDifference(t *testing.T) {
	for _, at := range []int{0, 1, 511, 512, 1023} {
		r := powered(t, caw, wide)
		before := bytes.Clone(r.mem.Bytes())
		out := append(bytes.Clone(before[1024:2048]), make([]byte, 1024)...)
		out[at] ^= 0x10
		out[1023] ^= 0x01 // a later one does not matter
		c := r.run(scsi.AppendCompareAndWrite(nil, scsi.Extent{LBA: 2, Blocks: 2}, 0), out, 0)
		want := scsi.Sense{Code: scsi.MiscompareDuringVerify, HasInfo: true, Info: uint64(at)}
		if got := r.sense(c); got != want {
			t.Errorf("byte %d: %+v", at, got)
		}
		if !bytes.Equal(r.mem.Bytes(), before) {
			t.Errorf("byte %d: written all the same", at)
		}
	}
}

func TestCompareAndWriteChecks(t *testing.T) {
	r := powered(t, caw, wide) // at most 8 blocks
	log := r.asked()
	run := func(e scsi.Extent, n int) *cmd {
		t.Helper()
		return r.run(scsi.AppendCompareAndWrite(nil, e, 0), make([]byte, n), 0)
	}
	r.wantSense(run(scsi.Extent{LBA: testBlocks, Blocks: 1}, 1024), scsi.LBAOutOfRange)
	r.wantSense(run(scsi.Extent{LBA: testBlocks - 1, Blocks: 2}, 2048), scsi.LBAOutOfRange)
	r.wantSense(run(scsi.Extent{LBA: 1 << 63, Blocks: 1}, 1024), scsi.LBAOutOfRange)
	r.wantField(run(scsi.Extent{Blocks: 9}, 9216), 13, scsi.NoBit)
	r.wantField(run(scsi.Extent{Blocks: 255}, 0), 13, scsi.NoBit)
	for _, n := range []int{0, 1, 512, 1023, 1025, 1536, 2048} {
		r.wantSense(run(scsi.Extent{Blocks: 1}, n), scsi.InvalidFieldInIU)
	}
	c := run(scsi.Extent{LBA: testBlocks}, 0)
	r.wantGood(c)
	if c.asked != 0 || c.Wanted != 0 {
		t.Errorf("no blocks: asked for %d, wanted %d", c.asked, c.Wanted)
	}
	wantLog(t, log)
}

func TestFUAOfCompareAndWrite(t *testing.T) {
	tests := []struct {
		name       string
		fua, cache bool
		flags      byte
		want       []string
	}{
		{"plain", true, true, 0, []string{"compare/0 1+1"}},
		{"DPO", true, true, scsi.FlagDPO, []string{"compare/0 1+1"}},
		{"FUA", true, true, scsi.FlagFUA, []string{"compare/1 1+1"}},
		{"FUA, which the store cannot", false, true, scsi.FlagFUA, []string{"compare/0 1+1", "flush/0 0+0"}},
		{"FUA without a cache", false, false, scsi.FlagFUA, []string{"compare/0 1+1"}},
	}
	for _, tt := range tests {
		r := powered(t, caw, func(i *backstore.Info) { i.FUA, i.WriteCache = tt.fua, tt.cache })
		log := r.asked()
		out := append(bytes.Clone(r.mem.Bytes()[512:1024]), make([]byte, 512)...)
		c := r.run(scsi.AppendCompareAndWrite(nil, scsi.Extent{LBA: 1, Blocks: 1}, tt.flags), out, 0)
		r.wantGood(c)
		wantLog(t, log, tt.want...)
		if c.OutUsed != 1024 {
			t.Errorf("%s: used %d", tt.name, c.OutUsed)
		}
	}
}

func TestAMiscompareIsNotFlushed(t *testing.T) {
	r := powered(t, caw, func(i *backstore.Info) { i.FUA = false })
	log := r.asked()
	c := r.run(scsi.AppendCompareAndWrite(nil, scsi.Extent{LBA: 1, Blocks: 1}, scsi.FlagFUA), bytes.Repeat([]byte{0xFE}, 1024), 0)
	r.wantSense(c, scsi.MiscompareDuringVerify)
	wantLog(t, log, "compare/0 1+1")
}

// The end of a store's process while it has the command: the initiator hears that it was aborted, and it is not done twice.
func TestCompareAndWriteIsNotRepeatedByAnotherProcess(t *testing.T) {
	r := powered(t, caw)
	r.b.Plan = func(*backstore.Request) storetest.Fault { return storetest.Fault{Lose: true} }
	out := append(bytes.Clone(r.mem.Bytes()[512:1024]), bytes.Repeat([]byte{9}, 512)...)
	c := r.start(scsi.AppendCompareAndWrite(nil, scsi.Extent{LBA: 1, Blocks: 1}, 0), out, 0)
	r.turn()
	r.g.Detach(epoch)
	r.wantSense(c, scsi.CommandAborted)
	if err := r.g.Attach(store.NewLocal(&store.Powered{Memory: r.mem}, 4)); err != nil {
		t.Fatal(err)
	}
	r.turn()
	if c.dones != 1 || r.mem.Bytes()[512] != 9 {
		t.Errorf("done %d times, first byte %d", c.dones, r.mem.Bytes()[512])
	}
}
