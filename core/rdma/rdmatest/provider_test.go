package rdmatest

import (
	"net/netip"
	"testing"
)

func harness(t *testing.T) Harness {
	p, a, b := Pair()
	t.Cleanup(func() { p.Close() })
	addr := netip.MustParseAddr
	return Harness{Provider: p, A: a, B: b, AddrA: addr("192.0.2.1"), AddrB: addr("192.0.2.2"), Port: 5000,
		Nobody: addr("192.0.2.99")}
}

func TestTheTwinPassesItsOwnSuite(t *testing.T) { TestProvider(t, harness) }

// TestUnequalDevicesPassTheSuite: one serves fewer RDMA READs than the other makes, and grants a queue pair shorter lists than it tells of.
func TestUnequalDevicesPassTheSuite(t *testing.T) {
	TestProvider(t, func(t *testing.T) Harness {
		h := harness(t)
		h.Provider.(*Provider).Remove("b")
		h.B = h.Provider.(*Provider).Add(DeviceConfig{Name: "b", Addrs: []netip.Addr{h.AddrB}, MaxReads: 3, MaxSGE: 32, GrantedSGE: 2})
		h.A, h.AddrA, h.B, h.AddrB = h.B, h.AddrB, h.A, h.AddrA
		return h
	})
}

func TestOneDeviceCanBeBothEnds(t *testing.T) {
	TestProvider(t, func(t *testing.T) Harness {
		h := harness(t)
		h.A, h.AddrA = h.B, h.AddrB
		return h
	})
}
