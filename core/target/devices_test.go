package target

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
	"github.com/gosrpt/gosrpt/core/store/storetest"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

func (g *rig) plug(name, addr string) *rdmatest.Device {
	d := g.provider.Add(rdmatest.DeviceConfig{Name: name, Addrs: []netip.Addr{netip.MustParseAddr(addr)}})
	g.t.Cleanup(func() { g.shutdown() })
	return d
}

func at(addr string) func(*initiator.Config) {
	return func(c *initiator.Config) { c.Remote = netip.AddrPortFrom(netip.MustParseAddr(addr), listenPort) }
}

func as(n uint64) func(*initiator.Config) {
	return func(c *initiator.Config) { c.Initiator = srp.MakePortID(0x77, n) }
}

func works(t *testing.T, s *initiator.Session) {
	t.Helper()
	if err := s.Read(t.Context(), srp.LUN{}, 0, 8, make([]byte, 4096)); err != nil {
		t.Error(err)
	}
}

func TestTargetWithoutADeviceServesTheOneThatAppears(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, func(g *rig) { g.cfg.Devices = nil })
	if len(g.target.Waiting()) != 1 || len(g.target.Listening()) != 0 {
		t.Errorf("waiting %v, listening %v", g.target.Waiting(), g.target.Listening())
	}
	for range 2 {
		if err := g.target.AddDevice(t.Context(), g.dev); err != nil {
			t.Fatal(err)
		}
	}
	if len(g.target.Waiting()) != 0 {
		t.Errorf("waiting %v", g.target.Waiting())
	}
	works(t, g.ready())
	g.addDisk(1)
	s := g.dial(as(2))
	tur(t, s, srp.LUN{1: 1})
	if err := s.Read(t.Context(), srp.LUN{1: 1}, 0, 8, make([]byte, 4096)); err != nil {
		t.Errorf("a LUN that came after the device: %v", err)
	}
}

func TestServiceWaitsUntilADeviceHasItsAddress(t *testing.T) {
	leaktest.Check(t)
	absent := netip.MustParseAddrPort("192.0.2.50:5555")
	g := newRig(t, func(g *rig) {
		g.cfg.Services = append(g.cfg.Services, rdma.Service{Addr: netip.MustParseAddrPort("192.0.2.50:5556")})
	})
	if w := g.target.Waiting(); len(w) != 1 || w[0].Addr.Addr() != absent.Addr() || !strings.Contains(g.log.String(), "192.0.2.50:5556") {
		t.Errorf("waiting %v, log:\n%s", w, g.log)
	}
	g.dev.Change(func(c *rdmatest.PortConfig) { c.Addrs = append(c.Addrs, absent.Addr()) })
	for range 2 {
		g.target.Devices().Changed(t.Context(), g.dev, rdma.Port{Num: 1})
	}
	if w := g.target.Waiting(); len(w) != 0 {
		t.Errorf("waiting %v", w)
	}
	s := g.dial(func(c *initiator.Config) { c.Remote = netip.MustParseAddrPort("192.0.2.50:5556") })
	tur(t, s, srp.LUN{})
	works(t, s)
}

func TestServiceWhoseAddressGoesWaitsForItsReturn(t *testing.T) {
	leaktest.Check(t)
	second := netip.MustParseAddr("192.0.2.50")
	g := newRig(t, func(g *rig) {
		g.dev.Change(func(c *rdmatest.PortConfig) { c.Addrs = append(c.Addrs, second) })
		g.cfg.Services = append(g.cfg.Services, rdma.Service{Addr: netip.AddrPortFrom(second, 5556)})
	})
	s := g.ready()
	changed := func() { g.target.Devices().Changed(t.Context(), g.dev, rdma.Port{Num: 1}) }
	for range 3 {
		g.dev.Change(func(c *rdmatest.PortConfig) { c.Addrs = c.Addrs[:1] })
		changed()
		if w := g.target.Waiting(); len(w) != 1 || w[0].Addr.Addr() != second || len(g.target.Listening()) != 1 {
			t.Errorf("waiting %v, listening %v", w, g.target.Listening())
		}
		g.dev.Change(func(c *rdmatest.PortConfig) { c.Addrs = append(c.Addrs, second) })
		changed()
		if w := g.target.Waiting(); len(w) != 0 || len(g.target.Listening()) != 3 {
			t.Errorf("waiting %v, listening %v", w, g.target.Listening())
		}
	}
	works(t, s)
	again := g.dial(as(2), func(c *initiator.Config) { c.Remote = netip.AddrPortFrom(second, 5556) })
	tur(t, again, srp.LUN{})
}

func TestRemovedDeviceEndsItsSessionsAndNoOthers(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	second := g.plug("second", "192.0.2.9")
	if err := g.target.AddDevice(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	stays, goes := g.ready(), g.dial(as(2), at("192.0.2.9"))
	tur(t, goes, srp.LUN{})
	works(t, goes)
	// A command of the session that ends is with the store meanwhile.
	g.do(func() {
		g.backend.Plan = func(*backstore.Request) storetest.Fault { return storetest.Fault{Hold: true} }
	})
	cut := begin(t, goes, 1)
	g.waitFor("the command has its buffer", func() bool { return g.arena.Stats().Held == 1 })
	g.target.Devices().Detach(second, "it was removed")
	if second.Open() != "" {
		t.Errorf("open on the device: %s", second.Open())
	}
	<-cut
	g.do(func() { g.backend.Plan = nil; g.backend.Release() })
	g.target.Wake()
	g.waitFor("the log has the cause", func() bool { return strings.Contains(g.log.String(), `cause="lost with its port or address"`) })
	works(t, stays)
	if l := g.target.Listening(); len(l) != 1 || l[0].Device != g.dev.Name() {
		t.Errorf("listening %v", l)
	}
	if err := g.target.AddDevice(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	again := g.dial(as(2), at("192.0.2.9"))
	tur(t, again, srp.LUN{})
	works(t, again)
}

func TestDeviceThatCannotBeServedIsLeftAlone(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	other := g.plug("other", "192.0.2.9")
	l, err := other.Listen(rdma.Service{Addr: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.9"), listenPort)})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.target.AddDevice(t.Context(), other); err == nil {
		t.Error("no error although the service is taken")
	}
	l.Close()
	if other.Open() != "" || slices.Contains(g.target.deviceList(), rdma.Device(other)) {
		t.Errorf("left behind: %s", other.Open())
	}
	if err := g.target.AddDevice(t.Context(), other); err != nil {
		t.Error(err)
	}
	g.shutdown()
	if err := g.target.AddDevice(context.Background(), g.plug("late", "192.0.2.10")); err == nil {
		t.Error("a target that has ended takes a device")
	}
}
