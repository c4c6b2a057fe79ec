package roce

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

// pair is a connection between two devices on loopback.
type pair struct {
	devA, devB rdma.Device
	la, lb     *rdmatest.Loop
	a, b       *rdmatest.End
}

const pairPort = 7100

func newPair(t testing.TB, change ...func(*Config)) *pair {
	t.Helper()
	p := &pair{}
	_, p.devA = loopback(t, "127.0.0.1", change...)
	_, p.devB = loopback(t, "127.0.0.2", change...)
	p.start(t, "127.0.0.2")
	return p
}

// start makes the queues of both devices and connects A to the address, which is B's.
func (p *pair) start(t testing.TB, addr string) {
	t.Helper()
	p.la = rdmatest.NewLoop(t, p.devA, rdma.CQConfig{Depth: 1024})
	p.lb = rdmatest.NewLoop(t, p.devB, rdma.CQConfig{Depth: 1024})
	cfg := rdma.QPConfig{SendDepth: 128, RecvDepth: 128, MaxSGE: 4}
	p.a, p.b = p.la.NewEnd(cfg), p.lb.NewEnd(cfg)
	svc := rdma.Service{Addr: netip.AddrPortFrom(netip.MustParseAddr(addr), pairPort)}
	l, err := p.devB.Listen(svc)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p.joinAt(t, l)
}

// joinAt connects the ends through a listener of B.
func (p *pair) joinAt(t testing.TB, l rdma.Listener) {
	t.Helper()
	p.connectTo(t, l, l.Service().Addr)
}

func (p *pair) connectTo(t testing.TB, l rdma.Listener, addr netip.AddrPort) {
	t.Helper()
	p.a.Connect(rdma.ConnectParams{Remote: rdma.Service{Addr: addr}})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p.b.Accept(req, nil)
	p.a.Event(rdma.EventEstablished)
	p.b.Event(rdma.EventEstablished)
}

// register registers n bytes.
func register(t testing.TB, d rdma.Device, n int, access rdma.Access) rdma.Region {
	t.Helper()
	r, err := d.Register(make([]byte, n), access)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func sgl(r rdma.Region, off, n int) []rdma.SGE {
	return []rdma.SGE{{Region: r, Off: uint64(off), Len: uint64(n)}}
}

// transfers writes and reads back blocks of up to size bytes, a SEND after each, and checks them.
func (p *pair) transfers(t *testing.T, rounds, size int) {
	t.Helper()
	src, back := register(t, p.devA, size, 0), register(t, p.devA, size, 0)
	dst := register(t, p.devB, size, rdma.RemoteRead|rdma.RemoteWrite)
	note := register(t, p.devB, 64, 0)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range uint64(rounds) {
		n := 1 + rng.IntN(size)
		for k := range src.Bytes() {
			src.Bytes()[k] = byte(rng.Uint32())
		}
		p.b.Receive(rdma.Work{ID: i, Op: rdma.OpRecv, SGL: sgl(note, 0, 64)})
		remote := rdma.Work{ID: i, Flags: rdma.Signaled, RemoteAddr: dst.Addr(), RKey: dst.RKey()}
		write, read := remote, remote
		write.Op, write.SGL = rdma.OpWrite, sgl(src, 0, n)
		read.Op, read.SGL = rdma.OpRead, sgl(back, 0, n)
		p.a.Send(write, read, rdma.Work{ID: i, Op: rdma.OpSend, Flags: rdma.Signaled, SGL: sgl(src, 0, min(n, 64))})
		for _, op := range []rdma.Op{rdma.OpWrite, rdma.OpRead, rdma.OpSend} {
			p.a.Done(op, rdma.StatusOK)
		}
		p.b.Done(rdma.OpRecv, rdma.StatusOK)
		if !bytes.Equal(back.Bytes()[:n], src.Bytes()[:n]) {
			t.Fatalf("round %d: %d bytes differ", i, n)
		}
	}
}
