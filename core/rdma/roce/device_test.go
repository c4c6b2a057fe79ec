package roce

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

func TestNumbersCarryTheirMemberAndAreNotReusedSoon(t *testing.T) {
	n := newNumbers()
	seen := make(map[ib.QPN]bool)
	for range 3000 {
		q := n.take(7)
		if q&0xFF != 7 || q>>8 == 0 || q > ib.QPNMask || seen[q] {
			t.Fatalf("number %#x", uint32(q))
		}
		seen[q] = true
		n.give(q)
		n.give(q) // a second time does nothing
	}
	for range 3 * recentNumbers {
		n.give(n.take(8))
	}
	if len(n.taken) != recentNumbers {
		t.Errorf("%d numbers are out of use, want %d", len(n.taken), recentNumbers)
	}
}

func TestRegionTableRefusesWhatIsNotThere(t *testing.T) {
	p := New(Config{})
	d := newDevice(p, &nic{name: "x"})
	mem := make([]byte, 100)
	r, err := d.Register(mem, rdma.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		key  uint32
		off  uint64
		n    uint32
		ok   bool
	}{
		{"all", 0, 0, 100, true}, {"end", 0, 100, 0, true}, {"one too many", 0, 1, 100, false}, {"beyond", 0, 101, 0, false},
		{"before", 0, ^uint64(0), 1, false}, {"wraps", 0, ^uint64(0) - 10, 100, false}, {"other key", 1, 0, 1, false},
		{"other place in the table", 1 << 31, 0, 1, false},
	} {
		if _, ok := d.regions.Writable(r.RKey()^tc.key, r.Addr()+tc.off, tc.n); ok != tc.ok {
			t.Errorf("%s: %v, want %v", tc.name, ok, tc.ok)
		}
	}
	if _, ok := d.regions.Readable(r.RKey(), r.Addr(), 1); ok {
		t.Error("readable without the right")
	}
	r.Close()
	if _, ok := d.regions.Writable(r.RKey(), r.Addr(), 1); ok {
		t.Error("closed region found")
	}
	if _, err := d.Register(mem, 8); !errors.Is(err, rdma.ErrInvalid) {
		t.Errorf("unknown right: %v", err)
	}
}

func TestRegionTableIsBounded(t *testing.T) {
	d := newDevice(New(Config{}), &nic{name: "x"})
	for i := range regionSlots/2 + 1 {
		_, err := d.Register(nil, 0)
		if full := errors.Is(err, rdma.ErrFull); full != (i == regionSlots/2) {
			t.Fatalf("region %d: %v", i, err)
		}
	}
}

func TestDevicesAreTheConfiguredInterfaces(t *testing.T) {
	inNamespace(t)
	list := func(c Config) (names []string) {
		p := New(c)
		defer p.Close()
		devs, err := p.Devices(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range devs {
			names = append(names, d.Name())
		}
		return names
	}
	if got := list(Config{}); len(got) != 0 {
		t.Errorf("by default: %v, want none beside loopback", got)
	}
	if got := list(Config{Interfaces: []string{"lo"}}); len(got) != 1 || got[0] != "lo" {
		t.Errorf("by name: %v", got)
	}
	if got := list(Config{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.5")}}); len(got) != 1 || got[0] != "lo" {
		t.Errorf("by address: %v", got)
	}
	veth(t, 1500)
	if got := list(Config{}); len(got) != 2 {
		t.Errorf("with two links up: %v", got)
	}
}

func TestAnOpenDeviceIsListedAsItself(t *testing.T) {
	p, d := loopback(t, "127.0.0.1")
	again, err := p.Devices(context.Background())
	if err != nil || len(again) != 1 || again[0] != d {
		t.Errorf("%v, %v", again, err)
	}
	d.Close()
	again, err = p.Devices(context.Background())
	if err != nil || len(again) != 1 || again[0] == d {
		t.Errorf("after Close: %v, %v; want a new device", again, err)
	}
}

func TestIdentityComesFromTheMACAddress(t *testing.T) {
	n := nic{name: "x", mac: [6]byte{0x02, 0x11, 0x22, 0x33, 0x44, 0x55}}
	if got := newDevice(New(Config{}), &n).Attr().NodeGUID; got != 0x001122fffe334455 {
		t.Errorf("GUID %v", got)
	}
}

// TestEachQueueGetsItsOwnPackets: four queues on one device, and not one packet comes to the wrong one.
func TestEachQueueGetsItsOwnPackets(t *testing.T) {
	leaktest.Check(t)
	p := newPair(t)
	svc := rdma.Service{Addr: netip.MustParseAddrPort("127.0.0.2:7500")}
	l, err := p.devB.Listen(svc)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range 3 {
		q := &pair{devA: p.devA, devB: p.devB, la: p.la, lb: rdmatest.NewLoop(t, p.devB, rdma.CQConfig{Index: 1 + i, Count: 4})}
		cfg := rdma.QPConfig{SendDepth: 128, RecvDepth: 128, MaxSGE: 4}
		q.a, q.b = q.la.NewEnd(cfg), q.lb.NewEnd(cfg)
		q.joinAt(t, l)
		q.transfers(t, 3, 50_000)
		if member := q.b.QP.Num() & 0xFF; int(member) != 1+i {
			t.Errorf("queue %d is member %d", 1+i, member)
		}
	}
	s := p.devB.Stats()
	if s["rx_unknown_qp"]+s["gsi_bad_packets"] != 0 {
		t.Errorf("packets went astray: %v", s)
	}
}

func TestAClosedRegionIsNotTouchedAfterClose(t *testing.T) {
	var e epoch
	e.enter()
	done := make(chan struct{})
	go func() {
		e.wait()
		close(done)
	}()
	select {
	case <-done:
		t.Fatal("wait ended during the batch")
	default:
	}
	e.leave()
	<-done
	e.wait() // between batches it returns at once
}

func TestAddressesAreSortedAsInAGIDTable(t *testing.T) {
	n := nic{name: "eth0"}
	cfg := Config{}
	for _, a := range []string{"2001:db8::1", "10.0.0.1", "fe80::1", "10.0.0.1"} {
		n.add(netip.MustParseAddr(a), &cfg)
	}
	if len(n.addrs) != 3 || n.addrs[2].Zone() != "eth0" {
		t.Fatalf("%v", n.addrs)
	}
	if rank(n.addrs[2]) >= rank(n.addrs[1]) || rank(n.addrs[1]) >= rank(n.addrs[0]) {
		t.Error("link-local comes first, then IPv4")
	}
}
