package rdmatest

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// subnet is a pair of InfiniBand ports, LIDs 3 and 4. Their tables of partition keys share one partition, at other places.
func subnet(t *testing.T) (r *rig, a, b *Device) {
	t.Helper()
	leaktest.Check(t)
	addr := netip.MustParseAddr
	p := NewProvider(NewFabric(), "memory",
		DeviceConfig{Name: "a", Addrs: []netip.Addr{addr("fe80::3"), addr("fd00::3")}, LID: 3, PKeys: []ib.PKey{0x8001, 0x7FFF, 0xFFFF}},
		DeviceConfig{Name: "b", Addrs: []netip.Addr{addr("fe80::4"), addr("fd00::4")}, LID: 4, PKeys: []ib.PKey{0x7FFF, 0x8002}})
	t.Cleanup(func() { p.Close() })
	a, b = p.Device("a"), p.Device("b")
	return newRig(t, Harness{Provider: p, A: a, B: b, AddrA: addr("fe80::3"), AddrB: addr("fe80::4"), Port: 5000}), a, b
}

// empty tells whether nothing waits at the port.
func empty(p rdma.MADPort) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err := p.Receive(ctx, make([]byte, rdma.MADBufferSize))
	return errors.Is(err, context.Canceled)
}

func TestAnAnswerTakesTheWayOfItsRequest(t *testing.T) {
	r, a, b := subnet(t)
	agent, asker := r.openMAD(b, madClass, madMethods), r.openMAD(a, madClass, nil)
	route := rdma.MADRoute{GID: gidOf(netip.MustParseAddr("fd00::4")), GIDIndex: 1, HopLimit: 9, TrafficClass: 8, FlowLabel: 7}
	back := route
	back.GID = gidOf(netip.MustParseAddr("fd00::3"))
	for _, c := range []struct{ to, at, answered rdma.MADAddr }{
		{rdma.MADAddr{LID: 4, SL: 5, QPN: 1, PKeyIndex: 2}, rdma.MADAddr{LID: 3, SL: 5, QPN: 1}, rdma.MADAddr{LID: 4, SL: 5, QPN: 1, PKeyIndex: 2}},
		{rdma.MADAddr{LID: 4, QPN: 1, PKeyIndex: 2, HasGRH: true, GRH: route}, rdma.MADAddr{LID: 3, QPN: 1, HasGRH: true, GRH: back},
			rdma.MADAddr{LID: 4, QPN: 1, PKeyIndex: 2, HasGRH: true, GRH: route}},
	} {
		r.must(asker.Send(c.to, madRequest(madClass, 1)))
		m, from := r.receiveMAD(agent)
		if from != c.at {
			t.Errorf("request came from %+v, want %+v", from, c.at)
		}
		m.SetMethod(ib.MethodGetResp)
		r.must(agent.Send(from, m))
		if _, from := r.receiveMAD(asker); from != c.answered {
			t.Errorf("answer came from %+v, want %+v", from, c.answered)
		}
	}
}

func TestWhatNobodyMayReceiveIsLost(t *testing.T) {
	r, a, b := subnet(t)
	agent, asker := r.openMAD(b, madClass, madMethods), r.openMAD(a, madClass, nil)
	good := rdma.MADAddr{LID: 4, QPN: 1, PKeyIndex: 2}
	otherQP, otherLID, otherKey, twoLimited := good, good, good, good
	otherQP.QPN, otherLID.LID, otherKey.PKeyIndex, twoLimited.PKeyIndex = 2, 5, 0, 1
	for name, to := range map[string]rdma.MADAddr{"queue pair": otherQP, "LID": otherLID, "partition": otherKey, "limited members": twoLimited} {
		if err := asker.Send(to, madRequest(madClass, 1)); err != nil || !empty(agent) {
			t.Errorf("another %s: %v, or it arrived", name, err)
		}
	}
	a.SetLink(LinkDown)
	if err := asker.Send(good, madRequest(madClass, 1)); err != nil || !empty(agent) {
		t.Errorf("link down: %v, or it arrived", err)
	}
	a.SetLink(LinkUp)
	r.must(asker.Send(good, madRequest(madClass, 1)))
	r.receiveMAD(agent)
	beyond := good
	beyond.PKeyIndex = 3
	if err := asker.Send(beyond, madRequest(madClass, 1)); !errors.Is(err, rdma.ErrInvalid) {
		t.Errorf("P_Key beyond the table: %v", err)
	}
}

func TestHeldDatagramsArriveWhenReleased(t *testing.T) {
	r, a, b := subnet(t)
	agent, asker := r.openMAD(b, madClass, madMethods), r.openMAD(a, madClass, nil)
	b.Hold(Datagrams)
	for seed := range uint32(2) {
		r.must(asker.Send(rdma.MADAddr{LID: 4, QPN: 1, PKeyIndex: 2}, madRequest(madClass, seed)))
	}
	if !empty(agent) {
		t.Error("a datagram came through")
	}
	b.Release(Datagrams)
	for seed := range uint32(2) {
		if m, _ := r.receiveMAD(agent); m.AttrMod() != seed {
			t.Errorf("datagram %d came as number %d", m.AttrMod(), seed)
		}
	}
}

func TestDeliveredDatagramsKeepTheirLength(t *testing.T) {
	r, _, b := subnet(t)
	agent := r.openMAD(b, madClass, madMethods)
	whole := append(madRequest(madClass, 1), make([]byte, rdma.MADBufferSize)...)
	from := rdma.MADAddr{LID: 9, QPN: 77}
	room := make([]byte, rdma.MADBufferSize)
	for _, n := range []int{4, 24, 255, 257, rdma.MADBufferSize} {
		b.DeliverMAD(from, whole[:n])
		if got, at, err := agent.Receive(r.context(), room); got != n || at != from || err != nil {
			t.Errorf("%d bytes came as %d from %+v, %v", n, got, at, err)
		}
	}
	lost := b.Stats()["mads_lost"]
	for _, n := range []int{0, 3, rdma.MADBufferSize + 1} {
		b.DeliverMAD(from, whole[:n])
	}
	if !empty(agent) || b.Stats()["mads_lost"] != lost+3 {
		t.Errorf("statistics %v", b.Stats())
	}
}

func TestOpenTellsOfDatagramPorts(t *testing.T) {
	_, a, _ := Pair()
	p, err := a.OpenMAD(1, rdma.MADConfig{Class: madClass})
	if err != nil || a.Open() == "" {
		t.Errorf("open: %q, %v", a.Open(), err)
	}
	if p.Close(); a.Open() != "" {
		t.Errorf("after Close: %q", a.Open())
	}
}

func TestDeviceManagementAcrossTheFabric(t *testing.T) {
	r, a, b := subnet(t)
	c := mad.Controller{GUID: 7, Protocol: mad.SRP, SendDepth: 64, SendSize: 8260, Operations: mad.SRPOperations, ID: "twin",
		Services: []mad.Service{mad.SRPService(7, 9)}}
	table, err := mad.New(mad.Config{}, []mad.Controller{c})
	r.must(err)
	agent, asker := r.openMAD(b, ib.ClassDeviceMgmt, madMethods), r.openMAD(a, ib.ClassDeviceMgmt, nil)
	room := make([]byte, rdma.MADBufferSize)
	var d mad.Discovery
	for q, more := d.Next(); more; q, more = d.Next() {
		r.must(asker.Send(rdma.MADAddr{LID: 4, QPN: 1, PKeyIndex: 2}, q.Append(nil, 5)))
		n, from, err := agent.Receive(r.context(), room)
		r.must(err)
		answer, drop := table.Answer(nil, room[:n])
		if drop != mad.DropNone {
			t.Fatalf("%v: dropped, %v", q, drop)
		}
		r.must(agent.Send(from, answer))
		got, _ := r.receiveMAD(asker)
		d.Answer(q.Parse(got, 5))
	}
	if u, err := d.Result(); err != nil || len(u.Found) != 1 || u.Found[0].Err != nil || !reflect.DeepEqual(u.Found[0].Controller, c) {
		t.Errorf("found %+v, %v", u, err)
	}
}
