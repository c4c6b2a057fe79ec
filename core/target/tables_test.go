package target

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// scattered names n blocks of a region in pieces, last piece first; every seventh entry has no length.
func scattered(r rdma.Region, blocks, piece int) []rdma.SGE {
	var list []rdma.SGE
	for off := blocks * 512; off > 0; {
		n := min(piece, off)
		off -= n
		list = append(list, rdma.SGE{Region: r, Off: uint64(off), Len: uint64(n)})
		if len(list)%7 == 0 {
			list = append(list, rdma.SGE{Region: r})
		}
	}
	return list
}

func wait(t *testing.T, s *initiator.Session, c *initiator.Command) error {
	t.Helper()
	done := make(chan struct{})
	c.Done = func(*initiator.Command) { close(done) }
	if _, err := s.Submit(c); err != nil {
		t.Fatal(err)
	}
	<-done
	return c.Result.Check()
}

// throughTables writes and reads with tables whose first entries only are in the unit, and compares.
func throughTables(t *testing.T, g *rig, s *initiator.Session, blocks, piece int) {
	t.Helper()
	mem := make([]byte, blocks*512)
	r, err := s.Register(mem)
	if err != nil {
		t.Fatal(err)
	}
	list := scattered(r, blocks, piece)
	want := pattern(len(mem), byte(piece))
	copy(mem, want)
	w := &initiator.Command{CDB: initiator.Write16(8, uint32(blocks)), Out: list, Format: initiator.FormatIndirect}
	if err := wait(t, s, w); err != nil {
		t.Fatalf("write of %d entries: %v", len(list), err)
	}
	var disk []byte
	for i := range list { // the disk has the pieces in the order of the table
		disk = append(disk, want[list[i].Off:list[i].Off+list[i].Len]...)
	}
	if got := g.memory.Bytes()[8*512:][:len(disk)]; !bytes.Equal(got, disk) {
		t.Fatalf("%d entries: the disk differs from what was written", len(list))
	}
	clear(mem)
	rd := &initiator.Command{CDB: initiator.Read16(8, uint32(blocks)), In: list, Format: initiator.FormatIndirect}
	if err := wait(t, s, rd); err != nil {
		t.Fatalf("read of %d entries: %v", len(list), err)
	}
	if !bytes.Equal(mem, want) {
		t.Fatalf("%d entries: what was read differs from the disk", len(list))
	}
	if w.Result.Out != 0 || rd.Result.In != 0 {
		t.Errorf("residuals %d and %d", w.Result.Out, rd.Result.In)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func withTables(entries int) func(*initiator.Config) {
	return func(c *initiator.Config) {
		c.ListEntries, c.TableEntries = entries, 4096
		c.IULen = 8260
	}
}

// TestTablesInInitiatorMemory also is case B05.3: tables of every length, with entries that have none.
func TestTablesInInitiatorMemory(t *testing.T) {
	leaktest.Check(t)
	for _, entries := range []int{1, 2, 12, 255} {
		g := newRig(t)
		s := g.ready(withTables(entries))
		for _, c := range []struct{ blocks, piece int }{{1, 512}, {8, 512}, {64, 1000}, {300, 512}, {1700, 512}, {2048, 65536}} {
			throughTables(t, g, s, c.blocks, c.piece)
		}
		if err := s.Logout(t.Context()); err != nil {
			t.Error(err)
		}
		g.empty()
		g.do(func() {
			if a := g.target.reactor.TableStats(); a.Held != 0 || a.Granted == 0 || a.Faults != 0 {
				t.Errorf("%d entries in a unit: %+v", entries, a)
			}
		})
	}
}

func TestTablesInInitiatorMemoryOverRoCE(t *testing.T) {
	leaktest.Check(t)
	g, s := overRoCE(t, withTables(12))
	for _, c := range []struct{ blocks, piece int }{{16, 512}, {1700, 512}, {2048, 4096}} {
		throughTables(t, g, s, c.blocks, c.piece)
	}
	if err := s.Logout(t.Context()); err != nil {
		t.Error(err)
	}
	g.empty()
}

// TestTableThatCannotBeReadEndsTheChannel: the READ of the table fails as for a wrong key, and the queue pair breaks. The target has nothing left
// of it, and the next login finds everything as it was.
func TestTableThatCannotBeReadEndsTheChannel(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	s := g.ready(withTables(2))
	mem := make([]byte, 64*512)
	r, err := s.Register(mem)
	if err != nil {
		t.Fatal(err)
	}
	g.dev.FailAfter(0, rdma.OpRead, rdma.StatusRemoteAccess)
	c := &initiator.Command{CDB: initiator.Read16(0, 64), In: scattered(r, 64, 512), Format: initiator.FormatIndirect}
	if err := wait(t, s, c); err == nil {
		t.Error("a command was carried out without its table")
	}
	s.Close()
	g.empty()
	g.ready(withTables(2))
}

func TestTableLongerThanTheTargetReads(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	s := g.ready(withTables(1))
	mem := make([]byte, 4096)
	r, err := s.Register(mem)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]rdma.SGE, 2049) // one more than blocks in the longest transfer
	for i := range list {
		list[i] = rdma.SGE{Region: r}
	}
	list[2048].Len = 512
	for _, n := range []int{2049, 2048} {
		c := &initiator.Command{CDB: initiator.Read16(0, 1), In: list[2049-n:], Format: initiator.FormatIndirect}
		err := wait(t, s, c)
		if want := [3]byte{5, 0x24, 0}; n == 2049 && sense(err) != want || n == 2048 && err != nil {
			t.Errorf("%d entries: %v", n, err)
		}
	}
}

// TestTableRoomIsSharedInTurn has more commands with tables than there is room for, on four channels.
func TestTableRoomIsSharedInTurn(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	s := g.ready(withTables(1), func(c *initiator.Config) { c.Channels = 4 })
	mem := make([]byte, 512)
	r, err := s.Register(mem)
	if err != nil {
		t.Fatal(err)
	}
	g.do(func() {
		a := g.target.reactor.TableStats()
		if a.Size != tableArena {
			t.Errorf("%d bytes of table room", a.Size)
		}
	})
	list := make([]rdma.SGE, 2048)
	for i := range list {
		list[i] = rdma.SGE{Region: r}
	}
	list[2047].Len = 512
	done := make(chan error, 60)
	for i := range 60 {
		c := &initiator.Command{CDB: initiator.Read16(uint64(i), 1), In: list, Format: initiator.FormatIndirect,
			Done: func(c *initiator.Command) { done <- c.Result.Check() }}
		if _, err := s.Submit(c); err != nil {
			t.Fatal(err)
		}
	}
	for range 60 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if err := tur(t, s, srp.LUN{}); err != nil {
		t.Error(fmt.Errorf("after the commands with tables: %w", err))
	}
}
