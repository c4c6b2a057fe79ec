package target

import (
	"testing"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// load keeps commands of 4 KiB outstanding, from the initiator through every layer of the target to
// the store and back.
type load struct {
	t        testing.TB
	s        *initiator.Session
	commands []*initiator.Command
	left     int
	again    int
	done     chan struct{}
}

func newLoad(t testing.TB, depth int, write, immediate bool) *load {
	t.Helper()
	g := newRig(t, func(g *rig) { g.plain = true })
	return loadOn(g.ready(func(c *initiatorConfig) { c.Immediate = immediate }), t, depth, write)
}

func loadOn(s *initiator.Session, t testing.TB, depth int, write bool) *load {
	t.Helper()
	l := &load{t: t, s: s, done: make(chan struct{}, 1)}
	for i := range depth {
		region, err := l.s.Register(make([]byte, 4096))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { region.Close() })
		c := &initiator.Command{Done: l.end}
		sgl := []rdma.SGE{{Region: region, Len: 4096}}
		if write {
			c.CDB, c.Out = initiator.Write16(uint64(i)*8, 8), sgl
		} else {
			c.CDB, c.In = initiator.Read16(uint64(i)*8, 8), sgl
		}
		l.commands = append(l.commands, c)
	}
	return l
}

func (l *load) end(c *initiator.Command) {
	if err := c.Result.Check(); err != nil {
		l.t.Error(err)
	}
	if l.again > 0 {
		l.again--
		if _, err := l.s.Submit(c); err != nil {
			l.t.Error(err)
		}
		return
	}
	if l.left--; l.left == 0 {
		l.done <- struct{}{}
	}
}

// run carries out n commands.
func (l *load) run(n int) {
	k := min(n, len(l.commands))
	l.left, l.again = k, n-k
	if _, err := l.s.Submit(l.commands[:k]...); err != nil {
		l.t.Fatal(err)
	}
	<-l.done
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, c := range []struct {
		name             string
		write, immediate bool
	}{{"read", false, false}, {"write", true, false}, {"immediate write", true, true}} {
		for _, depth := range []int{1, 12} {
			l := newLoad(t, depth, c.write, c.immediate)
			l.run(2000)
			if n := testing.AllocsPerRun(20, func() { l.run(100) }); n != 0 {
				t.Errorf("%s at depth %d: %v allocations for 100 commands", c.name, depth, n)
			}
		}
	}
}

func benchmark(b *testing.B, write, immediate bool) {
	for _, d := range []struct {
		name  string
		depth int
	}{{"QD1", 1}, {"QD12", 12}} {
		b.Run(d.name, func(b *testing.B) {
			l := newLoad(b, d.depth, write, immediate)
			l.run(1000)
			b.ReportAllocs()
			b.SetBytes(4096)
			b.ResetTimer()
			l.run(b.N)
		})
	}
}

func BenchmarkRead4K(b *testing.B)           { benchmark(b, false, false) }
func BenchmarkWrite4K(b *testing.B)          { benchmark(b, true, false) }
func BenchmarkImmediateWrite4K(b *testing.B) { benchmark(b, true, true) }
