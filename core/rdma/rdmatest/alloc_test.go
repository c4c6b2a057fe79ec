package rdmatest

import (
	"net/netip"
	"testing"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// path is a connection whose both ends are driven by the caller.
type path struct {
	a, b           *cq
	qa, qb         rdma.QP
	send, recv     []rdma.Work
	write, read    []rdma.Work
	out            [16]rdma.Completion
	localM, remote rdma.Region
}

func newPath(t testing.TB, n int) *path {
	p, a, b := Pair()
	t.Cleanup(func() { p.Close() })
	x := &path{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cqOf := func(d *Device) *cq {
		c, err := d.NewCQ(rdma.CQConfig{Depth: 16, Wake: func() {}})
		must(err)
		return c.(*cq)
	}
	x.a, x.b = cqOf(a), cqOf(b)
	var err error
	x.qa, err = x.a.NewQP(rdma.QPConfig{SendDepth: 4, RecvDepth: 4})
	must(err)
	x.qb, err = x.b.NewQP(rdma.QPConfig{SendDepth: 4, RecvDepth: 4})
	must(err)
	svc := rdma.Service{Addr: netip.MustParseAddrPort("192.0.2.2:9")}
	l, err := b.Listen(svc)
	must(err)
	must(x.qa.Connect(rdma.ConnectParams{Remote: svc}))
	req, err := l.Accept(t.Context())
	must(err)
	must(x.qb.Accept(req, nil))
	x.a.Poll(x.out[:])
	x.b.Poll(x.out[:])
	x.localM, err = a.Register(make([]byte, n), rdma.ReadSink)
	must(err)
	x.remote, err = b.Register(make([]byte, n), rdma.RemoteRead|rdma.RemoteWrite)
	must(err)
	x.send = []rdma.Work{sendWork(1, all(x.localM))}
	x.recv = []rdma.Work{recvWork(2, all(x.remote))}
	x.write = []rdma.Work{remoteWork(3, rdma.OpWrite, all(x.localM), x.remote)}
	x.read = []rdma.Work{remoteWork(4, rdma.OpRead, all(x.localM), x.remote)}
	return x
}

// round moves one message of each kind, with both owners asleep in between.
func (x *path) round(t testing.TB) {
	x.qb.PostRecv(x.recv)
	x.a.Arm()
	x.b.Arm()
	x.qa.PostSend(x.write)
	x.qa.PostSend(x.read)
	x.qa.PostSend(x.send)
	x.a.Arm()
	if n := x.b.Poll(x.out[:]); n != 1 || x.out[0].Bytes != uint32(len(x.localM.Bytes())) {
		t.Fatalf("%d received: %+v", n, x.out[0])
	}
	if n := x.a.Poll(x.out[:]); n != 3 || x.out[2].Status != rdma.StatusOK {
		t.Fatalf("%d sent: %+v", n, x.out[2])
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	x := newPath(t, 4096)
	x.round(t)
	if n := testing.AllocsPerRun(100, func() { x.round(t) }); n != 0 {
		t.Errorf("%v allocations for a SEND, a WRITE and a READ, want 0", n)
	}
}

func BenchmarkSendWriteRead4K(b *testing.B) {
	x := newPath(b, 4096)
	b.ReportAllocs()
	for b.Loop() {
		x.round(b)
	}
}
