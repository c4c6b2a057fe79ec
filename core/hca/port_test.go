package hca

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

// The port has LIDs all the time: kernel targets read a port again only when both were zero.
func TestPortIsReadAgainAfterEachEventWhateverTheCacheHolds(t *testing.T) {
	for _, c := range []struct {
		kind   rdma.AsyncKind
		change func(*rdmatest.PortConfig)
	}{
		{rdma.AsyncLIDChange, func(p *rdmatest.PortConfig) { p.LID = 9 }},
		{rdma.AsyncSMChange, func(p *rdmatest.PortConfig) { p.SMLID = 2 }},
		{rdma.AsyncPKeyChange, func(p *rdmatest.PortConfig) { p.PKeys = []ib.PKey{0x8001, 0xFFFF} }},
		{rdma.AsyncGIDChange, func(p *rdmatest.PortConfig) { p.Addrs = append(p.Addrs, netip.MustParseAddr("fd00::3")) }},
		{rdma.AsyncPortChange, func(p *rdmatest.PortConfig) { p.MTU = 2048 }},
	} {
		t.Run(c.kind.String(), func(t *testing.T) {
			prov, dev := subnet(t)
			table := start(t, Config{Provider: prov})
			before := table.portOf("a", 1)
			dev.Change(c.change)
			until(t, "handled", func() bool { return table.action(c.kind) != "" })
			ports, err := dev.Ports()
			if err != nil {
				t.Fatal(err)
			}
			now := table.portOf("a", 1)
			if !reflect.DeepEqual(now.Port, ports[0]) || reflect.DeepEqual(now.Port, before.Port) {
				t.Errorf("the cache has %+v, the port is %+v", now.Port, ports[0])
			}
			if s := table.action(c.kind); !strings.HasPrefix(s, "refreshed: ") || strings.Contains(s, "no change") {
				t.Errorf("done about it: %q", s)
			}
		})
	}
}

func TestEventWithoutChangeStillReadsThePort(t *testing.T) {
	prov, dev := subnet(t)
	table := start(t, Config{Provider: prov})
	for _, k := range []rdma.AsyncKind{rdma.AsyncClientReregister, rdma.AsyncPortActive, rdma.AsyncUnknown, 99} {
		reads := table.portOf("a", 1).Reads
		dev.Event(k, 1)
		until(t, k.String(), func() bool { return table.action(k) != "" })
		if table.portOf("a", 1).Reads == reads {
			t.Errorf("%v: the port was not read", k)
		}
	}
	if table.Ignored() != 1 {
		t.Errorf("%d events counted as unknown, want 1", table.Ignored())
	}
}

func TestPortErrorZeroesTheCacheUntilThePortIsActive(t *testing.T) {
	prov, dev := subnet(t)
	u := &user{}
	table := start(t, Config{Provider: prov, User: u})
	dev.SetLink(rdmatest.LinkDown)
	until(t, "told that it is down", func() bool { return u.heard("changed a down") })
	if p := table.portOf("a", 1); p.LID != 0 || p.SMLID != 0 || len(p.GIDs) != 0 || p.Active || p.State != ib.PortDown {
		t.Errorf("%+v", p.Port)
	}
	dev.SetLink(rdmatest.LinkUp)
	until(t, "read again", func() bool { return table.portOf("a", 1).Active })
	if p := table.portOf("a", 1); p.LID != 3 || p.SMLID != 1 || !p.Active {
		t.Errorf("%+v", p.Port)
	}
}

func TestEventOfOnePortChangesNoOther(t *testing.T) {
	leaktest.Check(t)
	dev := newTwoPorts("two")
	table := start(t, Config{Provider: &fixed{list: []rdma.Device{dev}}})
	dev.set(func() { dev.ports[0].LID, dev.ports[1].LID = 70, 71 })
	table.Handle(rdma.AsyncEvent{Kind: rdma.AsyncLIDChange, Device: "two", Port: 2})
	until(t, "port 2 read", func() bool { return table.portOf("two", 2).LID == 71 })
	if p := table.portOf("two", 1); p.LID != 10 || p.Reads != 1 {
		t.Errorf("port 1 has become %+v", p)
	}
	table.Handle(rdma.AsyncEvent{Kind: rdma.AsyncPortError, Device: "two", Port: 1})
	until(t, "port 1 cleared", func() bool { return table.portOf("two", 1).LID == 0 })
	if p := table.portOf("two", 2); p.LID != 71 || !p.Active {
		t.Errorf("port 2 has become %+v", p)
	}
}

func TestEventOfAPortThatIsNotThereIsCountedAndIgnored(t *testing.T) {
	leaktest.Check(t)
	dev := newTwoPorts("two")
	table := start(t, Config{Provider: &fixed{list: []rdma.Device{dev}}})
	for i, ev := range []rdma.AsyncEvent{
		{Kind: rdma.AsyncPortError, Device: "two"}, {Kind: rdma.AsyncPortError, Device: "two", Port: 3},
		{Kind: rdma.AsyncPortError, Device: "two", Port: -1}, {Kind: rdma.AsyncLIDChange, Device: "other", Port: 1},
	} {
		table.Handle(ev)
		if n := table.Ignored(); n != uint64(i+1) {
			t.Errorf("%v: %d ignored", ev, n)
		}
	}
	for n := 1; n <= 2; n++ {
		if p := table.portOf("two", n); p.Reads != 1 || !p.Active {
			t.Errorf("port %d has become %+v", n, p)
		}
	}
}

// While one device's calls hang, events are taken and the other device is served.
func TestDeviceThatHangsHoldsUpNobodyElse(t *testing.T) {
	leaktest.Check(t)
	bad, good := newTwoPorts("bad"), newTwoPorts("good")
	table := start(t, Config{Provider: &fixed{list: []rdma.Device{bad, good}}})
	release := make(chan struct{})
	t.Cleanup(func() { close(release) }) // before the table closes
	bad.set(func() { bad.hang = release })
	good.set(func() { good.ports[0].LID = 50 })
	for range 1000 {
		table.Handle(rdma.AsyncEvent{Kind: rdma.AsyncLIDChange, Device: "bad", Port: 1})
	}
	table.Handle(rdma.AsyncEvent{Kind: rdma.AsyncLIDChange, Device: "good", Port: 1})
	until(t, "the good one read", func() bool { return table.portOf("good", 1).LID == 50 })
	if p := table.portOf("bad", 1); p.LID != 10 {
		t.Errorf("%+v", p)
	}
}

func TestEventsThatWaitAreCoalesced(t *testing.T) {
	leaktest.Check(t)
	dev := newTwoPorts("two")
	table := start(t, Config{Provider: &fixed{list: []rdma.Device{dev}}})
	release := make(chan struct{})
	dev.set(func() { dev.hang = release })
	for range 1000 {
		table.Handle(rdma.AsyncEvent{Kind: rdma.AsyncLIDChange, Device: "two", Port: 1})
		table.Handle(rdma.AsyncEvent{Kind: rdma.AsyncSMChange, Device: "two", Port: 1})
	}
	dev.set(func() { dev.hang = nil })
	close(release)
	until(t, "handled", func() bool { return table.action(rdma.AsyncSMChange) != "" && table.action(rdma.AsyncLIDChange) != "" })
	if n := table.portOf("two", 1).Reads; n > 6 {
		t.Errorf("2000 events led to %d readings", n)
	}
}

func TestPortThatCannotBeReadIsTriedAgain(t *testing.T) {
	leaktest.Check(t)
	dev := newTwoPorts("two")
	table := start(t, Config{Provider: &fixed{list: []rdma.Device{dev}}})
	dev.set(func() { dev.fail = errNot; dev.ports[0].LID = 60 })
	table.Handle(rdma.AsyncEvent{Kind: rdma.AsyncLIDChange, Device: "two", Port: 1})
	until(t, "the failure shown", func() bool { return table.portOf("two", 1).Problem != "" })
	dev.set(func() { dev.fail = nil })
	until(t, "read", func() bool { return table.portOf("two", 1).LID == 60 })
	if p := table.portOf("two", 1); p.Problem != "" {
		t.Errorf("still said: %q", p.Problem)
	}
}

func TestHistoryIsBoundedAndInOrder(t *testing.T) {
	var h history
	h.init()
	for i := range 3 * keep {
		h.add(rdma.AsyncEvent{Device: fmt.Sprint(i)}, "")
	}
	list, _ := h.after(0)
	if len(list) != keep || list[0].Seq != 2*keep+1 || list[keep-1].Seq != 3*keep || list[0].Event.Device != fmt.Sprint(2*keep) {
		t.Errorf("%d records from %+v", len(list), list[0])
	}
	if list, _ := h.after(3*keep - 1); len(list) != 1 {
		t.Errorf("%d records are new", len(list))
	}
	list, news := h.after(3 * keep)
	if len(list) != 0 {
		t.Error("records after the last")
	}
	h.add(rdma.AsyncEvent{}, "")
	<-news
}
