package roce

import (
	"testing"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// driver runs both ends of a pair in one goroutine, so that what is measured is the work of the
// packet path and not the scheduler.
type driver struct {
	*pair
	cqA, cqB rdma.CQ
	qpA, qpB rdma.QP
	comp     [64]rdma.Completion
}

func newDriver(tb testing.TB, change ...func(*Config)) *driver {
	d := &driver{pair: newPair(tb, change...)}
	d.la.Stop()
	d.lb.Stop()
	d.cqA, d.cqB = d.la.CQ(), d.lb.CQ()
	d.qpA, d.qpB = d.a.QP, d.b.QP
	return d
}

// poll polls both ends and returns what A has completed.
func (d *driver) poll(tb testing.TB) int {
	done := 0
	d.cqB.Poll(d.comp[:])
	for _, c := range d.comp[:d.cqA.Poll(d.comp[:])] {
		if c.Status != rdma.StatusOK || c.Op == rdma.OpEvent {
			tb.Fatalf("%+v", c)
		}
		done++
	}
	return done
}

// run does n operations, depth at a time.
func (d *driver) run(tb testing.TB, w []rdma.Work, depth, n int) {
	posted, done := 0, 0
	for done < n {
		for posted < n && posted-done < depth {
			if _, err := d.qpA.PostSend(w); err != nil {
				tb.Fatal(err)
			}
			posted++
		}
		d.cqA.Flush()
		done += d.poll(tb)
	}
}

func (d *driver) work(tb testing.TB, op rdma.Op, n int) []rdma.Work {
	local := register(tb, d.devA, n, 0)
	remote := register(tb, d.devB, n, rdma.RemoteRead|rdma.RemoteWrite)
	return []rdma.Work{{Op: op, Flags: rdma.Signaled, SGL: sgl(local, 0, n), RemoteAddr: remote.Addr(), RKey: remote.RKey()}}
}

func benchTransfer(b *testing.B, op rdma.Op, n, depth int, change ...func(*Config)) {
	inNamespace(b)
	d := newDriver(b, change...)
	w := d.work(b, op, n)
	d.run(b, w, depth, 20)
	b.SetBytes(int64(n))
	b.ReportAllocs()
	b.ResetTimer()
	d.run(b, w, depth, b.N)
}

func plain(c *Config) { c.NoGSO, c.NoGRO = true, true }
func noGRO(c *Config) { c.NoGRO = true }

func BenchmarkWrite4K(b *testing.B)        { benchTransfer(b, rdma.OpWrite, 4096, 1) }
func BenchmarkWrite4KDepth16(b *testing.B) { benchTransfer(b, rdma.OpWrite, 4096, 16) }
func BenchmarkWrite256K(b *testing.B)      { benchTransfer(b, rdma.OpWrite, 256<<10, 4) }
func BenchmarkRead4K(b *testing.B)         { benchTransfer(b, rdma.OpRead, 4096, 1) }
func BenchmarkRead256K(b *testing.B)       { benchTransfer(b, rdma.OpRead, 256<<10, 4) }
func BenchmarkWrite256KNoGRO(b *testing.B) { benchTransfer(b, rdma.OpWrite, 256<<10, 4, noGRO) }
func BenchmarkWrite256KNoGSO(b *testing.B) { benchTransfer(b, rdma.OpWrite, 256<<10, 4, plain) }

func TestThePacketPathAllocatesNothing(t *testing.T) {
	for _, op := range []rdma.Op{rdma.OpWrite, rdma.OpRead} {
		d := newDriver(t)
		w := d.work(t, op, 20_000)
		d.run(t, w, 4, 50)
		if n := testing.AllocsPerRun(50, func() { d.run(t, w, 4, 4) }); n != 0 {
			t.Errorf("operation %d: %v allocations", op, n)
		}
		d.la.Close()
		d.lb.Close()
		d.devA.Close()
		d.devB.Close()
	}
}
