package rc

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

func sprint(v any) string { return fmt.Sprintf("%+v", v) }

// traffic drives one machine with random SENDs, WRITEs and READs and checks that each message
// arrives once, in order, with its data, and that completions come in the order of posting.
type traffic struct {
	l      *link
	side   int
	rng    *rand.Rand
	remote *fabricMemory

	posted, doneOK int
	total          int
	work           []traffWork
	expect         [][]byte // contents of SENDs not yet received by the peer
	recvd          int
	recvBufs       [][]byte
}

type traffWork struct {
	w    Work
	n    int
	data []byte
}

const recvSize = 9000

func newTraffic(l *link, side int, remote *fabricMemory, total int) *traffic {
	t := &traffic{l: l, side: side, remote: remote, total: total, rng: rand.New(rand.NewPCG(uint64(side)+7, 9))}
	for i := range 32 {
		t.recvBufs = append(t.recvBufs, make([]byte, recvSize))
		t.postRecv(i)
	}
	return t
}

// postRecv posts a receive, in two segments, on the peer.
func (t *traffic) postRecv(i int) {
	b := t.recvBufs[i]
	clear(b)
	if !t.l.m[1-t.side].PostRecv(uint64(i), [][]byte{b[:100], b[100:]}) {
		t.l.t.Fatal("receive refused")
	}
}

// post queues the next random work request. Each uses its own part of the peer's memory, so that
// order among READ and WRITE does not matter to the check.
func (t *traffic) post() bool {
	if t.posted == t.total {
		return false
	}
	if t.l.m[t.side].req.used == t.l.m[t.side].cfg.SendDepth {
		return false
	}
	kind := Kind(t.rng.IntN(3)) + Send
	n := t.rng.IntN(recvSize)
	if kind != Send {
		n = t.rng.IntN(100_000)
	}
	if t.rng.IntN(10) == 0 {
		n = 0
	}
	data := make([]byte, n)
	cut := t.rng.IntN(n + 1)
	w := Work{ID: uint64(t.posted), Kind: kind, Signaled: true, RKey: t.remote.key, Segs: [][]byte{data[:cut], nil, data[cut:]}}
	region := t.posted % 64
	w.VA = t.remote.base + uint64(region)*100_000
	if kind == Read {
		fill(t.remote.b[region*100_000:][:n], t.rng)
	} else {
		fill(data, t.rng)
	}
	if kind == Send {
		t.expect = append(t.expect, bytes.Clone(data))
	}
	if !t.l.m[t.side].PostSend(&w) {
		t.l.t.Fatal("work refused")
	}
	t.work = append(t.work, traffWork{w, n, data})
	t.posted++
	return true
}

func fill(b []byte, rng *rand.Rand) {
	for i := 0; i < len(b); i += 8 {
		v := rng.Uint64()
		for j := i; j < min(i+8, len(b)); j++ {
			b[j] = byte(v >> (8 * (j - i)))
		}
	}
}

func (t *traffic) sent(c Completion) {
	if c.ID != uint64(t.doneOK) || c.Status != OK {
		t.l.t.Fatalf("completion %+v, want ID %d", c, t.doneOK)
	}
	w := t.work[c.ID]
	region := t.remote.b[int(c.ID)%64*100_000:][:w.n]
	if w.w.Kind != Send && !bytes.Equal(region, w.data) {
		t.l.t.Fatalf("work %d kind %d: data differ", c.ID, w.w.Kind)
	}
	t.work[c.ID].data = nil
	t.doneOK++
}

func (t *traffic) received(c Completion) {
	if c.Status != OK || int(c.ID) != t.recvd%32 {
		t.l.t.Fatalf("receive %+v, want ID %d", c, t.recvd%32)
	}
	want := t.expect[t.recvd]
	if int(c.Bytes) != len(want) || !bytes.Equal(t.recvBufs[c.ID][:c.Bytes], want) {
		t.l.t.Fatalf("message %d: %d bytes, want %d, or contents differ", t.recvd, c.Bytes, len(want))
	}
	t.recvd++
	t.postRecv(int(c.ID))
}

func (t *traffic) finished() bool {
	return t.doneOK == t.total && t.recvd == len(t.expect)
}

func TestEveryMessageArrivesOnceInOrderOverABadLink(t *testing.T) {
	for _, tc := range []struct {
		name   string
		mtu    uint32
		a, b   ib.PSN
		faults linkFaults
		total  int
		limit  int64
	}{
		{"clean", 4096, 5, 9, linkFaults{}, 400, 60},
		{"clean, PSN wrap", 1024, 0xFF_FFF0, 0xFF_FF00, linkFaults{}, 400, 60},
		{"clean, credits unknown at first", 1024, 5, 9, linkFaults{tweak: func(p *Params) { p.FlowControl = true }}, 400, 60},
		{"clean, one READ at a time, small budget", 4096, 5, 9, linkFaults{tweak: func(p *Params) {
			p.ReadsOut, p.ReadCost, p.Budget = 1, 4400, NewBudget(1)
		}}, 400, 60},
		{"1% loss", 4096, 0xFF_FFFF, 0x7F_FFF0, linkFaults{loss: 0.01}, 400, 600},
		{"1% loss, small MTU", 256, 1, 1, linkFaults{loss: 0.01}, 200, 600},
		{"10% loss", 1024, 1, 0xFF_FFFF, linkFaults{loss: 0.1}, 150, 6000},
		{"reorder", 1024, 1, 2, linkFaults{reorder: 0.1}, 300, 600},
		{"duplicates", 1024, 1, 2, linkFaults{dup: 0.2}, 300, 600},
		{"5% loss, a peer that holds nothing", 1024, 3, 4, linkFaults{loss: 0.05, deaf: true}, 200, 2000},
		{"everything", 1024, 0xFF_FF80, 2, linkFaults{loss: 0.02, dup: 0.05, reorder: 0.05}, 300, 2000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range uint64(2) {
				runBadLink(t, seed, tc.mtu, tc.a, tc.b, tc.faults, tc.total, tc.limit*1000*Millisecond)
			}
		})
	}
}

func runBadLink(t *testing.T, seed uint64, mtu uint32, a, b ib.PSN, f linkFaults, total int, limit int64) {
	var mem [2]*fabricMemory
	for i := range mem {
		mem[i] = &fabricMemory{key: 77 + uint32(i), base: 1<<40 - 12345, b: make([]byte, 64*100_000)}
	}
	pa, pb := pairParams(mtu, a, b)
	if f.tweak != nil {
		f.tweak(&pa)
		f.tweak(&pb)
	}
	cfg := testConfig(mem[1])
	if f.deaf {
		cfg.Pool = nil
	}
	l := newLink(t, seed, testConfig(mem[0]), cfg, pa, pb)
	l.faults = f
	tr := [2]*traffic{newTraffic(l, 0, mem[1], total), newTraffic(l, 1, mem[0], total)}
	l.onDone = func(side int, c Completion) {
		if c.Kind == Recv {
			tr[1-side].received(c)
		} else {
			tr[side].sent(c)
		}
	}
	l.run(limit, func() bool {
		for _, x := range tr {
			for range 3 {
				x.post()
			}
		}
		return tr[0].finished() && tr[1].finished()
	})
	checkQuiet(t, l, f)
}

// checkQuiet checks what must hold after all work is done.
func checkQuiet(t *testing.T, l *link, f linkFaults) {
	t.Helper()
	for side, m := range l.m {
		if m.par.Budget.Used() != 0 {
			t.Errorf("side %d: %d bytes of the budget were not given back", side, m.par.Budget.Used())
		}
		if m.resp.nheld != 0 && f.loss == 0 && f.dup == 0 {
			t.Errorf("side %d: %d packets still held", side, m.resp.nheld)
		}
		s := m.Stats()
		if f.loss == 0 && f.dup == 0 && f.reorder == 0 && (s.Retransmits+s.NaksSent+s.RNRSent+s.Duplicates+s.Timeouts+s.Probes) != 0 {
			t.Errorf("side %d: repetitions on a clean link: %+v", side, s)
		}
		if f.loss == 0 && s.NaksSent+s.Timeouts != 0 {
			t.Errorf("side %d: reordering within the hold must not cause a NAK: %+v", side, s)
		}
		if s.BadPackets != 0 {
			t.Errorf("side %d: bad packets: %+v", side, s)
		}
		m.Close()
		if m.cfg.Pool != nil && m.cfg.Pool.Lent() != 0 {
			t.Errorf("side %d: %d buffers of the pool were not given back", side, m.cfg.Pool.Lent())
		}
	}
}
