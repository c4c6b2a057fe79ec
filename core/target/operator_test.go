package target

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

func TestListeningListsTheAddressesOfEachService(t *testing.T) {
	leaktest.Check(t)
	one, two := netip.MustParseAddr("10.1.1.1"), netip.MustParseAddr("fe80::1%eth0")
	services := []rdma.Service{{Addr: netip.AddrPortFrom(netip.Addr{}, 1)}, {Addr: netip.AddrPortFrom(one, 2)},
		{Addr: netip.AddrPortFrom(netip.MustParseAddr("fe80::1"), 3)}}
	g := newRig(t, func(g *rig) {
		g.dev = g.provider.Add(rdmatest.DeviceConfig{Name: "two", Addrs: []netip.Addr{one, two}})
		g.cfg.Devices, g.cfg.Services = []rdma.Device{g.dev}, services
	})
	want := []string{"10.1.1.1:1 of two", "10.1.1.1:2 of two", "[fe80::1%eth0]:1 of two", "[fe80::1%eth0]:3 of two"}
	var got []string
	for _, l := range g.target.Listening() {
		got = append(got, l.Service.String()+" of "+l.Device)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestGuardThatIsNotWatchedIsLeftAlone(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	s := g.ready()
	if err := g.target.Unwatch(t.Context(), g.guard); err != nil {
		t.Fatal(err)
	}
	flushes := 0
	g.do(func() { flushes = g.backend.Flushes })
	results := begin(t, s, 1)
	g.waitFor("the command has its buffer", func() bool { return g.arena.Stats().Held == 1 })
	g.do(func() {
		if g.backend.Flushes != flushes {
			t.Error("the guard was called")
		}
	})
	if err := g.target.Watch(t.Context(), g.guard); err != nil {
		t.Fatal(err)
	}
	if r := <-results; r.Check() != nil {
		t.Error(r.Check())
	}
	if err := tur(t, s, srp.LUN{}); err != nil {
		t.Error(err)
	}
}
