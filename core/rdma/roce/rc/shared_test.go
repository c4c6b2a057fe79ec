package rc

import (
	"bytes"
	"slices"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

// sharers makes machines that take their receives from one place, with depth receives of 2 MTU posted.
func sharers(n, depth int) (*Shared, []*Machine, [][]byte) {
	s := NewShared(depth, 1)
	var all []*Machine
	for range n {
		m := New(Config{SendDepth: 4, RecvDepth: 4, MaxSGE: 1, Shared: s, Pool: NewPool(16, tMTU)})
		m.Start(1, Params{MTU: tMTU, RecvPSN: tEPSN})
		all = append(all, m)
	}
	var bufs [][]byte
	for i := range depth {
		b := make([]byte, 2*tMTU)
		bufs = append(bufs, b)
		if !s.Post(uint64(i), [][]byte{b}) {
			panic("a shared receive was refused")
		}
	}
	return s, all, bufs
}

func only(psn int, b byte) *Packet {
	return &Packet{Op: OpSendOnly, PSN: tEPSN.Add(psn), Payload: []byte{b}}
}

func recvDone(id uint64, n uint32) Completion { return Completion{ID: id, Kind: Recv, Bytes: n} }

func TestAMessageTakesItsReceiveAtItsFirstPacket(t *testing.T) {
	s, m, bufs := sharers(2, 3)
	m[0].Receive(1, &Packet{Op: OpSendFirst, PSN: tEPSN, Payload: bytesOf(tMTU)})
	m[1].Receive(1, only(0, 'b'))
	m[0].Receive(1, &Packet{Op: OpSendLast, PSN: tEPSN.Add(1), Payload: []byte("a")})
	checkCompletions(t, m[1], []Completion{recvDone(1, 1)})
	checkCompletions(t, m[0], []Completion{recvDone(0, tMTU+1)})
	if bufs[1][0] != 'b' || !bytes.Equal(bufs[0][:tMTU+1], append(bytesOf(tMTU), 'a')) || s.Ready() != 1 || s.used != 1 {
		t.Errorf("%q %q, %d ready, %d used", bufs[1][:1], bufs[0][:2], s.Ready(), s.used)
	}
}

func TestASharedReceiveComesBackFromAMachineThatFails(t *testing.T) {
	for name, end := range map[string]struct {
		fail func(m *Machine)
		want Completion
	}{
		"failed by its owner": {func(m *Machine) { m.Fail() }, Completion{ID: 0, Kind: Recv, Status: Flushed}},
		"broken by the peer": {func(m *Machine) { m.Receive(1, &Packet{Op: OpReadRequest, PSN: tEPSN.Add(1)}) },
			Completion{ID: 0, Kind: Recv, Status: Flushed}},
		"a message too long": {func(m *Machine) {
			m.Receive(1, &Packet{Op: OpSendMiddle, PSN: tEPSN.Add(1), Payload: bytesOf(tMTU)})
			m.Receive(1, &Packet{Op: OpSendLast, PSN: tEPSN.Add(2), Payload: []byte("x")})
		}, Completion{ID: 0, Kind: Recv, Status: LocalLength, Bytes: 2 * tMTU}},
	} {
		s, m, _ := sharers(2, 2)
		m[0].Receive(1, &Packet{Op: OpSendFirst, PSN: tEPSN, Payload: bytesOf(tMTU)})
		end.fail(m[0])
		if m[0].State() != Failed {
			t.Errorf("%s: state %d", name, m[0].State())
		}
		checkCompletions(t, m[0], []Completion{end.want})
		m[1].Receive(1, only(0, 'b'))
		checkCompletions(t, m[1], []Completion{recvDone(1, 1)})
		if s.used != 0 || s.Ready() != 0 || len(s.free) != 2 {
			t.Errorf("%s: %d used, %d ready, %d free", name, s.used, s.Ready(), len(s.free))
		}
	}
}

func TestWhatAwaitsASharedReceiveIsExecutedWhenOneIsPosted(t *testing.T) {
	s, m, _ := sharers(2, 1)
	m[0].Receive(1, only(0, 'a'))
	checkCompletions(t, m[0], []Completion{recvDone(0, 1)})
	m[1].Receive(1, only(0, 'b'))
	m[1].Receive(1, only(1, 'c'))
	if m[0].Awaits() || !m[1].Awaits() {
		t.Errorf("awaits: %v, %v", m[0].Awaits(), m[1].Awaits())
	}
	got := make([]byte, 1)
	if !s.Post(7, [][]byte{got}) || s.Post(8, nil) {
		t.Error("a queue of one takes none, or two")
	}
	m[0].RecvPosted(2) // it has no use for it
	m[1].RecvPosted(2)
	checkCompletions(t, m[1], []Completion{recvDone(7, 1)})
	if got[0] != 'b' || !m[1].Awaits() {
		t.Errorf("%q, awaits %v", got, m[1].Awaits())
	}
}

func TestAMachineHasAsManySharedReceivesAsItsDepth(t *testing.T) {
	_, m, _ := sharers(2, 8)
	for i := range 6 {
		m[0].Receive(1, only(i, 'a'))
	}
	m[1].Receive(1, only(0, 'b'))
	checkCompletions(t, m[1], []Completion{recvDone(4, 1)})
	if m[0].Pending() != 4 {
		t.Errorf("%d messages were taken at a depth of 4", m[0].Pending())
	}
	checkCompletions(t, m[0], []Completion{recvDone(0, 1), recvDone(1, 1), recvDone(2, 1), recvDone(3, 1)})
	drainPackets(m[0], 2) // as its owner does then
	checkCompletions(t, m[0], []Completion{recvDone(5, 1), recvDone(6, 1)})
}

func TestSharedReceivesRefuseWhatTheyCannotTake(t *testing.T) {
	s, m, _ := sharers(1, 1)
	if s.Post(9, nil) || m[0].PostRecv(9, nil) {
		t.Error("taken beyond the depth, or by the machine itself")
	}
	m[0].Receive(1, only(0, 'a'))
	if s.Post(9, nil) {
		t.Error("taken before the completion was polled")
	}
	checkCompletions(t, m[0], []Completion{recvDone(0, 1)})
	if s.Post(9, make([][]byte, 2)) || !s.Post(9, nil) {
		t.Error("taken with too many segments, or not at all")
	}
}

func TestSharedReceivesAllocateNothing(t *testing.T) {
	s, m, bufs := sharers(2, 4)
	psn := [2]ib.PSN{tEPSN, tEPSN}
	var done [8]Completion
	var p Packet
	if n := testing.AllocsPerRun(200, func() {
		for i := range m {
			m[i].Receive(1, &Packet{Op: OpSendOnly, PSN: psn[i], AckReq: true})
			psn[i] = psn[i].Add(1)
			for _, c := range done[:m[i].Poll(done[:])] {
				if !s.Post(c.ID, bufs[c.ID:c.ID+1]) {
					t.Fatal("not taken")
				}
			}
			for m[i].Next(1, &p) {
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if !slices.Equal([]int{s.Ready(), s.used}, []int{4, 4}) {
		t.Errorf("%d ready, %d used", s.Ready(), s.used)
	}
}
