package rc

import (
	"bytes"
	"container/heap"
	"math/rand/v2"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

// The simulated link: two machines, packets with a latency, loss, duplication and reordering, all
// drawn from a seeded generator. Time jumps to the next thing that happens.

type flightPacket struct {
	at  int64
	seq int
	to  int
	p   Packet
	raw []byte
}

type flights []*flightPacket

func (f flights) Len() int { return len(f) }
func (f flights) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].seq < f[j].seq
}
func (f flights) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)   { *f = append(*f, x.(*flightPacket)) }
func (f *flights) Pop() any {
	x := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return x
}

type linkFaults struct {
	loss, dup, reorder float64
	deaf               bool // side 1 drops what overtakes, and reports a gap at once and once only
	tweak              func(p *Params)
	drop               func(to int, p *Packet) bool
}

type link struct {
	t      *testing.T
	rng    *rand.Rand
	now    int64
	m      [2]*Machine
	done   [2][]Completion
	air    flights
	seq    int
	faults linkFaults
	onDone func(side int, c Completion)
	trace  func(now int64, to int, p *Packet, lost bool)
}

const latency = 50_000

func newLink(t *testing.T, seed uint64, a, b Config, pa, pb Params) *link {
	l := &link{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: 1}
	l.m[0], l.m[1] = New(a), New(b)
	l.m[0].Start(l.now, pa)
	l.m[1].Start(l.now, pb)
	return l
}

func (l *link) pump() {
	for side := range 2 {
		var p Packet
		for l.m[side].Next(l.now, &p) {
			l.send(1-side, &p)
		}
	}
}

func (l *link) send(to int, p *Packet) {
	lost := l.rng.Float64() < l.faults.loss || l.faults.drop != nil && l.faults.drop(to, p)
	if l.trace != nil {
		l.trace(l.now, to, p, lost)
	}
	if lost {
		return
	}
	copies := 1
	if l.rng.Float64() < l.faults.dup {
		copies = 2
	}
	for range copies {
		f := &flightPacket{at: l.now + latency, seq: l.seq, to: to, p: *p, raw: p.AppendPayload(nil)}
		if l.rng.Float64() < l.faults.reorder {
			f.at += l.rng.Int64N(10 * latency)
		}
		l.seq++
		f.p.Payload, f.p.More, f.p.MoreLen = f.raw, nil, 0
		heap.Push(&l.air, f)
	}
}

func (l *link) collect() {
	for side := range 2 {
		var c [8]Completion
		for n := l.m[side].Poll(c[:]); n > 0; n = l.m[side].Poll(c[:]) {
			l.done[side] = append(l.done[side], c[:n]...)
			for _, x := range c[:n] {
				if l.onDone != nil {
					l.onDone(side, x)
				}
			}
		}
	}
}

// run lets time pass until the condition holds; it fails the test after limit nanoseconds.
func (l *link) run(limit int64, until func() bool) {
	l.t.Helper()
	end := l.now + limit
	for {
		l.collect()
		if until() {
			return
		}
		l.pump()
		l.collect()
		next := int64(0)
		if len(l.air) > 0 {
			next = l.air[0].at
		}
		for side := range 2 {
			next = earlier(next, l.m[side].Deadline())
		}
		if next == 0 || next > end {
			l.t.Fatalf("stuck at %d ms, next event %d: %s / %s", l.now/Millisecond, next, l.describe(0), l.describe(1))
		}
		l.now = max(l.now, next)
		l.step()
	}
}

func (l *link) step() {
	for len(l.air) > 0 && l.air[0].at <= l.now {
		f := heap.Pop(&l.air).(*flightPacket)
		l.m[f.to].Receive(l.now, &f.p)
		for i := range f.raw {
			f.raw[i] = 0xEE // the machine must have copied what it keeps
		}
	}
	for side := range 2 {
		if d := l.m[side].Deadline(); d != 0 && d <= l.now {
			l.m[side].Tick(l.now)
		}
	}
}

func (l *link) describe(side int) string {
	m := l.m[side]
	r := &m.req
	b := bytes.NewBuffer(nil)
	put := func(name string, v any) {
		b.WriteString(name)
		b.WriteString("=")
		b.WriteString(sprint(v))
		b.WriteString(" ")
	}
	put("state", m.state)
	put("head", r.head)
	put("cur", r.cur)
	put("tail", r.tail)
	put("acked", uint32(r.acked))
	put("snd", uint32(r.snd))
	put("max", uint32(r.max))
	put("reads", r.nreads)
	put("window", r.window)
	put("deadline", r.timer.deadline)
	put("epsn", uint32(m.resp.epsn))
	put("held", m.resp.nheld)
	put("hold", m.resp.holdUntil)
	put("stats", m.Stats())
	return b.String()
}

// fabricMemory is registered memory with one key.
type fabricMemory struct {
	key        uint32
	base       uint64
	b          []byte
	noRead     bool
	noWrite    bool
	violations int
}

func (f *fabricMemory) slice(rkey uint32, va uint64, n uint32) ([]byte, bool) {
	if f == nil || rkey != f.key || va < f.base || va-f.base > uint64(len(f.b)) ||
		uint64(n) > uint64(len(f.b))-(va-f.base) {
		if f != nil {
			f.violations++
		}
		return nil, false
	}
	return f.b[va-f.base:][:n], true
}

func (f *fabricMemory) Writable(rkey uint32, va uint64, n uint32) ([]byte, bool) {
	if f.noWrite {
		return nil, false
	}
	return f.slice(rkey, va, n)
}

func (f *fabricMemory) Readable(rkey uint32, va uint64, n uint32) ([]byte, bool) {
	if f.noRead {
		return nil, false
	}
	return f.slice(rkey, va, n)
}

func testConfig(mem Memory) Config {
	return Config{SendDepth: 64, RecvDepth: 64, MaxSGE: 4, Memory: mem, Pool: NewPool(512, 4096), RetryLimit: 7}
}

func pairParams(mtu uint32, a, b ib.PSN) (Params, Params) {
	return Params{MTU: mtu, SendPSN: a, RecvPSN: b, ReadsOut: 4, ReadsIn: 4, Budget: NewBudget(128 << 10)},
		Params{MTU: mtu, SendPSN: b, RecvPSN: a, ReadsOut: 4, ReadsIn: 4, Budget: NewBudget(128 << 10)}
}
