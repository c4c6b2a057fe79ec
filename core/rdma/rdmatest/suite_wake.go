package rdmatest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

var wakeChecks = []check{
	{"ArmIsFalseIfSomethingIsThere", armIsFalse},
	{"PollOfNothingMovesTheTransport", pollOfNothing},
	{"ArmFlushes", armFlushes},
	{"NoWakeUpIsLost", noWakeUpIsLost},
	{"AFullBatchMayMeanMore", fullBatch},
}

// drive moves both transports from one goroutine until cond holds. The loops must be stopped.
func (r *rig) drive(cond func() bool) {
	r.Helper()
	for deadline := time.Now().Add(endPatience); !cond(); {
		if time.Now().After(deadline) {
			r.Fatalf("not within %v", endPatience)
		}
		for _, cq := range []rdma.CQ{r.la.cq, r.lb.cq} {
			cq.Flush()
			if cq.Poll(nil) != 0 {
				r.Fatal("Poll of no room returned completions")
			}
		}
	}
}

// stopWithMessage leaves a message for B under way, with nobody polling.
func (r *rig) stopWithMessage() {
	r.Helper()
	a, b := r.pair()
	b.Receive(recvWork(1, nil))
	r.la.Stop()
	r.lb.Stop()
	if n, err := a.QP.PostSend([]rdma.Work{sendWork(2, nil)}); n != 1 {
		r.Fatal(err)
	}
}

// oneReceive polls the one completion that B has, or will have: on iWARP a SEND completes before it has arrived.
func (r *rig) oneReceive() {
	r.Helper()
	var c [4]rdma.Completion
	n := r.lb.cq.Poll(c[:])
	for deadline := time.Now().Add(endPatience); n == 0 && r.iwarp() && time.Now().Before(deadline); {
		n = r.lb.cq.Poll(c[:])
	}
	if n != 1 || c[0].Op != rdma.OpRecv || c[0].ID != 1 {
		r.Errorf("Poll: %d, %+v; want receive 1", n, c[0])
	}
}

func armIsFalse(r *rig) {
	r.stopWithMessage()
	r.drive(func() bool { return !r.lb.cq.Arm() })
	r.drive(func() bool {
		var c [4]rdma.Completion
		n := r.lb.cq.Poll(c[:])
		if n == 1 && c[0].Op == rdma.OpRecv {
			return true
		}
		if n != 0 {
			r.Fatalf("Poll: %+v", c[:n])
		}
		return false
	})
}

// pollOfNothing: the transport goes on though no completion has room.
func pollOfNothing(r *rig) {
	r.stopWithMessage()
	var c [4]rdma.Completion
	r.drive(func() bool {
		r.lb.cq.Poll(nil)
		return r.la.cq.Poll(c[:1]) == 1
	})
	if c[0].Op != rdma.OpSend || c[0].Status != rdma.StatusOK {
		r.Errorf("got %+v, want the SEND's completion", c[0])
	}
	r.oneReceive()
}

func armFlushes(r *rig) {
	r.stopWithMessage()
	r.la.cq.Arm()
	for deadline := time.Now().Add(endPatience); ; {
		var c [4]rdma.Completion
		if n := r.lb.cq.Poll(c[:]); n == 1 && c[0].Op == rdma.OpRecv {
			return
		}
		if time.Now().After(deadline) {
			r.Fatal("Arm did not transmit what was posted")
		}
		r.la.cq.Poll(nil)
	}
}

// ball is a message that two ends return to each other.
type ball struct {
	r    *rig
	done *sync.WaitGroup
	// left counts the rounds to go. It belongs to the owner of the first end.
	left int
	over atomic.Bool
}

// player makes the handler of an end. The first end counts.
func (g *ball) player(e *End, first bool) func(*rdma.Completion) bool {
	return func(c *rdma.Completion) bool {
		switch {
		case g.over.Load():
			return true
		case c.Op == rdma.OpEvent:
			return false
		case c.Status != rdma.StatusOK:
			g.r.Errorf("%+v (%v)", *c, c.Status)
		case c.Op == rdma.OpSend:
		case first && g.left == 1:
			g.over.Store(true)
			g.done.Done()
		default:
			if first {
				g.left--
			}
			g.play(e)
		}
		return true
	}
}

// play returns the ball, and makes ready for the next one.
func (g *ball) play(e *End) {
	if n, err := e.QP.PostRecv([]rdma.Work{recvWork(1, nil)}); n != 1 {
		g.r.Error(err)
	}
	if n, err := e.QP.PostSend([]rdma.Work{sendWork(2, nil)}); n != 1 {
		g.r.Error(err)
	}
}

// noWakeUpIsLost plays ping-pong between two sleepers, with one ball and with several, so that
// arrivals meet every phase of falling asleep.
func noWakeUpIsLost(r *rig) {
	for _, balls := range []int{1, 3} {
		var done sync.WaitGroup
		for range balls {
			a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
			done.Add(1)
			g := &ball{r: r, done: &done, left: r.Rounds / balls}
			a.Handle, b.Handle = g.player(a, true), g.player(b, false)
			b.Receive(recvWork(1, nil))
			r.join(a, b)
			r.la.Do(func() { g.play(a) })
		}
		r.waitFor(&done, "ping-pong")
	}
}

// fullBatch polls with room for one: every completion comes, and only once.
func fullBatch(r *rig) {
	a, b := r.pair()
	for id := range uint64(20) {
		b.Receive(recvWork(id, nil))
	}
	r.lb.Stop()
	r.la.Stop()
	for id := range uint64(20) {
		if n, err := a.QP.PostSend([]rdma.Work{sendWork(id, nil)}); n != 1 {
			r.Fatal(err)
		}
	}
	var got, sent uint64
	r.drive(func() bool {
		var c [1]rdma.Completion
		for r.lb.cq.Poll(c[:]) == 1 {
			if c[0].Op != rdma.OpRecv || c[0].ID != got {
				r.Fatalf("got %+v, want receive %d", c[0], got)
			}
			got++
		}
		for r.la.cq.Poll(c[:]) == 1 {
			if c[0].Op != rdma.OpSend || c[0].ID != sent {
				r.Fatalf("got %+v, want send %d", c[0], sent)
			}
			sent++
		}
		return got == 20 && sent == 20
	})
}
