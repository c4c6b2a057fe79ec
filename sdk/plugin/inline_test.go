package plugin

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/backstore/backstoretest"
	"github.com/gosrpt/gosrpt/sdk/internal/ring"
)

// Who runs a request, as these tests walk it:
//
//	request                                         Submitter, Engines     other stores
//	read or write, short, alone                     call in the loop       call in the loop
//	... after one arrived during such a call        batch                  pool
//	... after such a call has taken long            batch, another loop    pool, another loop
//	flush, long, or one of several                  batch                  pool

// counted counts what comes by calls and what in batches. A call of Read waits while hold is not nil.
type counted struct {
	*backstoretest.Memory
	calls, batched atomic.Int32
	entered, hold  chan struct{}
}

func (s *counted) Read(ctx context.Context, p []byte, off int64) error {
	s.calls.Add(1)
	if s.hold != nil {
		s.entered <- struct{}{}
		<-s.hold
	}
	return s.Memory.Read(ctx, p, off)
}

func (s *counted) Write(ctx context.Context, p []byte, off int64, f backstore.Flags) error {
	s.calls.Add(1)
	return s.Memory.Write(ctx, p, off, f)
}

func (s *counted) Flush(ctx context.Context) error {
	s.calls.Add(1)
	return s.Memory.Flush(ctx)
}

type countedSubmitter struct{ *counted }

func (s countedSubmitter) Submit(reqs []backstore.Request, done func(backstore.Result)) {
	s.batched.Add(int32(len(reqs)))
	backstoretest.AsyncMemory{Memory: s.Memory}.Submit(reqs, done)
}

type countedEngines struct{ *counted }

func (s countedEngines) NewEngine(ctx context.Context, wake, depth int) (backstore.Engine, error) {
	e, err := backstoretest.EngineMemory{Memory: s.Memory}.NewEngine(ctx, wake, depth)
	return countedEngine{e, s.counted}, err
}

type countedEngine struct {
	backstore.Engine
	*counted
}

func (e countedEngine) Close() error { return e.Engine.Close() }

func (e countedEngine) Submit(reqs []backstore.Request) {
	e.batched.Add(int32(len(reqs)))
	e.Engine.Submit(reqs)
}

// kinds are the kinds of store that do not serve one request at a time.
func kinds() map[string]func(*counted) backstore.Store {
	return map[string]func(*counted) backstore.Store{
		"calls":   func(c *counted) backstore.Store { return c },
		"submit":  func(c *counted) backstore.Store { return countedSubmitter{c} },
		"engines": func(c *counted) backstore.Store { return countedEngines{c} },
	}
}

func holding() *counted {
	return &counted{Memory: memory(0), entered: make(chan struct{}, 8), hold: make(chan struct{})}
}

func TestOnlyShortRequestsThatAreAloneRunInTheLoop(t *testing.T) {
	for name, kind := range kinds() {
		if name == "calls" {
			continue // what the pool runs are calls too
		}
		c := &counted{Memory: memory(0)}
		b := newBench(t, kind(c), 8)
		long := ring.Entry{Op: uint8(backstore.OpRead), Length: maxInline + 512}
		for _, step := range []struct {
			what           string
			push           func()
			n              int
			calls, batched int32
		}{
			{"a read", func() { b.push(backstore.OpRead, 0) }, 1, 1, 0},
			{"a write", func() { b.push(backstore.OpWrite, 0) }, 1, 1, 0},
			{"a flush", func() { b.push(backstore.OpFlush, 0) }, 1, 0, 1},
			{"a long read", func() { b.host.Push(b.next, long) }, 1, 0, 1},
			{"two reads", func() { b.push(backstore.OpRead, 0); b.push(backstore.OpRead, 1) }, 2, 0, 2},
		} {
			c.calls.Store(0)
			c.batched.Store(0)
			step.push()
			b.publish()
			b.collect(step.n)
			if c.calls.Load() != step.calls || c.batched.Load() != step.batched {
				t.Errorf("%s: %s: %d calls and %d in batches", name, step.what, c.calls.Load(), c.batched.Load())
			}
		}
	}
}

func TestRequestThatComesDuringACallEndsCallsInTheLoop(t *testing.T) {
	for name, kind := range kinds() {
		if name == "calls" {
			continue
		}
		c := holding()
		b := newBench(t, kind(c), 8)
		b.push(backstore.OpRead, 0)
		b.publish()
		<-c.entered
		b.push(backstore.OpRead, 1)
		b.publish()
		close(c.hold)
		b.collect(2)
		for range 10 {
			b.push(backstore.OpWrite, 0)
			b.publish()
			b.collect(1)
		}
		// Whether the call was slow enough for another goroutine to take the loop is up to the machine.
		if calls, batched := c.calls.Load(), c.batched.Load(); calls+batched != 12 || batched == 0 {
			t.Errorf("%s: %d calls, %d in batches", name, calls, batched)
		}
	}
}

func TestSlowCallHoldsUpNobodyElse(t *testing.T) {
	for name, kind := range kinds() {
		c := holding()
		b := newBench(t, kind(c), 8)
		for range 3 {
			b.push(backstore.OpRead, 0)
			b.publish()
			<-c.entered
			for range 5 { // while the read is under way
				b.push(backstore.OpWrite, 1)
				b.publish()
				if got := b.take(1); len(got) != 1 {
					t.Fatalf("%s: %v", name, got)
				}
			}
			c.hold <- struct{}{}
			b.collect(1)
		}
		if n := b.q.ring.Outstanding(); n != 0 {
			t.Errorf("%s: %d outstanding", name, n)
		}
	}
}

func TestStopWaitsForASlowCallInTheLoop(t *testing.T) {
	for name, kind := range kinds() {
		c := holding()
		b := newBench(t, kind(c), 8)
		b.push(backstore.OpRead, 0)
		b.publish()
		<-c.entered
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := b.q.stop(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: stop during a call: %v", name, err)
		}
		close(c.hold)
		ctx, cancel = context.WithTimeout(context.Background(), patience)
		if err := b.q.stop(ctx); err != nil {
			t.Errorf("%s: stop: %v", name, err)
		}
		cancel()
		b.collect(1)
	}
}

// busy is a store whose engine keeps what it gets until it is let go.
type busy struct {
	*backstoretest.Memory
	engine *busyEngine
}

func (s busy) NewEngine(ctx context.Context, wake, depth int) (backstore.Engine, error) {
	e, err := backstoretest.EngineMemory{Memory: s.Memory}.NewEngine(ctx, wake, depth)
	s.engine.Engine = e
	return s.engine, err
}

type busyEngine struct {
	backstore.Engine
	taken chan struct{}
	free  atomic.Bool
	close atomic.Int32
}

func (e *busyEngine) Submit(reqs []backstore.Request) {
	e.Engine.Submit(reqs)
	e.taken <- struct{}{}
}

func (e *busyEngine) Poll(res []backstore.Result) int {
	if !e.free.Load() {
		return 0
	}
	return e.Engine.Poll(res)
}

func (e *busyEngine) Close() error {
	e.close.Add(1)
	return e.Engine.Close()
}

func TestStopWaitsForTheEngineAndClosesIt(t *testing.T) {
	s := busy{memory(0), &busyEngine{taken: make(chan struct{}, 1)}}
	b := newBench(t, s, 8)
	b.push(backstore.OpFlush, 0)
	b.publish()
	<-s.engine.taken
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.q.stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stop while the engine has a request: %v", err)
	}
	s.engine.free.Store(true)
	b.q.memory.mine.Ring()
	ctx, cancel = context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.q.stop(ctx); err != nil {
		t.Fatal(err)
	}
	if n := s.engine.close.Load(); n != 1 {
		t.Errorf("closed %d times", n)
	}
	b.collect(1)
}

// unable has no engine after all.
type unable struct{ *backstoretest.Memory }

func (unable) NewEngine(context.Context, int, int) (backstore.Engine, error) {
	return nil, errors.New("no memory to lock")
}

func TestQueueWithoutItsEngineIsRefused(t *testing.T) {
	st, err := newStore(unable{memory(0)})
	if err != nil {
		t.Fatal(err)
	}
	m := &queueMemory{regions: ring.Heap(4), mine: event(t), peer: event(t)}
	defer m.close()
	if _, err := ring.NewHost(m.regions, 4, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := newQueue(t.Context(), st, m, alignedBytes(4096), 4, 1); err == nil {
		t.Error("it is served without an engine")
	}
	if err := st.close(t.Context()); err != nil {
		t.Error(err)
	}
}

// wrongEngine returns what nobody asked for, beside what was asked for.
type wrongEngine struct{ backstore.Engine }

func (e wrongEngine) Poll(res []backstore.Result) int {
	n := e.Engine.Poll(res[1:])
	if n == 0 {
		return 0
	}
	res[0] = backstore.Result{Tag: 1 << 40}
	return n + 1
}

type wrongEngines struct{ backstoretest.EngineMemory }

func (s wrongEngines) NewEngine(ctx context.Context, wake, depth int) (backstore.Engine, error) {
	e, err := s.EngineMemory.NewEngine(ctx, wake, depth)
	return wrongEngine{e}, err
}

func TestEngineThatReturnsWhatItDoesNotHaveDoesNotHarmTheRing(t *testing.T) {
	b := newBench(t, wrongEngines{backstoretest.EngineMemory{Memory: memory(0)}}, 8)
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
