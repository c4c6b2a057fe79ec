package conn

import (
	"testing"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// TestChannelTakesItsShareOfTheTableRoomOnly: commands with tables whose unit gives nothing back take a quarter of the room. Another
// channel's go on, and those that wait get their turn, or go when they are aborted.
func TestChannelTakesItsShareOfTheTableRoomOnly(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, func(g *rig) { g.tables = 64 << 10 }) // a share of 16 KiB
	p, q := g.login(login{}), g.login(login{})
	const entries = 256 // of which 255 are read: a page
	tables := map[*peer]srp.DataFields{p: p.table(entries, 1), q: q.table(entries, 1)}
	write := func(p *peer, tag srp.Tag, op byte) {
		f := srp.CmdFields{Tag: tag, CDB: cdb(op, 0, 512), Out: tables[p]}
		p.send(f.Append(nil))
	}
	for i := range srp.Tag(10) {
		write(p, i, opFetch)
	}
	for range 4 {
		g.expectNews("held")
	}
	held := func(want int) {
		t.Helper()
		g.waitFor(func() bool { return len(p.ch.share.line) == 10-want })
		if s := g.reactor.TableStats(); s.Held != 4 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	}
	held(4)
	for i := range srp.Tag(20) {
		write(q, i, opWrite)
		if r := q.rsp(i); r.Status() != 0 {
			t.Fatalf("% x", []byte(r))
		}
	}
	g.finishHeld(Result{OutUsed: 512})
	p.rsp(0)
	g.expectNews("held")
	held(5)
	f := srp.TskMgmtFields{Tag: 100, Function: srp.FuncAbortTask, Managed: 7} // which waits in line
	p.send(f.Append(nil))
	g.expectNews("abort")
	p.rsp(100)
	held(6)
	f = srp.TskMgmtFields{Tag: 101, Function: srp.FuncLUNReset}
	p.send(f.Append(nil))
	p.rsp(101)
	g.settled(p)
	g.settled(q)
	g.run(func() {
		if s := &p.ch.share; s.held != 0 || len(s.line) != 0 {
			t.Errorf("%+v", s)
		}
	})
}
