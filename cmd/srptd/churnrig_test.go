package main

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
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

// listener is how the status shows the listener at an address.
func (c *churn) listener(addr string) string {
	for _, l := range (source{c.d}).Status().Listeners {
		if strings.HasPrefix(l.Address, addr+":") {
			return l.State
		}
	}
	return "not listed"
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

// cpuTime is what this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
