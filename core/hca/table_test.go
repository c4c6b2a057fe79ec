package hca

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

func TestDeviceThatAppearsLaterIsServed(t *testing.T) {
	leaktest.Check(t)
	p := rdmatest.NewProvider(rdmatest.NewFabric(), "memory")
	defer p.Close()
	u := &user{}
	table := start(t, Config{Provider: p, User: u, Wanted: func(name string) bool { return name != "stranger" }})
	if len(table.HCAs()) != 0 {
		t.Fatal("a device from nowhere")
	}
	p.Add(portConfig("stranger", "fe80::5", 5))
	p.Add(portConfig("late", "fe80::4", 4))
	until(t, "attached", func() bool { return u.heard("attach late") })
	if u.heard("attach stranger") {
		t.Error("a device that nobody wants is served")
	}
	if h := table.HCAs(); len(h) != 1 || !h[0].Serving || h[0].Ports[0].LID != 4 {
		t.Errorf("%+v", h)
	}
}

func TestRemovalEndsThatDeviceAndNoOther(t *testing.T) {
	p, _ := subnet(t)
	b := p.Add(portConfig("b", "fe80::4", 4))
	u := &user{}
	table := start(t, Config{Provider: p, User: u, Agent: newAgent(t)})
	if err := p.Remove("a"); err != nil {
		t.Fatal(err)
	}
	until(t, "detached", func() bool { return u.heard("detach a") })
	if u.heard("detach b") || len(table.HCAs()) != 1 || b.Open() == "" {
		t.Errorf("b was disturbed: %v, %q", u.said, b.Open())
	}
	p.Add(portConfig("a", "fe80::3", 3))
	until(t, "attached again", func() bool { return u.count("attach a") == 2 })
}

// rdmatest lists a device until it is removed, so one that failed is the same one when it comes back.
func TestDeviceThatFailedIsClosedAndOpenedAgain(t *testing.T) {
	leaktest.Check(t)
	dev := newTwoPorts("two")
	prov := &fixed{list: []rdma.Device{dev}}
	u := &user{}
	table := start(t, Config{Provider: prov, User: u})
	table.Handle(rdma.AsyncEvent{Kind: rdma.AsyncDeviceFatal, Device: "two"})
	until(t, "attached again", func() bool { return u.count("attach two") == 2 && u.count("detach two") == 1 })
	dev.set(func() {
		if !dev.closed {
			t.Error("it was not closed in between")
		}
	})
}

func TestProviderThatTellsNothingIsAskedNowAndThen(t *testing.T) {
	leaktest.Check(t)
	prov := &fixed{}
	u := &user{}
	start(t, Config{Provider: prov, User: u})
	dev := newTwoPorts("two")
	prov.set(dev)
	until(t, "attached", func() bool { return u.heard("attach two") })
	prov.set()
	until(t, "detached", func() bool { return u.heard("detach two") })
}

func TestDeviceThatCannotBeServedIsTriedAgainAndSaysWhy(t *testing.T) {
	p, dev := subnet(t)
	u := &user{refuse: map[string]error{"a": errNot}}
	table := start(t, Config{Provider: p, User: u})
	if h := table.HCAs(); len(h) != 1 || h[0].Serving || h[0].Problem != errNot.Error() {
		t.Fatalf("%+v", h)
	}
	until(t, "tried several times", func() bool { return u.count("refuse a") > 3 })
	u.mu.Lock()
	u.refuse = nil
	u.mu.Unlock()
	until(t, "served", func() bool { return table.HCAs()[0].Serving })
	if h := table.HCAs(); h[0].Problem != "" {
		t.Errorf("still said: %q", h[0].Problem)
	}
	_ = dev
}

// A renamed interface is a new device, which cannot have the addresses before the old one has let go of them.
func TestDeviceThatWaitsForWhatAnotherHeldIsTriedWhenThatIsGone(t *testing.T) {
	p, _ := subnet(t)
	u := &user{refuse: map[string]error{"b": errors.New("its address is in use")}}
	start(t, Config{Provider: p, User: u, Retry: time.Hour})
	p.Add(portConfig("b", "fe80::4", 4))
	until(t, "refused", func() bool { return u.heard("refuse b") })
	u.mu.Lock()
	u.refuse = nil
	u.mu.Unlock()
	if err := p.Remove("a"); err != nil {
		t.Fatal(err)
	}
	until(t, "attached", func() bool { return u.heard("attach b") })
}

func TestCloseEndsAnAttachThatWaits(t *testing.T) {
	p, dev := subnet(t)
	u := &user{hold: make(chan struct{})}
	table := New(Config{Provider: p, User: u, Agent: newAgent(t), Log: quiet})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := table.Start(ctx); err == nil {
		t.Error("no error of a start that was given up")
	}
	table.Close()
	table.Close()
	if u.heard("attach a") || u.heard("detach a") || dev.Open() != "" {
		t.Errorf("%v, open: %q", u.said, dev.Open())
	}
	if p.Watches() != 0 {
		t.Error("a watch is open")
	}
}

func TestEventsCanBeFollowed(t *testing.T) {
	p, dev := subnet(t)
	table := start(t, Config{Provider: p})
	seq := uint64(0)
	for range 3 {
		dev.Event(rdma.AsyncSMChange, 1)
		list, err := table.NextEvents(context.Background(), seq)
		if err != nil || len(list) != 1 || list[0].Seq != seq+1 {
			t.Fatalf("%+v, %v", list, err)
		}
		seq = list[0].Seq
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := table.NextEvents(ctx, seq); err == nil {
		t.Error("no error of a follower that gave up")
	}
}
