package cm

import (
	"encoding/binary"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

// nthREQ is a request that differs from all others in id and QPN.
func (f *fixture) nthREQ(peer ib.GID, n uint32) Received {
	r := srpREQ()
	r.LocalCommID, r.LocalQPN = 0x1000_0000+n, ib.QPN(0x100+n)
	mad, _ := r.Append(nil, uint64(n))
	return Received{Peer: peer, MAD: mad}
}

func peerN(n uint32) ib.GID {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 0x0A000000+n)
	return ib.GIDFromIPv4(a)
}

func TestOnePeerCannotTakeAllHalfOpenRequests(t *testing.T) {
	f := newFixture(t)
	for n := range uint32(1000) {
		f.step(f.nthREQ(gidThere, n))
	}
	if got := f.m.halfOpen; got != 64 || f.m.Stats().Overflow != 1000-64 {
		t.Errorf("%d half open, %d dropped", got, f.m.Stats().Overflow)
	}
	if got := f.step(f.nthREQ(peerN(1), 5000)); got != "+request" {
		t.Errorf("another peer: %q", got)
	}
	f.checkTables()
}

func TestManyPeersCannotGrowMemory(t *testing.T) {
	f := newFixture(t)
	for n := range uint32(5000) {
		f.step(f.nthREQ(peerN(n), n))
	}
	if len(f.m.conns) != 1024 || len(f.m.halfOpenPeer) != 1024 {
		t.Errorf("%d connections of %d peers", len(f.m.conns), len(f.m.halfOpenPeer))
	}
	f.checkTables()
	f.schedule1()
	if len(f.m.conns)+len(f.m.byRemote)+len(f.m.byQP)+len(f.m.byLocal)+len(f.m.halfOpenPeer)+len(f.m.timers) != 0 {
		t.Errorf("%d connections are never forgotten", len(f.m.conns))
	}
}

// schedule1 runs the clock until nothing is due, however long that is.
func (f *fixture) schedule1() {
	for at, ok := f.m.Deadline(); ok; at, ok = f.m.Deadline() {
		f.now = at
		f.step(Tick{})
	}
}

func TestRefusedAndEndedConnectionsAreBounded(t *testing.T) {
	f := newFixture(t)
	f.m.cfg.MaxRemembered = 10
	released := 0
	for n := range uint32(200) {
		out, _ := f.m.Step(f.now, f.nthREQ(gidThere, n), nil)
		h := out[0].Conn
		if n%2 == 0 {
			out, _ = f.m.Step(f.now, Reject{Conn: h, Reason: ReasonConsumer}, nil)
		} else {
			_, _ = f.m.Step(f.now, Accept{Conn: h, QPN: hereQPN}, nil)
			c := f.m.conns[h]
			out, _ = f.m.Step(f.now, Received{gidThere, AppendDREQ(nil, 1, c.remote, c.local, hereQPN)}, nil)
		}
		for _, a := range out {
			if a.Kind == ActionReleased {
				released++
			}
		}
		f.checkTables()
	}
	if f.m.refused.Len() != 10 || f.m.waiting.Len() != 10 || len(f.m.conns) != 20 || released != 190 {
		t.Errorf("%d refused, %d in timewait, %d in all, %d released", f.m.refused.Len(), f.m.waiting.Len(), len(f.m.conns), released)
	}
}

func TestTimewaitIsBounded(t *testing.T) {
	f := newFixture(t)
	f.step(f.req(func(r *REQFields) { r.AckTimeout = 31 }, f.tid))
	f.local = f.m.conns[f.conn].local
	f.step(Accept{Conn: f.conn, QPN: hereQPN})
	f.step(f.dreq(gidThere, hereQPN))
	if left := f.due() - f.now; left != 10*second {
		t.Errorf("timewait of %d ms", left/millisecond)
	}
}

func TestUnknownPeersGetNoMoreThanTheySend(t *testing.T) {
	f := newFixture(t)
	f.enter("none")
	for name, event := range tableEvents {
		ev, isMAD := event(f).(Received)
		if !isMAD {
			continue
		}
		f := newFixture(t)
		out, _ := f.m.Step(f.now, ev, nil)
		sent := 0
		for _, a := range out {
			if a.Kind == ActionSend {
				sent++
			}
		}
		if sent > 1 {
			t.Errorf("%s: %d answers", name, sent)
		}
	}
}
