//go:build verbs

package verbs

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

// addresses are those of two RDMA devices that reach each other, perhaps one device, and one that nobody has, as in
// GOSRPT_VERBS=192.0.2.1,192.0.2.2,192.0.2.77. Only the virtual machine is sure to have any.
func addresses(t testing.TB) (a, b, nobody netip.Addr) {
	text := os.Getenv("GOSRPT_VERBS")
	if text == "" {
		t.Skip("needs RDMA devices: set GOSRPT_VERBS to the addresses of two and one that nobody has")
	}
	var list []netip.Addr
	for _, s := range strings.Split(text, ",") {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, addr)
	}
	if len(list) != 3 {
		t.Fatalf("GOSRPT_VERBS has %d addresses, want 3", len(list))
	}
	return list[0], list[1], list[2]
}

// testProvider makes a provider.
func testProvider(t testing.TB) *Provider {
	t.Helper()
	p := New(Config{Log: hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Warn})})
	t.Cleanup(func() { p.Close() })
	return p
}

// deviceAt finds the device that has an address.
func deviceAt(t testing.TB, p *Provider, a netip.Addr) *Device {
	t.Helper()
	list, err := p.Devices(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		if d := d.(*Device); d.hasAddr(a) {
			return d
		}
	}
	t.Fatalf("no device has the address %v", a)
	return nil
}

// warmUp has librdmacm open the devices, which it keeps open: no test is to be blamed for that.
func warmUp(t *testing.T, addrs ...netip.Addr) {
	p := testProvider(t)
	for _, a := range addrs {
		l, err := deviceAt(t, p, a).Listen(rdma.Service{Addr: netip.AddrPortFrom(a, 7000)})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	p.Close()
}

// linkLocal is the address of a device's first GID. Of an answer over IPv4 the kernel's client does not know that it is one: it compares
// the GID that it asked with the GRH, where rxe leaves an IPv4 header.
func linkLocal(t *testing.T, d rdma.Device) netip.Addr {
	ports, err := d.Ports()
	if err != nil {
		t.Fatal(err)
	}
	a := netip.AddrFrom16(ports[0].GIDs[0])
	if !a.IsLinkLocalUnicast() {
		t.Fatalf("the first GID of %s is %v, not link-local", d.Name(), a)
	}
	return a
}

func TestProvider(t *testing.T) {
	a, b, nobody := addresses(t)
	warmUp(t, a, b)
	rdmatest.TestProvider(t, func(t *testing.T) rdmatest.Harness {
		p := testProvider(t)
		h := rdmatest.Harness{
			Provider: p, A: deviceAt(t, p, a), B: deviceAt(t, p, b), AddrA: a, AddrB: b, Nobody: nobody, Port: 7000,
			MTU: 4096, Rounds: 400, Datagrams: 1000, ConsumerRejects: true, DeviceKeys: true,
		}
		h.ReadsUnchecked = strings.HasPrefix(h.A.Name(), "siw")
		if strings.HasPrefix(h.A.Name(), "rxe") {
			h.TooLong = rdma.StatusRemoteOperation
			if a.Is4() {
				h.MADAddrA, h.MADAddrB = linkLocal(t, h.A), linkLocal(t, h.B)
			}
		}
		return h
	})
}

var _ rdma.Provider = (*Provider)(nil)
