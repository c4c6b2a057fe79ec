package target

import (
	"bytes"
	"context"
	"net/netip"
	"testing"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
	"github.com/gosrpt/gosrpt/core/store/storetest"
	"github.com/gosrpt/gosrpt/sdk/backstore"
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

// TestOldWriteNeverLandsAfterItsResend ends a channel whose WRITE is at some place between the initiator and the disk, and sends it
// again, with newer data, over the channel that replaces it.
func TestOldWriteNeverLandsAfterItsResend(t *testing.T) {
	leaktest.Check(t)
	const blocks = 8
	older, newer := pattern(blocks*512, 1), pattern(blocks*512, 2)
	for _, c := range []struct {
		name      string
		immediate bool
		// hold stops the old write somewhere, stopped tells that it is there.
		hold    func(g *rig)
		stopped func(g *rig) bool
		// before lets go of what keeps the new session from logging in or writing.
		before func(g *rig)
		// lands tells that the old write reaches the disk, before the new one.
		lands bool
	}{
		{"in the store", false, (*rig).late, func(g *rig) bool { return g.backend.Held() == 1 }, func(*rig) {}, true},
		{"in the store, with immediate data", true, (*rig).late, func(g *rig) bool { return g.backend.Held() == 1 }, func(*rig) {}, true},
		{"on its way, as RDMA READ", false, func(g *rig) {
			g.late() // whatever reaches the store
			g.dev.Hold(rdmatest.Data)
			g.dev.Step(1) // the command
		}, func(g *rig) bool { return g.arena.Stats().Held == 1 }, func(g *rig) { g.dev.Release(rdmatest.Data) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t)
			old := g.ready(func(cfg *initiatorConfig) { cfg.Immediate = c.immediate })
			var order []byte // of the writes that reach the disk, by their first byte
			g.do(func() {
				g.backend.Passed = func(r *backstore.Request) {
					if r.Op == backstore.OpWrite {
						order = append(order, r.Data[0])
					}
				}
			})
			c.hold(g)
			oldEnd := make(chan error, 1)
			go func() { oldEnd <- old.Write(context.Background(), srp.LUN{}, 0, blocks, older) }()
			g.waitFor("the old write is on its way", func() bool { return c.stopped(g) })
			// The login comes from the old one's host: nothing of the old channel has been let go of yet.
			again := make(chan *initiator.Session, 1)
			go func() {
				s, err := g.tryDial(func(cfg *initiatorConfig) { cfg.Immediate = c.immediate })
				if err != nil {
					t.Errorf("the new login: %v", err)
				}
				again <- s
			}()
			g.waitFor("the new channel waits", func() bool { return len(g.target.sessions) == 1 && held(g.target) == 1 })
			c.before(g)
			s := <-again
			if s == nil {
				return
			}
			newEnd := make(chan error, 1)
			go func() { newEnd <- s.Write(context.Background(), srp.LUN{}, 0, blocks, newer) }()
			if c.lands {
				g.waitFor("the new write has arrived", func() bool { return waiting(g.target) == 1 })
				g.do(func() {
					if g.backend.Held() != 1 || len(order) != 0 {
						t.Errorf("%d requests are in the store, %d on the disk, while the old channel has one", g.backend.Held(), len(order))
					}
				})
			}
			g.release()
			g.waitFor("the old channel is gone", func() bool { return held(g.target) == 0 && g.target.links == 1 })
			if err := <-newEnd; err != nil {
				t.Errorf("the new write: %v", err)
			}
			if err := <-oldEnd; err == nil {
				t.Error("the old write was answered")
			}
			want := []byte{newer[0]}
			if c.lands {
				want = []byte{older[0], newer[0]}
			}
			g.do(func() {
				if !bytes.Equal(order, want) {
					t.Errorf("writes reached the disk in the order % x, want % x", order, want)
				}
			})
			got := make([]byte, len(newer))
			if err := s.Read(t.Context(), srp.LUN{}, 0, blocks, got); err != nil || !bytes.Equal(got, newer) {
				t.Errorf("the disk has the old data: %v", err)
			}
			old.Close()
			s.Close()
			g.empty()
		})
	}
}

// late keeps what comes to the store from being done.
func (g *rig) late() {
	g.do(func() {
		g.backend.Plan = func(*backstore.Request) storetest.Fault { return storetest.Fault{Late: true} }
	})
}

// held counts the channels that wait for those they replaced, waiting the requests that wait with them.
func held(t *Target) (n int) {
	for _, s := range t.sessions {
		for _, l := range s.links {
			if l.ch.Stats().Held {
				n++
			}
		}
	}
	return n
}

func waiting(t *Target) (n int) {
	for _, s := range t.sessions {
		for _, l := range s.links {
			if st := l.ch.Stats(); st.Held {
				n += int(st.Active)
			}
		}
	}
	return n
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
