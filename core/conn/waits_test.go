package conn

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

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

func TestTableRoomThatNeverComesEndsInBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		p := g.login(login{})
		g.run(func() {
			a := g.reactor.tables.arena
			if ok, err := a.Acquire(&g.tableHog, a.Largest(), ioctx.Turn{}, nil, g.reactor.now); !ok || err != nil {
				t.Error("the table room is not free")
			}
		})
		start := time.Now()
		p.read(7, 0, 2048, p.table(4, 1))
		p.read(8, 0, 4096, direct(p.desc(0, 4096))) // commands without a table are not held up
		p.rsp(8)
		if r := p.rsp(7); r.Status() != 8 || r.Delta() != 1 || r.In() != 2048 {
			t.Errorf("% x", []byte(r))
		}
		if d := time.Since(start); d != g.plan.MaxWait {
			t.Errorf("after %v", d)
		}
		g.run(g.giveArena)
		p.read(9, 0, 2048, p.table(4, 1))
		if r := p.rsp(9); r.Status() != 0 {
			t.Errorf("% x", []byte(r))
		}
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
