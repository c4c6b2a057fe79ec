package target

import (
	"net/netip"
	"testing"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

func TestSingleLoginReplacesTheOldSession(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	old := g.ready()
	g.hold()
	results := begin(t, old, 8)
	g.inStore(8)
	k := g.knocker(g.peer)
	e, rsp := k.accepted(request())
	if rsp.Flags&srp.ResultMask != srp.ResultTerminated {
		t.Errorf("result %x", rsp.Flags)
	}
	for range 8 {
		if r := <-results; r.Err == nil {
			t.Errorf("a command of the old channel ended with status %x", r.Status)
		}
	}
	// A command of the new channel waits until the store has let go of the old ones.
	mem := g.registered(4096)
	f := srp.CmdFields{Tag: 1, CDB: make([]byte, 6)}
	n := copy(mem.Bytes(), f.Append(nil))
	e.Receive(rdma.Work{ID: 9, Op: rdma.OpRecv, SGL: []rdma.SGE{{Region: mem, Off: 1024, Len: 512}}})
	e.Send(rdma.Work{Op: rdma.OpSend, SGL: []rdma.SGE{{Region: mem, Len: uint64(n)}}})
	g.waitFor("the command has arrived", func() bool {
		for _, s := range g.target.sessions {
			for _, l := range s.links {
				if w := l.ch.Stats(); w.Window == 15 && w.Active == 1 && w.Protocol.Commands == 0 {
					return true
				}
			}
		}
		return false
	})
	g.release()
	if c := e.Next(); c.Op != rdma.OpRecv || c.Status != rdma.StatusOK || mem.Bytes()[1024] != byte(srp.OpRsp) {
		t.Fatalf("%+v", c)
	}
	e.Disconnect()
	old.Close()
	g.empty()
}

func (g *rig) registered(n int) rdma.Region {
	g.t.Helper()
	r, err := g.peer.Register(make([]byte, n), 0)
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}

func TestHostThatComesBackFindsItsOwnPlaceFree(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, func(g *rig) { g.cfg.Limits = Limits{Channels: 3, ChannelsPerNexus: 3} })
	k := g.knocker(g.peer)
	multi := request()
	multi.Flags = srp.LoginFlags(srp.ActionMulti)
	for range 3 {
		r := multi
		if g.target.cfg.Limits.Reserve != 2 {
			t.Fatalf("reserve %d of 3", g.target.cfg.Limits.Reserve)
		}
		r.Initiator[0]++
		multi.Initiator[0]++
		k.accepted(r)
	}
	other := multi
	other.Initiator[0]++
	if rej := k.refused(other.AppendRDMA(nil)); rej.Reason != srp.RejResources {
		t.Errorf("a fourth host: %v", rej.Reason)
	}
	g.peer.Hold(rdmatest.Data) // what is replaced takes its time
	again := multi
	again.Flags = srp.LoginFlags(srp.ActionSingle)
	granted := 0
	for range 6 {
		e, c := k.knock(again.AppendRDMA(nil))
		if c.Event == rdma.EventEstablished {
			granted++
			continue
		}
		e.Close()
	}
	if granted != 3 {
		t.Errorf("%d logins in place of one, want 3 up to twice the limit", granted)
	}
	g.peer.Release(rdmatest.Data)
	k.loop.Close()
	g.empty()
}

func TestSessionCannotBeReplacedFromElsewhere(t *testing.T) {
	leaktest.Check(t)
	for _, anywhere := range []bool{false, true} {
		g := newRig(t, func(g *rig) { g.cfg.ReplaceFromAnywhere = anywhere })
		s := g.ready()
		other := g.provider.Add(rdmatest.DeviceConfig{Name: "evil", Addrs: []netip.Addr{netip.MustParseAddr("10.6.6.6")}})
		k := g.knocker(other)
		r := request()
		_, c := k.knock(r.AppendRDMA(nil))
		if got := c.Event == rdma.EventEstablished; got != anywhere {
			t.Errorf("replaced: %v, want %v", got, anywhere)
		}
		if !anywhere {
			if rej, err := srp.ParseLoginRej(c.Data); err != nil || rej.Reason != srp.RejNexus {
				t.Errorf("%+v %v", rej, err)
			}
			if err := tur(t, s, srp.LUN{}); err != nil {
				t.Error(err)
			}
		}
		k.loop.Close()
		s.Close()
		g.empty()
	}
}

func TestReloginTwoHundredTimes(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, func(g *rig) { g.cfg.Limits.Channels = 128 })
	bystander := g.ready(func(c *initiatorConfig) { c.Initiator[0] = 7 })
	k := g.knocker(g.peer)
	for i := range 200 {
		if _, rsp := k.accepted(request()); i > 0 && rsp.Flags&srp.ResultMask > srp.ResultTerminated {
			t.Fatalf("login %d: result %x", i, rsp.Flags)
		}
		if i%20 == 0 {
			if err := bystander.Read(t.Context(), srp.LUN{}, 0, 8, make([]byte, 4096)); err != nil {
				t.Fatal(err)
			}
		}
	}
	g.waitFor("one channel is left of the others", func() bool { return g.target.links == 2 })
	k.loop.Close()
	bystander.Close()
	g.empty()
}
