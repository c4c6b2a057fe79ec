package roce

import (
	"context"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

// loopback makes a provider and its device for one loopback address.
func loopback(t testing.TB, addr string, change ...func(*Config)) (*Provider, rdma.Device) {
	t.Helper()
	cfg := Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{netip.MustParseAddr(addr)}}
	for _, f := range change {
		f(&cfg)
	}
	p := New(cfg)
	t.Cleanup(func() { p.Close() })
	list, err := p.Devices(context.Background())
	if err != nil || len(list) != 1 {
		t.Fatalf("devices %v, %v", list, err)
	}
	return p, list[0]
}

func loopbackHarness(a, b, nobody string, change ...func(*Config)) func(t *testing.T) rdmatest.Harness {
	return func(t *testing.T) rdmatest.Harness {
		h := rdmatest.Harness{AddrA: netip.MustParseAddr(a), AddrB: netip.MustParseAddr(b), Port: 7000, MTU: 4096, Rounds: 600}
		if nobody != "" {
			h.Nobody = netip.MustParseAddr(nobody)
		}
		p, dev := loopback(t, a, change...)
		h.Provider, h.A = p, dev
		_, h.B = loopback(t, b, change...)
		return h
	}
}

func TestProviderOnIPv4Loopback(t *testing.T) {
	rdmatest.TestProvider(t, loopbackHarness("127.0.0.1", "127.0.0.2", "127.0.0.77"))
}

func TestProviderOnIPv6Loopback(t *testing.T) {
	inNamespace(t)
	addAddress(t, "lo", "fd00:77::2/128")
	rdmatest.TestProvider(t, loopbackHarness("::1", "fd00:77::2", "fd00:77::77"))
}

func TestProviderWithoutOffloads(t *testing.T) {
	rdmatest.TestProvider(t, loopbackHarness("127.0.0.1", "127.0.0.2", "127.0.0.77", func(c *Config) {
		c.NoGSO, c.NoGRO = true, true
		if c.Addrs[0] == netip.MustParseAddr("127.0.0.2") {
			c.MaxReads = 3 // fewer than the other side's
		}
	}))
}

// addAddress adds an address to an interface for the time of the test.
func addAddress(t testing.TB, nic, addr string) {
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
	if err := netlink.AddrAdd(l, a); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netlink.AddrDel(l, a); err != nil {
			t.Error(err)
		}
	})
}
