package lu

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/store/storetest"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// writeSames builds a WRITE SAME in each length.
var writeSames = map[string]func(e scsi.Extent, flags byte) []byte{
	"10": func(e scsi.Extent, flags byte) []byte {
		return scsi.AppendTransfer10(nil, scsi.OpWriteSame10, e, flags)
	},
	"16": func(e scsi.Extent, flags byte) []byte {
		return scsi.AppendTransfer16(nil, scsi.OpWriteSame16, e, flags)
	},
}

func same16(e scsi.Extent, flags byte) []byte { return writeSames["16"](e, flags) }

// What a WRITE SAME becomes, by the block, the UNMAP bit and the powers. It writes what it says in each case.
func TestWhatAWriteSameBecomes(t *testing.T) {
	const none, mayUnmap = 0, scsi.FlagUNMAP
	zero, data := make([]byte, 512), bytes.Repeat([]byte("x"), 512)
	almost := make([]byte, 512)
	almost[511] = 1
	tests := []struct {
		name   string
		powers backstore.Powers
		zeroed bool // UnmapZeroes
		flags  byte
		block  []byte
		want   string
	}{
		{"zeroes", everyPower, true, none, zero, "zero/0 8+6"},
		{"zeroes that may be unmapped", everyPower, true, mayUnmap, zero, "unmap/0 8+6"},
		{"zeroes, unmap does not zero", everyPower, false, mayUnmap, zero, "zero/2 8+6"},
		{"zeroes, unmap does not zero, no write zeroes", unmap | same1, false, mayUnmap, zero, "same/0 8+6"},
		{"zeroes, unmap only", unmap, false, mayUnmap, zero, "write/0 8+6"},
		{"zeroes that may not be unmapped, unmap only", unmap, true, none, zero, "write/0 8+6"},
		{"zeroes without write zeroes", same1, false, none, zero, "same/0 8+6"},
		{"data", everyPower, true, none, data, "same/0 8+6"},
		{"data that may be unmapped", everyPower, true, mayUnmap, data, "same/0 8+6"},
		{"data with a 1 at the end", everyPower, true, mayUnmap, almost, "same/0 8+6"},
		{"data without write same", unmap | zeroes, true, mayUnmap, data, "write/0 8+6"},
		{"data, write zeroes only", zeroes, false, none, almost, "write/0 8+6"},
	}
	for _, tt := range tests {
		for name, build := range writeSames {
			t.Run(tt.name+name, func(t *testing.T) {
				r := powered(t, tt.powers, func(i *backstore.Info) { i.UnmapZeroes = tt.zeroed })
				log := r.asked()
				want := bytes.Clone(r.mem.Bytes())
				copy(want[8*512:], bytes.Repeat(tt.block, 6))
				c := r.run(build(scsi.Extent{LBA: 8, Blocks: 6}, tt.flags), tt.block, 0)
				r.wantGood(c)
				wantLog(t, log, tt.want)
				if !bytes.Equal(r.mem.Bytes(), want) || c.OutUsed != 512 || c.Wanted != 512 || c.InUsed != 0 {
					t.Errorf("%d of %d, or wrong content", c.OutUsed, c.Wanted)
				}
			})
		}
	}
}

// NDOB is a block of zeroes that does not come. The Linux kernel's target refuses it.
func TestWriteSameWithoutData(t *testing.T) {
	tests := []struct {
		powers backstore.Powers
		flags  byte
		want   string
		asked  uint64 // size of the buffer
	}{
		{everyPower, scsi.FlagNDOB, "zero/0 8+6", 0},
		{everyPower, scsi.FlagNDOB | scsi.FlagUNMAP, "unmap/0 8+6", 0},
		{same1, scsi.FlagNDOB, "same/0 8+6", 512},
		{unmap, scsi.FlagNDOB, "write/0 8+6", 6 * 512},
	}
	for _, tt := range tests {
		r := powered(t, tt.powers, unmapZeroes)
		log := r.asked()
		want := bytes.Clone(r.mem.Bytes())
		clear(want[8*512 : 14*512])
		c := r.run(same16(scsi.Extent{LBA: 8, Blocks: 6}, tt.flags), nil, 0)
		r.wantGood(c)
		wantLog(t, log, tt.want)
		if !bytes.Equal(r.mem.Bytes(), want) || c.OutUsed+c.Wanted+c.InUsed != 0 || c.asked != tt.asked || c.forData {
			t.Errorf("%v: %d of %d, asked for %d, or wrong content", tt.powers, c.OutUsed, c.Wanted, c.asked)
		}
		r.wantSense(r.run(same16(scsi.Extent{LBA: 8, Blocks: 6}, tt.flags), make([]byte, 512), 0), scsi.InvalidFieldInIU)
	}
	r := powered(t, everyPower)
	r.wantField(r.run(writeSames["10"](scsi.Extent{Blocks: 1}, 1), make([]byte, 512), 0), 1, 0)
}

func TestWriteSameRefusesWhatItsDiskCannot(t *testing.T) {
	r := powered(t, zeroes|same1) // nothing can be unmapped
	for _, build := range writeSames {
		e := scsi.Extent{Blocks: 1}
		r.wantField(r.run(build(e, scsi.FlagUNMAP), make([]byte, 512), 0), 1, 3)
	}
	r = powered(t, everyPower)
	for _, build := range writeSames {
		for _, flags := range []byte{0x10, 0x10 | scsi.FlagUNMAP} { // ANCHOR
			r.wantField(r.run(build(scsi.Extent{Blocks: 1}, flags), make([]byte, 512), 0), 1, 4)
		}
	}
}

func TestWriteSameWithABufferThatIsNotOneBlock(t *testing.T) {
	r := powered(t, everyPower)
	log := r.asked()
	for _, build := range writeSames {
		for _, n := range []int{0, 1, 256, 511, 513, 1024, 2048} {
			c := r.run(build(scsi.Extent{Blocks: 4}, 0), make([]byte, n), 0)
			r.wantSense(c, scsi.InvalidFieldInIU)
			if c.asked != 0 {
				t.Errorf("%d bytes: asked for a buffer", n)
			}
		}
	}
	wantLog(t, log)
}

func TestWriteSameExtents(t *testing.T) {
	r := powered(t, everyPower, func(i *backstore.Info) { i.Blocks = 1<<17 + 100 }) // 64 MiB and 100 blocks
	const blocks = 1<<17 + 100
	block := make([]byte, 512)
	run := func(name string, e scsi.Extent) *cmd { return r.run(writeSames[name](e, 0), block, 0) }
	for _, name := range []string{"10", "16"} {
		r.wantSense(run(name, scsi.Extent{LBA: blocks, Blocks: 1}), scsi.LBAOutOfRange)
		r.wantSense(run(name, scsi.Extent{LBA: blocks - 1, Blocks: 2}), scsi.LBAOutOfRange)
		r.wantSense(run(name, scsi.Extent{LBA: blocks}), scsi.LBAOutOfRange)
		r.wantSense(run(name, scsi.Extent{LBA: math.MaxUint32}), scsi.LBAOutOfRange)
		// No blocks are all blocks to the end, which may be too many.
		log := r.asked()
		r.wantGood(run(name, scsi.Extent{LBA: blocks - 1}))
		r.wantGood(run(name, scsi.Extent{LBA: 100}))
		wantLog(t, log, fmt.Sprintf("zero/0 %d+1", blocks-1), fmt.Sprintf("zero/0 100+%d", 1<<17))
		r.wantField(run(name, scsi.Extent{LBA: 99}), map[string]uint16{"10": 7, "16": 10}[name], scsi.NoBit)
	}
	r.wantGood(run("16", scsi.Extent{Blocks: 1 << 17}))
	r.wantField(run("16", scsi.Extent{Blocks: 1<<17 + 1}), 10, scsi.NoBit)
	r.wantSense(run("16", scsi.Extent{LBA: math.MaxUint64}), scsi.LBAOutOfRange)
	r.wantSense(run("16", scsi.Extent{LBA: math.MaxUint64, Blocks: math.MaxUint32}), scsi.LBAOutOfRange)
}

// emulated is a rig of a store that can zero but not write same, and a WRITE SAME of data that takes four writes and a bit.
func emulated(t *testing.T) (r *rig, cdb, block, want []byte) {
	t.Helper()
	r = powered(t, zeroes, func(i *backstore.Info) { i.Blocks = 8192 })
	block = bytes.Repeat([]byte("0123456789abcdef"), 32)
	const n = 4*sameChunk/512 + 3
	want = bytes.Clone(r.mem.Bytes())
	copy(want[5*512:], bytes.Repeat(block, n))
	return r, same16(scsi.Extent{LBA: 5, Blocks: n}, 0), block, want
}

func TestPlainWritesInPlaceOfWriteSame(t *testing.T) {
	r, cdb, block, want := emulated(t)
	log := r.asked()
	c := r.run(cdb, block, 0)
	r.wantGood(c)
	wantLog(t, log, "write/0 5+512", "write/0 517+512", "write/0 1029+512", "write/0 1541+512", "write/0 2053+3")
	if !bytes.Equal(r.mem.Bytes(), want) || c.OutUsed != 512 || c.Wanted != 512 || c.asked != sameChunk {
		t.Errorf("%d of %d, buffer of %d, or wrong content", c.OutUsed, c.Wanted, c.asked)
	}
}

// GOOD comes when the last of the writes is done, not before.
func TestPlainWritesInPlaceOfWriteSameAreAllDoneAtGood(t *testing.T) {
	r, cdb, block, _ := emulated(t)
	r.b.Plan = func(*backstore.Request) storetest.Fault { return storetest.Fault{Hold: true} }
	c := r.start(cdb, block, 0)
	for i := range 5 {
		r.turn()
		if c.dones != 0 || r.b.Held() != 1 {
			t.Fatalf("write %d: done %d times, %d held", i, c.dones, r.b.Held())
		}
		r.b.Release()
	}
	r.turn()
	r.wantGood(c)
}

// One of the writes fails: its error, and no more writes.
func TestPlainWritesInPlaceOfWriteSameEndAtTheFirstError(t *testing.T) {
	for at := range 5 {
		r, cdb, block, want := emulated(t)
		before := bytes.Clone(r.mem.Bytes())
		seen := 0
		r.b.Plan = func(*backstore.Request) storetest.Fault {
			if seen++; seen == at+1 {
				return storetest.Fault{Skip: true, Code: backstore.CodeNoSpace}
			}
			return storetest.Fault{}
		}
		r.wantSense(r.run(cdb, block, 0), scsi.SpaceAllocationFailed)
		edge := 5*512 + at*sameChunk
		copy(before[:edge], want[:edge])
		if seen != at+1 || !bytes.Equal(r.mem.Bytes(), before) {
			t.Errorf("write %d: %d requests, or wrong content", at, seen)
		}
	}
}

func TestPlainWritesInPlaceOfWriteSameCanBeAborted(t *testing.T) {
	for at := range 5 {
		r, cdb, block, _ := emulated(t)
		seen := 0
		r.b.Plan = func(*backstore.Request) storetest.Fault {
			seen++
			return storetest.Fault{Hold: seen == at+1}
		}
		c := r.start(cdb, block, 0)
		r.turn()
		r.u.Abort(&c.Task)
		if c.dones != 0 {
			t.Fatal("ended while the backend had its buffer")
		}
		r.b.Release()
		r.turn()
		r.wantAborted(c, 1)
		if seen != at+1 {
			t.Errorf("aborted in write %d, %d writes", at, seen)
		}
	}
}

// An ordered task behind it starts when all of its writes are done.
func TestAnOrderedTaskWaitsForAllOfAWriteSame(t *testing.T) {
	r, cdb, block, want := emulated(t)
	r.start(cdb, block, 0)
	c := r.make(scsi.AppendTransfer10(nil, scsi.OpRead10, scsi.Extent{LBA: 2055, Blocks: 1}, 0), nil, 512)
	c.Attr = uint8(scsi.AttrOrdered)
	r.u.Start(&c.Task)
	r.turn()
	r.wantGood(c)
	if !bytes.Equal(c.in, want[2055*512:2056*512]) || len(r.order) < 2 || r.order[len(r.order)-1] != c {
		t.Error("the ordered task read before the WRITE SAME was done")
	}
}

// The buffer of a short limit is short, and whole blocks.
func TestPlainWritesKeepToTheLongestTransfer(t *testing.T) {
	r := powered(t, zeroes, func(i *backstore.Info) { i.MaxTransfer = 1500 })
	log := r.asked()
	c := r.run(same16(scsi.Extent{LBA: 1, Blocks: 5}, 0), bytes.Repeat([]byte{5}, 512), 0)
	r.wantGood(c)
	wantLog(t, log, "write/0 1+2", "write/0 3+2", "write/0 5+1")
	if c.asked != 1024 || !bytes.Equal(r.mem.Bytes()[512:6*512], bytes.Repeat([]byte{5}, 5*512)) {
		t.Errorf("buffer of %d, or wrong content", c.asked)
	}
}
