package conn

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

func startReactor(t *testing.T, devs ...rdma.Device) *Reactor {
	t.Helper()
	r, err := NewReactor(ReactorConfig{Name: "r0", Devices: devs, QueueDepth: 1024})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	r.Start()
	return r
}

func runIn(t *testing.T, r *Reactor, f func()) {
	t.Helper()
	if err := r.Call(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// bell is a source that is rung by an eventfd that it never reads, or by the reactor's Wake.
type bell struct {
	fd      int
	file    *os.File
	armed   atomic.Bool
	rung    atomic.Int64
	seen    atomic.Int64
	flushes int
	until   time.Time
	onPoll  func(now time.Time)
	took    chan int64
}

func newBell(t *testing.T) *bell {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	b := &bell{fd: fd, file: os.NewFile(uintptr(fd), "bell"), took: make(chan int64, 1000)}
	t.Cleanup(func() { b.file.Close() })
	return b
}

func (b *bell) Poll(now time.Time) bool {
	if b.onPoll != nil {
		b.onPoll(now)
	}
	b.armed.Store(false)
	n := b.rung.Load()
	if n == b.seen.Load() {
		return false
	}
	b.seen.Store(n)
	b.took <- n
	return true
}
func (b *bell) Flush()              { b.flushes++ }
func (b *bell) FD() int             { return b.fd }
func (b *bell) Deadline() time.Time { return b.until }
func (b *bell) Arm() bool {
	b.armed.Store(true)
	return b.rung.Load() == b.seen.Load()
}

func (b *bell) ring() {
	b.rung.Add(1)
	if b.armed.Load() && b.file != nil {
		b.file.Write(bellWord)
	}
}

func TestReactorMissesNoRing(t *testing.T) {
	leaktest.Check(t)
	r := startReactor(t)
	b := newBell(t)
	runIn(t, r, func() {
		if err := r.AddSource(b); err != nil {
			t.Error(err)
		}
	})
	for i := int64(1); i <= 2000; i++ {
		b.ring()
		for got := int64(0); got < i; {
			select {
			case got = <-b.took:
			case <-time.After(10 * time.Second):
				t.Fatalf("ring %d was never noticed", i)
			}
		}
	}
	runIn(t, r, func() { r.RemoveSource(b); r.RemoveSource(b) })
}

func TestReactorFollowsASourceWhoseDescriptorChanges(t *testing.T) {
	leaktest.Check(t)
	r := startReactor(t)
	b, other := newBell(t), newBell(t)
	expect := func(b *bell, n int64) {
		t.Helper()
		b.ring()
		for got := int64(0); got < n; {
			select {
			case got = <-b.took:
			case <-time.After(10 * time.Second):
				t.Fatal("not noticed")
			}
		}
	}
	runIn(t, r, func() { r.AddSource(b) })
	expect(b, 1)
	runIn(t, r, func() { b.file.Close(); b.fd = -1 }) // its process has died
	replaced := newBell(t)
	runIn(t, r, func() { r.AddSource(other) })
	runIn(t, r, func() { b.fd, b.file = replaced.fd, replaced.file })
	expect(b, 2)
	expect(other, 1)
	// Closed and reused by another source before the first is told.
	fd := b.fd
	b.file.Close()
	third := newBell(t)
	if third.fd != fd {
		t.Fatalf("descriptor %d was not reused, but %d", fd, third.fd)
	}
	runIn(t, r, func() { r.AddSource(third) })
	runIn(t, r, func() { b.fd = -1 })
	expect(third, 1)
	expect(third, 2)
	runIn(t, r, func() {
		if err := r.Stats().Err; err != nil {
			t.Error(err)
		}
	})
}

// TestReactorFollowsADescriptorOfTheSameNumber: a process dies and its successor's descriptor gets the number of the last, both while the
// reactor is busy, so that it hears of them in one turn.
func TestReactorFollowsADescriptorOfTheSameNumber(t *testing.T) {
	leaktest.Check(t)
	r := startReactor(t)
	b, next := newBell(t), newBell(t)
	runIn(t, r, func() { r.AddSource(b) })
	busy, waiting, errs := make(chan struct{}), 0, make(chan error, 3)
	call := func(f func()) {
		go func() { errs <- r.Call(t.Context(), f) }()
		for ; len(r.control.calls) < waiting; time.Sleep(time.Millisecond) {
		}
		waiting++
	}
	running := make(chan struct{})
	call(func() { close(running); <-busy })
	<-running
	fd, old := b.fd, b.file
	defer old.Close()
	call(func() { b.fd = -1 })
	call(func() {
		if err := unix.Dup3(next.fd, fd, unix.O_CLOEXEC); err != nil {
			t.Error(err)
		}
		b.fd, b.file = fd, next.file
		b.armed.Store(false)
	})
	close(busy)
	for range 3 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	for ; !b.armed.Load(); time.Sleep(time.Millisecond) {
	}
	b.ring()
	select {
	case <-b.took:
	case <-time.After(10 * time.Second):
		t.Error("not noticed")
	}
}

func TestReactorSleepsUntilTheDeadline(t *testing.T) {
	leaktest.Check(t)
	for _, withFD := range []bool{false, true} {
		r := startReactor(t)
		b := newBell(t)
		if !withFD {
			b.fd = -1
		}
		runIn(t, r, func() { r.AddSource(b) })
		if withFD { // the descriptor, which nobody reads, stays readable from now on
			b.ring()
			<-b.took
		}
		reached := make(chan uint64, 1)
		runIn(t, r, func() {
			start := r.Stats().Turns
			b.until = r.Now().Add(20 * time.Millisecond)
			b.onPoll = func(now time.Time) {
				if !b.until.IsZero() && !now.Before(b.until) {
					b.until = time.Time{}
					reached <- r.Stats().Turns - start
				}
			}
		})
		select {
		case n := <-reached:
			if n > 20 {
				t.Errorf("descriptor %v: %d turns where nothing happened", withFD, n)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("descriptor %v: the deadline passed unnoticed", withFD)
		}
	}
}

func TestReactorRunsInASynctestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _ := rdmatest.Pair()
		r, err := NewReactor(ReactorConfig{Devices: []rdma.Device{a}, QueueDepth: 16})
		if err != nil {
			t.Fatal(err)
		}
		r.Start()
		b := &bell{fd: -1, took: make(chan int64, 10)}
		runIn(t, r, func() { b.until = time.Now().Add(time.Hour); r.AddSource(b) })
		synctest.Wait()
		b.rung.Add(1)
		synctest.Wait()
		if b.seen.Load() != 0 {
			t.Fatal("polled without a wake-up")
		}
		r.Wake()
		if <-b.took != 1 {
			t.Fatal("wake-up lost")
		}
		synctest.Wait()
		b.rung.Add(1)
		time.Sleep(time.Hour)
		if <-b.took != 2 {
			t.Fatal("deadline missed")
		}
		runIn(t, r, func() { b.until = time.Time{} })
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCallRunsOnceOrNever(t *testing.T) {
	leaktest.Check(t)
	r, err := NewReactor(ReactorConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Call(t.Context(), func() { t.Error("ran before Start") }); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	r.Start()
	n := 0
	runIn(t, r, func() { n++ })
	inside, release := make(chan bool), make(chan bool)
	slow := make(chan error)
	go func() { slow <- r.Call(context.Background(), func() { close(inside); <-release }) }()
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Call(ctx, func() { n++ }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(release)
	if err := <-slow; err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	if err := r.Call(t.Context(), func() { n++ }); !errors.Is(err, ErrStopped) || n != 1 {
		t.Fatal(err, n)
	}
}

func TestReactorNeedsADeviceItKnows(t *testing.T) {
	leaktest.Check(t)
	p, a, b := rdmatest.Pair()
	defer p.Close()
	r := startReactor(t, a)
	runIn(t, r, func() {
		if _, err := r.cq(a); err != nil {
			t.Error(err)
		}
		if _, err := r.cq(b); !errors.Is(err, ErrDevice) {
			t.Error(err)
		}
	})
}

// fake is a client that records what it is told.
type fake struct {
	r       *Reactor
	id      uint64
	works   int
	more    int
	due     time.Time
	expired int
	killed  bool
}

func (f *fake) complete(*rdma.Completion) {}
func (f *fake) work() bool                { f.works++; f.more--; return f.more > 0 }
func (f *fake) deadline() time.Time       { return f.due }
func (f *fake) expire()                   { f.expired++; f.due = time.Time{} }
func (f *fake) device() rdma.Device       { return nil }
func (f *fake) kill()                     { f.killed = true; f.r.clients.remove(f.id) }

func TestClientsOfATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := NewReactor(ReactorConfig{})
		if err != nil {
			t.Fatal(err)
		}
		r.Start()
		f, g := &fake{r: r, more: 3}, &fake{r: r}
		runIn(t, r, func() {
			f.id, g.id = r.clients.add(f), r.clients.add(g)
			r.clients.markReady(f.id)
			r.clients.markReady(f.id)
			f.due = r.Now().Add(time.Minute)
			r.expectAt(f.due)
			f.due = r.Now().Add(2 * time.Minute) // put off: noticed when the first timer runs out
		})
		time.Sleep(90 * time.Second)
		runIn(t, r, func() {
			if f.works != 3 || g.works != 0 || f.expired != 0 {
				t.Errorf("works %d and %d, expired %d", f.works, g.works, f.expired)
			}
		})
		time.Sleep(time.Minute)
		runIn(t, r, func() {
			if f.expired != 1 || !r.timer.IsZero() {
				t.Errorf("expired %d, timer %v", f.expired, r.timer)
			}
		})
		if err := r.Close(); err != nil || !f.killed || !g.killed || r.clients.n != 0 {
			t.Fatal(err, f.killed, g.killed, r.clients.n)
		}
	})
}

func TestHandleOfAClientThatHasGoneFindsNobody(t *testing.T) {
	var tab clients
	f := &fake{}
	old := tab.add(f)
	tab.markReady(old)
	tab.remove(old)
	tab.remove(old)
	if tab.get(old) != nil || tab.get(99) != nil || tab.n != 0 {
		t.Fatal("it is still there")
	}
	g := &fake{}
	id := tab.add(g)
	if tab.runReady(); f.works != 0 || g.works != 0 {
		t.Fatal("a stale mark ran")
	}
	third := tab.add(&fake{})
	if uint32(third) != uint32(old) || third == old || tab.get(id) != g || tab.get(old) != nil {
		t.Fatalf("handles %x %x %x", old, id, third)
	}
}
