package ring

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"
)

// The life of a ring, as these tests walk it:
//
//	host                              plugin
//	Push, Publish (rings if asleep)   Take: at most what was published, each entry checked
//	Pop: each completion checked      Complete, Publish (rings if asleep)
//	Sleep: false if completions wait  Sleep: false if requests wait
//	Awake                             Awake
//
// Either side's Violation ends that half for good.

const arenaSize = 1 << 20

func pair(t testing.TB, entries uint32) (*Host, *Plugin, Regions) {
	t.Helper()
	r := Heap(entries)
	h, err := NewHost(r, entries, 7)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlugin(r, entries, 7, arenaSize)
	if err != nil {
		t.Fatal(err)
	}
	return h, p, r
}

func read(n int) Entry {
	return Entry{Op: opRead, Offset: uint64(n) * 512, Arena: uint64(n) * 4096, Length: 512}
}

func take(t *testing.T, p *Plugin, n int) []Entry {
	t.Helper()
	out := make([]Entry, n+1)
	got, err := p.Take(out)
	if err != nil || got != n {
		t.Fatalf("Take = %d, %v; want %d", got, err, n)
	}
	return out[:n]
}

func TestRequestsAndCompletionsTravelAndWrap(t *testing.T) {
	h, p, _ := pair(t, 4)
	for round := range 10 {
		n := round%4 + 1
		for i := range n {
			h.Push(uint32(i), read(i+round))
		}
		h.Publish()
		for i, e := range take(t, p, n) {
			want := read(i + round)
			want.Tag = e.Tag
			if e != want {
				t.Fatalf("round %d: entry %+v, want %+v", round, e, want)
			}
			p.Complete(Completion{Tag: e.Tag, Bytes: e.Length})
		}
		p.Publish()
		done := make([]Done, 5)
		got, err := h.Pop(done)
		if err != nil || got != n {
			t.Fatalf("Pop = %d, %v; want %d", got, err, n)
		}
		for i, d := range done[:n] {
			if d.Slot != uint32(i) || d.Code != 0 {
				t.Fatalf("completion %+v of slot %d", d, i)
			}
		}
	}
	if h.InFlight() != 0 || p.Outstanding() != 0 {
		t.Errorf("in flight %d, outstanding %d", h.InFlight(), p.Outstanding())
	}
}

func TestCompletionsMayComeInAnyOrder(t *testing.T) {
	h, p, _ := pair(t, 8)
	for i := range 8 {
		h.Push(uint32(i), read(i))
	}
	h.Publish()
	es := take(t, p, 8)
	order := []int{3, 0, 7, 1, 6, 2, 5, 4}
	for _, i := range order {
		p.Complete(Completion{Tag: es[i].Tag, Code: uint16(i % 2), Bytes: uint32((1 - i%2) * 512)})
	}
	p.Publish()
	done := make([]Done, 8)
	if n, err := h.Pop(done); n != 8 || err != nil {
		t.Fatal(n, err)
	}
	for k, i := range order {
		if done[k] != (Done{Slot: uint32(i), Code: uint16(i % 2)}) {
			t.Errorf("completion %d is %+v", k, done[k])
		}
	}
}

func TestNothingIsSeenBeforePublish(t *testing.T) {
	h, p, _ := pair(t, 4)
	h.Push(0, read(0))
	take(t, p, 0)
	h.Publish()
	e := take(t, p, 1)[0]
	p.Complete(Completion{Tag: e.Tag, Bytes: 512})
	if n, err := h.Pop(make([]Done, 1)); n != 0 || err != nil {
		t.Errorf("Pop before Publish = %d, %v", n, err)
	}
}

func TestDoorbellIsRungOnceForEachSleep(t *testing.T) {
	h, p, _ := pair(t, 8)
	h.Push(0, read(0))
	if h.Publish() {
		t.Error("the plugin is awake and yet must be rung")
	}
	take(t, p, 1)
	if !p.Sleep() {
		t.Fatal("the plugin cannot sleep although nothing waits")
	}
	h.Push(1, read(1))
	if !h.Publish() {
		t.Error("the plugin sleeps and is not rung")
	}
	h.Push(2, read(2))
	if h.Publish() {
		t.Error("the plugin is rung twice in one sleep")
	}
	p.Awake()
	if p.Sleep() {
		t.Error("the plugin sleeps over two requests")
	}
	es := take(t, p, 2)
	if !h.Sleep() {
		t.Fatal("the host cannot sleep although nothing waits")
	}
	p.Complete(Completion{Tag: es[0].Tag, Bytes: 512})
	if !p.Publish() {
		t.Error("the host sleeps and is not rung")
	}
	if h.Sleep() {
		t.Error("the host sleeps over a completion")
	}
	if h.Awake() {
		t.Error("the host was awake already")
	}
}

// forge writes a completion as a plugin without this package could.
func forge(r Regions, at int, c Completion, generation uint32) {
	c.put((*[CQESize]byte)(r.Plugin[headSize+at*CQESize:]), generation)
	word32(r.Plugin, offTail).Store(uint32(at + 1))
}

func TestNobodyIsWokenForNothing(t *testing.T) {
	h, p, _ := pair(t, 4)
	if !p.Sleep() || h.Publish() {
		t.Error("the plugin is woken without a request")
	}
	h.Push(0, read(0))
	if !h.Publish() {
		t.Error("and then not for one")
	}
	p.Awake()
	e := take(t, p, 1)[0]
	if !h.Sleep() || p.Publish() {
		t.Error("the host is woken without a completion")
	}
	p.Complete(Completion{Tag: e.Tag, Bytes: e.Length})
	if !p.Publish() {
		t.Error("and then not for one")
	}
}

func TestHostRefusesWhatIsNotInFlight(t *testing.T) {
	const tag = 1 << 32 // slot 0, first use
	for _, c := range []struct {
		name string
		do   func(h *Host, r Regions)
		want Breach
	}{
		{"tail beyond what is in flight", func(_ *Host, r Regions) { word32(r.Plugin, offTail).Store(2) }, BreachIndex},
		{"tail far beyond", func(_ *Host, r Regions) { word32(r.Plugin, offTail).Store(1 << 31) }, BreachIndex},
		{"tail moved back", func(_ *Host, r Regions) { word32(r.Plugin, offTail).Store(^uint32(0)) }, BreachIndex},
		{"earlier generation", func(_ *Host, r Regions) { forge(r, 0, Completion{Tag: tag, Bytes: 512}, 6) }, BreachGeneration},
		{"slot out of range", func(_ *Host, r Regions) { forge(r, 0, Completion{Tag: tag | 4, Bytes: 512}, 7) }, BreachTag},
		{"slot at the top", func(_ *Host, r Regions) { forge(r, 0, Completion{Tag: ^uint64(0), Bytes: 512}, 7) }, BreachTag},
		{"slot not in flight", func(_ *Host, r Regions) { forge(r, 0, Completion{Tag: tag | 1, Bytes: 512}, 7) }, BreachTag},
		{"another use of the slot", func(_ *Host, r Regions) { forge(r, 0, Completion{Tag: 2 << 32, Bytes: 512}, 7) }, BreachTag},
		{"unknown code", func(_ *Host, r Regions) { forge(r, 0, Completion{Tag: tag, Code: MaxCode + 1}, 7) }, BreachCode},
		{"a miscompare of a read", func(_ *Host, r Regions) { forge(r, 0, Completion{Tag: tag, Code: codeMiscompare}, 7) }, BreachCode},
		{"short success", func(_ *Host, r Regions) { forge(r, 0, Completion{Tag: tag, Bytes: 511}, 7) }, BreachBytes},
		{"long success", func(_ *Host, r Regions) { forge(r, 0, Completion{Tag: tag, Bytes: 513}, 7) }, BreachBytes},
		{"long failure", func(_ *Host, r Regions) { forge(r, 0, Completion{Tag: tag, Code: 1, Bytes: 513}, 7) }, BreachBytes},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, _, r := pair(t, 4)
			h.Push(0, read(0))
			h.Publish()
			c.do(h, r)
			for range 2 { // and it stays so
				n, err := h.Pop(make([]Done, 4))
				var v *Violation
				if !errors.As(err, &v) || v.Breach != c.want || n != 0 {
					t.Errorf("Pop = %d, %v; want %v", n, err, c.want)
				}
			}
		})
	}
}

func TestMiscompareTellsWhereInTheComparedHalf(t *testing.T) {
	for _, c := range []struct {
		name string
		c    Completion
		ok   bool
	}{
		{"the first byte", Completion{Code: codeMiscompare}, true},
		{"the last byte", Completion{Code: codeMiscompare, At: 511}, true},
		{"in what was to be written", Completion{Code: codeMiscompare, At: 512}, false},
		{"far away", Completion{Code: codeMiscompare, At: ^uint32(0)}, false},
		{"of another failure", Completion{Code: 1, At: 77}, true},
	} {
		h, p, _ := pair(t, 4)
		h.Push(0, Entry{Op: opCompareAndWrite, Length: 1024})
		h.Publish()
		c.c.Tag = take(t, p, 1)[0].Tag
		p.Complete(c.c)
		p.Publish()
		done := make([]Done, 1)
		n, err := h.Pop(done)
		var v *Violation
		switch {
		case !c.ok && (n != 0 || !errors.As(err, &v) || v.Breach != BreachAt):
			t.Errorf("%s: Pop = %d, %v; want %v", c.name, n, err, BreachAt)
		case c.ok && (n != 1 || err != nil || done[0].Code != c.c.Code):
			t.Errorf("%s: Pop = %d, %v, %+v", c.name, n, err, done[0])
		case c.ok && (done[0].At != c.c.At) != (c.c.Code != codeMiscompare):
			t.Errorf("%s: at %d", c.name, done[0].At)
		}
	}
}

func TestSecondCompletionIsRefusedAfterTheFirstWasTaken(t *testing.T) {
	h, p, r := pair(t, 4)
	h.Push(0, read(0))
	h.Push(1, read(1))
	h.Publish()
	e := take(t, p, 2)[0]
	p.Complete(Completion{Tag: e.Tag, Bytes: 512})
	p.Publish()
	forge(r, 1, Completion{Tag: e.Tag, Bytes: 512}, 7)
	done := make([]Done, 4)
	n, err := h.Pop(done)
	var v *Violation
	if n != 1 || !errors.As(err, &v) || v.Breach != BreachTag {
		t.Errorf("Pop = %d, %v; the first counts, the second is %v", n, err, BreachTag)
	}
}

func TestPluginRefusesWhatLiesOutsideTheArena(t *testing.T) {
	for _, c := range []struct {
		name string
		e    Entry
		ok   bool
	}{
		{"the last bytes", Entry{Op: opWrite, Arena: arenaSize - 512, Length: 512}, true},
		{"nothing at the end", Entry{Op: opRead, Arena: arenaSize}, true},
		{"a byte beyond", Entry{Op: opRead, Arena: arenaSize - 511, Length: 512}, false},
		{"beyond the end", Entry{Op: opRead, Arena: arenaSize + 1}, false},
		{"a sum that overflows", Entry{Op: opRead, Arena: ^uint64(0) - 511, Length: 512}, false},
		{"the longest length", Entry{Op: opRead, Arena: 1, Length: ^uint32(0)}, false},
		{"an offset outside every store, which the store answers", Entry{Op: opRead, Offset: 1<<64 - 512, Length: 512}, true},
		{"no operation", Entry{}, false},
		{"an unknown operation", Entry{Op: opWriteSame + 1}, false},
		{"the greatest unmap", Entry{Op: opUnmap, Offset: 1, Extent: 1<<63 - 2, Arena: ^uint64(0), Length: 7}, true},
		{"an unmap that overflows, which the store answers", Entry{Op: opUnmap, Offset: 1, Extent: 1<<63 - 1}, true},
		{"an extent that overflows 64 bits, which the store answers", Entry{Op: opWriteZeroes, Offset: 512, Extent: ^uint64(0) - 511}, true},
		{"a block to write outside the arena", Entry{Op: opWriteSame, Arena: arenaSize, Length: 512, Extent: 512}, false},
		{"an extent of a write that overflows, which the store answers", Entry{Op: opWriteSame, Length: 512, Offset: 512, Extent: 1 << 63}, true},
		{"a comparison outside the arena", Entry{Op: opCompareAndWrite, Arena: arenaSize - 512, Length: 1024}, false},
		{"a flush with rubbish", Entry{Op: opFlush, Arena: ^uint64(0), Length: ^uint32(0)}, true},
	} {
		h, p, _ := pair(t, 4)
		h.Push(0, c.e)
		h.Publish()
		out := make([]Entry, 1)
		n, err := p.Take(out)
		var v *Violation
		switch {
		case c.ok && (n != 1 || err != nil):
			t.Errorf("%s: Take = %d, %v", c.name, n, err)
		case !c.ok && (n != 0 || !errors.As(err, &v) || v.Breach != BreachEntry):
			t.Errorf("%s: Take = %d, %v; want %v", c.name, n, err, BreachEntry)
		case c.ok && c.e.Op == opFlush && (out[0].Length != 0 || out[0].Arena != 0):
			t.Errorf("%s: it has data: %+v", c.name, out[0])
		case c.ok && c.e.Op == opUnmap && (out[0].Length != 0 || out[0].Arena != 0 || out[0].Extent != c.e.Extent):
			t.Errorf("%s: became %+v", c.name, out[0])
		}
	}
}

func TestPluginRefusesAnImpossibleIndexAndAnotherGeneration(t *testing.T) {
	_, p, r := pair(t, 4)
	word32(r.Host, offTail).Store(5)
	var v *Violation
	if _, err := p.Take(make([]Entry, 1)); !errors.As(err, &v) || v.Breach != BreachIndex {
		t.Errorf("%v, want %v", err, BreachIndex)
	}
	h, p, r := pair(t, 4)
	h.Push(0, read(0))
	h.Push(1, read(1))
	binary.LittleEndian.PutUint32(r.Host[headSize+SQESize+sqeGeneration:], 8)
	h.Publish()
	n, err := p.Take(make([]Entry, 4))
	if n != 1 || !errors.As(err, &v) || v.Breach != BreachGeneration {
		t.Errorf("Take = %d, %v; the first counts, the second is %v", n, err, BreachGeneration)
	}
}

func TestAttachRefusesAnotherLayout(t *testing.T) {
	for _, off := range []int{offMagic, offVersion, offEntries, offGeneration, offSQESize, offCQESize} {
		for _, second := range []bool{false, true} {
			r := Heap(4)
			if _, err := NewHost(r, 4, 7); err != nil {
				t.Fatal(err)
			}
			if second {
				r.Plugin[off]++
			} else {
				r.Host[off]++
			}
			if _, err := NewPlugin(r, 4, 7, arenaSize); !errors.Is(err, ErrLayout) {
				t.Errorf("word %#x changed: %v, want ErrLayout", off, err)
			}
		}
	}
	r := Heap(4)
	for _, n := range []uint32{0, 3, 5, MaxEntries + 1, 2 * MaxEntries} {
		if _, err := NewHost(r, n, 1); err == nil {
			t.Errorf("a ring of %d entries was made", n)
		}
	}
	if _, err := NewHost(Regions{Host: r.Host[:100], Plugin: r.Plugin}, 4, 1); !errors.Is(err, ErrLayout) {
		t.Errorf("a short region: %v", err)
	}
	if _, err := NewPlugin(Regions{Host: r.Host, Plugin: r.Plugin[:100]}, 4, 1, 0); !errors.Is(err, ErrLayout) {
		t.Errorf("a short region: %v", err)
	}
}

func TestPulseTellsAStuckPlugin(t *testing.T) {
	h, p, _ := pair(t, 4)
	if waiting, _, _ := h.Pulse(); waiting {
		t.Error("nothing was pushed, and something waits")
	}
	h.Push(0, read(0))
	h.Publish()
	waiting, beat, taken := h.Pulse()
	if !waiting {
		t.Error("a published request does not wait")
	}
	p.Beat()
	take(t, p, 1)
	if w, b, n := h.Pulse(); w || b == beat || n == taken {
		t.Errorf("after Take: waiting %v, beat %d, taken %d", w, b, n)
	}
}

// pump runs both halves in their own goroutines over a doorbell of channels, under the race detector too.
func TestTwoGoroutinesMoveEverythingAndLoseNoWakeUp(t *testing.T) {
	const total, entries = 20000, 16
	h, p, _ := pair(t, entries)
	bells := [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}
	ring := func(i int) {
		select {
		case bells[i] <- struct{}{}:
		default:
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { // the plugin
		buf := make([]Entry, 5)
		for served := 0; served < total; {
			n, err := p.Take(buf)
			if err != nil {
				t.Error(err)
				return
			}
			for _, e := range buf[:n] {
				p.Complete(Completion{Tag: e.Tag, Bytes: e.Length})
				if p.Publish() {
					ring(0)
				}
			}
			served += n
			if n == 0 && p.Sleep() {
				<-bells[1]
			}
			p.Awake()
		}
	})
	free := make([]uint32, 0, entries)
	for i := range uint32(entries) {
		free = append(free, i)
	}
	done := make([]Done, 3)
	stuck := time.After(time.Minute)
	for pushed, popped := 0, 0; popped < total; {
		for len(free) > 0 && pushed < total {
			h.Push(free[len(free)-1], read(pushed%8))
			free = free[:len(free)-1]
			pushed++
		}
		if h.Publish() {
			ring(1)
		}
		n, err := h.Pop(done)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range done[:n] {
			free = append(free, d.Slot)
		}
		popped += n
		if n == 0 && h.Sleep() {
			select {
			case <-bells[0]:
			case <-stuck:
				t.Fatalf("stuck at %d of %d", popped, total)
			}
		}
		h.Awake()
	}
	wg.Wait()
}

func TestRingAllocatesNothing(t *testing.T) {
	h, p, _ := pair(t, 8)
	es, done := make([]Entry, 8), make([]Done, 8)
	n := testing.AllocsPerRun(100, func() {
		for i := range uint32(8) {
			h.Push(i, read(int(i)))
		}
		h.Publish()
		k, _ := p.Take(es)
		for _, e := range es[:k] {
			p.Complete(Completion{Tag: e.Tag, Bytes: e.Length})
		}
		p.Publish()
		if k, err := h.Pop(done); k != 8 || err != nil {
			t.Fatal(k, err)
		}
		h.Sleep()
		h.Awake()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRing32(b *testing.B) {
	h, p, _ := pair(b, 32)
	es, done := make([]Entry, 32), make([]Done, 32)
	b.ReportAllocs()
	for b.Loop() {
		for i := range uint32(32) {
			h.Push(i, Entry{Op: opRead, Length: 4096})
		}
		h.Publish()
		n, _ := p.Take(es)
		for _, e := range es[:n] {
			p.Complete(Completion{Tag: e.Tag, Bytes: e.Length})
		}
		p.Publish()
		if n, err := h.Pop(done); n != 32 || err != nil {
			b.Fatal(n, err)
		}
	}
}
