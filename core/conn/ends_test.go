package conn

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// stages are the places that a command can be in when something ends it. Each function brings
// command 7 of p there.
var stages = []struct {
	name  string
	reach func(g *rig, p *peer)
	// asks tells that the handler holds the command, and so is asked to end it.
	asks bool
}{
	{"executing", func(g *rig, p *peer) { p.hold(7); g.expectNews("held") }, true},
	{"waiting for a buffer", func(g *rig, p *peer) {
		g.run(func() { g.takeArena() })
		p.write(7, 0, 4096, direct(p.desc(0, 4096)))
		g.waitFor(func() bool { return g.arena.Stats().Waiting == 1 })
	}, true},
	{"fetching", func(g *rig, p *peer) {
		g.dev.Hold(rdmatest.Data)
		g.peerDev.Hold(rdmatest.Data)
		p.write(7, 0, 8192, indirect(p.desc(0, 4096), p.desc(4096, 4096)))
		g.peerDev.Step(1) // the command arrives, its data does not
		g.dev.Step(1)
		g.waitFor(func() bool { return p.ch.q.used == 2 })
	}, true},
	{"holding a buffer", func(g *rig, p *peer) {
		f := srp.CmdFields{Tag: 7, CDB: cdb(opFetch, 0, 4096), Out: direct(p.desc(0, 4096))}
		p.send(f.Append(nil))
		g.expectNews("held")
	}, true},
}

// takeArena leases every page; giveArena gives them back.
func (g *rig) takeArena() {
	now := time.Now()
	ok, err := g.arena.Acquire(&g.hog, g.arena.Largest(), nil, now)
	if !ok || err != nil {
		g.t.Error("the arena is not free")
	}
}

func (g *rig) giveArena() {
	if g.hog.Held() {
		g.hog.Release()
	}
}

// waitFor runs turns of the reactor until cond holds.
func (g *rig) waitFor(cond func() bool) {
	g.t.Helper()
	for range 100000 {
		ok := false
		g.run(func() { ok = cond() })
		if ok {
			return
		}
	}
	g.t.Fatal("the condition never came true")
}

func (g *rig) letGo() {
	g.peerDev.Release(rdmatest.Data)
	g.dev.Release(rdmatest.Data)
}

func TestAbortAtEachStage(t *testing.T) {
	leaktest.Check(t)
	for _, s := range stages {
		t.Run(s.name, func(t *testing.T) {
			g := newRig(t)
			p := g.login(login{})
			s.reach(g, p)
			if s.name == "fetching" {
				g.abortFetching(p)
				return
			}
			f := srp.TskMgmtFields{Tag: 8, Function: srp.FuncAbortTask, Managed: 7}
			p.send(f.Append(nil))
			r := p.rsp(8)
			if code, ok := r.Code(); !ok || code != srp.RspComplete {
				t.Errorf("answered % x", []byte(r))
			}
			if r.Delta() != 2 {
				t.Errorf("the credit of the aborted command did not come back: delta %d", r.Delta())
			}
			g.run(g.giveArena)
			p.read(9, 0, 10, direct(p.desc(0, 10)))
			p.rsp(9) // and nothing of 7 before it
			g.settled(p)
		})
	}
}

// abortFetching aborts command 7 while its data is on the way.
func (g *rig) abortFetching(p *peer) {
	g.t.Helper()
	done := make(chan uint32, 1)
	g.run(func() {
		p.ch.Abort(channel.Scope{AllLUNs: true}, func(n uint32) { done <- n })
		if len(done) != 0 || g.arena.Stats().Held != 1 {
			g.t.Error("the abort did not wait for the data, which is still on its way into the buffer")
		}
	})
	g.letGo()
	if n := <-done; n != 1 {
		g.t.Errorf("%d commands aborted", n)
	}
	p.read(9, 0, 10, direct(p.desc(0, 10)))
	for {
		if b := p.unit(); b[0] == byte(srp.OpCredReq) {
			continue // it may carry the credit of the aborted command
		} else if r, err := srp.ParseRsp(b); err != nil || r.Tag() != 9 {
			g.t.Fatalf("got % x", b)
		}
		break
	}
}

func TestNothingMovesForACommandAfterItsAbortWasAnswered(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{})
	g.run(func() { g.disk.onAbort = func(*Command) {} }) // a store that takes its time
	p.hold(7)
	g.expectNews("held")
	f := srp.TskMgmtFields{Tag: 8, Function: srp.FuncAbortTask, Managed: 7}
	p.send(f.Append(nil))
	g.expectNews("abort")
	p.read(9, 0, 10, direct(p.desc(0, 10)))
	p.rsp(9) // 8 waits for 7
	g.finishHeld(Result{Status: 0})
	if r := p.rsp(8); r.Delta() != 2 {
		t.Errorf("delta %d", r.Delta())
	}
	g.settled(p)
}

func TestPeerThatGoesAtEachStageLeavesNothing(t *testing.T) {
	leaktest.Check(t)
	ends := []struct {
		name  string
		cause []channel.Cause
		end   func(g *rig, p *peer)
	}{
		{"disconnects", []channel.Cause{channel.CausePeer}, func(g *rig, p *peer) { p.end.Disconnect() }},
		{"breaks", []channel.Cause{channel.CausePeer, channel.CauseTransport}, func(g *rig, p *peer) { g.dev.BreakAll() }},
		{"is told to go", []channel.Cause{channel.CauseAdmin}, func(g *rig, p *peer) { g.run(func() { p.ch.Close(channel.CauseAdmin) }) }},
	}
	for _, s := range stages {
		for _, e := range ends {
			t.Run(s.name+", "+e.name, func(t *testing.T) {
				g := newRig(t)
				p := g.login(login{})
				s.reach(g, p)
				g.letGo()
				e.end(g, p)
				got := <-p.done
				if !contains(e.cause, got.Cause) {
					t.Errorf("cause %v, fault %v", got.Cause, got.Fault)
				}
				g.run(g.giveArena)
				g.settled(nil)
				if n := len(g.disk.news); s.asks && s.name != "fetching" && n == 0 {
					t.Error("the handler was not told")
				}
				g.run(func() {
					if g.reactor.Stats().Clients != 0 {
						t.Error("the channel is still there")
					}
				})
			})
		}
	}
}

func contains(list []channel.Cause, c channel.Cause) bool {
	for _, x := range list {
		if x == c {
			return true
		}
	}
	return false
}

func TestChannelWaitsForItsStoreBeforeItEnds(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{})
	g.run(func() { g.disk.onAbort = func(*Command) {} })
	f := srp.CmdFields{Tag: 7, CDB: cdb(opFetch, 0, 4096), Out: direct(p.desc(0, 4096))}
	p.send(f.Append(nil))
	g.expectNews("held")
	p.end.Disconnect()
	g.expectNews("abort")
	select {
	case <-p.done:
		t.Fatal("the channel ended under a command")
	default:
	}
	g.run(func() {
		if g.arena.Stats().Held != 1 || p.ch.Ended() {
			t.Error("the buffer was given back while the store had it")
		}
	})
	g.finishHeld(Result{Status: 0})
	<-p.done
	g.settled(nil)
}

func TestBufferThatNeverComesEndsInBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		p := g.login(login{})
		g.run(g.takeArena)
		start := time.Now()
		p.read(7, 0, 4096, direct(p.desc(0, 4096)))
		if r := p.rsp(7); r.Status() != 8 || r.Delta() != 1 {
			t.Errorf("% x", []byte(r))
		}
		if d := time.Since(start); d != g.plan.MaxWait {
			t.Errorf("after %v", d)
		}
		g.run(g.giveArena)
		g.settled(p)
	})
}

func TestCommandsShareTheBuffersInOrder(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{})
	size := uint32(g.arena.Largest())
	for i := range srp.Tag(8) {
		p.read(i, 0, size/2+1, indirect(p.desc(0, size/2+1)))
	}
	for i := range srp.Tag(8) {
		p.rsp(i)
	}
	g.settled(p)
}

func TestVanishedPeerIsFoundInTime(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t)
			p := g.login(login{})
			bound := DefaultTiming().Probe + DefaultTiming().Dead
			p.hold(7)
			time.Sleep(5 * time.Minute) // a live peer is not given up
			g.run(func() {
				if s := p.ch.Stats(); s.State != channel.Live || s.Probes < 20 {
					t.Errorf("%v after %d probes", s.State, s.Probes)
				}
			})
			g.peerDev.Vanish()
			start := time.Now()
			if busy {
				g.finishHeld(Result{})
			}
			s := <-p.done
			if d := time.Since(start); d > bound {
				t.Errorf("found after %v", d)
			}
			if s.Cause != channel.CauseTransport && s.Cause != channel.CausePeer {
				t.Errorf("%v, %v", s.Cause, s.Fault)
			}
			g.settled(nil)
		})
	}
}

func TestPeerThatNeverCompletesTheConnectionIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []time.Duration{100 * time.Millisecond, time.Hour} { // the provider has one, too
			g := newRig(t, func(g *rig) { g.timing.Establish = limit })
			g.dev.Hold(rdmatest.Readies)
			p := g.dial(login{})
			start := time.Now()
			s := <-p.done
			if d := time.Since(start); d > min(limit, 30*time.Second) || s.Cause != channel.CauseNotEstablished {
				t.Errorf("%v after %v", s.Cause, d)
			}
		}
	})
}

func TestRequestBeforeTheEstablishedEventIsAnsweredAfterIt(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	g.dev.Hold(rdmatest.Readies)
	p := g.dial(login{})
	p.end.Event(rdma.EventEstablished)
	p.read(1, 0, 10, direct(p.desc(0, 10)))
	g.waitFor(func() bool { return p.ch.q.todo.n > 0 })
	g.run(func() {
		if p.ch.q.used != 0 {
			t.Error("work was posted on a queue pair that is not connected")
		}
	})
	g.dev.Release(rdmatest.Readies)
	p.rsp(1)
	g.settled(p)
}

func TestHeldChannelRunsNothingUntilAdmitted(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{held: true})
	for i := range srp.Tag(4) {
		p.read(i, 0, 10, direct(p.desc(0, 10)))
	}
	g.waitFor(func() bool { w, _, _ := p.ch.m.Credits(); return int(w) == g.plan.Credits-4 })
	g.run(func() {
		if g.disk.started != 0 {
			t.Error("a held channel ran a command")
		}
		p.ch.Admit()
	})
	for i := range srp.Tag(4) {
		p.rsp(i)
	}
	g.settled(p)
}

func TestOperatorsCloseTellsTheInitiatorWhy(t *testing.T) {
	leaktest.Check(t)
	for _, c := range []struct {
		cause  channel.Cause
		reason srp.LogoutReason
	}{{channel.CauseAdmin, srp.LogoutNoReason}, {channel.CauseReplaced, srp.LogoutMultiChannel}, {channel.CauseInactive, srp.LogoutInactive}} {
		g := newRig(t)
		p := g.login(login{})
		g.run(func() { p.ch.Close(c.cause) })
		want := append([]byte{0x80, 0, 0, 0, 0, 0, 0, byte(c.reason)}, make([]byte, 8)...)
		if units := p.disconnected(); len(units) != 1 || !bytes.Equal(units[0], want) {
			t.Errorf("%v: %x", c.cause, units)
		}
		if s := <-p.done; s.Cause != c.cause {
			t.Errorf("%v", s.Cause)
		}
	}
}

func TestAbortOfAnotherNexus(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{})
	p.hold(7)
	g.expectNews("held")
	p.hold(8)
	g.expectNews("held")
	done := make(chan uint32, 2)
	g.run(func() {
		p.ch.Abort(channel.Scope{AllLUNs: true, ByTag: true, Tag: 7, TaskAborted: true}, func(n uint32) { done <- n })
	})
	if n := <-done; n != 1 {
		t.Errorf("%d commands", n)
	}
	if r := p.rsp(7); r.Status() != 0x40 {
		t.Errorf("status %x", r.Status())
	}
	g.run(func() {
		g.disk.onAbort = func(*Command) {}
		p.ch.Abort(channel.Scope{AllLUNs: true}, func(n uint32) { done <- n })
	})
	g.finishHeld(Result{})
	if n := <-done; n != 1 {
		t.Errorf("%d commands", n)
	}
	p.end.Disconnect()
	<-p.done
	g.run(func() { p.ch.Abort(channel.Scope{AllLUNs: true}, func(n uint32) { done <- n }) })
	if n := <-done; n != 0 {
		t.Errorf("%d commands of a channel that has gone", n)
	}
}

func TestReactorsCloseEndsItsChannels(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p, q := g.login(login{}), g.login(login{})
	p.hold(7)
	g.expectNews("held")
	if err := g.reactor.Close(); err != nil {
		t.Fatal(err)
	}
	<-p.done
	<-q.done
}
