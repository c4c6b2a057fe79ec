package lu

import (
	"bytes"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/store"
	"github.com/gosrpt/gosrpt/core/store/storetest"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// epoch is the time of every poll in these tests.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// canary stands before and behind every buffer.
const canary = 0xC5

// cmd is a task and what its initiator and its host see of it.
type cmd struct {
	Task
	// out is what the initiator sends, and in what it gets.
	out, in []byte
	// asked is the size of the buffer that the unit wanted; forData tells that it wanted the initiator's data.
	asked   uint64
	forData bool
	dones   int
	mem     []byte
}

// rig is a unit, a store that can be made faulty, and a host.
type rig struct {
	t    testing.TB
	dev  *Device
	u    *Unit
	g    *store.Guard
	b    *storetest.Faulty
	mem  *store.Memory
	cmds []*cmd
	// manual leaves DataReady to the test.
	manual bool
	order  []*cmd // in order of their ends
}

const testBlocks = 2048

// everyPower is all that a disk can use.
const everyPower = backstore.PowerUnmap | backstore.PowerWriteZeroes | backstore.PowerCompareAndWrite | backstore.PowerWriteSame

func testInfo() backstore.Info {
	return backstore.Info{BlockSize: 512, Blocks: testBlocks, FUA: true, WriteCache: true}
}

func testConfig() Config {
	return Config{Name: "disk0", Identity: scsi.Identity{
		Vendor: "GOSRPT", Product: "TESTDISK", Revision: "1.0", Serial: "s-0001", NAA: scsi.LocalNAA("s-0001"),
	}}
}

func newRig(t testing.TB, cfg Config, info backstore.Info) *rig {
	t.Helper()
	r := &rig{t: t}
	p := store.NewPowered(info)
	r.mem = p.Memory
	r.b = storetest.Wrap(store.NewLocal(p, 256))
	r.b.Hide = ^info.Powers
	g, err := store.Open(r.b, store.Config{Name: cfg.Name})
	if err != nil {
		t.Fatal(err)
	}
	r.g = g
	if r.dev, err = NewDevice(cfg, g.Info()); err != nil {
		t.Fatal(err)
	}
	r.u = r.dev.Unit(g)
	return r
}

// greeted is a rig whose nexus 1 has seen the power-on unit attention.
func greeted(t testing.TB, cfg Config, info backstore.Info) *rig {
	t.Helper()
	r := newRig(t, cfg, info)
	r.wantSense(r.run(scsi.AppendTestUnitReady(nil), nil, 0), scsi.PowerOn)
	return r
}

func diskRig(t testing.TB) *rig {
	t.Helper()
	return greeted(t, testConfig(), testInfo())
}

func (r *rig) NeedBuffer(t *Task, n uint64)     { r.lease(t, n, n, false) }
func (r *rig) NeedData(t *Task, n, room uint64) { r.lease(t, n, room, true) }

func (r *rig) lease(t *Task, data, n uint64, forData bool) {
	c := r.cmds[t.Slot]
	if data > n {
		r.t.Fatalf("% x: asked for %d bytes in a buffer of %d", t.CDB, data, n)
	}
	if c.asked != 0 || n == 0 || n > MaxMaxTransfer {
		r.t.Fatalf("% x: asked for a buffer of %d after one of %d", t.CDB, n, c.asked)
	}
	c.asked, c.forData = n, forData
	c.mem = bytes.Repeat([]byte{canary}, int(n)+128)
	t.Buf = c.mem[64 : 64+n : 64+n]
	if forData {
		if data > t.OutLen || data == 0 {
			r.t.Fatalf("% x: asked for %d of %d bytes of data-out", t.CDB, data, t.OutLen)
		}
		copy(t.Buf[:data], c.out)
	}
	if !r.manual {
		r.u.DataReady(t)
	}
}

func (r *rig) Done(t *Task) {
	c := r.cmds[t.Slot]
	c.dones++
	r.order = append(r.order, c)
	if c.dones > 1 {
		r.t.Fatalf("% x: done %d times", t.CDB, c.dones)
	}
	if t.InUsed > t.InLen || t.InUsed > uint64(len(t.Buf)) || t.OutUsed > t.OutLen {
		r.t.Fatalf("% x: used %d in, %d out of %d, %d with a buffer of %d", t.CDB, t.InUsed, t.OutUsed, t.InLen, t.OutLen, len(t.Buf))
	}
	if (t.Status == scsi.StatusCheckCondition) != (len(t.Sense) == scsi.SenseSize) {
		r.t.Fatalf("% x: %v with sense % x", t.CDB, t.Status, t.Sense)
	}
	if n := len(c.mem); n > 0 && (bytes.Count(c.mem[:64], []byte{canary}) != 64 || bytes.Count(c.mem[n-64:], []byte{canary}) != 64) {
		r.t.Fatalf("% x: wrote outside the buffer", t.CDB)
	}
	c.in = append([]byte(nil), t.Buf[:t.InUsed]...)
}

// make makes a command of nexus 1 that was not started.
func (r *rig) make(cdb, out []byte, inLen uint64) *cmd {
	c := &cmd{out: out}
	c.CDB = append(append([]byte(nil), cdb...), make([]byte, max(0, scsi.MaxCDB-len(cdb)))...)
	c.OutLen, c.InLen = uint64(len(out)), inLen
	c.Nexus, c.Host, c.Slot = 1, r, uint32(len(r.cmds))
	r.cmds = append(r.cmds, c)
	return c
}

func (r *rig) start(cdb, out []byte, inLen uint64) *cmd {
	c := r.make(cdb, out, inLen)
	r.u.Start(&c.Task)
	return c
}

// turn is what a reactor does for a store in one turn, until there is nothing more to do.
func (r *rig) turn() {
	if r.g == nil {
		return
	}
	for {
		r.g.Flush()
		if !r.g.Poll(epoch) {
			return
		}
	}
}

// run runs a command to its end.
func (r *rig) run(cdb, out []byte, inLen uint64) *cmd {
	r.t.Helper()
	c := r.start(cdb, out, inLen)
	r.turn()
	if c.dones != 1 {
		r.t.Fatalf("% x: done %d times", cdb, c.dones)
	}
	return c
}

// data runs a command that returns all its data.
func (r *rig) data(cdb []byte, inLen uint64) []byte {
	r.t.Helper()
	c := r.run(cdb, nil, inLen)
	r.wantGood(c)
	return c.in
}

func (r *rig) wantGood(c *cmd) {
	r.t.Helper()
	if c.Status != scsi.StatusGood || c.Sense != nil {
		r.t.Fatalf("% x: %v, sense % x", c.CDB, c.Status, c.Sense)
	}
}

func (r *rig) sense(c *cmd) scsi.Sense {
	r.t.Helper()
	if c.Status != scsi.StatusCheckCondition {
		r.t.Fatalf("% x: %v, want CHECK CONDITION", c.CDB, c.Status)
	}
	s, err := scsi.ParseSense(c.Sense)
	if err != nil {
		r.t.Fatal(err)
	}
	if c.InUsed != 0 || c.OutUsed != 0 || c.Wanted != 0 {
		r.t.Fatalf("% x: failed, yet used %d in and %d out of %d wanted", c.CDB, c.InUsed, c.OutUsed, c.Wanted)
	}
	return s
}

func (r *rig) wantSense(c *cmd, want scsi.SenseCode) {
	r.t.Helper()
	if got := r.sense(c); got.Code != want {
		r.t.Fatalf("% x: sense %v, want %v", c.CDB, got.Code, want)
	}
}

func (r *rig) wantField(c *cmd, byteNo uint16, bit int8) {
	r.t.Helper()
	if got := r.sense(c); got != scsi.InvalidField(byteNo, bit) {
		r.t.Fatalf("% x: %v at %+v, want INVALID FIELD IN CDB at byte %d bit %d", c.CDB, got.Code, got.Field, byteNo, bit)
	}
}

// fill gives every block of the store content of its own.
func (r *rig) fill() {
	for i := range r.mem.Bytes() {
		r.mem.Bytes()[i] = byte(i>>9) ^ byte(i*7)
	}
}
