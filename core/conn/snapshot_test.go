package conn

import (
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

// waits returns what the channel waits for.
func (g *rig) waits(p *peer) (what string) {
	g.run(func() {
		s := p.ch.Stats()
		what = s.WaitsFor()
	})
	return what
}

func TestEveryWaitSaysWhatItWaitsFor(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	expect := func(p *peer, part string) {
		t.Helper()
		if got := g.waits(p); got != part && (part == "" || !strings.Contains(got, part)) {
			t.Errorf("waits for %q, want %q", got, part)
		}
	}
	g.dev.Hold(rdmatest.Readies)
	slow := g.dial(login{})
	expect(slow, "complete the connection")
	g.dev.Release(rdmatest.Readies)
	slow.end.Event(rdma.EventEstablished)
	g.waitFor(func() bool { return slow.ch.established })
	expect(slow, "")
	held := g.login(login{held: true})
	expect(held, "channels it replaced")
	g.run(func() { held.ch.Admit() })
	expect(held, "")

	g.run(func() { g.disk.onAbort = func(*Command) {} })
	slow.hold(7)
	g.expectNews("held")
	g.dev.Hold(rdmatest.Data)
	g.run(func() { slow.ch.Close(channel.CauseAdmin) })
	expect(slow, "take the logout")
	g.dev.Release(rdmatest.Data)
	g.waitFor(func() bool { return slow.ch.m.State() == channel.Draining })
	g.waitFor(func() bool { _, working := slow.ch.m.Waiting(); return !working })
	expect(slow, "stores to give 1 commands back")
	g.finishHeld(Result{})
	<-slow.done
}

func TestFaultNamesTheFirstThingThatWentWrong(t *testing.T) {
	var f Fault
	if !f.none() || f.String() != "" {
		t.Errorf("%q", f)
	}
	f.noteWork(rdma.OpRead, rdma.StatusRemoteAccess)
	f.noteWork(rdma.OpSend, rdma.StatusRetryExceeded)
	f.note(errNotEstablished)
	if f.String() != "RDMA READ: remote access error" {
		t.Errorf("%q", f)
	}
	g := Fault{}
	g.note(errNotEstablished)
	g.noteWork(rdma.OpRead, rdma.StatusRemoteAccess)
	if g.String() != errNotEstablished.Error() {
		t.Errorf("%q", g)
	}
}
