package target

import (
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

func TestShareOfReceives(t *testing.T) {
	for _, c := range []struct {
		name                                       string
		free, leaving, depth, credits, unsolicited int
		first                                      bool
		granted, receives                          int
	}{
		{"plenty", 4096, 0, 4096, 128, 4, true, 128, 132},
		{"plenty, a further one", 4096, 0, 4096, 128, 4, false, 128, 132},
		{"less than eight shares", 1000, 0, 4096, 128, 4, true, 121, 125},
		{"into what is kept", 1024, 0, 4096, 128, 4, false, 0, 0},
		{"just above what is kept", 1030, 0, 4096, 128, 4, false, 2, 6},
		{"one less", 1029, 0, 4096, 128, 4, false, 0, 0},
		{"the last", 6, 0, 4096, 128, 4, true, 2, 6},
		{"one less than the last", 5, 0, 4096, 128, 4, true, 0, 0},
		{"few credits", 4096, 0, 4096, 2, 1, true, 2, 3},
		{"none left", 0, 0, 16, 64, 1, true, 0, 0},
		{"sixteen", 16, 0, 16, 64, 1, true, 2, 3},
		{"comes back", 896, 128, 1024, 128, 4, true, 124, 128},
		{"comes back to the last", 6, 4000, 4096, 128, 4, true, 2, 6},
		{"comes back to less", 50, 4000, 4096, 128, 4, true, 46, 50},
		{"comes back to nothing", 5, 4000, 4096, 128, 4, true, 0, 0},
	} {
		if granted, receives := share(c.free, c.leaving, c.depth, c.credits, c.unsolicited, c.first); granted != c.granted || receives != c.receives {
			t.Errorf("%s: %d credits of %d receives, want %d of %d", c.name, granted, receives, c.granted, c.receives)
		}
	}
}

// sharing makes the channels of a rig share n receives, each with 64 credits and one more at most.
func sharing(n int) func(*rig) {
	return func(g *rig) {
		p := &g.cfg.Plan
		p.Credits, p.Unsolicited, p.Responses, p.SendWork, p.SharedReceives = 64, 1, 96, 256, n
		g.cfg.Limits = Limits{Channels: 128, ChannelsPerNexus: 64, Reserve: -1}
	}
}

// storm has a session make n writes and reads from each of several goroutines.
func storm(t *testing.T, s *initiator.Session, workers, n int) {
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			b := pattern(4096, byte(w))
			for range n {
				if err := s.Write(t.Context(), srp.LUN{}, uint64(w*8), 8, b); err != nil {
					t.Errorf("write: %v", err)
					return
				}
				if err := s.Read(t.Context(), srp.LUN{}, uint64(w*8), 8, make([]byte, 4096)); err != nil {
					t.Errorf("read: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestManyChannelsOnFewSharedReceivesLoseNothing is case B03.4: 16 shared receives, hosts that ask for 44 channels with 64 commands each.
// Whoever comes first leaves enough for the next, and nobody's unit finds no receive, also beside an initiator that ignores its credits.
func TestManyChannelsOnFewSharedReceivesLoseNothing(t *testing.T) {
	leaktest.Check(t)
	over := map[string]func(t *testing.T) (*rig, rdma.Device, netip.AddrPort, func() uint64){
		"memory": func(t *testing.T) (*rig, rdma.Device, netip.AddrPort, func() uint64) {
			g := newRig(t, sharing(16))
			return g, g.peer, g.remote(), func() uint64 { return g.peer.Stats()["receiver_not_ready"] }
		},
		"roce": func(t *testing.T) (*rig, rdma.Device, netip.AddrPort, func() uint64) {
			dev, peer := loopback(t, roceTarget), loopback(t, roceInitiator)
			remote := netip.AddrPortFrom(netip.MustParseAddr(roceTarget), listenPort)
			g := newRig(t, sharing(16), func(g *rig) {
				g.cfg.Devices, g.cfg.Services = []rdma.Device{dev}, []rdma.Service{{Addr: remote}}
			})
			return g, peer, remote, func() uint64 { return dev.Stats()["rc_rnr_sent"] }
		},
	}
	for name, make := range over {
		t.Run(name, func(t *testing.T) {
			g, peer, remote, notReady := make(t)
			var hosts []*initiator.Session
			for i := range 2 {
				hosts = append(hosts, g.ready(func(c *initiator.Config) {
					c.Device, c.Remote, c.Initiator[0], c.Channels, c.QueueDepth, c.Immediate = peer, remote, byte(i+1), 44, 64, true
				}))
			}
			use := g.stats().Receives
			if len(use) != 1 || use[0].Depth != 16 || use[0].Promised > 16 || use[0].Promised < 12 {
				t.Errorf("%+v", use)
			}
			list, err := g.target.Sessions(t.Context())
			if err != nil || len(list) != 2 || len(list[0].Channels) != 4 || len(list[1].Channels) != 1 {
				t.Errorf("%d sessions: %+v, %v", len(list), list, err)
			}
			var all sync.WaitGroup
			for _, s := range hosts {
				all.Go(func() { storm(t, s, 44, 20) })
			}
			all.Wait()
			if n := notReady(); n != 0 {
				t.Errorf("a unit found no receive %d times", n)
			}
			for _, s := range hosts {
				s.Close()
			}
			g.empty()
			if use := g.stats().Receives; use[0].Promised != 0 || use[0].Held != 0 || use[0].Err != nil {
				t.Errorf("left: %+v", use)
			}
		})
	}
}

// TestInitiatorThatIgnoresItsCreditsTakesNobodysReceives: it is thrown out, over and over, and the others notice nothing.
func TestInitiatorThatIgnoresItsCreditsTakesNobodysReceives(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, sharing(16))
	g.addDisk(1)
	good := g.ready()
	stop := make(chan bool)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				storm(t, good, 8, 2)
			}
		}
	})
	k := g.knocker(g.peer)
	mem := g.registered(4096)
	f := srp.CmdFields{Tag: 1, LUN: srp.LUN{1: 1}, CDB: read10(0, 1),
		In: srp.DataFields{Format: srp.FormatDirect, List: []srp.Desc{{Addr: 4096, Key: 1, Length: 512}}}}
	for range 50 {
		g.hold() // of the second disk, so that no credit comes back
		r := request()
		r.Initiator[0] = 0xbd
		e, _ := k.accepted(r)
		for off := range uint64(2) { // for the unit attention, and the logout
			e.Receive(rdma.Work{ID: 3000 + off*512, Op: rdma.OpRecv, SGL: []rdma.SGE{{Region: mem, Off: 3000 + off*512, Len: 512}}})
		}
		last := srp.Opcode(0)
		var work []rdma.Work
		for i := range 30 {
			f.Tag = srp.Tag(i)
			off := i * 80
			n := copy(mem.Bytes()[off:], f.Append(nil))
			work = append(work, rdma.Work{Op: rdma.OpSend, SGL: []rdma.SGE{{Region: mem, Off: uint64(off), Len: uint64(n)}}})
		}
		e.Send(work...)
		for c := e.Next(); c.Op != rdma.OpEvent; c = e.Next() {
			if c.Op == rdma.OpRecv && c.Status == rdma.StatusOK {
				last = srp.Opcode(mem.Bytes()[c.ID])
			}
		}
		if last != srp.OpTLogout {
			t.Errorf("the last unit was %v", last)
		}
		e.Close()
		g.release()
		g.waitFor("it is thrown out", func() bool { return len(g.target.sessions) == 1 })
	}
	close(stop)
	all.Wait()
	good.Close()
	k.loop.Close()
	g.empty()
	if use := g.stats().Receives; use[0].Promised != 0 || use[0].Held != 0 || use[0].Err != nil {
		t.Errorf("left: %+v", use)
	}
}

func TestLateHostGetsFewerCreditsButAChannel(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, sharing(256))
	k := g.knocker(g.peer)
	sum, last := 0, int32(1<<30)
	hosts := 0
	for ; ; hosts++ {
		r := channelOf(byte(hosts + 1))
		e, c := k.knock(r.AppendRDMA(nil))
		if c.Event != rdma.EventEstablished {
			limited(t, "a host when nothing is left", c, srp.RejResources)
			e.Close()
			break
		}
		rsp, err := srp.ParseLoginRsp(c.Data)
		if err != nil || rsp.Delta < 2 || rsp.Delta > last {
			t.Fatalf("host %d: %+v after %d, %v", hosts, rsp, last, err)
		}
		last = rsp.Delta
		sum += int(rsp.Delta) + 1
		// A further channel may take from what is not kept for first ones, and no more.
		r = channelOf(byte(hosts + 1))
		e, c = k.knock(r.AppendRDMA(nil))
		if c.Event != rdma.EventEstablished {
			limited(t, "a further channel", c, srp.RejChannelLimit)
			e.Close()
			continue
		}
		rsp, err = srp.ParseLoginRsp(c.Data)
		if err != nil || rsp.Delta < 2 {
			t.Fatalf("a further channel of host %d: %+v, %v", hosts, rsp, err)
		}
		sum += int(rsp.Delta) + 1
	}
	if hosts < 20 || last != 2 || sum > 256 || sum < 254 {
		t.Errorf("%d hosts, the last with %d credits, %d receives for all, of 256", hosts, last, sum)
	}
	if use := g.stats().Receives; use[0].Promised != sum {
		t.Errorf("%+v, %d were told of", use, sum)
	}
	k.loop.Close()
	g.empty()
}

func TestHostThatComesBackGetsTheCreditsItHad(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, sharing(256))
	k := g.knocker(g.peer)
	_, first := k.accepted(request())
	for range 5 {
		if _, rsp := k.accepted(request()); rsp.Flags&srp.ResultMask == srp.ResultTerminated && rsp.Delta != first.Delta {
			t.Errorf("%d credits, and %d after a new login", first.Delta, rsp.Delta)
		}
	}
	k.loop.Close()
	g.empty()
}

func TestDeviceWithoutSharedReceivesGivesEachChannelItsOwn(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, sharing(16), func(g *rig) {
		poor := g.provider.Add(rdmatest.DeviceConfig{Name: "poor", NoSRQ: true, Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.77")}})
		g.cfg.Devices = []rdma.Device{poor}
	})
	k := g.knocker(g.peer)
	k.remote = rdma.Service{Addr: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.77"), listenPort)}
	k.region = g.registered(4096)
	for range 3 {
		e, rsp := k.accepted(channelOf(1))
		if rsp.Delta != 64 {
			t.Errorf("%d credits, want 64", rsp.Delta)
		}
		k.ready(e)
	}
	if n := strings.Count(g.log.String(), "receives are not shared"); n != 1 {
		t.Errorf("the log says so %d times", n)
	}
	if use := g.stats().Receives; len(use) != 0 {
		t.Errorf("%+v", use)
	}
	k.loop.Close()
	g.empty()
}

func TestAnotherPlanHasAnotherPoolAndTheOldOneEndsWithItsChannels(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, sharing(64))
	old := g.ready()
	srqs := func(want string) {
		t.Helper()
		g.waitFor(want+" shared receive queues", func() bool { return strings.Contains(g.dev.Open(), ", "+want+" shared receive queues") })
	}
	srqs("1")
	for i, n := range []int{32, 0, 48} {
		p := g.target.Plan()
		p.SharedReceives = n
		if err := g.target.SetPlan(p); err != nil {
			t.Fatal(err)
		}
		s := g.ready(func(c *initiator.Config) { c.Initiator[0] = byte(i + 1) })
		storm(t, s, 4, 2)
		storm(t, old, 4, 2)
		use := g.stats().Receives
		if n == 0 && len(use) != 0 || n > 0 && (len(use) != 1 || use[0].Depth != n || use[0].Promised == 0) {
			t.Errorf("%d shared: %+v", n, use)
		}
		srqs([]string{"2", "1", "2"}[i])
		s.Close()
		g.waitFor("it is gone", func() bool { return len(g.target.sessions) == 1 })
	}
	old.Close()
	srqs("1")
	g.empty()
	p := g.target.Plan()
	p.SharedReceives = 1 << 16
	if err := g.target.SetPlan(p); err == nil || !strings.Contains(err.Error(), "restart to have more") {
		t.Errorf("more work than the completion queues were made for: %v", err)
	}
}

// A device that gives up its shared queue ends the sessions there are. Who comes next finds another queue, at the second attempt if nobody
// had noticed.
func TestDeviceThatGivesUpItsSharedQueueGetsAnother(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, sharing(64))
	for i, row := range []struct {
		name   string
		before func() func()
	}{
		{"under a session", func() func() {
			s := g.ready()
			g.hold()
			begin(t, s, 4)
			g.inStore(4)
			return func() {
				g.release()
				g.empty()
			}
		}},
		{"idle", func() func() {
			g.ready(func(c *initiator.Config) { c.Initiator[0] = 8 }).Close()
			g.empty()
			return func() {}
		}},
	} {
		name := row.name
		after := row.before()
		g.dev.BreakSRQs()
		after()
		k := g.knocker(g.peer)
		if name == "idle" {
			r := request()
			if rej := k.refused(r.AppendRDMA(nil)); rej.Reason != srp.RejResources {
				t.Errorf("%s: %+v", name, rej)
			}
		}
		k.loop.Close()
		s := g.ready(func(c *initiator.Config) { c.Initiator[0] = 9 + byte(i) })
		storm(t, s, 4, 2)
		if use := g.stats().Receives; len(use) != 1 || use[0].Depth != 64 || use[0].Err != nil {
			t.Errorf("%s: %+v", name, use)
		}
		s.Close()
		g.empty()
	}
	g.waitFor("one queue is left", func() bool { return strings.Contains(g.dev.Open(), ", 1 shared receive queues") })
	if n := strings.Count(g.log.String(), "has given up the shared receives"); n != 2 {
		t.Errorf("the log says so %d times", n)
	}
}

func TestPoolGoesWithItsDeviceAndComesWithTheNext(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, sharing(64))
	s := g.ready()
	g.hold()
	begin(t, s, 4)
	g.inStore(4)
	if err := g.target.RemoveDevice(t.Context(), g.dev); err != nil {
		t.Error(err)
	}
	if open := g.dev.Open(); open != "" {
		t.Errorf("left on the device: %s", open)
	}
	g.release()
	g.empty()
	if use := g.stats().Receives; len(use) != 0 {
		t.Errorf("%+v", use)
	}
	if err := g.target.AddDevice(t.Context(), g.dev); err != nil {
		t.Fatal(err)
	}
	storm(t, g.ready(func(c *initiator.Config) { c.Initiator[0] = 8 }), 8, 4)
	if use := g.stats().Receives; len(use) != 1 || use[0].Depth != 64 {
		t.Errorf("%+v", use)
	}
}

func TestSharedReceivesCarryImmediateData(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, sharing(64))
	s := g.ready(func(c *initiator.Config) { c.Immediate = true })
	storm(t, s, 8, 4)
	g.do(func() {
		for _, x := range g.target.sessions {
			if st := x.links[0].ch.Stats(); st.BytesOut != 8*4*4096 {
				t.Errorf("%d bytes came", st.BytesOut)
			}
		}
	})
	if n := g.dev.Stats()["reads"]; n != 0 {
		t.Errorf("%d RDMA READs for data that came with its command", n)
	}
	s.Close()
	g.empty()
}
