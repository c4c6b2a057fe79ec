package lu

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/store"
	"github.com/gosrpt/gosrpt/core/store/storetest"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// transfers builds a READ or WRITE in each length; write is 2 or 0 on top of the READ's opcode.
var transfers = map[string]struct {
	read, write scsi.Opcode
	build       func(op scsi.Opcode, e scsi.Extent) []byte
	maxLBA      uint64
	maxBlocks   uint64
}{
	"6":  {scsi.OpRead6, scsi.OpWrite6, func(op scsi.Opcode, e scsi.Extent) []byte { return scsi.AppendTransfer6(nil, op, e) }, 1<<21 - 1, 256},
	"10": {scsi.OpRead10, scsi.OpWrite10, func(op scsi.Opcode, e scsi.Extent) []byte { return scsi.AppendTransfer10(nil, op, e, 0) }, math.MaxUint32, math.MaxUint16},
	"12": {scsi.OpRead12, scsi.OpWrite12, func(op scsi.Opcode, e scsi.Extent) []byte { return scsi.AppendTransfer12(nil, op, e, 0) }, math.MaxUint32, math.MaxUint32},
	"16": {scsi.OpRead16, scsi.OpWrite16, func(op scsi.Opcode, e scsi.Extent) []byte { return scsi.AppendTransfer16(nil, op, e, 0) }, math.MaxUint64, math.MaxUint32},
}

func TestReadsAndWritesMoveTheRightBlocks(t *testing.T) {
	for name, tr := range transfers {
		t.Run(name, func(t *testing.T) {
			r := diskRig(t)
			r.fill()
			for _, e := range []scsi.Extent{{LBA: 0, Blocks: 1}, {LBA: 7, Blocks: 256}, {LBA: testBlocks - 1, Blocks: 1}, {LBA: testBlocks - 200, Blocks: 200}} {
				n, off := e.Blocks*512, e.LBA*512
				c := r.run(tr.build(tr.read, e), nil, n)
				r.wantGood(c)
				if !bytes.Equal(c.in, r.mem.Bytes()[off:off+n]) || c.Wanted != n || c.OutUsed != 0 {
					t.Errorf("READ %+v: %d bytes of %d, or other ones", e, len(c.in), n)
				}
				want := bytes.Clone(r.mem.Bytes())
				data := bytes.Repeat([]byte{byte(e.LBA), 0x5A}, int(n/2))
				copy(want[off:], data)
				c = r.run(tr.build(tr.write, e), data, 0)
				r.wantGood(c)
				if !bytes.Equal(r.mem.Bytes(), want) || c.OutUsed != n || c.Wanted != n || c.InUsed != 0 {
					t.Errorf("WRITE %+v: %d bytes of %d, or wrong content", e, c.OutUsed, n)
				}
			}
		})
	}
}

func TestSixByteLengthZeroIs256Blocks(t *testing.T) {
	r := diskRig(t)
	c := r.run([]byte{0x08, 0, 0, 1, 0, 0}, nil, 1<<20)
	if c.InUsed != 256*512 {
		t.Errorf("READ(6): %d bytes", c.InUsed)
	}
}

func TestLBAsBeyondTheEndAreRefused(t *testing.T) {
	for name, tr := range transfers {
		t.Run(name, func(t *testing.T) {
			r := diskRig(t)
			extents := []scsi.Extent{
				{LBA: testBlocks, Blocks: 1}, {LBA: testBlocks - 1, Blocks: 2}, {LBA: tr.maxLBA, Blocks: 1},
				{LBA: tr.maxLBA, Blocks: min(tr.maxBlocks, 256)},
			}
			if name != "6" {
				extents = append(extents, scsi.Extent{LBA: testBlocks + 1}, scsi.Extent{LBA: tr.maxLBA},
					scsi.Extent{LBA: tr.maxLBA, Blocks: tr.maxBlocks}, scsi.Extent{LBA: 1, Blocks: tr.maxBlocks})
			}
			for _, e := range extents {
				for _, op := range []scsi.Opcode{tr.read, tr.write} {
					c := r.run(tr.build(op, e), make([]byte, 512), 512)
					r.wantSense(c, scsi.LBAOutOfRange)
					if c.asked != 0 {
						t.Errorf("%v %+v asked for a buffer", op, e)
					}
				}
			}
		})
	}
}

func TestNoBlocksIsNoError(t *testing.T) {
	r := diskRig(t)
	for name, tr := range transfers {
		if name == "6" {
			continue
		}
		for _, lba := range []uint64{0, testBlocks - 1, testBlocks} {
			for _, op := range []scsi.Opcode{tr.read, tr.write} {
				c := r.run(tr.build(op, scsi.Extent{LBA: lba}), nil, 0)
				r.wantGood(c)
				if c.asked != 0 || c.Wanted != 0 {
					t.Errorf("%v at %d: asked for %d, wanted %d", op, lba, c.asked, c.Wanted)
				}
			}
		}
	}
	if s := r.g.Stats(); s.Reads+s.Writes != 0 {
		t.Errorf("%+v", s)
	}
}

func TestTransfersLongerThanBlockLimitsSayAreRefused(t *testing.T) {
	cfg := testConfig()
	cfg.MaxTransfer = 64 << 10
	r := greeted(t, cfg, testInfo())
	at := map[string]uint16{"10": 7, "12": 6, "16": 10}
	for name, tr := range transfers {
		if name == "6" {
			continue
		}
		for _, op := range []scsi.Opcode{tr.read, tr.write} {
			buf := make([]byte, 129*512)
			r.wantGood(r.run(tr.build(op, scsi.Extent{Blocks: 128}), buf, uint64(len(buf))))
			r.wantField(r.run(tr.build(op, scsi.Extent{Blocks: 129}), buf, uint64(len(buf))), at[name], scsi.NoBit)
		}
	}
	r.wantField(r.run([]byte{0x08, 0, 0, 0, 0, 0}, nil, 1<<20), 4, scsi.NoBit)
}

// Residuals: what is moved when the CDB and the initiator's buffers do not agree.
//
//	command | buffer                   | moved            | status
//	--------+--------------------------+------------------+-------------------------------
//	READ    | larger                   | what CDB says    | GOOD, underflow
//	READ    | smaller, none            | what fits        | GOOD, overflow
//	READ    | none, but data-out       | nothing          | 05/0E/03
//	WRITE   | larger                   | what CDB says    | GOOD, underflow
//	WRITE   | smaller, none, data-in   | nothing          | 05/0E/03
func TestBuffersThatDoNotFitTheCDB(t *testing.T) {
	const n = 4 * 512
	tests := []struct {
		out, in uint64
		read    uint64 // bytes moved, or bad
		write   uint64
	}{
		{n, n, n, n},
		{n + 100, n + 100, n, n},
		{n - 1, n - 1, n - 1, bad},
		{513, 513, 513, bad},
		{512, 512, 512, bad},
		{1, 1, 1, bad},
		{0, 0, 0, bad},
		{n, 0, bad, n},
		{0, n, n, bad},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("out %d in %d", tt.out, tt.in), func(t *testing.T) {
			r := diskRig(t)
			r.fill()
			before := bytes.Clone(r.mem.Bytes())
			e := scsi.Extent{LBA: 3, Blocks: 4}
			c := r.run(scsi.AppendTransfer10(nil, scsi.OpRead10, e, 0), make([]byte, tt.out), tt.in)
			if tt.read == bad {
				r.wantSense(c, scsi.InvalidFieldInIU)
			} else {
				r.wantGood(c)
				if c.InUsed != tt.read || c.Wanted != n || !bytes.Equal(c.in, before[3*512:3*512+tt.read]) {
					t.Errorf("READ: %d of %d", c.InUsed, c.Wanted)
				}
			}
			data := bytes.Repeat([]byte{0xEE}, int(tt.out))
			c = r.run(scsi.AppendTransfer10(nil, scsi.OpWrite10, e, 0), data, tt.in)
			if tt.write == bad {
				r.wantSense(c, scsi.InvalidFieldInIU)
				if !bytes.Equal(r.mem.Bytes(), before) {
					t.Error("a refused WRITE wrote")
				}
				return
			}
			r.wantGood(c)
			copy(before[3*512:], data[:n])
			if c.OutUsed != tt.write || c.Wanted != n || !bytes.Equal(r.mem.Bytes(), before) {
				t.Errorf("WRITE: %d of %d, or wrong content", c.OutUsed, c.Wanted)
			}
		})
	}
}

const bad = math.MaxUint64

func TestAShortReadReadsOnlyTheBlocksItNeeds(t *testing.T) {
	r := diskRig(t)
	c := r.run(scsi.AppendTransfer10(nil, scsi.OpRead10, scsi.Extent{Blocks: 100}, 0), nil, 700)
	if c.asked != 1024 || r.g.Stats().BytesRead != 1024 {
		t.Errorf("asked for %d, read %d", c.asked, r.g.Stats().BytesRead)
	}
}

func TestWritesAreRefusedWhereTheyMustNotBe(t *testing.T) {
	write := scsi.AppendTransfer16(nil, scsi.OpWrite16, scsi.Extent{Blocks: 1}, 0)
	info := testInfo()
	info.ReadOnly = true
	r := greeted(t, testConfig(), info)
	r.wantSense(r.run(write, make([]byte, 512), 0), scsi.WriteProtected)
	r.wantGood(r.run(scsi.AppendTransfer10(nil, scsi.OpRead10, scsi.Extent{Blocks: 1}, 0), nil, 512))

	r = diskRig(t)
	c := r.make(write, make([]byte, 512), 0)
	c.ReadOnly = true
	r.u.Start(&c.Task)
	r.wantSense(c, scsi.WriteProtected)
	r.wantGood(r.run(write, make([]byte, 512), 0))
}

// trace notes what the store was asked.
func (r *rig) trace() *[]string {
	var log []string
	r.b.Plan = func(q *backstore.Request) storetest.Fault {
		log = append(log, fmt.Sprintf("%d/%d", q.Op, q.Flags))
		return storetest.Fault{}
	}
	return &log
}

func TestFUAIsTheStoresBusinessOrAFlush(t *testing.T) {
	const read, write, writeFUA, flush = "1/0", "2/0", "2/1", "3/0"
	tests := []struct {
		name       string
		fua, cache bool
		flags      byte
		wantWrite  []string
		wantRead   []string
	}{
		{"plain", true, true, 0, []string{write}, []string{read}},
		{"DPO", true, true, scsi.FlagDPO, []string{write}, []string{read}},
		{"FUA", true, true, scsi.FlagFUA, []string{writeFUA}, []string{flush, read}},
		{"FUA and DPO", true, true, scsi.FlagFUA | scsi.FlagDPO, []string{writeFUA}, []string{flush, read}},
		{"FUA, which the store cannot", false, true, scsi.FlagFUA, []string{write, flush}, []string{flush, read}},
		{"FUA without a cache", false, false, scsi.FlagFUA, []string{write}, []string{read}},
	}
	e := scsi.Extent{LBA: 1, Blocks: 1}
	for _, tt := range tests {
		for name, tr := range transfers {
			if name == "6" {
				continue
			}
			t.Run(tt.name+name, func(t *testing.T) {
				info := testInfo()
				info.FUA, info.WriteCache = tt.fua, tt.cache
				r := greeted(t, testConfig(), info)
				r.fill()
				log := r.trace()
				cdb := tr.build(tr.write, e)
				cdb[1] = tt.flags
				c := r.run(cdb, bytes.Repeat([]byte{0xAB}, 512), 0)
				r.wantGood(c)
				if fmt.Sprint(*log) != fmt.Sprint(tt.wantWrite) || c.OutUsed != 512 {
					t.Errorf("WRITE: %v, want %v", *log, tt.wantWrite)
				}
				*log = nil
				cdb = tr.build(tr.read, e)
				cdb[1] = tt.flags
				c = r.run(cdb, nil, 512)
				r.wantGood(c)
				if fmt.Sprint(*log) != fmt.Sprint(tt.wantRead) || !bytes.Equal(c.in, r.mem.Bytes()[512:1024]) || c.in[0] != 0xAB {
					t.Errorf("READ: %v, want %v, or other blocks", *log, tt.wantRead)
				}
			})
		}
	}
}

func TestAFailedFlushFailsTheCommandThatNeedsIt(t *testing.T) {
	info := testInfo()
	info.FUA = false
	r := greeted(t, testConfig(), info)
	r.b.Plan = func(q *backstore.Request) storetest.Fault {
		if q.Op == backstore.OpFlush {
			return storetest.Fault{Code: backstore.CodeIO}
		}
		return storetest.Fault{}
	}
	e := scsi.Extent{Blocks: 1}
	r.wantSense(r.run(scsi.AppendTransfer10(nil, scsi.OpWrite10, e, scsi.FlagFUA), make([]byte, 512), 0), scsi.WriteError)
	r.wantSense(r.run(scsi.AppendTransfer10(nil, scsi.OpRead10, e, scsi.FlagFUA), nil, 512), scsi.WriteError)
	r.wantSense(r.run(scsi.AppendTransfer10(nil, scsi.OpSynchronizeCache10, scsi.Extent{}, scsi.FlagIMMED), nil, 0), scsi.WriteError)
}

func TestSynchronizeCacheFlushes(t *testing.T) {
	r := diskRig(t)
	tests := []struct {
		name string
		cdb  []byte
		ok   bool
	}{
		{"10, all", scsi.AppendTransfer10(nil, scsi.OpSynchronizeCache10, scsi.Extent{}, 0), true},
		{"10, a part", scsi.AppendTransfer10(nil, scsi.OpSynchronizeCache10, scsi.Extent{LBA: 5, Blocks: 9}, 0), true},
		{"10, at once", scsi.AppendTransfer10(nil, scsi.OpSynchronizeCache10, scsi.Extent{}, scsi.FlagIMMED), true},
		{"16, all", scsi.AppendTransfer16(nil, scsi.OpSynchronizeCache16, scsi.Extent{}, 0), true},
		{"16, longer than a transfer", scsi.AppendTransfer16(nil, scsi.OpSynchronizeCache16, scsi.Extent{Blocks: testBlocks}, 0), true},
		{"10, beyond the end", scsi.AppendTransfer10(nil, scsi.OpSynchronizeCache10, scsi.Extent{LBA: testBlocks, Blocks: 1}, 0), false},
		{"16, far beyond", scsi.AppendTransfer16(nil, scsi.OpSynchronizeCache16, scsi.Extent{LBA: math.MaxUint64}, 0), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := r.g.Stats().Flushes
			c := r.run(tt.cdb, nil, 0)
			if !tt.ok {
				r.wantSense(c, scsi.LBAOutOfRange)
			} else {
				r.wantGood(c)
			}
			if got := r.g.Stats().Flushes - before; (got == 1) != tt.ok {
				t.Errorf("%d flushes", got)
			}
		})
	}
}

func TestAHostThatGivesLessThanAskedIsNotBelieved(t *testing.T) {
	r := diskRig(t)
	r.manual = true
	c := r.start(scsi.AppendTransfer10(nil, scsi.OpRead10, scsi.Extent{Blocks: 2}, 0), nil, 1024)
	c.Buf = c.Buf[:1023]
	r.u.DataReady(&c.Task)
	r.turn()
	r.wantSense(c, scsi.InternalTargetFailure)
}

func TestRandomTransfersAgreeWithAModel(t *testing.T) {
	r := diskRig(t)
	model := make([]byte, testBlocks*512)
	rng := rand.New(rand.NewPCG(3, 4))
	kinds := []string{"6", "10", "12", "16"}
	for range 3000 {
		tr := transfers[kinds[rng.IntN(len(kinds))]]
		e := scsi.Extent{LBA: rng.Uint64N(testBlocks), Blocks: 1 + rng.Uint64N(64)}
		e.Blocks = min(e.Blocks, testBlocks-e.LBA)
		part := model[e.LBA*512 : (e.LBA+e.Blocks)*512]
		if rng.IntN(2) == 0 {
			for i := range part {
				part[i] = byte(rng.Uint32())
			}
			r.wantGood(r.run(tr.build(tr.write, e), part, 0))
			continue
		}
		c := r.run(tr.build(tr.read, e), nil, e.Blocks*512)
		if !bytes.Equal(c.in, part) {
			t.Fatalf("%+v: data differs", e)
		}
	}
	if !bytes.Equal(r.mem.Bytes(), model) {
		t.Error("content differs at the end")
	}
}

func TestBlocksOf4096(t *testing.T) {
	r := greeted(t, testConfig(), backstore.Info{BlockSize: 4096, Blocks: 64})
	r.fill()
	c := r.run(scsi.AppendTransfer16(nil, scsi.OpRead16, scsi.Extent{LBA: 63, Blocks: 1}, 0), nil, 4096)
	r.wantGood(c)
	if !bytes.Equal(c.in, r.mem.Bytes()[63*4096:]) {
		t.Error("data differs")
	}
	r.wantSense(r.run(scsi.AppendTransfer16(nil, scsi.OpRead16, scsi.Extent{LBA: 64, Blocks: 1}, 0), nil, 4096), scsi.LBAOutOfRange)
}

// A guard whose arena does not have the host's buffer refuses it, and the initiator hears of a fault of ours.
func TestABufferOutsideTheArenaIsAnErrorOfOurs(t *testing.T) {
	r := diskRig(t)
	g, err := store.Open(store.NewLocal(r.mem, 4), store.Config{Arena: make([]byte, 1<<20)})
	if err != nil {
		t.Fatal(err)
	}
	r.u = r.dev.Unit(g)
	r.g = g
	r.wantSense(r.run(scsi.AppendTransfer10(nil, scsi.OpRead10, scsi.Extent{Blocks: 1}, 0), nil, 512), scsi.InternalTargetFailure)
}
