//go:build verbs

package verbs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

func TestAddressesSurviveTheWayThroughC(t *testing.T) {
	for _, text := range []string{"192.0.2.1:5555", "[2001:db8::7]:1", "[fe80::1%lo]:65535", "0.0.0.0:1", "[::]:7"} {
		want := netip.MustParseAddrPort(text)
		ss := sockaddr(want)
		if got := addrPort(&ss); got != want {
			t.Errorf("%v became %v", want, got)
		}
	}
	ss := sockaddr(netip.MustParseAddrPort("[::ffff:192.0.2.1]:9"))
	if got := addrPort(&ss); got != netip.MustParseAddrPort("192.0.2.1:9") {
		t.Errorf("a mapped address became %v", got)
	}
	ss = sockaddr(netip.AddrPort{})
	if got := addrPort(&ss); got.IsValid() {
		t.Errorf("no address became %v", got)
	}
}

func TestEmptyEntriesInATableKeepTheirPlaces(t *testing.T) {
	if got := trimTable([]int{0, 1, 0, 2, 0, 0}); len(got) != 4 || got[3] != 2 {
		t.Errorf("got %v", got)
	}
	if got := trimTable([]int{0, 0}); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestNamesArePatterns(t *testing.T) {
	c := Config{Devices: []string{"mlx5_*", "rxe0"}}
	for name, want := range map[string]bool{"mlx5_0": true, "rxe0": true, "rxe1": false, "": false} {
		if c.names(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
	if none := (Config{}); !none.names("any") {
		t.Error("without names a device is not wanted")
	}
}

// It needs no device, and works where the kernel's modules are not even loaded.
func TestProviderWithoutDevicesWatchesAndCloses(t *testing.T) {
	leaktest.Check(t)
	p := New(Config{Devices: []string{"no-such-device"}})
	list, err := p.Devices(context.Background())
	if err != nil || len(list) != 0 {
		t.Fatalf("devices %v, %v", list, err)
	}
	w, err := p.Watch()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := w.Next(context.Background()); !errors.Is(err, rdma.ErrClosed) {
		t.Errorf("Next after Close: %v", err)
	}
	if _, err := p.Watch(); !errors.Is(err, rdma.ErrClosed) {
		t.Errorf("Watch after Close: %v", err)
	}
}

// connection is a pair of connected ends whose loops have stopped: the test owns both queues.
type connection struct {
	la, lb   *rdmatest.Loop
	a, b     *rdmatest.End
	src, dst rdma.Region
	devA     *Device
}

func connect(t *testing.T) *connection {
	p := testProvider(t)
	return connectBetween(t, p, p)
}

// connectBetween connects a device of one provider with one of another, or of the same.
func connectBetween(t *testing.T, pa, pb *Provider) *connection {
	addrA, addrB, _ := addresses(t)
	c := &connection{devA: deviceAt(t, pa, addrA)}
	devB := deviceAt(t, pb, addrB)
	c.la = rdmatest.NewLoop(t, c.devA, rdma.CQConfig{Depth: 512})
	c.lb = rdmatest.NewLoop(t, devB, rdma.CQConfig{Depth: 512})
	cfg := rdma.QPConfig{SendDepth: 64, RecvDepth: 64, MaxSGE: 1}
	c.a, c.b = c.la.NewEnd(cfg), c.lb.NewEnd(cfg)
	svc := rdma.Service{Addr: netip.AddrPortFrom(addrB, 7100)}
	l, err := devB.Listen(svc)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c.a.Connect(rdma.ConnectParams{Local: addrA, Remote: svc})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c.b.Accept(req, nil)
	c.a.Event(rdma.EventEstablished)
	c.b.Event(rdma.EventEstablished)
	c.src, c.dst = registered(t, c.devA), registered(t, devB)
	return c
}

func registered(t *testing.T, d *Device) rdma.Region {
	r, err := d.Register(make([]byte, 4096), rdma.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// poll takes n completions, which must be good.
func poll(t *testing.T, cq rdma.CQ, out []rdma.Completion, n int) {
	for deadline := time.Now().Add(20 * time.Second); n > 0; {
		got := cq.Poll(out)
		for i := range out[:got] {
			if out[i].Status != rdma.StatusOK {
				t.Fatalf("%+v", out[i])
			}
		}
		n -= got
		if got == 0 && !cq.Arm() {
			continue
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d completions are missing", n)
		}
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	c := connect(t)
	c.la.Stop()
	c.lb.Stop()
	sge := func(r rdma.Region) []rdma.SGE { return []rdma.SGE{{Region: r, Len: 512}} }
	recv := []rdma.Work{{ID: 1, Op: rdma.OpRecv, SGL: sge(c.dst)}}
	send := []rdma.Work{
		{ID: 2, Op: rdma.OpWrite, SGL: sge(c.src), RemoteAddr: c.dst.Addr(), RKey: c.dst.RKey()},
		{ID: 3, Op: rdma.OpSend, Flags: rdma.Signaled, SGL: sge(c.src)},
	}
	out := make([]rdma.Completion, 16)
	round := func() {
		if _, err := c.b.QP.PostRecv(recv); err != nil {
			t.Fatal(err)
		}
		c.lb.CQ().Flush()
		if _, err := c.a.QP.PostSend(send); err != nil {
			t.Fatal(err)
		}
		c.la.CQ().Flush()
		poll(t, c.la.CQ(), out, 1)
		poll(t, c.lb.CQ(), out, 1)
	}
	if n := testing.AllocsPerRun(500, round); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}

// TestReadsOfUnequalSidesAreTheLesser: each side once is the one that has fewer, and more READs than that are posted at once.
func TestReadsOfUnequalSidesAreTheLesser(t *testing.T) {
	for name, row := range map[string]struct{ a, b, want int }{"the active side": {2, 16, 2}, "the passive side": {16, 3, 3}} {
		t.Run(name, func(t *testing.T) {
			pa, pb := New(Config{MaxReads: row.a}), New(Config{MaxReads: row.b})
			t.Cleanup(func() { pa.Close() })
			t.Cleanup(func() { pb.Close() })
			c := connectBetween(t, pa, pb)
			if a, b := c.a.Info().Reads, c.b.Info().Reads; a != row.want || b != row.want {
				t.Errorf("the ends may have %d and %d READs outstanding, want %d", a, b, row.want)
			}
			from, err := c.b.QP.(*qp).dev.Register(make([]byte, 4096), rdma.RemoteRead)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { from.Close() })
			from.Bytes()[4095] = 0x5a
			var work []rdma.Work
			for i := range uint64(40) {
				work = append(work, rdma.Work{ID: i, Op: rdma.OpRead, Flags: rdma.Signaled, SGL: []rdma.SGE{{Region: c.src, Len: 4096}},
					RemoteAddr: from.Addr(), RKey: from.RKey()})
			}
			c.a.Send(work...)
			for range work {
				c.a.Done(rdma.OpRead, rdma.StatusOK)
			}
			if c.src.Bytes()[4095] != 0x5a {
				t.Error("nothing was read")
			}
		})
	}
}

// TestWorkWaitsWhereTheDeviceHasAShortSendQueue: the owner does not see that the device takes less at once than was promised.
func TestWorkWaitsWhereTheDeviceHasAShortSendQueue(t *testing.T) {
	c := connect(t)
	c.la.Stop()
	q := c.a.QP.(*qp)
	q.c.sq.hw, q.every = 2, 1
	var work []rdma.Work
	for i := range 64 {
		work = append(work, rdma.Work{ID: uint64(i), Op: rdma.OpWrite, Flags: rdma.Signaled, SGL: []rdma.SGE{{Region: c.src, Len: 4096}},
			RemoteAddr: c.dst.Addr(), RKey: c.dst.RKey()})
	}
	if n, err := q.PostSend(work); n != 64 || err != nil {
		t.Fatalf("%d taken, %v", n, err)
	}
	c.la.CQ().Flush()
	if outstanding := q.c.sq.handed - q.c.sq.done; outstanding > 2 {
		t.Errorf("the device has %d work requests", outstanding)
	}
	out := make([]rdma.Completion, 16)
	poll(t, c.la.CQ(), out, 64)
	if q.c.sq.done != 64 {
		t.Errorf("%d work requests are done", q.c.sq.done)
	}
}

func TestDeviceThatDiesEndsItsConnections(t *testing.T) {
	c := connect(t)
	c.b.Receive(rdma.Work{ID: 7, Op: rdma.OpRecv})
	c.a.Receive(rdma.Work{ID: 8, Op: rdma.OpRecv})
	c.devA.die()
	if got := c.a.Done(rdma.OpRecv, rdma.StatusFlushed); got.ID != 8 {
		t.Errorf("completed %+v", got)
	}
	c.a.Event(rdma.EventDisconnected)
	c.b.Done(rdma.OpRecv, rdma.StatusFlushed)
	c.b.Event(rdma.EventDisconnected)
}

// A device that does not flush has its queue pair destroyed, and the work completes all the same.
func TestWorkThatTheDeviceKeepsIsFlushedInTheEnd(t *testing.T) {
	c := connect(t)
	c.la.Stop()
	q := c.a.QP.(*qp)
	if _, err := q.PostRecv([]rdma.Work{{ID: 1, Op: rdma.OpRecv}, {ID: 2, Op: rdma.OpRecv}}); err != nil {
		t.Fatal(err)
	}
	// What the device is made to believe is not there is never flushed by it.
	q.c.rq.handed = q.c.rq.tail
	q.dirty = false
	q.cq.dirty = q.cq.dirty[:0]
	if err := q.Disconnect(); err != nil {
		t.Fatal(err)
	}
	if d := q.cq.Deadline(); d.IsZero() || time.Until(d) > flushTime {
		t.Fatalf("deadline %v", d)
	}
	q.setDeadline(time.Now())
	out := make([]rdma.Completion, 8)
	n := q.cq.Poll(out)
	if n != 3 || out[0].ID != 1 || out[1].ID != 2 || out[1].Status != rdma.StatusFlushed || out[2].Event != rdma.EventDisconnected {
		t.Errorf("%d completions: %+v", n, out[:n])
	}
	if q.dev.counts.unflushed.Load() != 1 {
		t.Error("it is not counted")
	}
}

func TestServiceIDNeedsAnInfiniBandPortAndTheKernelsRange(t *testing.T) {
	a, _, _ := addresses(t)
	d := deviceAt(t, testProvider(t), a)
	ports, err := d.Ports()
	if err != nil {
		t.Fatal(err)
	}
	if ports[0].Link == ib.LinkInfiniBand {
		t.Skip("the device has InfiniBand ports")
	}
	g := ports[0].GIDs[0]
	id := rdma.ServiceID(0x7777)
	port := fmt.Sprintf("port 1 of %s is %v", d.Name(), ports[0].Link)
	for _, row := range []struct {
		svc rdma.Service
		why string
	}{
		{rdma.Service{ID: id, GID: g}, port}, {rdma.Service{ID: id}, "no port of " + d.Name()}, {rdma.Service{ID: 0x505400fffe123456, GID: g}, "the kernel lets"},
		{rdma.Service{ID: 0x106_0000 | 5555, GID: g}, "the kernel lets"}, {rdma.Service{ID: id, GID: g, Addr: netip.AddrPortFrom(a, 5555)}, "the kernel lets"},
	} {
		l, err := d.Listen(row.svc)
		if !errors.Is(err, rdma.ErrInvalid) || !strings.Contains(err.Error(), row.why) {
			t.Errorf("%v: %v, want ErrInvalid and %q", row.svc, err, row.why)
		}
		if err == nil {
			l.Close()
		}
	}

	// The kernel, asked all the same, refuses: the error names what was asked for, and of whom, and nothing is left behind.
	l := &listener{dev: d, port: 1, svc: rdma.Service{ID: id, GID: g}, queue: make(chan *request, 1), closed: make(chan struct{})}
	if err := l.bind(); err == nil || !strings.Contains(err.Error(), "at port 1 of "+d.Name()+": bind: ") {
		t.Errorf("the kernel says %v", err)
	}
	byAddr, err := d.Listen(rdma.Service{Addr: netip.AddrPortFrom(a, 7190)})
	if err != nil {
		t.Fatalf("afterwards: %v", err)
	}
	byAddr.Close()
}
