package lu

import (
	"bytes"
	"testing"

	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/store"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// lean is a host as an engine is one: it has its buffer, and allocates nothing.
type lean struct {
	u    *Unit
	buf  []byte
	out  []byte
	good int
}

func (h *lean) NeedBuffer(t *Task, n uint64) { t.Buf = h.buf[:n]; h.u.DataReady(t) }
func (h *lean) NeedData(t *Task, n, room uint64) {
	t.Buf = h.buf[:room]
	copy(t.Buf[:n], h.out)
	h.u.DataReady(t)
}
func (h *lean) Done(t *Task) {
	if t.Status == scsi.StatusGood {
		h.good++
	}
}

// path is the way of a command through this package, the guard and an in-process store.
type path struct {
	h lean
	g *store.Guard
	t Task
}

func newPath(tb testing.TB, cdb []byte) *path {
	arena := make([]byte, 1<<20)
	info := testInfo()
	info.Powers, info.UnmapZeroes, info.MaxCompareAndWrite = everyPower, true, 4096
	if scsi.Opcode(cdb[0]) == scsi.OpWriteSame10 {
		info.Powers &^= same1 // so that it becomes plain writes
	}
	b := described{store.NewLocal(store.NewPowered(info), 64), info}
	g, err := store.Open(b, store.Config{Arena: arena})
	if err != nil {
		tb.Fatal(err)
	}
	d, err := NewDevice(testConfig(), g.Info())
	if err != nil {
		tb.Fatal(err)
	}
	p := &path{g: g, h: lean{u: d.Unit(g), buf: arena}}
	p.t = Task{CDB: append(cdb, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), Host: &p.h, Nexus: 1, OutLen: 4096, InLen: 4096}
	switch scsi.Opcode(cdb[0]) {
	case scsi.OpUnmap:
		p.h.out = scsi.AppendUnmapList(nil, scsi.Extent{LBA: 1, Blocks: 1}, scsi.Extent{LBA: 8, Blocks: 8})
	case scsi.OpWriteSame10, scsi.OpWriteSame16:
		p.h.out = bytes.Repeat([]byte{1}, 512)
	}
	if p.h.out != nil {
		p.t.OutLen = uint64(len(p.h.out))
	}
	p.run() // the unit attention
	return p
}

// described is a backend with a description of its own.
type described struct {
	store.Backend
	info backstore.Info
}

func (d described) Info() backstore.Info { return d.info }

func (p *path) run() {
	p.h.u.Start(&p.t)
	for worked := true; worked; {
		p.g.Flush()
		worked = p.g.Poll(epoch)
	}
}

var paths = map[string][]byte{
	"READ(10)":              scsi.AppendTransfer10(nil, scsi.OpRead10, scsi.Extent{LBA: 8, Blocks: 8}, 0),
	"READ(16)":              scsi.AppendTransfer16(nil, scsi.OpRead16, scsi.Extent{LBA: 8, Blocks: 8}, 0),
	"WRITE(10)":             scsi.AppendTransfer10(nil, scsi.OpWrite10, scsi.Extent{LBA: 8, Blocks: 8}, 0),
	"WRITE(16) FUA":         scsi.AppendTransfer16(nil, scsi.OpWrite16, scsi.Extent{LBA: 8, Blocks: 8}, scsi.FlagFUA),
	"SYNCHRONIZE CACHE(10)": scsi.AppendTransfer10(nil, scsi.OpSynchronizeCache10, scsi.Extent{}, 0),
	"UNMAP":                 scsi.AppendUnmap(nil, 40),
	"WRITE SAME(10)":        scsi.AppendTransfer10(nil, scsi.OpWriteSame10, scsi.Extent{LBA: 8, Blocks: 1200}, 0),
	"WRITE SAME(16)":        scsi.AppendTransfer16(nil, scsi.OpWriteSame16, scsi.Extent{LBA: 8, Blocks: 1200}, 0),
	"COMPARE AND WRITE":     scsi.AppendCompareAndWrite(nil, scsi.Extent{LBA: 8, Blocks: 4}, scsi.FlagFUA),
	"TEST UNIT READY":       scsi.AppendTestUnitReady(nil),
	"INQUIRY":               scsi.AppendInquiry(nil, 96),
	"MODE SENSE(6)":         scsi.AppendModeSense6(nil, scsi.PageAll, 0, 192),
}

func TestACommandAllocatesNothing(t *testing.T) {
	for name, cdb := range paths {
		p := newPath(t, cdb)
		if n := testing.AllocsPerRun(500, p.run); n != 0 || p.h.good == 0 {
			t.Errorf("%s: %v allocations, %d good", name, n, p.h.good)
		}
	}
}

func TestAFailedCommandAllocatesNothing(t *testing.T) {
	for _, cdb := range [][]byte{
		{0xC1, 0, 0, 0, 0, 0},
		scsi.AppendTransfer16(nil, scsi.OpRead16, scsi.Extent{LBA: 1 << 40, Blocks: 1}, 0),
		scsi.AppendTransfer10(nil, scsi.OpRead10, scsi.Extent{Blocks: 1}, 1),
	} {
		p := newPath(t, cdb)
		if n := testing.AllocsPerRun(500, p.run); n != 0 || p.t.Status != scsi.StatusCheckCondition {
			t.Errorf("% x: %v allocations, %v", cdb, n, p.t.Status)
		}
	}
}

func benchmark(b *testing.B, name string) {
	p := newPath(b, paths[name])
	b.ReportAllocs()
	b.SetBytes(4096)
	for b.Loop() {
		p.run()
	}
	if p.h.good != b.N {
		b.Fatalf("%d of %d good", p.h.good, b.N)
	}
}

func BenchmarkRead4K(b *testing.B)  { benchmark(b, "READ(10)") }
func BenchmarkWrite4K(b *testing.B) { benchmark(b, "WRITE(10)") }
