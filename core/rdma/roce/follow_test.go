package roce

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

// watched is a device on an interface of this test's that is watched, with a listener on all its addresses.
type watched struct {
	prov *Provider
	dev  rdma.Device
	loop *rdmatest.Loop
	l    rdma.Listener
}

const followPort = 7700

// watchOne makes a provider of the interfaces that a rule selects, and serves one of them.
func watchOne(t *testing.T, rule, nic string) *watched {
	t.Helper()
	w := &watched{prov: New(Config{Interfaces: []string{rule}})}
	t.Cleanup(func() { w.prov.Close() })
	events, err := w.prov.Watch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { events.Close() })
	w.serve(t, named(t, w.prov, nic))
	return w
}

func named(t *testing.T, p *Provider, nic string) rdma.Device {
	t.Helper()
	list, err := p.Devices(t.Context())
	i := slices.IndexFunc(list, func(d rdma.Device) bool { return d.Name() == nic })
	if err != nil || i < 0 {
		t.Fatalf("devices %v, %v", list, err)
	}
	return list[i]
}

func (w *watched) serve(t *testing.T, dev rdma.Device) {
	t.Helper()
	w.dev, w.loop = dev, rdmatest.NewLoop(t, dev, rdma.CQConfig{})
	l, err := dev.Listen(rdma.Service{Addr: netip.AddrPortFrom(netip.Addr{}, followPort)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	w.l = l
}

// join connects another device to an address of w.
func (w *watched) join(t *testing.T, from rdma.Device, addr string) *pair {
	t.Helper()
	p := &pair{devA: from, devB: w.dev, la: rdmatest.NewLoop(t, from, rdma.CQConfig{}), lb: w.loop}
	cfg := rdma.QPConfig{SendDepth: 16, RecvDepth: 16, MaxSGE: 4}
	p.a, p.b = p.la.NewEnd(cfg), p.lb.NewEnd(cfg)
	p.connectTo(t, w.l, netip.AddrPortFrom(netip.MustParseAddr(addr), followPort))
	return p
}

// has waits until the device has an address that it can use, or has not.
func (w *watched) has(t *testing.T, addr string, want bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		ports, err := w.dev.Ports()
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(ports[0].Addrs, netip.MustParseAddr(addr)) == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v, want %s there: %v", w.dev.Name(), ports[0].Addrs, addr, want)
		}
	}
}

// endsFor waits for the end of a connection that names its cause.
func endsFor(t *testing.T, e *rdmatest.End, words ...string) {
	t.Helper()
	c := e.Event(rdma.EventDisconnected)
	if !errors.Is(c.Cause, rdma.ErrLost) {
		t.Fatalf("cause %v", c.Cause)
	}
	for _, s := range words {
		if !strings.Contains(c.Cause.Error(), s) {
			t.Errorf("cause %v does not tell of %s", c.Cause, s)
		}
	}
}

func setAddress(t *testing.T, nic, addr string, set func(netlink.Link, *netlink.Addr) error) {
	t.Helper()
	l, err := netlink.LinkByName(nic)
	if err != nil {
		t.Fatal(err)
	}
	a, err := netlink.ParseAddr(addr)
	if err != nil {
		t.Fatal(err)
	}
	a.Flags = unix.IFA_F_NODAD
	if err := set(l, a); err != nil {
		t.Fatal(err)
	}
}

func TestConnectionsOfARemovedAddressEndWithTheCauseAndOthersGoOn(t *testing.T) {
	inNamespace(t)
	leaktest.Check(t)
	veth(t, 9000)
	setAddress(t, "rt0", "10.97.0.1/24", netlink.AddrAdd)
	setAddress(t, "rt0", "10.97.1.1/24", netlink.AddrAdd)
	w := watchOne(t, "rt0", "rt0")
	_, from := loopback(t, "127.0.0.1")
	goes, stays := w.join(t, from, "10.97.0.1"), w.join(t, from, "10.97.1.1")
	goes.transfers(t, 3, 1000)
	setAddress(t, "rt0", "10.97.0.1/24", netlink.AddrDel)
	w.has(t, "10.97.0.1", false)
	endsFor(t, goes.b, "rt0", "10.97.0.1")
	stays.transfers(t, 10, 100_000)
	// The number of the connection's queue pair is not in use any more once it is closed.
	num := goes.b.QP.Num()
	goes.b.Close()
	d := w.dev.(*Device)
	d.mu.Lock()
	if len(d.endpoints) != 3 || len(d.retired) != 0 { // two link-local ones are left, the kernel's and the test's
		t.Errorf("%d endpoints, %d retired", len(d.endpoints), len(d.retired))
	}
	d.mu.Unlock()
	d.numbers.mu.Lock()
	defer d.numbers.mu.Unlock()
	for q, taken := range d.numbers.taken {
		if uint32(q) == num && taken {
			t.Errorf("queue pair number %#x is still taken", num)
		}
	}
}

// A DHCP client that renews, or a script that sets everything anew, takes an address for a moment.
func TestAnAddressThatIsBackAtOnceCostsNoConnection(t *testing.T) {
	inNamespace(t)
	leaktest.Check(t)
	veth(t, 9000)
	setAddress(t, "rt0", "10.97.0.1/24", netlink.AddrAdd)
	w := watchOne(t, "rt0", "rt0")
	_, from := loopback(t, "127.0.0.1")
	p := w.join(t, from, "10.97.0.1")
	setAddress(t, "rt0", "10.97.0.1/24", netlink.AddrDel)
	setAddress(t, "rt0", "10.97.0.1/24", netlink.AddrAdd)
	time.Sleep(w.prov.cfg.AddressGrace + 2*w.prov.cfg.followEvery())
	p.transfers(t, 10, 100_000)
}

func TestAnAddressThatMovesToAnotherInterfaceIsServedThere(t *testing.T) {
	inNamespace(t)
	leaktest.Check(t)
	veth(t, 9000)
	setAddress(t, "rt0", "10.97.0.1/24", netlink.AddrAdd)
	old, there := watchOne(t, "rt?", "rt0"), &watched{}
	there.serve(t, named(t, old.prov, "rt1"))
	_, from := loopback(t, "127.0.0.1")
	p := old.join(t, from, "10.97.0.1")
	setAddress(t, "rt0", "10.97.0.1/24", netlink.AddrDel)
	setAddress(t, "rt1", "10.97.0.1/24", netlink.AddrAdd)
	endsFor(t, p.b, "rt0")
	there.has(t, "10.97.0.1", true)
	there.join(t, from, "10.97.0.1").transfers(t, 3, 1000)
}

func TestAnAddressThatSomebodyElseHoldsIsUsedOnceItIsFree(t *testing.T) {
	inNamespace(t)
	leaktest.Check(t)
	veth(t, 9000)
	setAddress(t, "rt0", "10.97.0.1/24", netlink.AddrAdd)
	holder, held := device(t, "rt0", "10.97.0.1")
	rdmatest.NewLoop(t, held, rdma.CQConfig{})
	w := watchOne(t, "rt0", "rt0")
	w.has(t, "10.97.0.1", false)
	holder.Close()
	w.has(t, "10.97.0.1", true)
	_, from := loopback(t, "127.0.0.1")
	w.join(t, from, "10.97.0.1").transfers(t, 3, 1000)
}

func TestASmallerMTUEndsTheConnectionsThatDoNotFitAndNoOthers(t *testing.T) {
	inNamespace(t)
	leaktest.Check(t)
	veth(t, 9000)
	setAddress(t, "rt0", "10.97.0.1/24", netlink.AddrAdd)
	w := watchOne(t, "rt0", "rt0")
	_, wide := loopback(t, "127.0.0.1")
	_, narrow := loopback(t, "127.0.0.3", func(c *Config) { c.MaxMTU = 1024 })
	long, short := w.join(t, wide, "10.97.0.1"), w.join(t, narrow, "10.97.0.1")
	long.transfers(t, 3, 10_000)
	l, err := netlink.LinkByName("rt0")
	if err == nil {
		err = netlink.LinkSetMTU(l, 1500)
	}
	if err != nil {
		t.Fatal(err)
	}
	endsFor(t, long.b, "1500", "4096")
	long.a.Event(rdma.EventDisconnected) // it is told at once
	short.transfers(t, 10, 100_000)
}
