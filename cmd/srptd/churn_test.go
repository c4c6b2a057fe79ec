package main

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/roce"
)

// Two interfaces of the target: things happen to the one, and a verified load runs over the other meanwhile.
const (
	churned = "10.90.0.1"
	second  = "10.90.1.1" // another address of the churned interface
	quiet   = "10.91.0.1"
	peers   = "10.92.0.1"
)

// churn is a daemon in this process, in a network namespace of its own.
type churn struct {
	d    *daemon
	log  *output
	from rdma.Device // of the initiators
	nic  string      // the churned interface, whose name changes
	made int         // how many names there were
	seen int         // of the log, at the beginning of the cycle
}

// cable makes a pair of interfaces whose ends are up.
func cable(t *testing.T, name string, addrs ...string) {
	t.Helper()
	l := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: 9000}, PeerName: "x" + name, PeerMTU: 9000}
	if err := errors.Join(netlink.LinkAdd(l), setUp(name), setUp("x"+name)); err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		address(t, name, a, netlink.AddrAdd)
	}
}

// address does something with an address of an interface.
func address(t *testing.T, nic, addr string, do func(netlink.Link, *netlink.Addr) error) {
	t.Helper()
	a, err := netlink.ParseAddr(addr + "/24")
	if err != nil {
		t.Fatal(err)
	}
	a.Flags = unix.IFA_F_NODAD
	onLink(t, nic, func(l netlink.Link) error { return do(l, a) })
}

func onLink(t *testing.T, nic string, do func(netlink.Link) error) {
	t.Helper()
	l, err := netlink.LinkByName(nic)
	if err == nil {
		err = do(l)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func newChurn(t *testing.T) *churn {
	t.Helper()
	cable(t, "c0", churned, second)
	cable(t, "q0", quiet)
	// A short grace, so that hundreds of cycles take minutes.
	return startChurn(t, roce.Config{Interfaces: []string{"c*", "10.91.0.0/16", "!lo"}, AddressGrace: 200 * time.Millisecond})
}

// startChurn starts a daemon that listens at some addresses, or at all.
func startChurn(t *testing.T, fabric roce.Config, listen ...netip.Addr) *churn {
	t.Helper()
	cable(t, "p0", peers)
	c := &churn{log: &output{}, nic: "c0"}
	log := hclog.New(&hclog.LoggerOptions{Output: c.log, Level: hclog.Info})
	dir := t.TempDir()
	cfg := campaignConfig(dir)
	cfg.Provider, cfg.Admin = "roce", config.Admin{Socket: filepath.Join(dir, "s")}
	cfg.LUNs = []config.LUN{{Name: "disk", Plugin: "backstore-file", Arena: 16 << 20,
		Config: map[string]string{"path": filepath.Join(dir, "disk.img"), "size": "16MiB"}}}
	cfg.PluginDirs, cfg.Listen = []string{binaries.dir}, listen
	fabric.Log, fabric.Addrs = log, listen
	var err error
	if c.d, err = startOn(t.Context(), cfg, log, roce.New(fabric)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.d.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(c.log.tail())
		}
	})
	c.from = newComputerAt(t, netip.MustParseAddr(peers)).dev
	return c
}

func (c *churn) dial(t *testing.T, addr string) (*initiator.Session, error) {
	t.Helper()
	return initiator.Dial(soon(t), initiator.Config{
		Device: c.from, Local: netip.MustParseAddr(peers), Remote: netip.AddrPortFrom(netip.MustParseAddr(addr), testPort),
		Initiator: newInitiator(), Target: targetID(), QueueDepth: 8, Timeout: time.Second,
	})
}

// served logs in to an address until that works, and reads.
func (c *churn) served(t *testing.T, addr string) *initiator.Session {
	t.Helper()
	var s *initiator.Session
	eventually(t, "logins at "+addr, func() bool {
		var err error
		s, err = c.dial(t, addr)
		return err == nil
	})
	c.works(t, s)
	return s
}

func (c *churn) works(t *testing.T, s *initiator.Session) {
	t.Helper()
	if err := errors.Join(s.TestUnitReady(soon(t), lunOf(0)), s.Read(soon(t), lunOf(0), 0, 8, make([]byte, 4096))); err != nil {
		t.Fatal(err)
	}
}

func ends(t *testing.T, s *initiator.Session) {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(patience):
		t.Fatal("a session goes on")
	}
}

// logged waits until the log has a line of this cycle with all the words.
func (c *churn) logged(t *testing.T, words ...string) {
	t.Helper()
	eventually(t, fmt.Sprint("the log tells of ", words), func() bool {
		return slices.ContainsFunc(strings.Split(c.log.String()[c.seen:], "\n"), func(line string) bool {
			return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
		})
	})
}

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

// leavesNothing fails a test that leaves goroutines or descriptors behind.
func leavesNothing(t *testing.T) {
	t.Helper()
	known, files := goleak.IgnoreCurrent(), processCounters()["process_open_files"]
	t.Cleanup(func() {
		if err := goleak.Find(known); err != nil {
			t.Error(err)
		}
		// The runtime's own for waiting may have been opened meanwhile: an epoll and an eventfd.
		if now := processCounters()["process_open_files"]; now > files+2 {
			t.Errorf("%d descriptors are open, %d were", now, files)
		}
	})
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

// listener is how the status shows the listener at an address.
func (c *churn) listener(addr string) string {
	for _, l := range (source{c.d}).Status().Listeners {
		if strings.HasPrefix(l.Address, addr+":") {
			return l.State
		}
	}
	return "not listed"
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

// cpuTime is what this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
