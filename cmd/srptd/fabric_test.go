package main

import (
	"net/netip"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/hca"
	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

// onFabric is a daemon in this process on a fabric in memory, which has no device yet, and another provider's device to log in from.
func onFabric(t *testing.T, adjust ...func(*config.Config)) (*daemon, *rdmatest.Provider, *rdmatest.Device) {
	t.Helper()
	fabric := rdmatest.NewFabric()
	ours, theirs := rdmatest.NewProvider(fabric, "ours"), rdmatest.NewProvider(fabric, "theirs")
	peer := theirs.Add(rdmatest.DeviceConfig{Name: "peer", Addrs: []netip.Addr{netip.MustParseAddr("fe80::9")}, LID: 9})
	t.Cleanup(func() { theirs.Close() })
	dir := t.TempDir()
	cfg := &config.Config{
		Provider: "memory", Port: testPort, Target: config.Target{IDExt: testIDExt, IOCGUID: testIOCGUID},
		Login:   config.Login{MaxChannels: 8, TotalChannels: 64, QueueDepth: 64, Immediate: true},
		Session: config.Session{DeadPeer: 30 * time.Second, MaxTransfer: 1 << 20},
		Plugin:  config.Plugin{StartTimeout: patience, CallTimeout: patience, RestartWait: patience},
		Admin:   config.Admin{Socket: filepath.Join(dir, "s")},
	}
	for _, f := range adjust {
		f(cfg)
	}
	d, err := startOn(t.Context(), cfg, hclog.NewNullLogger(), ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.stop(); err != nil {
			t.Error(err)
		}
	})
	return d, ours, peer
}

func dialFabric(t *testing.T, peer *rdmatest.Device, addr string) (*initiator.Session, error) {
	t.Helper()
	return initiator.Dial(soon(t), initiator.Config{
		Device: peer, Remote: netip.AddrPortFrom(netip.MustParseAddr(addr), testPort), Initiator: newInitiator(), Target: targetID(),
		QueueDepth: 8, Timeout: patience,
	})
}

func TestDaemonWithoutADeviceServesTheOneThatComesAndForgetsTheOneThatGoes(t *testing.T) {
	d, ours, peer := onFabric(t)
	src := source{d}
	if f := src.Fabric(); len(f.Hcas) != 0 {
		t.Fatalf("%v", f)
	}
	if l := src.Status().Listeners; len(l) != 1 || !strings.HasPrefix(l[0].State, "waits") {
		t.Errorf("listeners %v", l)
	}
	dev := ours.Add(rdmatest.DeviceConfig{Name: "late", Addrs: []netip.Addr{netip.MustParseAddr("fe80::1")}, LID: 1, SMLID: 3})
	eventually(t, "the device is served", func() bool { f := src.Fabric(); return len(f.Hcas) == 1 && f.Hcas[0].Serving })
	s, err := dialFabric(t, peer, "fe80::1")
	if err != nil {
		t.Fatal(err)
	}
	if p := src.Fabric().Hcas[0].Ports[0]; p.Lid != 1 || p.SmLid != 3 || p.State != "active" || !p.Discovery {
		t.Errorf("%v", p)
	}
	dev.Change(func(c *rdmatest.PortConfig) { c.LID = 11 })
	eventually(t, "the new LID is shown", func() bool { return src.Fabric().Hcas[0].Ports[0].Lid == 11 })
	if err := ours.Remove("late"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
	case <-time.After(patience):
		t.Error("the session of a removed device goes on")
	}
	eventually(t, "the device is forgotten", func() bool { return len(src.Fabric().Hcas) == 0 })
	list, err := src.Events(t.Context(), 0, false)
	if err != nil || len(list) < 3 {
		t.Errorf("events %v, %v", list, err)
	}
	ours.Add(rdmatest.DeviceConfig{Name: "late", Addrs: []netip.Addr{netip.MustParseAddr("fe80::1")}, LID: 1})
	eventually(t, "it is served again", func() bool {
		s, err := dialFabric(t, peer, "fe80::1")
		if err != nil {
			return false
		}
		s.Close()
		return true
	})
}

func TestDeviceOfIWARPIsShownAsThatAndIsNoProblem(t *testing.T) {
	d, ours, _ := onFabric(t)
	src := source{d}
	ours.Add(rdmatest.DeviceConfig{Name: "siw0", Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, IWARP: true})
	eventually(t, "the device is served", func() bool { f := src.Fabric(); return len(f.Hcas) == 1 && f.Hcas[0].Serving })
	if p := src.Fabric().Hcas[0].Ports[0]; p.Link != "Ethernet, iWARP" || p.State != "active" || p.Discovery || p.DiscoveryProblem == "" {
		t.Errorf("%v", p)
	}
	if got := portProblems(d.table.HCAs()); len(got) != 0 {
		t.Errorf("problems %v", got)
	}
}

// discover asks a port for the one controller that it has.
func discover(t *testing.T, from *rdmatest.Device, to rdma.MADAddr) mad.Controller {
	t.Helper()
	p, err := from.OpenMAD(1, rdma.MADConfig{Class: ib.ClassDeviceMgmt, Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var disc mad.Discovery
	b := make([]byte, rdma.MADBufferSize)
	for q, more := disc.Next(); more; q, more = disc.Next() {
		if err := p.Send(to, q.Append(nil, 1)); err != nil {
			t.Fatal(err)
		}
		n, _, err := p.Receive(soon(t), b)
		if err != nil {
			t.Fatal(err)
		}
		disc.Answer(q.Parse(b[:n], 1))
	}
	u, err := disc.Result()
	if err != nil || len(u.Found) != 1 || u.Found[0].Err != nil {
		t.Fatalf("%+v, %v", u, err)
	}
	return u.Found[0].Controller
}

// What discovery says of the target is what a login gets.
func TestPortsAnswerDiscoveryWithWhatALoginGets(t *testing.T) {
	d, ours, peer := onFabric(t)
	ours.Add(rdmatest.DeviceConfig{Name: "hca", Addrs: []netip.Addr{netip.MustParseAddr("fe80::1")}, LID: 1})
	eventually(t, "discovery is answered", func() bool { f := source{d}.Fabric(); return len(f.Hcas) == 1 && f.Hcas[0].Ports[0].Discovery })
	c := discover(t, peer, rdma.MADAddr{LID: 1, QPN: ib.QPGeneralServices})
	plan := d.target.Plan()
	if c.GUID != ib.GUID(testIOCGUID) || c.SendSize != plan.MaxRequestIU || int(c.SendDepth) != plan.Credits || len(c.Services) != 1 {
		t.Errorf("%+v, the plan is %+v", c, plan)
	}
}

func TestStatusTellsWhatIsWrongWithPorts(t *testing.T) {
	got := portProblems([]hca.HCA{
		{Name: "well", Ports: []hca.PortStatus{{Port: rdma.Port{Num: 1}, Discovery: true}, {Port: rdma.Port{Num: 2}}}},
		{Name: "taken", Ports: []hca.PortStatus{{Port: rdma.Port{Num: 1}, Discovery: true}, {Port: rdma.Port{Num: 2}, DiscoveryProblem: "unload ib_srpt"}}},
		{Name: "sick", Ports: []hca.PortStatus{{Port: rdma.Port{Num: 1}, Problem: "no such device"}}},
	})
	want := map[string][]string{
		"taken": {"port 2 does not answer discovery: unload ib_srpt"}, "sick": {"port 1 cannot be read: no such device"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
