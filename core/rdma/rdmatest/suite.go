package rdmatest

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// Harness is what a provider gives to its conformance test: two open devices, which may be one
// and the same, on a network that loses nothing.
type Harness struct {
	// Provider is the one that A belongs to. The suite closes it.
	Provider rdma.Provider
	A, B     rdma.Device
	// AddrA and AddrB are addresses of A and B; connections go from A to B.
	AddrA, AddrB netip.Addr
	// MADAddrA and MADAddrB are addresses of A and B between which management datagrams are answered: AddrA and AddrB if invalid.
	MADAddrA, MADAddrB netip.Addr
	// Port and the nine ports after it are free on B.
	Port uint16
	// Nobody is an address that no device has, for a connection that nobody answers. If it is
	// invalid, the test of it is skipped.
	Nobody netip.Addr
	// MTU is the path MTU between A and B, in bytes: 1024 if 0.
	MTU int
	// MaxMessage is the longest message to try, in bytes: 4 MiB if 0.
	MaxMessage int
	// Lossy tells that the network does lose packets. The checks of management datagrams, which nobody repeats, are skipped.
	Lossy bool
	// ConsumerRejects tells that a refusal for another reason than RejectConsumer arrives as that, without data: librdmacm sends no other.
	ConsumerRejects bool
	// DeviceKeys tells that the device chooses the keys of regions, so that they are as predictable as it makes them.
	DeviceKeys bool
	// TooLong is what the sender of a message learns that is longer than the receive it meets: StatusRemoteInvalid if 0. rxe has its own
	// mind about it.
	TooLong rdma.Status
	// ReadsUnchecked tells that memory without the right to be read can be read: siw does not look.
	ReadsUnchecked bool
	// Datagrams is how many management datagrams are far more than a device keeps for a reader that is late: 20000 if 0.
	Datagrams int
	// Rounds is the length of the stress tests: 2000 if 0.
	Rounds int
}

// rig is a test of the suite: the harness, with an owner for a queue on each side.
type rig struct {
	*testing.T
	Harness
	la, lb   *Loop
	nextPort uint16
}

// check is one promise of package rdma.
type check struct {
	name string
	run  func(r *rig)
}

// TestProvider tests a provider against the contracts of package rdma. mk makes a fresh harness
// for each subtest; what it opens it closes with t.Cleanup.
func TestProvider(t *testing.T, mk func(t *testing.T) Harness) {
	groups := []struct {
		name   string
		checks []check
	}{
		{"Device", deviceChecks}, {"Connect", connectChecks}, {"Reject", rejectChecks},
		{"Data", dataChecks}, {"Queue", queueChecks}, {"SRQ", srqChecks}, {"Remote", remoteChecks}, {"End", endChecks},
		{"Close", closeChecks}, {"Many", manyChecks}, {"Wake", wakeChecks}, {"MAD", madChecks},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.checks {
				t.Run(c.name, func(t *testing.T) {
					leaktest.Check(t)
					c.run(newRig(t, mk(t)))
				})
			}
		})
	}
}

func newRig(t *testing.T, h Harness) *rig {
	h.MTU = orDefault(h.MTU, 1024)
	h.MaxMessage = orDefault(h.MaxMessage, 4<<20)
	h.Rounds = orDefault(h.Rounds, 2000)
	h.Datagrams = orDefault(h.Datagrams, 20000)
	h.TooLong = orDefault(h.TooLong, rdma.StatusRemoteInvalid)
	if !h.MADAddrA.IsValid() {
		h.MADAddrA, h.MADAddrB = h.AddrA, h.AddrB
	}
	r := &rig{T: t, Harness: h, nextPort: h.Port}
	r.la = NewLoop(t, h.A, rdma.CQConfig{Depth: 4096})
	r.lb = NewLoop(t, h.B, rdma.CQConfig{Depth: 4096})
	return r
}

// iwarp tells that the transport is iWARP.
func (r *rig) iwarp() bool { return r.A.Attr().IWARP }

// skipOnIWARP ends a test of what iWARP has not.
func (r *rig) skipOnIWARP(why string) {
	r.Helper()
	if r.iwarp() {
		r.Skip("iWARP: " + why)
	}
}

// must ends the test on an error.
func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// context bounds a wait of the test.
func (r *rig) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	r.Cleanup(cancel)
	return ctx
}

// service is a service of B that has not been used in this test.
func (r *rig) service() rdma.Service {
	if r.nextPort == r.Port+10 {
		r.Fatal("the test uses more ports than a harness has")
	}
	r.nextPort++
	return rdma.Service{Addr: netip.AddrPortFrom(r.AddrB, r.nextPort-1)}
}

// listen listens on B until the end of the test.
func (r *rig) listen(svc rdma.Service) rdma.Listener {
	r.Helper()
	l, err := r.B.Listen(svc)
	r.must(err)
	r.Cleanup(func() { l.Close() })
	return l
}

// accept waits for the next request.
func (r *rig) accept(l rdma.Listener) rdma.ConnRequest {
	r.Helper()
	req, err := l.Accept(r.context())
	r.must(err)
	return req
}

// params are those of a connection to a service of B.
func (r *rig) params(svc rdma.Service, private []byte) rdma.ConnectParams {
	return rdma.ConnectParams{Local: r.AddrA, Remote: svc, Private: private}
}

// config is a queue pair's for tests that do not care.
func config() rdma.QPConfig { return rdma.QPConfig{SendDepth: 64, RecvDepth: 64, MaxSGE: 1} }

// join connects two ends.
func (r *rig) join(a, b *End) {
	r.Helper()
	svc := r.service()
	l := r.listen(svc)
	r.joinAt(l, a, b)
}

// joinAt connects two ends through a listener.
func (r *rig) joinAt(l rdma.Listener, a, b *End) {
	r.Helper()
	svc := l.Service()
	if !svc.Addr.Addr().IsValid() {
		svc.Addr = netip.AddrPortFrom(r.AddrB, svc.Addr.Port())
	}
	a.Connect(r.params(svc, nil))
	b.Accept(r.accept(l), nil)
	a.Event(rdma.EventEstablished)
	b.Event(rdma.EventEstablished)
}

// pair is a connection between the loops of A and B.
func (r *rig) pair() (a, b *End) {
	r.Helper()
	a, b = r.la.NewEnd(config()), r.lb.NewEnd(config())
	r.join(a, b)
	return a, b
}

// memory registers n bytes.
func (r *rig) memory(d rdma.Device, n int, access rdma.Access) rdma.Region {
	r.Helper()
	region, err := d.Register(make([]byte, n), access)
	r.must(err)
	r.Cleanup(func() { region.Close() })
	return region
}

// sge names n bytes of a region at off.
func sge(region rdma.Region, off, n int) []rdma.SGE {
	return []rdma.SGE{{Region: region, Off: uint64(off), Len: uint64(n)}}
}

// all names a whole region.
func all(region rdma.Region) []rdma.SGE { return sge(region, 0, len(region.Bytes())) }

func sendWork(id uint64, sgl []rdma.SGE) rdma.Work {
	return rdma.Work{ID: id, Op: rdma.OpSend, Flags: rdma.Signaled, SGL: sgl}
}

func recvWork(id uint64, sgl []rdma.SGE) rdma.Work {
	return rdma.Work{ID: id, Op: rdma.OpRecv, SGL: sgl}
}

// remoteWork is a WRITE or READ of the start of the remote region.
func remoteWork(id uint64, op rdma.Op, sgl []rdma.SGE, remote rdma.Region) rdma.Work {
	return rdma.Work{ID: id, Op: op, Flags: rdma.Signaled, SGL: sgl, RemoteAddr: remote.Addr(), RKey: remote.RKey()}
}

// pattern fills b with bytes that depend on the seed.
func pattern(b []byte, seed uint64) {
	src := rand.New(rand.NewPCG(seed, 0x5eed))
	i := 0
	for ; i+8 <= len(b); i += 8 {
		v := src.Uint64()
		for k := range 8 {
			b[i+k] = byte(v >> (8 * k))
		}
	}
	for ; i < len(b); i++ {
		b[i] = byte(src.Uint32())
	}
}

// exchange proves that a connection works in both directions, and that everything that was
// under way on its queues before has arrived.
func (r *rig) exchange(a, b *End) {
	r.Helper()
	for _, ends := range [][2]*End{{a, b}, {b, a}} {
		from, to := ends[0], ends[1]
		src, dst := r.memory(from.Loop.dev, 16, 0), r.memory(to.Loop.dev, 16, 0)
		pattern(src.Bytes(), 42)
		to.Receive(recvWork(7001, all(dst)))
		from.Send(sendWork(7002, all(src)))
		if c := to.Done(rdma.OpRecv, rdma.StatusOK); c.ID != 7001 || c.Bytes != 16 {
			r.Fatalf("received %+v", c)
		}
		if c := from.Done(rdma.OpSend, rdma.StatusOK); c.ID != 7002 {
			r.Fatalf("sent %+v", c)
		}
	}
}
