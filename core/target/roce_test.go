package target

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/roce"
	"github.com/gosrpt/gosrpt/core/srp"
)

// loopback opens one address of the loopback interface as a RoCE device.
func loopback(t testing.TB, addr string) rdma.Device {
	t.Helper()
	p := roce.New(roce.Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{netip.MustParseAddr(addr)}})
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	devs, err := p.Devices(t.Context())
	if err != nil || len(devs) != 1 {
		t.Fatalf("devices of %s: %d, %v", addr, len(devs), err)
	}
	return devs[0]
}

// The addresses are this test's own, so that it does not meet others at the RoCE port.
const (
	roceTarget    = "127.91.7.1"
	roceInitiator = "127.91.7.2"
)

// overRoCE makes a rig and logs in, both on loopback.
func overRoCE(t testing.TB, adjust func(*initiator.Config)) (*rig, *initiator.Session) {
	t.Helper()
	dev, peer := loopback(t, roceTarget), loopback(t, roceInitiator)
	remote := netip.AddrPortFrom(netip.MustParseAddr(roceTarget), listenPort)
	g := newRig(t, func(g *rig) {
		g.plain = true
		g.cfg.Devices, g.cfg.Services = []rdma.Device{dev}, []rdma.Service{{Addr: remote}}
	})
	return g, g.ready(adjust, func(c *initiator.Config) { c.Device, c.Remote = peer, remote })
}

func TestOverRoCE(t *testing.T) {
	leaktest.Check(t)
	g, s := overRoCE(t, func(c *initiator.Config) { c.Channels, c.Immediate = 2, true })
	for i, blocks := range []uint32{1, 8, 16, 128, 2048} {
		want := pattern(int(blocks)*512, byte(i))
		if err := s.Write(t.Context(), srp.LUN{}, uint64(i), blocks, want); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if err := s.Read(t.Context(), srp.LUN{}, uint64(i), blocks, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d blocks: %v, same %v", blocks, err, bytes.Equal(got, want))
		}
	}
	for i := range 20 {
		results := begin(t, s, 16)
		for range 16 {
			if r := <-results; r.Check() != nil {
				t.Fatalf("round %d: %v", i, r.Check())
			}
		}
	}
	if err := s.Logout(t.Context()); err != nil {
		t.Error(err)
	}
	g.empty()
}

func BenchmarkRoCERead4K(b *testing.B) {
	for _, depth := range []int{1, 12} {
		b.Run(fmt.Sprintf("QD%d", depth), func(b *testing.B) {
			g, s := overRoCE(b, func(*initiator.Config) {})
			l := loadOn(s, b, depth, false)
			l.run(1000)
			before := g.stats().Reactor
			b.ReportAllocs()
			b.SetBytes(4096)
			b.ResetTimer()
			l.run(b.N)
			b.StopTimer()
			after := g.stats().Reactor
			b.ReportMetric(float64(after.Turns-before.Turns)/float64(b.N), "turns/op")
		})
	}
}
