package target

import (
	"bytes"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// TestHostThatLostItsPowerFindsItsPlace is case B09: 32 writes of a host are with the store when it loses its power, so that no
// disconnect ever arrives. Its login after that is answered at once and says that the old channel was terminated. What it
// writes then stays: no write of before comes after it. Another host notices nothing. TestReloginTwoHundredTimes is the loop.
func TestHostThatLostItsPowerFindsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(g *rig) { g.cfg.Plan.Credits, g.cfg.Plan.Responses = 40, 48 })
		g.addDisk(1)
		other := g.provider.Add(rdmatest.DeviceConfig{Name: "other", Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.77")}})
		bystander := g.dial(func(c *initiatorConfig) { c.Device, c.Initiator = other, srp.MakePortID(7, 7) })
		tur(t, bystander, srp.LUN{1: 1})
		s := g.dial(func(c *initiatorConfig) { c.QueueDepth = 38 })
		tur(t, s, srp.LUN{1: 1})
		g.hold()
		mem, err := s.Register(bytes.Repeat([]byte{0xAA}, 4096))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 32 {
			c := &initiator.Command{LUN: srp.LUN{1: 1}, CDB: initiator.Write16(uint64(i)*8, 8), Out: []rdma.SGE{{Region: mem, Len: 4096}}}
			if _, err := s.Submit(c); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := g.backend.Held(); n != 32 {
			t.Fatalf("%d writes are with the store", n)
		}
		g.peer.Hold(rdmatest.Data | rdmatest.Ends) // the machine is off: nothing of the old connection is heard of any more
		start := time.Now()
		k := g.knocker(g.peer)
		e, rsp := k.accepted(request())
		if d := time.Since(start); d > time.Second || rsp.Flags&srp.ResultMask != srp.ResultTerminated {
			t.Fatalf("result %x after %v", rsp.Flags&srp.ResultMask, d)
		}
		if err := bystander.Read(t.Context(), srp.LUN{}, 0, 8, make([]byte, 4096)); err != nil && sense(err)[0] != 6 {
			t.Errorf("the other host: %v", err)
		}
		time.Sleep(20 * time.Second) // the old queue pair is destroyed
		g.peer.Release(rdmatest.Data | rdmatest.Ends)

		// The new channel writes other data to the same place, and reads it back.
		buf, err := g.peer.Register(bytes.Repeat([]byte{0x55}, 8192), rdma.RemoteRead|rdma.RemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		answers := g.registered(4096)
		unit := answers.Bytes()
		sent := 0
		for i := range 2 { // the first is told of a unit attention
			f := srp.CmdFields{Tag: srp.Tag(100 + i), LUN: srp.LUN{1: 1}, CDB: cdb16(initiator.Write16(0, 8)),
				Out: srp.DataFields{Format: srp.FormatDirect, List: []srp.Desc{{Addr: buf.Addr(), Key: buf.RKey(), Length: 4096}}}}
			n := copy(unit[1024*i:], f.Append(nil))
			e.Receive(rdma.Work{ID: uint64(9 + i), Op: rdma.OpRecv, SGL: []rdma.SGE{{Region: answers, Off: 2048 + uint64(1024*i), Len: 512}}})
			e.Send(rdma.Work{Op: rdma.OpSend, SGL: []rdma.SGE{{Region: answers, Off: uint64(1024 * i), Len: uint64(n)}}})
			sent++
		}
		synctest.Wait()
		held := 0
		g.do(func() {
			for _, s := range g.target.sessions {
				for _, l := range s.links {
					if st := l.ch.Stats(); st.Held && st.Active == 2 && st.Protocol.Commands == 0 {
						held++
					}
				}
			}
		})
		if held != 1 {
			t.Error("the new channel does not wait for the writes that the store has of the old one")
		}
		g.release()
		var last byte = 0xff
		for range sent {
			c := e.Next()
			if c.Op != rdma.OpRecv || c.Status != rdma.StatusOK {
				t.Fatalf("%+v", c)
			}
			r := srp.Rsp(answers.Bytes()[2048+1024*(c.ID-9):][:c.Bytes])
			if r.Tag() != srp.Tag(100+c.ID-9) {
				t.Errorf("an answer to %v on the new channel", r.Tag())
			}
			last = r.Status()
		}
		if last != 0 {
			t.Errorf("status %x", last)
		}
		synctest.Wait()
		if got := g.memory.Bytes()[:4096]; !bytes.Equal(got, bytes.Repeat([]byte{0x55}, 4096)) {
			t.Errorf("a write of the old channel came after that of the new one: % x", got[:8])
		}
		n := 0
		g.do(func() { n = g.target.links })
		if n != 2 {
			t.Errorf("%d channels, want those of two hosts", n)
		}
		k.loop.Close()
		s.Close()
		bystander.Close()
		g.empty()
	})
}

func cdb16(c [16]byte) []byte { return c[:] }
