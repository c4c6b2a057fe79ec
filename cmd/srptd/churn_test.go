package main

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/rdma/roce"
)

// happenings are what may befall an interface. Each begins with a session at the churned address, and ends when the interface is as it was.
var happenings = []func(c *churn, t *testing.T, s *initiator.Session){
	// An address is taken, while another one of the same interface is in use.
	func(c *churn, t *testing.T, s *initiator.Session) {
		other := c.served(t, second)
		defer other.Close()
		address(t, c.nic, churned, netlink.AddrDel)
		c.logged(t, "channel ended", "lost with its port", "does not have the address "+churned)
		c.works(t, other)
		s.Close()
		address(t, c.nic, churned, netlink.AddrAdd)
	},
	// An address is taken and given again at once.
	func(c *churn, t *testing.T, s *initiator.Session) {
		address(t, c.nic, churned, netlink.AddrDel)
		address(t, c.nic, churned, netlink.AddrAdd)
		c.works(t, s)
	},
	// The link goes down and comes up.
	func(c *churn, t *testing.T, s *initiator.Session) {
		onLink(t, c.nic, netlink.LinkSetDown)
		onLink(t, c.nic, netlink.LinkSetUp)
		c.works(t, s)
	},
	// The interface gets another name: its sessions end, and it is served as another HCA.
	func(c *churn, t *testing.T, s *initiator.Session) {
		c.made++
		name := fmt.Sprint("c", c.made)
		onLink(t, c.nic, netlink.LinkSetDown)
		onLink(t, c.nic, func(l netlink.Link) error { return netlink.LinkSetName(l, name) })
		onLink(t, name, netlink.LinkSetUp)
		c.nic = name
		ends(t, s)
	},
	// The MTU becomes too small, and large again.
	func(c *churn, t *testing.T, s *initiator.Session) {
		onLink(t, c.nic, func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1500) })
		ends(t, s)
		c.logged(t, "channel ended", "the MTU of "+c.nic+" is 1500")
		onLink(t, c.nic, func(l netlink.Link) error { return netlink.LinkSetMTU(l, 9000) })
	},
	// The interface is removed, and made anew.
	func(c *churn, t *testing.T, s *initiator.Session) {
		onLink(t, c.nic, netlink.LinkDel)
		eventually(t, "the HCA is forgotten", func() bool { return len(c.d.table.HCAs()) == 1 })
		s.Close()
		cable(t, c.nic, churned, second)
	},
}

// used is what the daemon has in use when nobody but the load is logged in.
func (c *churn) used() map[string]uint64 {
	m := source{c.d}.Status().Counters
	return map[string]uint64{
		"goroutines": m["process_goroutines"], "open files": m["process_open_files"], "channels": m["channels"],
		"leases": m["arena_disk_held"] + m["arena_small_held"], "arena bytes": m["arena_disk_bytes"] + m["arena_small_bytes"],
	}
}

func TestChurnOfAddressesAndLinksLosesNothing(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	leavesNothing(t)
	c := newChurn(t)
	steady := c.served(t, quiet)
	defer steady.Close()
	l := newLoad(t, steady, 0, 4)
	// One of each first: what is made once and kept is made then.
	cycles := requests(18, 200)
	var before map[string]uint64
	begin := time.Now()
	for n := range len(happenings) + cycles {
		if n == len(happenings) {
			before = c.settled(t)
		}
		stop := l.background(t)
		c.seen = len(c.log.String())
		s := c.served(t, churned)
		happenings[n%len(happenings)](c, t, s)
		s.Close()
		again := c.served(t, churned) // whatever it was
		again.Close()
		stop()
	}
	took := time.Since(begin)
	l.verifyAll(t)
	var after map[string]uint64
	eventually(t, "all is given back", func() bool {
		after = c.used()
		for k, v := range after {
			if v > before[k] {
				return false
			}
		}
		return true
	})
	idle := cpuTime(t)
	time.Sleep(2 * time.Second)
	if idle = cpuTime(t) - idle; idle > time.Second/5 {
		t.Errorf("idle for 2 s, the daemon and its initiator use %v of CPU time", idle)
	}
	t.Logf("idle for 2 s: %v of CPU time", idle)
	t.Logf("%d cycles in %v; before %v, after %v; %d requests of the load, the longest took %v", cycles, took, before, after, l.requests, l.worst)
}

// settled waits until the sessions that were are gone.
func (c *churn) settled(t *testing.T) (m map[string]uint64) {
	t.Helper()
	eventually(t, "only the load is logged in", func() bool {
		m = c.used()
		return m["channels"] == 1 && m["leases"] == 0
	})
	runtime.GC()
	return m
}

// appears is how long after it has come an address may not be served yet.
const appears = 5 * time.Second

func TestAbsentListenAddressWaitsAndIsServedWithinSeconds(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	leavesNothing(t)
	c := startChurn(t, roce.Config{}, netip.MustParseAddr(churned))
	waits := func() bool { return strings.HasPrefix(c.listener(churned), "waits") }
	listens := func() bool { return c.listener(churned) == "listening" }
	if !waits() {
		t.Errorf("at the start: %s", c.listener(churned))
	}
	cable(t, "c0", churned)
	within(t, appears, "the address is listened at", listens)
	s := c.served(t, churned)
	address(t, "c0", churned, netlink.AddrDel)
	eventually(t, "the address is waited for", waits)
	eventually(t, "the session has ended", func() bool { return (source{c.d}).Status().Sessions == 0 })
	s.Close()
	cable(t, "d0")
	address(t, "d0", churned, netlink.AddrAdd)
	within(t, appears, "the address is listened at on another interface", listens)
	c.served(t, churned).Close()
}

// An interface that a rule names may have no address yet.
func TestNamedInterfaceWithoutAnAddressIsWaitedFor(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	leavesNothing(t)
	l := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "c0", MTU: 9000}, PeerName: "xc0", PeerMTU: 9000}
	if err := netlink.LinkAdd(l); err != nil {
		t.Fatal(err)
	}
	c := startChurn(t, roce.Config{Interfaces: []string{"c0"}})
	if h := c.d.table.HCAs(); len(h) != 1 || h[0].Serving || !strings.Contains(h[0].Problem, "no usable address") {
		t.Errorf("HCAs %+v", h)
	}
	if err := errors.Join(setUp("c0"), setUp("xc0")); err != nil {
		t.Fatal(err)
	}
	address(t, "c0", churned, netlink.AddrAdd)
	within(t, appears, "the interface is served", func() bool { return c.d.table.HCAs()[0].Serving })
	c.served(t, churned).Close()
}
