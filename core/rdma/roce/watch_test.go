package roce

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
)

func TestChangesBetweenInterfacesAreTold(t *testing.T) {
	a := nic{name: "eth0", index: 2, mtu: 1500, up: true, mac: [6]byte{2}, addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	change := func(f func(*nic)) nic {
		n := a
		f(&n)
		return n
	}
	set := func(list ...nic) map[int]nic {
		m := map[int]nic{}
		for _, n := range list {
			m[n.index] = n
		}
		return m
	}
	ev := func(k rdma.AsyncKind, dev string, port int) rdma.AsyncEvent {
		return rdma.AsyncEvent{Kind: k, Device: dev, Port: port}
	}
	for name, c := range map[string]struct {
		old, now map[int]nic
		want     []rdma.AsyncEvent
	}{
		"nothing":  {set(a), set(a), nil},
		"appears":  {set(), set(a), []rdma.AsyncEvent{ev(rdma.AsyncDeviceAdded, "eth0", 0)}},
		"vanishes": {set(a), set(), []rdma.AsyncEvent{ev(rdma.AsyncDeviceRemoved, "eth0", 0)}},
		"down":     {set(a), set(change(func(n *nic) { n.up = false })), []rdma.AsyncEvent{ev(rdma.AsyncPortError, "eth0", 1)}},
		"up":       {set(change(func(n *nic) { n.up = false })), set(a), []rdma.AsyncEvent{ev(rdma.AsyncPortActive, "eth0", 1)}},
		"address":  {set(a), set(change(func(n *nic) { n.addrs = nil })), []rdma.AsyncEvent{ev(rdma.AsyncGIDChange, "eth0", 1)}},
		"MTU":      {set(a), set(change(func(n *nic) { n.mtu = 9000 })), []rdma.AsyncEvent{ev(rdma.AsyncPortChange, "eth0", 1)}},
		"renamed": {set(a), set(change(func(n *nic) { n.name = "lan" })),
			[]rdma.AsyncEvent{ev(rdma.AsyncDeviceRemoved, "eth0", 0), ev(rdma.AsyncDeviceAdded, "lan", 0)}},
		"made again": {set(a), set(change(func(n *nic) { n.index = 3 })),
			[]rdma.AsyncEvent{ev(rdma.AsyncDeviceRemoved, "eth0", 0), ev(rdma.AsyncDeviceAdded, "eth0", 0)}},
		"another MAC": {set(a), set(change(func(n *nic) { n.mac[5] = 9 })),
			[]rdma.AsyncEvent{ev(rdma.AsyncDeviceRemoved, "eth0", 0), ev(rdma.AsyncDeviceAdded, "eth0", 0)}},
	} {
		if got := changes(c.old, c.now); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// cable makes an interface, for the time of the test, whose other end is up.
func cable(t *testing.T, name string) netlink.Link {
	t.Helper()
	l := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "end-" + name}
	if err := netlink.LinkAdd(l); err != nil {
		t.Fatal(err)
	}
	peer, err := netlink.LinkByName(l.PeerName)
	if err == nil {
		err = netlink.LinkSetUp(peer)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(l) }) // the test may have
	return l
}

func TestEventsFollowTheInterface(t *testing.T) {
	inNamespace(t)
	leaktest.Check(t)
	p := New(Config{Interfaces: []string{"w*"}})
	defer p.Close()
	w, err := p.Watch()
	if err != nil {
		t.Fatal(err)
	}
	// next waits for an event of a kind. Others may come in between: the kernel gives a link its address in steps.
	next := func(k rdma.AsyncKind, dev string) {
		t.Helper()
		for {
			ev, err := w.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if ev.Kind == k && ev.Device == dev {
				return
			}
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	l := cable(t, "w0")
	next(rdma.AsyncDeviceAdded, "w0")
	list, err := p.Devices(context.Background())
	if err != nil || len(list) != 1 || list[0].Name() != "w0" {
		t.Fatalf("%v, %v", list, err)
	}
	must(netlink.LinkSetUp(l))
	next(rdma.AsyncPortActive, "w0")
	addr, err := netlink.ParseAddr("10.9.9.9/24")
	must(err)
	must(netlink.AddrAdd(l, addr))
	next(rdma.AsyncGIDChange, "w0")
	must(netlink.LinkSetMTU(l, 1400))
	next(rdma.AsyncPortChange, "w0")
	must(netlink.AddrDel(l, addr))
	next(rdma.AsyncGIDChange, "w0")
	must(netlink.LinkSetDown(l))
	next(rdma.AsyncPortError, "w0")
	if again, err := p.Devices(context.Background()); err != nil || len(again) != 1 || again[0] != list[0] {
		t.Errorf("the device with its link down: %v, %v", again, err)
	}
	must(netlink.LinkSetName(l, "w1"))
	next(rdma.AsyncDeviceRemoved, "w0")
	next(rdma.AsyncDeviceAdded, "w1")
	must(netlink.LinkDel(l))
	next(rdma.AsyncDeviceRemoved, "w1")
	p.Close()
	if _, err := w.Next(context.Background()); !errors.Is(err, rdma.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := p.Watch(); !errors.Is(err, rdma.ErrClosed) {
		t.Errorf("Watch after Close: %v", err)
	}
}

// An interface that is wanted for being up stays a device when its link goes down: its sessions may come back.
func TestDeviceStaysWhileItsLinkIsDown(t *testing.T) {
	inNamespace(t)
	leaktest.Check(t)
	addAddress(t, "lo", "fd00:88::1/128")
	p := New(Config{})
	defer p.Close()
	l := cable(t, "w2")
	if err := netlink.LinkSetUp(l); err != nil {
		t.Fatal(err)
	}
	addAddress(t, "w2", "10.8.8.8/24")
	listed := func() bool {
		list, err := p.Devices(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list, func(d rdma.Device) bool { return d.Name() == "w2" })
	}
	if !listed() {
		t.Fatal("it is no device")
	}
	if err := netlink.LinkSetDown(l); err != nil {
		t.Fatal(err)
	}
	if !listed() {
		t.Error("it is no device any more")
	}
	if err := netlink.LinkSetUp(l); err != nil { // so that the address can be removed
		t.Fatal(err)
	}
}
