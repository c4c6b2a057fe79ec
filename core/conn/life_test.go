package conn

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// TestAHundredClosersMakeOneEnd: operator, nexus, initiator and transport end a busy channel at once, in every mix. It ends once,
// with nothing left of it, and every abort is told.
func TestAHundredClosersMakeOneEnd(t *testing.T) {
	leaktest.Check(t)
	for round := range 10 {
		g := newRig(t)
		p := g.login(login{})
		var ends, told atomic.Int32
		g.run(func() {
			onEnd := p.ch.cfg.OnEnd
			p.ch.cfg.OnEnd = func(c *Channel) { ends.Add(1); onEnd(c) }
		})
		p.hold(7)
		g.expectNews("held")
		p.write(8, 0, 2048, p.table(4, 1))
		p.read(9, 0, 4096, direct(p.desc(0, 4096)))
		start := make(chan struct{})
		var closers sync.WaitGroup
		for i := range 100 {
			closers.Go(func() {
				<-start
				switch (i + round) % 5 {
				case 0, 1:
					g.run(func() { p.ch.Close(channel.CauseAdmin) })
				case 2:
					g.run(func() { p.ch.Abort(channel.Scope{AllLUNs: true}, func(uint32) { told.Add(1) }) })
				case 3:
					p.end.Loop.Do(func() { _ = p.end.QP.Disconnect() }) // ErrState once it has ended
				case 4:
					if i%20 == 4 {
						g.dev.BreakAll()
						return
					}
					p.trySend(srp.AppendILogout(nil, 1))
				}
			})
		}
		close(start)
		closers.Wait()
		<-p.done
		g.run(func() {})
		if ends.Load() != 1 || told.Load() != 20 {
			t.Fatalf("round %d: %d ends, %d aborts told", round, ends.Load(), told.Load())
		}
		g.settled(nil)
		g.run(func() {
			if n := g.reactor.Stats().Clients; n != 0 || len(g.disk.held) != 0 {
				t.Errorf("round %d: %d channels, %d commands are left", round, n, len(g.disk.held))
			}
		})
	}
}

// TestBothSidesDisconnectAtOnce: each DREQ is under way when the other side has sent its own.
func TestBothSidesDisconnectAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		p := g.login(login{})
		p.hold(7)
		g.expectNews("held")
		g.dev.Hold(rdmatest.Ends)
		g.peerDev.Hold(rdmatest.Ends)
		p.end.Disconnect()
		g.run(func() { p.ch.Close(channel.CauseAdmin) })
		synctest.Wait()
		g.peerDev.Release(rdmatest.Ends)
		g.dev.Release(rdmatest.Ends)
		s := <-p.done
		if s.Cause != channel.CauseAdmin && s.Cause != channel.CausePeer {
			t.Errorf("%v", s.Cause)
		}
		g.settled(nil)
	})
}

// TestEndsThatNothingAnswersAreForced: the peer is gone when the channel is to end, so that neither its logout nor its work is
// acknowledged. Its queue pair is destroyed when the time for that is over.
func TestEndsThatNothingAnswersAreForced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		p := g.login(login{})
		f := srp.CmdFields{Tag: 7, CDB: cdb(opFetch, 0, 4096), Out: direct(p.desc(0, 4096))}
		p.send(f.Append(nil))
		g.expectNews("held")
		g.dev.Hold(rdmatest.AllTraffic)
		g.peerDev.Hold(rdmatest.AllTraffic)
		start := time.Now()
		g.run(func() { p.ch.Close(channel.CauseAdmin) })
		s := <-p.done
		if d := time.Since(start); d > DefaultTiming().Logout+DefaultTiming().Drain || s.Cause != channel.CauseAdmin {
			t.Errorf("%v after %v", s.Cause, d)
		}
		g.settled(nil)
	})
}

// TestRequestsWithoutAnEstablishedEventDoNotKeepAChannel: the RTU is lost for good, and the first request, which should do in its
// place, changes nothing below.
func TestRequestsWithoutAnEstablishedEventDoNotKeepAChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(g *rig) { g.timing.Establish = 5 * time.Second })
		g.dev.Hold(rdmatest.Readies)
		p := g.dial(login{})
		p.end.Event(rdma.EventEstablished)
		start := time.Now()
		p.hold(1)
		g.expectNews("held")
		s := <-p.done
		if d := time.Since(start); d > 15*time.Second || s.Err != nil || s.Cause == channel.CauseNone {
			t.Errorf("%v, %v after %v", s.Cause, s.Fault, d)
		}
		g.settled(nil)
	})
}

func TestLostLinkEndsChannelsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		p, q := g.login(login{}), g.login(login{})
		p.hold(7)
		g.expectNews("held")
		g.dev.SetLink(rdmatest.LinkDown)
		start := time.Now()
		<-p.done
		<-q.done
		if d, bound := time.Since(start), DefaultTiming().Probe+DefaultTiming().Dead; d > bound {
			t.Errorf("found after %v, want %v", d, bound)
		}
		g.settled(nil)
	})
}

// refuser is a queue pair that takes some work and then no more.
type refuser struct {
	rdma.QP
	sends, recvs int // that it still takes
	err          error
}

func (r *refuser) PostSend(work []rdma.Work) (int, error) {
	if len(work) <= r.sends {
		r.sends -= len(work)
		return r.QP.PostSend(work)
	}
	n, err := r.QP.PostSend(work[:r.sends])
	r.sends = 0
	return n, errors.Join(err, r.err)
}

func (r *refuser) PostRecv(work []rdma.Work) (int, error) {
	if len(work) <= r.recvs {
		r.recvs -= len(work)
		return r.QP.PostRecv(work)
	}
	return 0, r.err
}

// TestResponseThatCannotBePostedEndsTheChannel: no response is lost without a word. A full queue that nothing will ever make room in
// counts as a failure; one that will is waited for, see TestNoResponseIsLostWhenTheSendQueueIsSmall.
func TestResponseThatCannotBePostedEndsTheChannel(t *testing.T) {
	leaktest.Check(t)
	for name, r := range map[string]*refuser{
		"send fails":              {recvs: 100, err: rdma.ErrState},
		"second of three fails":   {sends: 1, recvs: 100, err: rdma.ErrState},
		"full, and nothing in it": {recvs: 100, err: rdma.ErrFull},
		"receive fails":           {sends: 100, err: rdma.ErrFull},
	} {
		g := newRig(t)
		p := g.login(login{})
		g.run(func() { r.QP, p.ch.qp = p.ch.qp, r })
		p.read(1, 0, 2048, indirect(p.desc(0, 1024), p.desc(4096, 1024)))
		p.disconnected()
		s := <-p.done
		if s.Cause != channel.CauseTransport || !errors.Is(s.Fault.Err, r.err) {
			t.Errorf("%s: %v, %v", name, s.Cause, s.Fault)
		}
		g.settled(nil)
	}
}

func TestInterruptIsAskedOfTheTransport(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{})
	g.run(func() {
		for _, on := range []bool{false, true} {
			p.ch.q.push(channel.Action{Kind: channel.ActCredReq, SolNot: on})
			if !p.ch.stageNext() {
				t.Fatal("no room")
			}
			if w := p.ch.q.stage[p.ch.q.n-1]; on != (w.Flags&rdma.Solicited != 0) {
				t.Errorf("wanted %v: flags %x", on, w.Flags)
			}
		}
		p.ch.q.clear()
	})
}
