package conn

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/ioctx"
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
	{"waiting for table room", func(g *rig, p *peer) {
		g.run(func() {
			a := g.reactor.tables.arena
			if ok, err := a.Acquire(&g.tableHog, a.Largest(), ioctx.Turn{}, nil, time.Now()); !ok || err != nil {
				g.t.Error("the table room is not free")
			}
		})
		p.write(7, 0, 2048, p.table(4, 1))
		g.waitFor(func() bool { return g.reactor.TableStats().Waiting == 1 })
	}, true},
	{"fetching its table", func(g *rig, p *peer) {
		g.dev.Hold(rdmatest.Data)
		g.peerDev.Hold(rdmatest.Data)
		p.write(7, 0, 2048, p.table(4, 1))
		g.peerDev.Step(1) // the command arrives, its table does not
		g.dev.Step(1)
		g.waitFor(func() bool { return p.ch.q.used == 1 })
	}, true},
	{"holding a table, waiting for a buffer", func(g *rig, p *peer) {
		g.run(func() { g.takeArena() })
		p.write(7, 0, 2048, p.table(4, 1))
		g.waitFor(func() bool { return g.arena.Stats().Waiting == 1 && g.reactor.TableStats().Held == 1 })
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
	ok, err := g.arena.Acquire(&g.hog, g.arena.Largest(), ioctx.Turn{}, nil, now)
	if !ok || err != nil {
		g.t.Error("the arena is not free")
	}
}

func (g *rig) giveArena() {
	giveBack(&g.hog)
	giveBack(&g.tableHog)
}

// table is a table of n entries of 512 bytes, the rest of which lies at the end of the peer's memory.
func (p *peer) table(n, inUnit int) srp.DataFields {
	at := p.desc(1<<20-64<<10, 0)
	d := srp.DataFields{Format: srp.FormatIndirect, Remote: n - inUnit, Table: at}
	b := p.mem[1<<20-64<<10:][:0]
	for i := range n {
		d.List = append(d.List, p.desc(uint32(i)*512, 512))
		b = d.List[i].Append(b)
	}
	return d
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
			if strings.HasPrefix(s.name, "fetching") {
				g.abortFetching(p, s.name == "fetching")
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
func (g *rig) abortFetching(p *peer, buffer bool) {
	g.t.Helper()
	done := make(chan uint32, 1)
	g.run(func() {
		p.ch.Abort(channel.Scope{AllLUNs: true}, func(n uint32) { done <- n })
		if held := g.arena.Stats().Held + g.reactor.TableStats().Held; len(done) != 0 || held == 0 || buffer && g.arena.Stats().Held == 0 {
			g.t.Error("the abort did not wait for what is still on its way into the buffer")
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
				if n := len(g.disk.news); s.asks && !strings.HasPrefix(s.name, "fetching") && n == 0 {
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
