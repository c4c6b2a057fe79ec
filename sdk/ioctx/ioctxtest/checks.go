package ioctxtest

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/gosrpt/gosrpt/sdk/ioctx"
)

var checks = []check{
	{"an unknown key is refused by name", checkUnknownKey},
	{"an open that is cancelled does not hang", checkCancelledOpen},
	{"every situation has a plan that is in order", checkSituations},
	{"the same situation has the same plan", checkRepeated},
	{"what initiators were told of responses stands", checkResponses},
	{"a question that is cancelled does not hang", checkCancelledPlan},
	{"pressure has an answer that is in order", checkPressure},
	{"a change is told", checkChange},
	{"the notice is one line", checkNotice},
}

// usual is a situation without anything unusual.
func usual() ioctx.Situation {
	return ioctx.Situation{
		Default: ioctx.Plan{Credits: 128, Unsolicited: 4, Responses: 192, SendWork: 512, MaxRequestIU: 8276, MaxResponseIU: 512,
			MaxImmediateOffset: 512, MaxTransfer: 16 << 20, ArenaSize: 64 << 20, MaxWait: 10 * time.Second},
		Devices:  []ioctx.Device{{Name: "eth0", MaxQueueDepth: 16384, MTU: 4096}},
		Units:    []ioctx.Unit{{LUN: 0, Name: "disk0", MaxTransfer: 1 << 20, OptimalTransfer: 64 << 10}},
		Channels: 256, ChannelsPerNexus: 32, Memory: 4 << 30,
	}
}

func checkUnknownKey(r *run) {
	const key = "no-such-key-of-any-planner"
	config := maps.Clone(r.config)
	if config == nil {
		config = map[string]string{}
	}
	config[key] = "1"
	p, err := r.Opener.Open(r.ctx, config)
	if err == nil {
		p.Close()
		r.Fatal("Open took a key that cannot be in the documentation")
	}
	if !strings.Contains(err.Error(), key) {
		r.Errorf("the error does not name the key: %v", err)
	}
}

func checkCancelledOpen(r *run) {
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	r.within("Open with a cancelled context", func() {
		if p, err := r.Opener.Open(ctx, r.config); err == nil {
			p.Close()
		}
	})
}

func checkSituations(r *run) {
	r.open()
	least := ioctx.Plan{Credits: 2, Unsolicited: 1, Responses: 2, SendWork: 16, MaxRequestIU: 64, MaxResponseIU: 64,
		MaxTransfer: 4096, ArenaSize: 4096, MaxWait: 1}
	for _, change := range []func(*ioctx.Situation){
		func(*ioctx.Situation) {},
		func(s *ioctx.Situation) { s.Devices, s.Units = nil, nil },
		func(s *ioctx.Situation) { s.Default.SharedReceives = 1024 },
		func(s *ioctx.Situation) { s.Memory = 0 },
		func(s *ioctx.Situation) { s.Memory = 1 },
		func(s *ioctx.Situation) { s.Channels, s.ChannelsPerNexus = 1, 1 },
		func(s *ioctx.Situation) { s.Channels, s.ChannelsPerNexus = 1<<31-1, 1<<31-1 },
		func(s *ioctx.Situation) { s.Devices[0] = ioctx.Device{} },
		func(s *ioctx.Situation) { s.Units[0] = ioctx.Unit{LUN: 16383} },
		func(s *ioctx.Situation) { s.Default = least },
		func(s *ioctx.Situation) {
			for n := range 1000 {
				s.Units = append(s.Units, ioctx.Unit{LUN: uint16(n + 1), Name: "more", MaxTransfer: 1<<32 - 4096, OptimalTransfer: 1<<32 - 1})
			}
		},
	} {
		s := usual()
		change(&s)
		r.plan(s)
	}
}

func checkRepeated(r *run) {
	r.open()
	first := r.plan(usual())
	for range 3 {
		if again := r.plan(usual()); again != first {
			r.Fatalf("%+v, and then %+v", first, again)
		}
	}
}

func checkResponses(r *run) {
	r.open()
	s := usual()
	s.InForce = r.plan(s)
	r.plan(s)
	s.InForce.MaxResponseIU = 64
	r.plan(s)
}

func checkCancelledPlan(r *run) {
	r.open()
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	r.within("Plan with a cancelled context", func() {
		if p, err := r.planner.Plan(ctx, usual()); err == nil {
			r.hold(usual(), p, nil)
		}
	})
}

func checkPressure(r *run) {
	r.open()
	p, ok := r.planner.(ioctx.Replanner)
	if !ok {
		r.Skip("the planner is no Replanner")
	}
	s := usual()
	s.InForce = r.plan(s)
	for _, pressure := range []ioctx.Pressure{
		{},
		{Waited: 1000, TimedOut: 10, Channels: 4, Arena: 64 << 20},
		{Refused: 5, Channels: 256, Arena: 64 << 20, ArenaFree: 64 << 20},
		{Waited: 1<<64 - 1, TimedOut: 1<<64 - 1, Refused: 1<<64 - 1, Channels: 1<<31 - 1, Arena: 1<<64 - 1, ArenaFree: 1<<64 - 1},
	} {
		for range 20 { // it may give a little each time, but not without end
			next, err := p.Replan(r.ctx, s, pressure)
			r.hold(s, next, err)
			s.InForce = next
		}
	}
}

func checkChange(r *run) {
	if r.Change == nil {
		r.Skip("the subject cannot change")
	}
	r.open()
	w, ok := r.planner.(ioctx.Watcher)
	if !ok {
		r.Skip("the planner is no Watcher")
	}
	told := make(chan string, 64)
	w.Watch(func(reason string) { told <- reason })
	before := r.plan(usual())
	r.Change(r, r.config)
	select {
	case <-told:
	case <-r.ctx.Done():
		r.Fatal("the change was not told")
	}
	if after := r.plan(usual()); after == before {
		r.Errorf("after the change was told the plan is what it was: %+v", after)
	}
}

func checkNotice(r *run) {
	r.open()
	n, ok := r.planner.(ioctx.Noticer)
	if !ok {
		r.Skip("the planner is no Noticer")
	}
	if s := n.Notice(); strings.ContainsAny(s, "\r\n") {
		r.Errorf("%q", s)
	}
}
