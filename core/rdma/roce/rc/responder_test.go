package rc

import (
	"bytes"
	"slices"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

// Responder transitions. E is the expected PSN, M the MSN, "cur" the message in progress.
//
//	cur    packet at E                        answer             new state
//	-      SEND ONLY, receive posted          ACK E if AckReq    E+1, M+1, receive completes
//	-      SEND ONLY, none posted             wait, then RNR     unchanged; PostRecv executes it
//	-      SEND ONLY longer than the receive  NAK 0x61           failed, receive: local length error
//	-      SEND FIRST of MTU bytes            -                  cur = SEND
//	-      SEND FIRST of any other length     NAK 0x61           failed
//	-      SEND/WRITE MIDDLE or LAST          NAK 0x61           failed
//	SEND   any FIRST, ONLY, READ, WRITE       NAK 0x61           failed
//	SEND   LAST of 1..MTU                     ACK                cur = -, M+1
//	-      WRITE ONLY permitted               ACK                written, M+1
//	-      WRITE not permitted                NAK 0x62           failed, nothing written
//	-      WRITE whose length lies            NAK 0x61           failed
//	-      WRITE of 0 bytes, any key          ACK                M+1
//	-      READ permitted                     READ responses     E+n, M+1
//	-      READ not permitted                 NAK 0x62           failed
//	-      READ beyond what was granted       NAK 0x61           failed
//	any    SEND/WRITE before E                ACK E-1            unchanged
//	any    READ before E                      READ responses     unchanged
//	any    READ before E, range reaching E    -                  unchanged, counted
//	any    packet after E                     hold, NAK 0x60     unchanged
//	any    atomic, immediate, invalidate      NAK 0x61           failed
const (
	tMTU  = 256
	tEPSN = ib.PSN(100)
	tKey  = 7
	tBase = 0x1000
)

type responderCase struct {
	name   string
	in     []Packet
	recvs  []int // sizes
	want   []Packet
	epsn   ib.PSN
	state  State
	done   []Completion
	memory string // expected start of memory
	noMem  bool
}

func bytesOf(n int) []byte { return bytes.Repeat([]byte{'x'}, n) }

func ackOf(psn ib.PSN, msn uint32) Packet {
	return Packet{Op: OpAck, PSN: psn, Syndrome: 0x1F, MSN: msn}
}

func nakOf(psn ib.PSN, msn uint32, syn uint8) Packet {
	return Packet{Op: OpAck, PSN: psn, Syndrome: syn, MSN: msn}
}

var responderCases = []responderCase{
	{name: "SEND ONLY completes a receive", recvs: []int{300},
		in:   []Packet{{Op: OpSendOnly, PSN: 100, AckReq: true, Solicited: true, Payload: bytesOf(9)}},
		want: []Packet{ackOf(100, 1)}, epsn: 101, state: Ready,
		done: []Completion{{ID: 0, Kind: Recv, Bytes: 9, Solicited: true}}},
	{name: "no ACK without AckReq", recvs: []int{300},
		in: []Packet{{Op: OpSendOnly, PSN: 100}}, epsn: 101, state: Ready,
		done: []Completion{{ID: 0, Kind: Recv}}},
	{name: "one ACK for a batch", recvs: []int{9, 9},
		in: []Packet{{Op: OpSendOnly, PSN: 100, AckReq: true}, {Op: OpSendOnly, PSN: 101, AckReq: true}}, want: []Packet{ackOf(101, 2)},
		epsn: 102, state: Ready, done: []Completion{{ID: 0, Kind: Recv}, {ID: 1, Kind: Recv}}},
	{name: "SEND of several packets", recvs: []int{600},
		in: []Packet{{Op: OpSendFirst, PSN: 100, Payload: bytesOf(tMTU)}, {Op: OpSendMiddle, PSN: 101, Payload: bytesOf(tMTU)},
			{Op: OpSendLast, PSN: 102, AckReq: true, Payload: bytesOf(1)}},
		want: []Packet{ackOf(102, 1)}, epsn: 103, state: Ready, done: []Completion{{Kind: Recv, Bytes: 2*tMTU + 1}}},
	{name: "SEND longer than the receive", recvs: []int{8, 8},
		in:   []Packet{{Op: OpSendOnly, PSN: 100, Payload: bytesOf(9)}},
		want: []Packet{nakOf(100, 0, 0x61)}, epsn: 100, state: Failed,
		done: []Completion{{ID: 0, Kind: Recv, Status: LocalLength}, {ID: 1, Kind: Recv, Status: Flushed}}},
	{name: "second packet of a SEND beyond the receive", recvs: []int{300},
		in:   []Packet{{Op: OpSendFirst, PSN: 100, Payload: bytesOf(tMTU)}, {Op: OpSendLast, PSN: 101, Payload: bytesOf(100)}},
		want: []Packet{nakOf(101, 0, 0x61)}, epsn: 101, state: Failed,
		done: []Completion{{ID: 0, Kind: Recv, Status: LocalLength, Bytes: tMTU}}},
	{name: "SEND FIRST short of the MTU", recvs: []int{300}, in: []Packet{{Op: OpSendFirst, PSN: 100, Payload: bytesOf(tMTU - 4)}},
		want: []Packet{nakOf(100, 0, 0x61)}, epsn: 100, state: Failed, done: []Completion{{Kind: Recv, Status: Flushed}}},
	{name: "SEND ONLY longer than the MTU", recvs: []int{900}, in: []Packet{{Op: OpSendOnly, PSN: 100, Payload: bytesOf(tMTU + 4)}},
		want: []Packet{nakOf(100, 0, 0x61)}, epsn: 100, state: Failed, done: []Completion{{Kind: Recv, Status: Flushed}}},
	{name: "SEND LAST without a first", in: []Packet{{Op: OpSendLast, PSN: 100, Payload: bytesOf(1)}},
		want: []Packet{nakOf(100, 0, 0x61)}, epsn: 100, state: Failed},
	{name: "empty SEND LAST", recvs: []int{900}, in: []Packet{{Op: OpSendFirst, PSN: 100, Payload: bytesOf(tMTU)}, {Op: OpSendLast, PSN: 101}},
		want: []Packet{nakOf(101, 0, 0x61)}, epsn: 101, state: Failed, done: []Completion{{Kind: Recv, Status: Flushed}}},
	{name: "WRITE inside a SEND", recvs: []int{900},
		in:   []Packet{{Op: OpSendFirst, PSN: 100, Payload: bytesOf(tMTU)}, {Op: OpWriteOnly, PSN: 101, RKey: tKey, VA: tBase}},
		want: []Packet{nakOf(101, 0, 0x61)}, epsn: 101, state: Failed, done: []Completion{{Kind: Recv, Status: Flushed}}},
	{name: "READ inside a SEND", recvs: []int{900},
		in:   []Packet{{Op: OpSendFirst, PSN: 100, Payload: bytesOf(tMTU)}, {Op: OpReadRequest, PSN: 101, RKey: tKey, VA: tBase, DMALen: 1}},
		want: []Packet{nakOf(101, 0, 0x61)}, epsn: 101, state: Failed, done: []Completion{{Kind: Recv, Status: Flushed}}},
	{name: "WRITE ONLY", in: []Packet{{Op: OpWriteOnly, PSN: 100, AckReq: true, RKey: tKey, VA: tBase + 1, DMALen: 2, Payload: []byte("ab")}},
		want: []Packet{ackOf(100, 1)}, epsn: 101, state: Ready, memory: "0ab3"},
	{name: "WRITE of nothing needs no key", in: []Packet{{Op: OpWriteOnly, PSN: 100, AckReq: true, RKey: 1}},
		want: []Packet{ackOf(100, 1)}, epsn: 101, state: Ready, memory: "0123"},
	{name: "WRITE with a wrong key", in: []Packet{{Op: OpWriteOnly, PSN: 100, RKey: 8, VA: tBase, DMALen: 1, Payload: []byte("a")}},
		want: []Packet{nakOf(100, 0, 0x62)}, epsn: 100, state: Failed, memory: "0123"},
	{name: "WRITE FIRST checks the whole range at once",
		in:   []Packet{{Op: OpWriteFirst, PSN: 100, RKey: tKey, VA: tBase, DMALen: 4096, Payload: bytesOf(tMTU)}},
		want: []Packet{nakOf(100, 0, 0x62)}, epsn: 100, state: Failed, memory: "0123"},
	{name: "WRITE without any memory", noMem: true, in: []Packet{{Op: OpWriteOnly, PSN: 100, DMALen: 1, Payload: []byte("a")}},
		want: []Packet{nakOf(100, 0, 0x62)}, epsn: 100, state: Failed},
	{name: "WRITE ONLY whose payload is not its length", in: []Packet{{Op: OpWriteOnly, PSN: 100, RKey: tKey, VA: tBase, DMALen: 3, Payload: []byte("a")}},
		want: []Packet{nakOf(100, 0, 0x61)}, epsn: 100, state: Failed, memory: "0123"},
	{name: "WRITE FIRST of one packet's length", in: []Packet{{Op: OpWriteFirst, PSN: 100, RKey: tKey, VA: tBase, DMALen: tMTU, Payload: bytesOf(tMTU)}},
		want: []Packet{nakOf(100, 0, 0x61)}, epsn: 100, state: Failed, memory: "0123"},
	{name: "WRITE MIDDLE beyond the length",
		in: []Packet{{Op: OpWriteFirst, PSN: 100, RKey: tKey, VA: tBase, DMALen: tMTU + 1, Payload: bytesOf(tMTU)},
			{Op: OpWriteMiddle, PSN: 101, Payload: bytesOf(tMTU)}},
		want: []Packet{nakOf(101, 0, 0x61)}, epsn: 101, state: Failed},
	{name: "WRITE LAST short of the length",
		in: []Packet{{Op: OpWriteFirst, PSN: 100, RKey: tKey, VA: tBase, DMALen: tMTU + 2, Payload: bytesOf(tMTU)},
			{Op: OpWriteLast, PSN: 101, Payload: bytesOf(1)}},
		want: []Packet{nakOf(101, 0, 0x61)}, epsn: 101, state: Failed},
	{name: "WRITE longer than 2^31", in: []Packet{{Op: OpWriteFirst, PSN: 100, RKey: tKey, VA: tBase, DMALen: 1<<31 + 1, Payload: bytesOf(tMTU)}},
		want: []Packet{nakOf(100, 0, 0x61)}, epsn: 100, state: Failed},
	{name: "READ of two packets", in: []Packet{{Op: OpReadRequest, PSN: 100, RKey: tKey, VA: tBase, DMALen: tMTU + 4}},
		want: []Packet{{Op: OpReadFirst, PSN: 100, Syndrome: 0x1F, MSN: 1}, {Op: OpReadLast, PSN: 101, Syndrome: 0x1F, MSN: 1}},
		epsn: 102, state: Ready},
	{name: "READ of nothing needs no key", in: []Packet{{Op: OpReadRequest, PSN: 100}},
		want: []Packet{{Op: OpReadOnly, PSN: 100, Syndrome: 0x1F, MSN: 1}}, epsn: 101, state: Ready},
	{name: "an ACK waits for the READ before it", recvs: []int{9},
		in:   []Packet{{Op: OpReadRequest, PSN: 100, RKey: tKey, VA: tBase, DMALen: 1}, {Op: OpSendOnly, PSN: 101, AckReq: true}},
		want: []Packet{{Op: OpReadOnly, PSN: 100, Syndrome: 0x1F, MSN: 1}, ackOf(101, 2)}, epsn: 102, state: Ready,
		done: []Completion{{Kind: Recv}}},
	{name: "READ beyond the region", in: []Packet{{Op: OpReadRequest, PSN: 100, RKey: tKey, VA: tBase + 1, DMALen: 1024}},
		want: []Packet{nakOf(100, 0, 0x62)}, epsn: 100, state: Failed},
	{name: "READ longer than 2^31", in: []Packet{{Op: OpReadRequest, PSN: 100, RKey: tKey, VA: tBase, DMALen: 1<<31 + 1}},
		want: []Packet{nakOf(100, 0, 0x61)}, epsn: 100, state: Failed},
	{name: "READs beyond what was granted",
		in:   []Packet{{Op: OpReadRequest, PSN: 100}, {Op: OpReadRequest, PSN: 101}, {Op: OpReadRequest, PSN: 102}},
		want: []Packet{{Op: OpReadOnly, PSN: 100, Syndrome: 0x1F, MSN: 1}, {Op: OpReadOnly, PSN: 101, Syndrome: 0x1F, MSN: 2}, nakOf(102, 2, 0x61)},
		epsn: 102, state: Failed},
	{name: "duplicate SEND is acknowledged again", in: []Packet{{Op: OpSendOnly, PSN: 42}}, want: []Packet{ackOf(99, 0)}, epsn: 100, state: Ready},
	{name: "duplicate READ is answered again", in: []Packet{{Op: OpReadRequest, PSN: 98, RKey: tKey, VA: tBase, DMALen: tMTU + 1}},
		want: []Packet{{Op: OpReadFirst, PSN: 98, Syndrome: 0x1F}, {Op: OpReadLast, PSN: 99, Syndrome: 0x1F}}, epsn: 100, state: Ready},
	{name: "duplicate READ that reaches into the future", in: []Packet{{Op: OpReadRequest, PSN: 99, RKey: tKey, VA: tBase, DMALen: tMTU + 1}},
		epsn: 100, state: Ready},
	{name: "duplicate READ with a wrong key", in: []Packet{{Op: OpReadRequest, PSN: 99, RKey: 1, VA: tBase, DMALen: 1}}, epsn: 100, state: Ready},
	{name: "SEND with immediate is refused", recvs: []int{9}, in: []Packet{{Op: 0x05, PSN: 100}},
		want: []Packet{nakOf(100, 0, 0x61)}, epsn: 100, state: Failed, done: []Completion{{Kind: Recv, Status: Flushed}}},
	{name: "atomics are refused", in: []Packet{{Op: 0x13, PSN: 100}}, want: []Packet{nakOf(100, 0, 0x61)}, epsn: 100, state: Failed},
	{name: "other opcodes are ignored", in: []Packet{{Op: 0x18, PSN: 100}, {Op: 0x64, PSN: 100}, {Op: 0x81, PSN: 100}}, epsn: 100, state: Ready},
	{name: "an overtaking packet is held", recvs: []int{9, 9},
		in:   []Packet{{Op: OpSendOnly, PSN: 101, AckReq: true, Payload: []byte("b")}, {Op: OpSendOnly, PSN: 100, Payload: []byte("a")}},
		want: []Packet{ackOf(101, 2)}, epsn: 102, state: Ready,
		done: []Completion{{ID: 0, Kind: Recv, Bytes: 1}, {ID: 1, Kind: Recv, Bytes: 1}}},
	{name: "far ahead is dropped and reported at once, once",
		in: []Packet{{Op: OpSendOnly, PSN: 100 + 256}, {Op: OpSendOnly, PSN: 100 + 300}}, want: []Packet{nakOf(100, 0, 0x60)}, epsn: 100, state: Ready},
	{name: "answers of nothing we sent are ignored",
		in: []Packet{ackOf(500, 0), ackOf(499, 0), {Op: OpReadOnly, PSN: 500}, nakOf(500, 0, 0x61)}, epsn: 100, state: Ready},
}

func TestResponderAnswersEachRequestAsItsTransitionTableSays(t *testing.T) {
	for _, tc := range responderCases {
		t.Run(tc.name, func(t *testing.T) { tc.run(t) })
	}
}

func (tc *responderCase) machine() (*Machine, *fabricMemory) {
	mem := &fabricMemory{key: tKey, base: tBase, b: []byte("0123" + string(bytesOf(tMTU+16)))}
	cfg := testConfig(mem)
	if tc.noMem {
		cfg.Memory = nil
	}
	m := New(cfg)
	m.Start(1, Params{MTU: tMTU, SendPSN: 500, RecvPSN: tEPSN, ReadsIn: 2, ReadsOut: 2})
	for i, n := range tc.recvs {
		m.PostRecv(uint64(i), [][]byte{make([]byte, n)})
	}
	return m, mem
}

func (tc *responderCase) run(t *testing.T) {
	m, mem := tc.machine()
	for i := range tc.in {
		m.Receive(10, &tc.in[i])
	}
	got := slices.CompactFunc(drainPackets(m, 20), func(a, b Packet) bool { // a fatal NAK goes out several times
		return a.Op == OpAck && a.Op == b.Op && a.PSN == b.PSN && a.Syndrome == b.Syndrome
	})
	if len(got) != len(tc.want) {
		t.Fatalf("answers %+v, want %+v", got, tc.want)
	}
	for i, w := range tc.want {
		g := got[i]
		if g.Op != w.Op || g.PSN != w.PSN || g.Syndrome != w.Syndrome && w.Op.HasAETH() || g.MSN != w.MSN && w.Op.HasAETH() {
			t.Errorf("answer %d is %+v, want %+v", i, g, w)
		}
	}
	if m.resp.epsn != tc.epsn || m.State() != tc.state {
		t.Errorf("PSN %d state %d, want %d %d", m.resp.epsn, m.State(), tc.epsn, tc.state)
	}
	checkCompletions(t, m, tc.done)
	if tc.memory != "" && !bytes.HasPrefix(mem.b, []byte(tc.memory)) {
		t.Errorf("memory %q, want %q", mem.b[:8], tc.memory)
	}
}

func drainPackets(m *Machine, now int64) []Packet {
	var out []Packet
	var p Packet
	for m.Next(now, &p) {
		out = append(out, p)
	}
	return out
}

func checkCompletions(t *testing.T, m *Machine, want []Completion) {
	t.Helper()
	c := make([]Completion, 64)
	c = c[:m.Poll(c)]
	if len(c) != len(want) {
		t.Fatalf("completions %+v, want %+v", c, want)
	}
	for i := range want {
		if c[i] != want[i] {
			t.Errorf("completion %d is %+v, want %+v", i, c[i], want[i])
		}
	}
}

func TestAGapThatStaysIsReportedOnceAfterTheHold(t *testing.T) {
	tc := responderCase{recvs: []int{9, 9, 9, 9}}
	m, _ := tc.machine()
	m.Receive(10, &Packet{Op: OpSendOnly, PSN: 101})
	hold := 10 + m.cfg.Hold
	if d := m.Deadline(); d != hold {
		t.Fatalf("deadline %d, want %d", d, hold)
	}
	m.Tick(hold - 1)
	if got := drainPackets(m, hold-1); len(got) != 0 {
		t.Fatalf("too early: %+v", got)
	}
	m.Tick(hold)
	m.Receive(hold, &Packet{Op: OpSendOnly, PSN: 103})
	m.Tick(hold + 100*Millisecond)
	got := drainPackets(m, hold)
	if len(got) != 1 || got[0].Syndrome != 0x60 || got[0].PSN != 100 {
		t.Fatalf("answers %+v, want one NAK of 100", got)
	}
	// The repetition fills the gap; a new gap gets its own NAK.
	m.Receive(hold, &Packet{Op: OpSendOnly, PSN: 100, AckReq: true})
	if got = drainPackets(m, hold); len(got) != 1 || got[0].PSN != 100 || got[0].Syndrome != 0x1F {
		t.Fatalf("answers %+v, want ACK of 100", got)
	}
	if m.resp.epsn != 102 {
		t.Fatalf("held packet not executed: %d", m.resp.epsn)
	}
	m.Tick(m.Deadline())
	if got = drainPackets(m, hold); len(got) != 1 || got[0].PSN != 102 || got[0].Syndrome != 0x60 {
		t.Fatalf("answers %+v, want NAK of 102", got)
	}
}

func TestASendWithoutAReceiveWaitsBeforeAnRNRNak(t *testing.T) {
	tc := responderCase{}
	send := Packet{Op: OpSendOnly, PSN: 100, AckReq: true, Payload: []byte("abc")}
	t.Run("a receive posted in time", func(t *testing.T) {
		m, _ := tc.machine()
		m.Receive(10, &send)
		b := make([]byte, 3)
		m.PostRecv(9, [][]byte{b})
		if got := drainPackets(m, 11); len(got) != 1 || got[0].Syndrome != 0x1F || string(b) != "abc" {
			t.Fatalf("answers %+v, data %q", got, b)
		}
		checkCompletions(t, m, []Completion{{ID: 9, Kind: Recv, Bytes: 3}})
	})
	t.Run("none", func(t *testing.T) {
		m, _ := tc.machine()
		m.Receive(10, &send)
		m.Tick(m.Deadline())
		got := drainPackets(m, 11)
		if len(got) != 1 || got[0].Syndrome != 0x20|14 || got[0].PSN != 100 {
			t.Fatalf("answers %+v, want an RNR NAK", got)
		}
		m.Receive(20, &send)
		if got = drainPackets(m, 20); len(got) != 1 || got[0].Syndrome != 0x20|14 {
			t.Fatalf("answers %+v, want an RNR NAK at once", got)
		}
		m.PostRecv(9, [][]byte{make([]byte, 3)})
		if got = drainPackets(m, 21); len(got) != 1 || got[0].Syndrome != 0x1F {
			t.Fatalf("answers %+v, want ACK", got)
		}
		if m.Stats().RNRSent != 2 {
			t.Errorf("stats %+v", m.Stats())
		}
	})
}

func TestAReadWhoseMemoryGoesAwayEndsInAnAccessNak(t *testing.T) {
	tc := responderCase{recvs: []int{9}}
	m, mem := tc.machine()
	m.Receive(10, &Packet{Op: OpReadRequest, PSN: 100, RKey: tKey, VA: tBase, DMALen: tMTU + 1})
	var p Packet
	if !m.Next(10, &p) || p.Op != OpReadFirst {
		t.Fatalf("first response %+v", p)
	}
	mem.noRead = true
	got := drainPackets(m, 11)
	if len(got) != 1+fatalRepeats || got[0].Syndrome != 0x62 || got[0].PSN != 101 || m.State() != Failed {
		t.Fatalf("answers %+v state %d", got, m.State())
	}
}

func TestAnswersNeverOverflowUnderAFlood(t *testing.T) {
	tc := responderCase{}
	m, _ := tc.machine()
	for i := range 1000 {
		m.Receive(10, &Packet{Op: OpReadRequest, PSN: 99, RKey: tKey, VA: tBase, DMALen: 1})
		m.Receive(10, &Packet{Op: OpSendOnly, PSN: 99})
		m.Receive(10, &Packet{Op: OpSendOnly, PSN: ib.PSN(400 + i)})
	}
	if n := m.resp.out.n; n > 2*MaxReads+1 {
		t.Errorf("%d answers queued", n)
	}
	if n := m.cfg.Pool.Lent(); n > holdSlots {
		t.Errorf("%d buffers lent", n)
	}
}

func TestTheLastAcknowledgementOfABurstIsRepeated(t *testing.T) {
	tc := responderCase{recvs: []int{9, 9, 9}}
	m, _ := tc.machine()
	m.Receive(10, &Packet{Op: OpSendOnly, PSN: 100, AckReq: true})
	var at []int64
	for now, i := int64(10), 0; i < 5; i++ {
		for _, p := range drainPackets(m, now) {
			if p.Op != OpAck || p.PSN != 100 || p.MSN != 1 || p.Syndrome != 0x1F {
				t.Errorf("sent %+v", p)
			}
			at = append(at, (now-10)/Millisecond)
		}
		if now = m.Deadline(); now == 0 {
			break
		}
		m.Tick(now)
	}
	if !slices.Equal(at, []int64{0, 250, 1000}) {
		t.Errorf("acknowledged at %v ms", at)
	}
	m.Receive(10, &Packet{Op: OpSendOnly, PSN: 101, AckReq: true})
	drainPackets(m, 10)
	if m.Deadline() != 10+250*Millisecond {
		t.Errorf("a new acknowledgement begins anew: deadline %d", m.Deadline())
	}
}
