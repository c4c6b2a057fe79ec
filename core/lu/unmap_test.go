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

// unmap runs an UNMAP with a list of its own length.
func (r *rig) unmap(list []byte) *cmd {
	r.t.Helper()
	return r.run(scsi.AppendUnmap(nil, uint16(len(list))), list, 0)
}

func TestUnmapDoesItsDescriptorsInTurn(t *testing.T) {
	r := powered(t, unmap, unmapZeroes)
	log := r.asked()
	want := bytes.Clone(r.mem.Bytes())
	clear(want[8*512 : 10*512])
	clear(want[(testBlocks-1)*512:])
	clear(want[:512])
	list := scsi.AppendUnmapList(nil, scsi.Extent{LBA: 8, Blocks: 2}, scsi.Extent{LBA: 5}, scsi.Extent{LBA: testBlocks - 1, Blocks: 1},
		scsi.Extent{LBA: testBlocks}, scsi.Extent{LBA: 0, Blocks: 1})
	c := r.unmap(list)
	r.wantGood(c)
	wantLog(t, log, "unmap/0 8+2", fmt.Sprintf("unmap/0 %d+1", testBlocks-1), "unmap/0 0+1")
	if !bytes.Equal(r.mem.Bytes(), want) || c.OutUsed != uint64(len(list)) || c.Wanted != c.OutUsed || c.InUsed != 0 {
		t.Errorf("wrong content, or %d of %d", c.OutUsed, c.Wanted)
	}
}

func TestUnmapOfNothingIsNoError(t *testing.T) {
	r := powered(t, unmap)
	log := r.asked()
	for _, list := range [][]byte{nil, scsi.AppendUnmapList(nil), scsi.AppendUnmapList(nil, scsi.Extent{LBA: 3}, scsi.Extent{LBA: testBlocks})} {
		c := r.unmap(list)
		r.wantGood(c)
		if c.OutUsed != uint64(len(list)) || c.Wanted != c.OutUsed {
			t.Errorf("%d of %d, list of %d", c.OutUsed, c.Wanted, len(list))
		}
	}
	c := r.run(scsi.AppendUnmap(nil, 0), make([]byte, 100), 0) // a buffer that the CDB does not speak of
	r.wantGood(c)
	if c.OutUsed != 0 || c.asked != 0 {
		t.Errorf("used %d, asked for %d", c.OutUsed, c.asked)
	}
	wantLog(t, log)
}

// Lists with an error: the sense says what it is, and nothing is unmapped of the descriptors before it.
func TestUnmapRefusesWrongLists(t *testing.T) {
	good := scsi.Extent{LBA: 1, Blocks: 1}
	many := make([]scsi.Extent, maxUnmapDescriptors+1)
	tests := []struct {
		name string
		list []byte
		want scsi.Sense
	}{
		{"shorter than a header", make([]byte, 7), scsi.Sense{Code: scsi.ParameterListLengthError}},
		{"descriptor cut off", scsi.AppendUnmapList(nil, good, good)[:39], scsi.Sense{Code: scsi.ParameterListLengthError}},
		{"too many descriptors", scsi.AppendUnmapList(nil, many...), scsi.InvalidParameter(2)},
		{"behind the end", scsi.AppendUnmapList(nil, good, scsi.Extent{LBA: testBlocks, Blocks: 1}), scsi.Sense{Code: scsi.LBAOutOfRange}},
		{"over the end", scsi.AppendUnmapList(nil, good, scsi.Extent{LBA: testBlocks - 1, Blocks: 2}), scsi.Sense{Code: scsi.LBAOutOfRange}},
		{"nothing, far behind the end", scsi.AppendUnmapList(nil, good, scsi.Extent{LBA: testBlocks + 1}), scsi.Sense{Code: scsi.LBAOutOfRange}},
		{"sum that wraps", scsi.AppendUnmapList(nil, good, scsi.Extent{LBA: math.MaxUint64, Blocks: 2}), scsi.Sense{Code: scsi.LBAOutOfRange}},
		{"greatest of all", scsi.AppendUnmapList(nil, good, scsi.Extent{LBA: math.MaxUint64, Blocks: math.MaxUint32}), scsi.Sense{Code: scsi.LBAOutOfRange}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := powered(t, unmap, unmapZeroes)
			log := r.asked()
			if got := r.sense(r.unmap(tt.list)); got != tt.want {
				t.Errorf("%v at %+v, want %v at %+v", got.Code, got.Field, tt.want.Code, tt.want.Field)
			}
			wantLog(t, log)
		})
	}
	r := powered(t, unmap)
	r.wantGood(r.unmap(scsi.AppendUnmapList(nil, many[:maxUnmapDescriptors]...)))
}

// The limit of blocks is one for all descriptors together.
func TestUnmapLimitOfBlocks(t *testing.T) {
	r := powered(t, unmap, func(i *backstore.Info) { i.Blocks = 8192 })
	g := *r.dev.geo.Load()
	g.limits.MaxUnmap = 100
	r.dev.geo.Store(&g)
	r.wantGood(r.unmap(scsi.AppendUnmapList(nil, scsi.Extent{Blocks: 60}, scsi.Extent{LBA: 100, Blocks: 40})))
	for _, list := range [][]scsi.Extent{{{Blocks: 60}, {LBA: 100, Blocks: 41}}, {{}, {Blocks: 101}}} {
		if got := r.sense(r.unmap(scsi.AppendUnmapList(nil, list...))); got != scsi.InvalidParameter(8+16+8) {
			t.Errorf("%+v: %v at %+v", list, got.Code, got.Field)
		}
	}
}

func TestUnmapWithABufferOfAnotherLength(t *testing.T) {
	list := scsi.AppendUnmapList(nil, scsi.Extent{LBA: 8, Blocks: 1})
	r := powered(t, unmap)
	log := r.asked()
	for _, n := range []int{0, 1, 8, len(list) - 1} {
		c := r.run(scsi.AppendUnmap(nil, uint16(len(list))), list[:n], 0)
		r.wantSense(c, scsi.InvalidFieldInIU)
		if c.asked != 0 {
			t.Errorf("%d bytes: asked for a buffer", n)
		}
	}
	wantLog(t, log)
	c := r.run(scsi.AppendUnmap(nil, uint16(len(list))), append(list, 1, 2, 3), 0)
	r.wantGood(c)
	if c.OutUsed != uint64(len(list)) {
		t.Errorf("used %d", c.OutUsed)
	}
}

func TestUnmapRefusesANCHOR(t *testing.T) {
	r := powered(t, unmap)
	cdb := scsi.AppendUnmap(nil, 0)
	cdb[1] = 1
	r.wantField(r.run(cdb, nil, 0), 1, 0)
}

// A descriptor that fails ends the command with its error; those before it are done, those behind it are not.
func TestUnmapEndsAtTheDescriptorThatFails(t *testing.T) {
	extents := make([]scsi.Extent, maxUnmapDescriptors)
	for i := range extents {
		extents[i] = scsi.Extent{LBA: uint64(i), Blocks: 1}
	}
	list := scsi.AppendUnmapList(nil, extents...)
	for _, at := range []int{0, 1, 128, maxUnmapDescriptors - 1} {
		r := powered(t, unmap, unmapZeroes)
		before := bytes.Clone(r.mem.Bytes())
		seen := 0
		r.b.Plan = func(*backstore.Request) storetest.Fault {
			seen++
			if seen == at+1 {
				return storetest.Fault{Skip: true, Code: backstore.CodeIO}
			}
			return storetest.Fault{}
		}
		r.wantSense(r.unmap(list), scsi.WriteError)
		clear(before[:at*512])
		if seen != at+1 || !bytes.Equal(r.mem.Bytes(), before) {
			t.Errorf("descriptor %d: %d requests, or wrong content", at, seen)
		}
	}
}

// The store's process can write to the list. What it makes of it stays inside the disk, or is refused.
func TestUnmapOfAListThatChangesUnderWay(t *testing.T) {
	r := powered(t, unmap, unmapZeroes)
	log := r.asked()
	list := scsi.AppendUnmapList(nil, scsi.Extent{LBA: 1, Blocks: 1}, scsi.Extent{LBA: 3, Blocks: 1})
	c := r.start(scsi.AppendUnmap(nil, uint16(len(list))), list, 0)
	copy(c.Buf, scsi.AppendUnmapList(nil, scsi.Extent{}, scsi.Extent{LBA: 1 << 55, Blocks: 1})) // byte 0, if it wrapped
	copy(c.Buf[:8], bytes.Repeat([]byte{0xFF}, 8))
	r.turn()
	r.wantSense(c, scsi.LBAOutOfRange)
	wantLog(t, log, "unmap/0 1+1")
}
