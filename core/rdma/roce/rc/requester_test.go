package rc

import (
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

// Requester transitions. Three SENDs of one packet with PSNs 500, 501, 502 are out; A is the
// oldest PSN not acknowledged.
//
//	event                         completions           sent next            state
//	ACK 500                       0                     -
//	ACK 502 (coalesced)           0 1 2                 -
//	ACK 499 or 503                -                     -                    unchanged (503 counted)
//	NAK 0x60 of 501               0                     501 502
//	NAK 0x60 of 499               -                     -                    unchanged
//	NAK 0x61/62/63 of 501         0, 1 remote error,    -                    failed
//	                              2 flushed
//	RNR NAK of 501                0                     501 502 after pause
//	reserved NAK code, syndrome   -                     -                    unchanged, counted
//	READ response                 -                     -                    unchanged
//	retry timer                   -                     500 501 502
//	retry timer, 8th in a row     0 retries exceeded,   -                    failed
//	                              1 2 flushed
type requesterCase struct {
	name  string
	in    []Packet
	wait  int64 // nanoseconds before asking for packets, with a Tick
	done  []Completion
	sent  []ib.PSN
	state State
}

func done(id uint64, s Status) Completion { return Completion{ID: id, Kind: Send, Status: s} }

func resp(psn ib.PSN, syn uint8) Packet { return Packet{Op: OpAck, PSN: psn, Syndrome: syn} }

var requesterCases = []requesterCase{
	{name: "ACK of the first", in: []Packet{resp(500, 0x1F)}, done: []Completion{done(0, OK)}, state: Ready},
	{name: "coalesced ACK", in: []Packet{resp(502, 0x1F)}, done: []Completion{done(0, OK), done(1, OK), done(2, OK)}, state: Ready},
	{name: "ACK of the past", in: []Packet{resp(499, 0x1F)}, state: Ready},
	{name: "ACK of the future", in: []Packet{resp(503, 0x1F)}, state: Ready},
	{name: "the same ACK twice", in: []Packet{resp(500, 0x1F), resp(500, 0x1F)}, done: []Completion{done(0, OK)}, state: Ready},
	{name: "sequence NAK goes back", in: []Packet{resp(501, 0x60)}, done: []Completion{done(0, OK)}, sent: []ib.PSN{501, 502}, state: Ready},
	{name: "stale sequence NAK", in: []Packet{resp(499, 0x60)}, state: Ready},
	{name: "NAK after a later ACK", in: []Packet{resp(501, 0x1F), resp(500, 0x60)}, done: []Completion{done(0, OK), done(1, OK)}, state: Ready},
	{name: "invalid request", in: []Packet{resp(501, 0x61)}, done: []Completion{done(0, OK), done(1, RemoteInvalid), done(2, Flushed)}, state: Failed},
	{name: "access error", in: []Packet{resp(500, 0x62)}, done: []Completion{done(0, RemoteAccess), done(1, Flushed), done(2, Flushed)}, state: Failed},
	{name: "operational error", in: []Packet{resp(502, 0x63)}, done: []Completion{done(0, OK), done(1, OK), done(2, RemoteOperation)}, state: Failed},
	{name: "RNR NAK, before the pause ends", in: []Packet{resp(501, 0x20|14)}, wait: 1279_000, done: []Completion{done(0, OK)}, state: Ready},
	{name: "RNR NAK, after the pause", in: []Packet{resp(501, 0x20|14)}, wait: 1281_000, done: []Completion{done(0, OK)}, sent: []ib.PSN{501, 502}, state: Ready},
	{name: "reserved NAK code", in: []Packet{resp(500, 0x7F)}, state: Ready},
	{name: "reserved syndromes", in: []Packet{resp(500, 0x40), resp(500, 0x9F)}, state: Ready},
	{name: "ACK with a payload", in: []Packet{{Op: OpAck, PSN: 500, Payload: []byte("xxxx")}}, state: Ready},
	{name: "READ response to a SEND", in: []Packet{{Op: OpReadOnly, PSN: 500, Payload: []byte("xxxx")}}, state: Ready},
	{name: "timer not yet", wait: 1999 * Millisecond, state: Ready},
	{name: "timer", wait: 2001 * Millisecond, sent: []ib.PSN{500, 501, 502}, state: Ready},
}

func TestRequesterFollowsItsTransitionTable(t *testing.T) {
	for _, tc := range requesterCases {
		t.Run(tc.name, func(t *testing.T) {
			m := threeSends(t)
			for i := range tc.in {
				m.Receive(10, &tc.in[i])
			}
			m.Tick(10 + tc.wait)
			checkSent(t, drainPackets(m, 10+tc.wait), tc.sent)
			checkCompletions(t, m, tc.done)
			if m.State() != tc.state {
				t.Errorf("state %d, want %d", m.State(), tc.state)
			}
		})
	}
}

func threeSends(t *testing.T) *Machine {
	m := New(testConfig(nil))
	m.Start(1, Params{MTU: tMTU, SendPSN: 500, RecvPSN: 100, ReadsOut: 2, ReadsIn: 2})
	for i := range 3 {
		m.PostSend(&Work{ID: uint64(i), Kind: Send, Signaled: true, Segs: [][]byte{[]byte("abcd")}})
	}
	got := drainPackets(m, 10)
	checkSent(t, got, []ib.PSN{500, 501, 502})
	if got[0].AckReq || got[1].AckReq || !got[2].AckReq {
		t.Errorf("only the last packet of what is queued asks for an ACK: %+v", got)
	}
	return m
}

func checkSent(t *testing.T, got []Packet, want []ib.PSN) {
	t.Helper()
	ok := len(got) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = got[i].PSN == want[i]
	}
	if !ok {
		t.Errorf("sent %+v, want PSNs %v", got, want)
	}
}

func TestRetriesAreLimitedAndBackOff(t *testing.T) {
	m := threeSends(t)
	start, n := int64(10), 0
	var gaps []int64
	for m.State() == Ready {
		d := m.Deadline()
		gaps = append(gaps, (d-start)/Millisecond)
		start = d
		m.Tick(d)
		if len(drainPackets(m, d)) > 0 {
			n++
		}
		if len(gaps) > 50 {
			break
		}
	}
	// Early probes stand between the timeouts once the first has shown the link to lose packets.
	if m.Stats().Timeouts != 8 {
		t.Errorf("%d timeouts in gaps of %v ms", m.Stats().Timeouts, gaps)
	}
	checkCompletions(t, m, []Completion{done(0, RetryExceeded), done(1, Flushed), done(2, Flushed)})
	if total := start / Millisecond; total > 60_000 || total < 20_000 {
		t.Errorf("gave up after %d ms", total)
	}
}

func TestForeverMeansThatTheMachineNeverGivesUp(t *testing.T) {
	cfg := testConfig(nil)
	cfg.RetryLimit, cfg.RNRLimit = Forever, Forever
	m := New(cfg)
	m.Start(1, Params{MTU: tMTU, SendPSN: 500})
	m.PostSend(&Work{Kind: Send})
	now := int64(10)
	for range 100 {
		drainPackets(m, now)
		m.Receive(now, &Packet{Op: OpAck, PSN: 500, Syndrome: 0x21})
		now = m.Deadline()
		m.Tick(now)
		drainPackets(m, now)
		now = m.Deadline()
		m.Tick(now)
	}
	if m.State() != Ready {
		t.Error("gave up")
	}
}

func TestRNRRetriesAreLimited(t *testing.T) {
	m := threeSends(t)
	now := int64(10)
	for range 8 {
		m.Receive(now, &Packet{Op: OpAck, PSN: 500, Syndrome: 0x21})
		now = max(now, m.Deadline())
		m.Tick(now)
		drainPackets(m, now)
	}
	checkCompletions(t, m, []Completion{done(0, RNRRetryExceeded), done(1, Flushed), done(2, Flushed)})
}

func TestWhatIsLateIsRepeatedEarlyOnlyOnALossyLink(t *testing.T) {
	m := threeSends(t)
	if d := m.Deadline(); d != 10+2000*Millisecond {
		t.Fatalf("clean link: deadline %d", d)
	}
	m.Receive(20, &Packet{Op: OpAck, PSN: 501, Syndrome: 0x60})
	checkSent(t, drainPackets(m, 20), []ib.PSN{501, 502})
	d := m.Deadline()
	if d > 20+110*Millisecond {
		t.Fatalf("lossy link: deadline %d", d)
	}
	m.Tick(d)
	checkSent(t, drainPackets(m, d), []ib.PSN{501, 502})
	if m.Stats().Probes != 1 {
		t.Errorf("stats %+v", m.Stats())
	}
}

func TestReadsAreCutAndBoundedByPeerAndBudget(t *testing.T) {
	cfg := testConfig(nil)
	budget := NewBudget(3 * (32<<10 + 8*100))
	a, b := New(cfg), New(cfg)
	for _, m := range []*Machine{a, b} {
		m.Start(1, Params{MTU: 4096, SendPSN: 10, ReadsOut: 2, ReadCost: 100, Budget: budget})
		m.PostSend(&Work{Kind: Read, Signaled: true, VA: 1000, RKey: 3, Segs: [][]byte{make([]byte, 100<<10)}})
	}
	got := drainPackets(a, 1)
	checkSent(t, got, []ib.PSN{10, 18})
	if got[0].DMALen != 32<<10 || got[1].VA != 1000+32<<10 || got[1].RKey != 3 {
		t.Errorf("chunks %+v", got)
	}
	checkSent(t, drainPackets(b, 1), []ib.PSN{10})
	if a.Waiting() || !b.Waiting() {
		t.Errorf("waiting for the budget: %v %v, want false true", a.Waiting(), b.Waiting())
	}
	feedRead(a, 10, 8, 0)
	checkSent(t, drainPackets(b, 2), []ib.PSN{18})
	checkSent(t, drainPackets(a, 2), nil)
}

// feedRead answers n packets of a READ at MTU 4096.
func feedRead(m *Machine, psn ib.PSN, n int, skip int) {
	for i := range n {
		if i == skip-1 {
			continue
		}
		m.Receive(2, &Packet{Op: OpReadMiddle, PSN: psn.Add(i), Payload: make([]byte, 4096)})
	}
}

func TestALostReadResponseIsAskedAgainFromThereOn(t *testing.T) {
	m := New(testConfig(nil))
	m.Start(1, Params{MTU: 4096, SendPSN: 10, ReadsOut: 4})
	m.PostSend(&Work{ID: 1, Kind: Read, Signaled: true, VA: 0x1000, RKey: 3, Segs: [][]byte{make([]byte, 32<<10)}})
	m.PostSend(&Work{ID: 2, Kind: Send, Signaled: true})
	checkSent(t, drainPackets(m, 1), []ib.PSN{10, 18})
	feedRead(m, 10, 8, 3) // response 12 is lost
	m.Receive(2, &Packet{Op: OpAck, PSN: 18, Syndrome: 0x1F})
	checkCompletions(t, m, nil)
	d := m.Deadline()
	if d != 2+m.cfg.Hold {
		t.Fatalf("deadline %d", d)
	}
	m.Tick(d)
	got := drainPackets(m, d)
	checkSent(t, got, []ib.PSN{12})
	if got[0].VA != 0x1000+2*4096 || got[0].DMALen != 6*4096 {
		t.Errorf("restart %+v", got[0])
	}
	m.Receive(d, &Packet{Op: OpReadFirst, PSN: 12, Payload: make([]byte, 4096)})
	checkCompletions(t, m, []Completion{{ID: 1, Kind: Read}, {ID: 2, Kind: Send}})
	if s := m.Stats(); s.ReadRestarts != 1 || s.Retransmits != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestAReadThePeerGrantsNoneOfFails(t *testing.T) {
	m := New(testConfig(nil))
	m.Start(1, Params{MTU: 4096})
	m.PostSend(&Work{ID: 1, Kind: Read, Segs: [][]byte{make([]byte, 4)}})
	checkSent(t, drainPackets(m, 1), nil)
	checkCompletions(t, m, []Completion{{ID: 1, Kind: Read, Status: RemoteInvalid}})
}

func TestCreditsBoundSends(t *testing.T) {
	m := New(testConfig(nil))
	m.Start(1, Params{MTU: tMTU, SendPSN: 1, FlowControl: true})
	for i := range 6 {
		m.PostSend(&Work{ID: uint64(i), Kind: Send})
	}
	checkSent(t, drainPackets(m, 1), []ib.PSN{1}) // a probe, credits are unknown
	m.Receive(2, &Packet{Op: OpAck, PSN: 1, MSN: 1, Syndrome: 2})
	got := drainPackets(m, 2)
	checkSent(t, got, []ib.PSN{2, 3})
	if len(got) == 2 && !got[1].AckReq {
		t.Error("the last SEND that credits allow must ask for an ACK")
	}
	m.Receive(3, &Packet{Op: OpAck, PSN: 3, MSN: 3, Syndrome: 0x1F})
	checkSent(t, drainPackets(m, 3), []ib.PSN{4, 5, 6})
}

// With credits unknown the SEND behind a WRITE has to wait for the WRITE's acknowledgement, so that
// must be asked for.
func TestAWriteBeforeASendWithoutCreditAsksForAnAcknowledgement(t *testing.T) {
	m := New(testConfig(nil))
	m.Start(1, Params{MTU: tMTU, SendPSN: 1, FlowControl: true})
	m.PostSend(&Work{Kind: Write})
	m.PostSend(&Work{Kind: Send})
	got := drainPackets(m, 1)
	checkSent(t, got, []ib.PSN{1})
	if !got[0].AckReq {
		t.Error("nothing will ever come back")
	}
	m.Receive(2, &Packet{Op: OpAck, PSN: 1, MSN: 1, Syndrome: 0x1F})
	checkSent(t, drainPackets(m, 2), []ib.PSN{2})
}

func TestTheWindowBoundsWhatIsOut(t *testing.T) {
	cfg := testConfig(nil)
	cfg.WindowPackets = 16
	m := New(cfg)
	m.Start(1, Params{MTU: tMTU, SendPSN: 1})
	m.PostSend(&Work{Kind: Write, Segs: [][]byte{make([]byte, 100*tMTU)}})
	got := drainPackets(m, 1)
	if len(got) != 8 || !got[7].AckReq || !got[1].AckReq || got[0].AckReq {
		t.Fatalf("%d packets out, want 8, an ACK asked for every second", len(got))
	}
	for psn := ib.PSN(8); psn < 100 && len(got) > 0; psn = got[len(got)-1].PSN {
		m.Receive(2, &Packet{Op: OpAck, PSN: psn, Syndrome: 0x1F})
		if got = drainPackets(m, 2); len(got) > 16 {
			t.Fatalf("%d packets out, window 16", len(got))
		}
	}
	if m.req.window <= 8 {
		t.Error("the window did not grow")
	}
}

func TestASilentPeerIsAskedWhetherItIsThere(t *testing.T) {
	cfg := testConfig(nil)
	cfg.KeepAlive = 5000 * Millisecond
	m := New(cfg)
	m.Start(1, Params{MTU: tMTU, SendPSN: 7})
	if d := m.Deadline(); d != 1+cfg.KeepAlive {
		t.Fatalf("deadline %d", d)
	}
	m.Tick(1 + cfg.KeepAlive)
	got := drainPackets(m, 1+cfg.KeepAlive)
	if len(got) != 1 || got[0].Op != OpWriteOnly || !got[0].AckReq || got[0].DMALen != 0 {
		t.Fatalf("probe %+v", got)
	}
	m.Receive(2+cfg.KeepAlive, &Packet{Op: OpAck, PSN: 7, Syndrome: 0x1F})
	checkCompletions(t, m, nil)
	if d := m.Deadline(); d != 2+2*cfg.KeepAlive {
		t.Errorf("next deadline %d", d)
	}
	for m.State() == Ready {
		m.Tick(m.Deadline())
		drainPackets(m, m.Deadline())
	}
	checkCompletions(t, m, nil)
}

func TestQueuesRefuseMoreThanTheirDepthAndFlushOutsideReady(t *testing.T) {
	m := New(Config{SendDepth: 2, RecvDepth: 2, MaxSGE: 1})
	for i := range 3 {
		if ok := m.PostSend(&Work{ID: uint64(i), Kind: Send}); ok != (i < 2) {
			t.Errorf("send %d: %v", i, ok)
		}
		if ok := m.PostRecv(uint64(i), nil); ok != (i < 2) {
			t.Errorf("recv %d: %v", i, ok)
		}
	}
	checkCompletions(t, m, []Completion{done(0, Flushed), done(1, Flushed)})
	m.Fail()
	checkCompletions(t, m, []Completion{{ID: 0, Kind: Recv, Status: Flushed}, {ID: 1, Kind: Recv, Status: Flushed}})
	if m.PostSend(&Work{Segs: make([][]byte, 2)}) || m.PostRecv(1, make([][]byte, 2)) {
		t.Error("more segments than MaxSGE taken")
	}
	if !m.PostRecv(5, nil) {
		t.Error("receive refused")
	}
	checkCompletions(t, m, []Completion{{ID: 5, Kind: Recv, Status: Flushed}})
}

func TestUnsignaledWorkCompletesSilentlyAndFreesItsPlace(t *testing.T) {
	m := New(Config{SendDepth: 1, RecvDepth: 1, MaxSGE: 1})
	m.Start(1, Params{MTU: tMTU})
	for psn := range ib.PSN(5) {
		if !m.PostSend(&Work{Kind: Write}) {
			t.Fatal("refused")
		}
		drainPackets(m, 1)
		m.Receive(1, &Packet{Op: OpAck, PSN: psn, Syndrome: 0x1F})
	}
	checkCompletions(t, m, nil)
}

func TestScaleIsTheTableOfTheStandard(t *testing.T) {
	want := []uint32{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
		4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152}
	for code, w := range want {
		if got := scale(uint8(code)); got != w {
			t.Errorf("scale(%d) = %d, want %d", code, got, w)
		}
	}
	if rnrDelay(0) != 655_360_000 || rnrDelay(1) != 10_000 || rnrDelay(0x20|31) != 491_520_000 {
		t.Error("RNR delays")
	}
}

func TestUnsentPacketsAreRepeatedSoonAndDoNotCountAsLoss(t *testing.T) {
	m := threeSends(t)
	m.Unsent(10)
	d := m.Deadline()
	if d > 10+5*Millisecond {
		t.Fatalf("deadline %d", d)
	}
	m.Tick(d)
	got := drainPackets(m, d)
	if len(got) != 4 || got[0].Op != OpAck || got[1].PSN != 500 || got[3].PSN != 502 {
		t.Errorf("sent %+v, want an ACK and the three SENDs", got)
	}
	if s := m.Stats(); s.Timeouts != 0 || m.req.timer.tries != 0 {
		t.Errorf("counted as loss: %+v", s)
	}
}
