package initiator

import (
	"testing"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// load keeps a number of commands outstanding and says when a batch is done.
type load struct {
	s        *Session
	commands []*Command
	left     int
	done     chan struct{}
	err      error
}

func newLoad(b *bed, depth int, fill func(*Command, rdma.Region)) *load {
	l := &load{s: b.dial(), done: make(chan struct{})}
	for range depth {
		c := &Command{Done: l.end}
		fill(c, b.memory(l.s, 4096))
		l.commands = append(l.commands, c)
	}
	return l
}

func (l *load) end(c *Command) {
	if c.Result.Err != nil || c.Result.Status != 0 {
		l.err = c.Result.Check()
	}
	if l.left--; l.left == 0 {
		l.done <- struct{}{}
	}
}

func (l *load) batch(tb testing.TB) {
	l.left = len(l.commands)
	if _, err := l.s.Submit(l.commands...); err != nil {
		tb.Fatal(err)
	}
	if <-l.done; l.err != nil {
		tb.Fatal(l.err)
	}
}

// loads are commands of 4 KiB in every format.
var loads = []struct {
	name string
	fill func(*Command, rdma.Region)
}{
	{"ReadDirect", func(c *Command, r rdma.Region) { c.CDB, c.In = Read16(1, 8), pieces(r, 4096) }},
	{"ReadIndirect", func(c *Command, r rdma.Region) { c.CDB, c.In = Read16(1, 8), pieces(r, 1024, 3072) }},
	{"WriteImmediate", func(c *Command, r rdma.Region) { c.CDB, c.Out = Write16(1, 8), pieces(r, 4096) }},
	{"WriteDirect", func(c *Command, r rdma.Region) {
		c.CDB, c.Out, c.Format = Write16(1, 8), pieces(r, 4096), FormatDirect
	}},
}

func TestCommandsInSteadyStateAllocateNothing(t *testing.T) {
	for _, row := range loads {
		t.Run(row.name, func(t *testing.T) {
			b := newBed(t)
			b.cfg.Immediate = true
			l := newLoad(b, 16, row.fill)
			for range 10 {
				l.batch(t)
			}
			if n := testing.AllocsPerRun(100, func() { l.batch(t) }); n != 0 {
				t.Errorf("%v allocations for 16 commands, want 0", n)
			}
		})
	}
}

func BenchmarkCommands4K(b *testing.B) {
	for _, row := range loads {
		for _, depth := range []int{1, 16} {
			b.Run(row.name+map[int]string{1: "/QD1", 16: "/QD16"}[depth], func(b *testing.B) {
				bed := newBed(b)
				bed.cfg.Immediate = true
				l := newLoad(bed, depth, row.fill)
				b.ReportAllocs()
				for b.Loop() {
					l.batch(b)
				}
				b.ReportMetric(float64(b.N*depth)/b.Elapsed().Seconds(), "IOPS")
			})
		}
	}
}

func TestAFifoKeepsOrderAndForgets(t *testing.T) {
	var f fifo[*Command]
	list := make([]*Command, 100)
	for i := range list {
		list[i] = &Command{LUN: srp.LUN{byte(i)}}
	}
	next := 0
	for i, c := range list {
		f.push(c)
		if i%3 == 2 {
			if got := f.pop(); got != list[next] {
				t.Fatalf("popped %v, want %d", got.LUN, next)
			}
			next++
		}
	}
	if !f.remove(func(c *Command) bool { return c == list[60] }) || f.remove(func(c *Command) bool { return c == list[0] }) {
		t.Error("remove did not remove what is there alone")
	}
	for f.len() > 0 {
		if next == 60 {
			next++
		}
		if got := f.peek(); got != list[next] || f.pop() != got {
			t.Fatalf("popped %v, want %d", got.LUN, next)
		}
		next++
	}
	if next != 100 {
		t.Errorf("%d items, want 100", next)
	}
}
