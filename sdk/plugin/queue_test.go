package plugin

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/backstore/backstoretest"
	"github.com/gosrpt/gosrpt/sdk/internal/ring"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
)

// The ring of these tests lies in the heap, where the race detector sees it.

const patience = 30 * time.Second

type bench struct {
	t     *testing.T
	host  *ring.Host
	q     *queue
	arena []byte
	wake  *shm.Waiter
	next  uint32
}

func newBench(t *testing.T, inner backstore.Store, entries uint32) *bench {
	t.Helper()
	st, err := newStore(inner)
	if err != nil {
		t.Fatal(err)
	}
	m := &queueMemory{regions: ring.Heap(entries), mine: event(t), peer: event(t)}
	h, err := ring.NewHost(m.regions, entries, 1)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, host: h, arena: alignedBytes(1 << 20)}
	if b.q, err = newQueue(t.Context(), st, m, b.arena, entries, 1); err != nil {
		t.Fatal(err)
	}
	if b.wake, err = shm.NewWaiter(m.peer); err != nil {
		t.Fatal(err)
	}
	go b.q.run()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := b.q.stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := st.close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		b.wake.Close()
		m.close()
	})
	return b
}

func event(t *testing.T) *shm.Event {
	t.Helper()
	e, err := shm.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// push writes a request into the next slot.
func (b *bench) push(op backstore.Op, block int) {
	e := ring.Entry{Op: uint8(op), Offset: uint64(block) * 512, Arena: uint64(b.next) * 4096, Length: 512}
	if op == backstore.OpFlush {
		e = ring.Entry{Op: uint8(op)}
	}
	b.host.Push(b.next, e)
	b.next++
}

func (b *bench) publish() {
	if b.host.Publish() {
		b.q.memory.mine.Ring()
	}
}

// collect returns the codes by slot, once n are there, and starts over with the slots.
func (b *bench) collect(n int) map[uint32]backstore.Code {
	b.t.Helper()
	got := b.take(n)
	b.next = 0
	return got
}

// take is collect for a part of what is outstanding: the last n requests.
func (b *bench) take(n int) map[uint32]backstore.Code {
	b.t.Helper()
	got := map[uint32]backstore.Code{}
	done := make([]ring.Done, 8)
	for len(got) < n {
		k, err := b.host.Pop(done)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, d := range done[:k] {
			got[d.Slot] = backstore.Code(d.Code)
		}
		if k == 0 {
			if err := b.wake.Wait(b.host.Sleep); err != nil {
				b.t.Fatal(err)
			}
			b.host.Awake()
		}
	}
	b.next -= uint32(n)
	return got
}

func memory(concurrency int) *backstoretest.Memory {
	return backstoretest.NewMemory(backstore.Info{BlockSize: 512, Blocks: 2048, Concurrency: concurrency})
}

func TestQueueServesEveryKindOfStore(t *testing.T) {
	for name, st := range map[string]backstore.Store{
		"calls":              memory(0),
		"one call at a time": memory(1),
		"submit":             backstoretest.AsyncMemory{Memory: memory(0)},
		"late":               late{backstoretest.AsyncMemory{Memory: memory(0)}},
		"engine":             backstoretest.EngineMemory{Memory: memory(0)},
		"late engine":        lateEngines{memory(0)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, st, 32)
			for round := range 50 {
				n := round%32 + 1
				for i := range n {
					b.arena[i*4096] = byte(round)
					b.push(backstore.OpWrite, i)
				}
				b.publish()
				b.collect(n)
				for i := range n {
					b.arena[i*4096] = 0xff
					b.push(backstore.OpRead, i)
				}
				b.publish()
				for slot, c := range b.collect(n) {
					if c != backstore.CodeOK || b.arena[slot*4096] != byte(round) {
						t.Fatalf("round %d, slot %d: %v, %d", round, slot, c, b.arena[slot*4096])
					}
				}
			}
		})
	}
}

// late completes from another goroutine.
type late struct{ backstoretest.AsyncMemory }

func (s late) Submit(reqs []backstore.Request, done func(backstore.Result)) {
	reqs = append([]backstore.Request(nil), reqs...)
	go s.AsyncMemory.Submit(reqs, done)
}

// lateEngines have engines that work in another goroutine.
type lateEngines struct{ *backstoretest.Memory }

func (s lateEngines) NewEngine(ctx context.Context, wake, depth int) (backstore.Engine, error) {
	e, err := backstoretest.EngineMemory(s).NewEngine(ctx, wake, depth)
	return &lateEngine{inner: e}, err
}

type lateEngine struct {
	mu    sync.Mutex
	inner backstore.Engine
	wg    sync.WaitGroup
}

func (e *lateEngine) Submit(reqs []backstore.Request) {
	reqs = append([]backstore.Request(nil), reqs...)
	e.wg.Go(func() {
		for i := range reqs {
			e.mu.Lock()
			e.inner.Submit(reqs[i : i+1])
			e.mu.Unlock()
		}
	})
}

func (e *lateEngine) Poll(res []backstore.Result) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inner.Poll(res)
}

func (e *lateEngine) Close() error {
	e.wg.Wait()
	return e.inner.Close()
}

// gate lets calls in and holds them until it is opened.
type gate struct {
	*backstoretest.Memory
	in, most atomic.Int32
	entered  chan struct{} // gets one for each call, if there is room
	open     chan struct{}
}

func (g *gate) Flush(context.Context) error {
	n := g.in.Add(1)
	for m := g.most.Load(); n > m && !g.most.CompareAndSwap(m, n); m = g.most.Load() {
	}
	select {
	case g.entered <- struct{}{}:
	default:
	}
	<-g.open
	g.in.Add(-1)
	return nil
}

func TestConcurrencyIsWhatTheStoreDeclares(t *testing.T) {
	for _, limit := range []int{1, 3, 8} {
		g := &gate{Memory: memory(limit), open: make(chan struct{})}
		b := newBench(t, g, 16)
		for range 16 {
			b.push(backstore.OpFlush, 0)
		}
		b.publish()
		for range 16 {
			g.open <- struct{}{}
		}
		b.collect(16)
		if m := int(g.most.Load()); m > limit {
			t.Errorf("%d calls were in the store at once, it allows %d", m, limit)
		}
	}
}

func TestStopWaitsForWhatIsUnderWay(t *testing.T) {
	g := &gate{Memory: memory(4), entered: make(chan struct{}, 2), open: make(chan struct{})}
	b := newBench(t, g, 4)
	b.push(backstore.OpFlush, 0)
	b.push(backstore.OpFlush, 0)
	b.publish()
	<-g.entered
	<-g.entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.q.stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stop with requests under way: %v", err)
	}
	close(g.open)
	ctx, cancel = context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.q.stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	if n := b.q.ring.Outstanding(); n != 0 {
		t.Errorf("%d outstanding after stop", n)
	}
	b.collect(2) // and both are answered
}

// twice completes each request two times.
type twice struct{ backstoretest.AsyncMemory }

func (s twice) Submit(reqs []backstore.Request, done func(backstore.Result)) {
	s.AsyncMemory.Submit(reqs, func(r backstore.Result) { done(r); done(r); done(backstore.Result{Tag: 1 << 50}) })
}

func TestStoreThatCompletesTwiceDoesNotHarmTheRing(t *testing.T) {
	b := newBench(t, twice{backstoretest.AsyncMemory{Memory: memory(0)}}, 8)
	for range 20 {
		b.push(backstore.OpFlush, 0)
		b.push(backstore.OpFlush, 0)
		b.publish()
		b.collect(2)
	}
	if b.q.broken() == "" {
		t.Error("nobody is told")
	}
}

func TestHostThatBreaksTheProtocolIsNotServed(t *testing.T) {
	b := newBench(t, memory(0), 4)
	b.host.Push(0, ring.Entry{Op: uint8(backstore.OpRead), Arena: 1 << 20, Length: 512})
	b.publish()
	select {
	case <-b.q.ended:
	case <-time.After(patience):
		t.Fatal("the queue goes on")
	}
	if b.q.broken() == "" {
		t.Error("nobody is told")
	}
}

// held is a Submitter that completes nothing, but hands out what completes a request.
type held struct {
	backstoretest.AsyncMemory
	kept chan func()
}

func (s held) Submit(reqs []backstore.Request, done func(backstore.Result)) {
	for _, r := range reqs {
		s.kept <- func() { done(backstore.Result{Tag: r.Tag, Code: 99}) }
	}
}

func TestUnknownCodeBecomesIOErrorAndOrderIsFree(t *testing.T) {
	s := held{AsyncMemory: backstoretest.AsyncMemory{Memory: memory(0)}, kept: make(chan func(), 8)}
	b := newBench(t, s, 8)
	for range 8 {
		b.push(backstore.OpFlush, 0)
	}
	b.publish()
	var finish []func()
	for range 8 {
		finish = append(finish, <-s.kept)
	}
	for i := range finish {
		finish[len(finish)-1-i]()
	}
	for slot, c := range b.collect(8) {
		if c != backstore.CodeIO {
			t.Errorf("slot %d: %v, want %v", slot, c, backstore.CodeIO)
		}
	}
}

func TestQueueAllocatesNothing(t *testing.T) {
	for name, st := range map[string]backstore.Store{
		"submit": backstoretest.AsyncMemory{Memory: memory(0)}, "engine": backstoretest.EngineMemory{Memory: memory(0)},
	} {
		for _, n := range []int{1, 4} { // alone, and in a batch
			b := newBench(t, st, 8)
			sleep, done := b.host.Sleep, make([]ring.Done, 8)
			turn := func() {
				for i := range n {
					b.push(backstore.OpRead, i)
				}
				b.publish()
				for left := n; left > 0; {
					k, err := b.host.Pop(done)
					if err != nil {
						t.Fatal(err)
					}
					if left -= k; k == 0 {
						if b.wake.Wait(sleep) != nil {
							t.Fatal("the waiter is closed")
						}
						b.host.Awake()
					}
				}
				b.next = 0
			}
			turn()
			if a := testing.AllocsPerRun(200, turn); a > 0 {
				t.Errorf("%s: %v allocations for %d requests", name, a, n)
			}
		}
	}
}
