package roce

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

// veth makes a pair of interfaces, both in this namespace: what goes from the link-local address of
// one to that of the other crosses the link.
func veth(t *testing.T, mtu int) {
	t.Helper()
	inNamespace(t)
	l := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "rt0", MTU: mtu}, PeerName: "rt1", PeerMTU: uint32(mtu)}
	if err := netlink.LinkAdd(l); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netlink.LinkDel(l); err != nil {
			t.Error(err)
		}
	})
	for i, name := range []string{"rt0", "rt1"} {
		n, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(n); err != nil {
			t.Fatal(err)
		}
		addAddressUntilGone(t, n, fmt.Sprintf("fe80::77:%d/64", i))
	}
	waitUp(t, "rt0")
	waitUp(t, "rt1")
}

// waitUp waits until the kernel has noticed the carrier.
func waitUp(t *testing.T, nic string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		i, err := net.InterfaceByName(nic)
		if err != nil {
			t.Fatal(err)
		}
		if i.Flags&net.FlagRunning != 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come up", nic)
		}
	}
}

// addAddressUntilGone adds an address that ends with its interface.
func addAddressUntilGone(t *testing.T, l netlink.Link, addr string) {
	t.Helper()
	a, err := netlink.ParseAddr(addr)
	if err != nil {
		t.Fatal(err)
	}
	a.Flags = unix.IFA_F_NODAD
	if err := netlink.AddrAdd(l, a); err != nil {
		t.Fatal(err)
	}
}

// device makes a provider for one address of an interface.
func device(t *testing.T, nic, addr string) (*Provider, rdma.Device) {
	t.Helper()
	p := New(Config{Interfaces: []string{nic}, Addrs: []netip.Addr{netip.MustParseAddr(addr)}})
	t.Cleanup(func() { p.Close() })
	list, err := p.Devices(context.Background())
	if err != nil || len(list) != 1 {
		t.Fatalf("devices %v, %v", list, err)
	}
	return p, list[0]
}

func TestLinkLocalAddressesWorkAcrossALink(t *testing.T) {
	for _, tc := range []struct{ mtu, want int }{{1500, 1024}, {9000, 4096}} {
		t.Run(fmt.Sprint("MTU ", tc.mtu), func(t *testing.T) {
			leaktest.Check(t)
			veth(t, tc.mtu)
			p := &pair{}
			_, p.devA = device(t, "rt0", "fe80::77:0")
			_, p.devB = device(t, "rt1", "fe80::77:1")
			ports, err := p.devA.Ports()
			if err != nil || ports[0].MTU != tc.want || !ports[0].Active {
				t.Fatalf("ports %+v, %v", ports, err)
			}
			p.start(t, "fe80::77:1")
			p.transfers(t, 10, 100_000)
			if i := p.b.Info(); i.Remote.Addr() != netip.MustParseAddr("fe80::77:0%rt1") || i.PathMTU != tc.want {
				t.Errorf("connection %+v", i)
			}
			if i := p.a.Info(); i.Remote.Addr() != netip.MustParseAddr("fe80::77:1%rt0") {
				t.Errorf("connection %+v", i)
			}
		})
	}
}

// TestProviderAtEthernetMTUs: every promise with the path MTUs that 1500 and 9000 bytes make.
func TestProviderAtEthernetMTUs(t *testing.T) {
	for _, tc := range []struct{ mtu, want int }{{1500, 1024}, {9000, 4096}} {
		t.Run(fmt.Sprint("MTU ", tc.mtu), func(t *testing.T) {
			setMTU(t, "lo", tc.mtu)
			mk := loopbackHarness("127.0.0.1", "127.0.0.2", "127.0.0.77")
			rdmatest.TestProvider(t, func(t *testing.T) rdmatest.Harness {
				h := mk(t)
				h.MTU = tc.want
				return h
			})
		})
	}
}

func setMTU(t *testing.T, nic string, mtu int) {
	t.Helper()
	inNamespace(t)
	l, err := netlink.LinkByName(nic)
	if err != nil {
		t.Fatal(err)
	}
	old := l.Attrs().MTU
	if err := netlink.LinkSetMTU(l, mtu); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netlink.LinkSetMTU(l, old); err != nil {
			t.Error(err)
		}
	})
}

// TestAPathMTUThatTheInterfaceCannotCarryIsRefused: B's interface is smaller than the one that
// A chose its path MTU by.
func TestAPathMTUThatTheInterfaceCannotCarryIsRefused(t *testing.T) {
	leaktest.Check(t)
	veth(t, 1500)
	addAddress(t, "rt0", "10.99.0.1/24")
	_, a := loopback(t, "127.0.0.1")
	_, b := device(t, "rt0", "10.99.0.1")
	rdmatest.NewLoop(t, b, rdma.CQConfig{})
	svc := rdma.Service{Addr: netip.MustParseAddrPort("10.99.0.1:7400")}
	l, err := b.Listen(svc)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	end := rdmatest.NewLoop(t, a, rdma.CQConfig{}).NewEnd(rdma.QPConfig{SendDepth: 4, RecvDepth: 4})
	end.Connect(rdma.ConnectParams{Remote: svc, Timeout: 5 * time.Second})
	if c := end.Event(rdma.EventRejected); c.Reason != rdma.RejectInvalidMTU {
		t.Errorf("reason %d, want %d", c.Reason, rdma.RejectInvalidMTU)
	}
}

func TestAPortThatAnotherOwnsIsInUse(t *testing.T) {
	leaktest.Check(t)
	_, a := loopback(t, "127.0.0.1")
	_, again := loopback(t, "127.0.0.1")
	rdmatest.NewLoop(t, a, rdma.CQConfig{})
	if _, err := again.NewCQ(rdma.CQConfig{}); !errors.Is(err, rdma.ErrInUse) {
		t.Errorf("second device on the same address: %v, want ErrInUse", err)
	}
}

func TestAnAddressThatComesLaterIsUsed(t *testing.T) {
	leaktest.Check(t)
	inNamespace(t)
	veth(t, 9000)
	p := New(Config{Interfaces: []string{"rt0"}})
	t.Cleanup(func() { p.Close() })
	list, err := p.Devices(context.Background())
	if err != nil || len(list) != 1 {
		t.Fatalf("devices %v, %v", list, err)
	}
	q := &pair{devB: list[0]}
	_, q.devA = loopback(t, "127.0.0.1")
	q.la, q.lb = rdmatest.NewLoop(t, q.devA, rdma.CQConfig{}), rdmatest.NewLoop(t, q.devB, rdma.CQConfig{})
	l, err := q.devB.Listen(rdma.Service{Addr: netip.AddrPortFrom(netip.Addr{}, 7600)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addAddress(t, "rt0", "10.98.0.1/24")
	ports, err := q.devB.Ports()
	if err != nil || len(ports[0].Addrs) < 2 {
		t.Fatalf("ports %+v, %v", ports, err)
	}
	cfg := rdma.QPConfig{SendDepth: 16, RecvDepth: 16, MaxSGE: 4}
	q.a, q.b = q.la.NewEnd(cfg), q.lb.NewEnd(cfg)
	q.connectTo(t, l, netip.MustParseAddrPort("10.98.0.1:7600"))
	q.transfers(t, 3, 1000)
}
