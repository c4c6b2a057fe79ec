package conn

import (
	"testing"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// bigWrite is the length of a write of which most is not read ahead. Its pieces name the same memory of the peer.
const (
	bigWrite  = 8 << 20
	bigPieces = bigWrite / (1 << 20)
)

func bigRig(t *testing.T) (*rig, *peer) {
	g := newRig(t, func(g *rig) {
		g.memory, g.plan.MaxTransfer = 32<<20, bigWrite
	})
	return g, g.login(login{})
}

func (p *peer) bigWrite(tag srp.Tag) {
	p.g.t.Helper()
	list := make([]srp.Desc, bigPieces)
	for i := range list {
		list[i] = p.desc(0, 1<<20)
	}
	p.write(tag, 0, bigWrite, indirect(list...))
}

// answer returns the next response. The credits of what was aborted may come before it.
func (p *peer) answer() srp.Rsp {
	p.g.t.Helper()
	for {
		b := p.unit()
		if b[0] == byte(srp.OpCredReq) {
			continue
		}
		r, err := srp.ParseRsp(b)
		if err != nil {
			p.g.t.Fatalf("got % x", b)
		}
		return r
	}
}

// stall lets n units of the peer through and keeps all data on its way.
func (g *rig) stall() {
	g.dev.Hold(rdmatest.Data)
	g.peerDev.Hold(rdmatest.Data)
}

func (g *rig) pass(n int) {
	g.peerDev.Step(n)
	g.dev.Step(n)
}

// abort aborts all commands with the tag, and returns where the number of them will be told.
func (g *rig) abort(p *peer, tag srp.Tag) chan uint32 {
	g.t.Helper()
	done := make(chan uint32, 1)
	g.run(func() {
		p.ch.Abort(channel.Scope{AllLUNs: true, ByTag: true, Tag: tag}, func(n uint32) { done <- n })
	})
	return done
}

func (g *rig) bytesOut(p *peer) (n uint64) {
	g.t.Helper()
	g.run(func() { n = p.ch.stats.bytesOut })
	return n
}

func TestAbortedWriteReadsNoMoreThanWasOutstanding(t *testing.T) {
	leaktest.Check(t)
	g, p := bigRig(t)
	g.stall()
	p.bigWrite(7)
	g.pass(1)
	g.waitFor(func() bool { return p.ch.q.used == fetchAhead/pieceSize })
	done := g.abort(p, 7)
	if len(done) != 0 {
		t.Error("the abort did not wait for what is still on its way into the buffer")
	}
	g.letGo()
	if n := <-done; n != 1 {
		t.Errorf("%d commands aborted", n)
	}
	if n := g.bytesOut(p); n != fetchAhead+lastPiece {
		t.Errorf("%d bytes were read, want %d", n, fetchAhead+lastPiece)
	}
	g.answersAgain(p)
}

func TestAbortedWriteThatWaitsItsTurnReadsNothing(t *testing.T) {
	leaktest.Check(t)
	g, p := bigRig(t)
	g.stall()
	p.bigWrite(7)
	p.bigWrite(8)
	p.bigWrite(9)
	g.pass(3)
	g.waitFor(func() bool { return p.ch.q.fetches.todo.n == 3 })
	if n := <-g.abort(p, 8); n != 1 { // before anything of 7 has come
		t.Errorf("%d commands aborted", n)
	}
	g.letGo()
	for left := map[srp.Tag]bool{7: true, 9: true}; len(left) > 0; {
		r := p.answer()
		if !left[r.Tag()] || r.Status() != 0 {
			t.Fatalf("got % x", []byte(r))
		}
		delete(left, r.Tag())
	}
	if n := g.bytesOut(p); n != 2*bigWrite {
		t.Errorf("%d bytes were read, want %d", n, 2*bigWrite)
	}
	g.answersAgain(p)
}

// answersAgain checks that another whole write gets through, and that nothing is left over.
func (g *rig) answersAgain(p *peer) {
	g.t.Helper()
	fill(p.mem, 5)
	p.bigWrite(20)
	if r := p.answer(); r.Tag() != 20 || r.Status() != 0 {
		g.t.Fatalf("got % x", []byte(r))
	}
	g.run(func() {
		if s := g.arena.Stats(); s.Held != 0 || s.Waiting != 0 {
			g.t.Errorf("buffers are out: %+v", s)
		}
		if q := &p.ch.q; q.pending.reads != 0 || q.pending.bytes != 0 || q.fetches.todo.n != 0 {
			g.t.Errorf("reads are left: %+v", q.pending)
		}
	})
}

func TestResponsesDoNotWaitForDataThatIsNotAskedForYet(t *testing.T) {
	leaktest.Check(t)
	g, p := bigRig(t)
	g.stall()
	p.bigWrite(7)
	p.bigWrite(8)
	p.hold(9)
	g.pass(3)
	g.expectNews("held")
	g.waitFor(func() bool { return p.ch.q.used == fetchAhead/pieceSize })
	g.finishHeld(Result{})
	g.waitFor(func() bool { return p.ch.q.used == fetchAhead/pieceSize+1 })
	g.letGo()
	p.rsp(9)
	p.rsp(7)
	p.rsp(8)
	g.settled(p)
}

func TestReadsLeaveHalfOfTheSendQueue(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, func(g *rig) { g.memory = 64 * ioctx.PageSize })
	p := g.login(login{})
	g.stall()
	list := make([]srp.Desc, 100)
	for i := range list {
		list[i] = p.desc(uint32(i)*8, 4)
	}
	p.write(7, 0, 400, indirect(list...))
	p.hold(8)
	g.pass(2)
	g.expectNews("held")
	g.waitFor(func() bool { return p.ch.q.used == g.plan.SendWork/2 })
	g.finishHeld(Result{})
	g.waitFor(func() bool { return p.ch.q.used == g.plan.SendWork/2+1 })
	g.letGo()
	p.rsp(8)
	p.rsp(7)
	g.settled(p)
}
