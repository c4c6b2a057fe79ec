package hca

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

var quiet = hclog.NewNullLogger()

// asker is another node of the subnet.
type asker struct {
	*testing.T
	port rdma.MADPort
}

func newAsker(t *testing.T, p *rdmatest.Provider) *asker {
	d := p.Add(portConfig("asker", "fe80::77", 77))
	port, err := d.OpenMAD(1, rdma.MADConfig{Class: ib.ClassDeviceMgmt, Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	return &asker{t, port}
}

// discovers asks the port of a LID all there is to ask.
func (a *asker) discovers(lid ib.LID) {
	a.Helper()
	var d mad.Discovery
	room := make([]byte, rdma.MADBufferSize)
	for q, more := d.Next(); more; q, more = d.Next() {
		if err := a.port.Send(rdma.MADAddr{LID: lid, QPN: 1}, q.Append(nil, 5)); err != nil {
			a.Fatal(err)
		}
		n, _, err := a.port.Receive(context.Background(), room)
		if err != nil {
			a.Fatal(err)
		}
		d.Answer(q.Parse(room[:n], 5))
	}
	u, err := d.Result()
	if err != nil || len(u.Found) != 1 || !reflect.DeepEqual(u.Found[0].Controller, controller) {
		a.Errorf("found %+v, %v", u, err)
	}
}

func served(name string) func(string) bool { return func(n string) bool { return n == name } }

func TestRefreshingOftenLeavesOneRegistration(t *testing.T) {
	p, dev := subnet(t)
	table := start(t, Config{Provider: p, Agent: newAgent(t)})
	const one = "0 completion queues, 0 shared receive queues, 0 queue pairs, 0 listeners, 0 regions, 1 datagram ports"
	for range 30 {
		reads := table.portOf("a", 1).Reads
		table.Refresh()
		dev.Event(rdma.AsyncClientReregister, 1)
		until(t, "read", func() bool { return table.portOf("a", 1).Reads > reads })
	}
	if dev.Open() != one {
		t.Errorf("open: %s", dev.Open())
	}
	table.Close()
	if dev.Open() != "" {
		t.Errorf("after Close: %s", dev.Open())
	}
}

func TestQueriesAreAnsweredAfterEveryEventOfASubnet(t *testing.T) {
	p, dev := subnet(t)
	table := start(t, Config{Provider: p, Agent: newAgent(t), Wanted: served("a")})
	a := newAsker(t, p)
	a.discovers(3)
	for _, k := range []rdma.AsyncKind{rdma.AsyncSMChange, rdma.AsyncClientReregister, rdma.AsyncPKeyChange} {
		dev.Event(k, 1)
		until(t, k.String(), func() bool { return table.action(k) != "" })
		a.discovers(3)
	}
	dev.Change(func(c *rdmatest.PortConfig) { c.LID = 30 })
	a.discovers(30)
	dev.SetLink(rdmatest.LinkDown)
	dev.SetLink(rdmatest.LinkUp)
	a.discovers(30)
	if s := table.portOf("a", 1); s.Answered == 0 || s.Failed != 0 || !s.Discovery {
		t.Errorf("%+v", s)
	}
}

func TestAnswersFollowTheTableThatIsInForce(t *testing.T) {
	p, _ := subnet(t)
	table := start(t, Config{Provider: p, Wanted: served("a")})
	a := newAsker(t, p)
	if table.portOf("a", 1).Discovery {
		t.Fatal("registered without an agent")
	}
	table.SetAgents(newAgent(t), nil)
	until(t, "registered", func() bool { return table.portOf("a", 1).Discovery })
	a.discovers(3)
}

func TestConflictIsReportedByNameAndMendedWhenItEnds(t *testing.T) {
	p, dev := subnet(t)
	other, err := dev.OpenMAD(1, rdma.MADConfig{Class: ib.ClassDeviceMgmt, Version: 1, Methods: methods})
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{}
	u := &user{}
	table := start(t, Config{Provider: p, Agent: newAgent(t), User: u, Log: hclog.New(&hclog.LoggerOptions{Output: w})})
	s := table.portOf("a", 1)
	if s.Discovery || !strings.Contains(s.DiscoveryProblem, "of a port 1: unload ib_srpt") || !w.has("of a port 1: unload ib_srpt") {
		t.Errorf("%+v", s)
	}
	if !u.heard("attach a") {
		t.Error("logins are not served meanwhile")
	}
	other.Close()
	until(t, "registered", func() bool { return table.portOf("a", 1).Discovery })
	if s := table.portOf("a", 1); s.DiscoveryProblem != "" {
		t.Errorf("still said: %q", s.DiscoveryProblem)
	}
}

func TestConflictNamesTheOwnerThatTheProviderKnows(t *testing.T) {
	known := &rdma.TakenError{Owner: "the module ib_srpt", Mend: "modprobe -r ib_srpt"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&rdma.Error{Op: "register", Err: fmt.Errorf("class 6: %w", known)},
			"the module ib_srpt has the Device Management class of mlx5_0 port 2: modprobe -r ib_srpt; logins by address work meanwhile"},
		{&rdma.Error{Op: "register", Err: rdma.ErrInUse},
			"somebody else has the Device Management class of mlx5_0 port 2: unload ib_srpt, or end the other target; logins by address work meanwhile"},
	} {
		if got := conflict(c.err, "mlx5_0 port 2"); got != c.want || !errors.Is(c.err, rdma.ErrInUse) {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

func TestHostileDatagramsAreCountedAndNotAnswered(t *testing.T) {
	p, dev := subnet(t)
	table := start(t, Config{Provider: p, Agent: newAgent(t), Wanted: served("a")})
	from := rdma.MADAddr{LID: 9, QPN: 1}
	get := (ib.MADHeader{BaseVersion: 1, Class: ib.ClassDeviceMgmt, ClassVersion: 1, Method: ib.MethodGet}).Append(nil)
	for i, b := range [][]byte{get, append(get, make([]byte, 4000)...), {1, 6, 1, 1}} {
		dev.DeliverMAD(from, b)
		until(t, "dropped", func() bool { return table.portOf("a", 1).Dropped == uint64(i+1) })
	}
	newAsker(t, p).discovers(3)
}

// Ports of InfiniBand tell another service id than those of Ethernet, and each its own once the link of a port is known.
func TestInfiniBandPortsHaveAnAgentOfTheirOwn(t *testing.T) {
	p, _ := subnet(t)
	gid := ib.GID{0: 0xFE, 1: 0x80, 15: 5}
	p.Add(rdmatest.DeviceConfig{Name: "eth", GIDs: []ib.GID{gid}})
	own := controller
	own.Services = []mad.Service{mad.SRPService(7, 11)}
	native, err := mad.New(mad.Config{}, []mad.Controller{own})
	if err != nil {
		t.Fatal(err)
	}
	table := start(t, Config{Provider: p, Agent: newAgent(t), IBAgent: native, Wanted: func(n string) bool { return n != "asker" }})
	a := newAsker(t, p)
	tells := func(to rdma.MADAddr, id uint64) {
		t.Helper()
		q := mad.GetServices(1, 0, 0)
		if err := a.port.Send(to, q.Append(nil, 5)); err != nil {
			t.Fatal(err)
		}
		room := make([]byte, rdma.MADBufferSize)
		n, _, err := a.port.Receive(t.Context(), room)
		if err != nil {
			t.Fatal(err)
		}
		data, err := q.Parse(room[:n], 5)
		if err != nil {
			t.Fatal(err)
		}
		if e, err := mad.ParseServiceEntries(data, 1); err != nil || e.At(0).ID != id {
			t.Errorf("%+v, %v, want the id %d", e, err, id)
		}
	}
	lid, route := rdma.MADAddr{LID: 3, QPN: 1}, rdma.MADAddr{QPN: 1, HasGRH: true, GRH: rdma.MADRoute{GID: gid}}
	tells(lid, 11)
	tells(route, 9)
	table.SetAgents(newAgent(t), nil)
	tells(lid, 9)
}

// A device of iWARP has no datagrams: that is told once, as what it is, and is neither tried again nor warned of.
func TestDeviceWithoutDatagramsIsServedWithoutDiscovery(t *testing.T) {
	leaktest.Check(t)
	cfg := portConfig("iw0", "192.0.2.7", 0)
	cfg.IWARP = true
	p := rdmatest.NewProvider(rdmatest.NewFabric(), "memory", cfg)
	t.Cleanup(func() { p.Close() })
	var log strings.Builder
	table := start(t, Config{Provider: p, Agent: newAgent(t), Log: hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Warn})})
	until(t, "the port is open", func() bool { return table.portOf("iw0", 1).DiscoveryProblem != "" })
	port := table.portOf("iw0", 1)
	if port.Discovery || port.DiscoveryProblem != "the device takes no management datagrams" || !port.Active {
		t.Errorf("%+v", port)
	}
	if a := &table.list()[0].ports[0].agent; a.wanted() {
		t.Error("it is going to be tried again")
	}
	table.Close()
	if text := log.String(); text != "" {
		t.Errorf("the log says %s", text)
	}
}
