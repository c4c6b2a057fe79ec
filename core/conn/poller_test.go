package conn

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
)

// descriptor is an eventfd that stays readable once it was written.
func descriptor(t *testing.T) *os.File {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "eventfd")
	t.Cleanup(func() { f.Close() })
	return f
}

func newTestPoller(t *testing.T) *poller {
	t.Helper()
	p, err := newPoller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

const soon = 20 * time.Millisecond

// slept parks and tells whether the deadline ended it.
func slept(p *poller, arm func() bool) bool {
	end := time.Now().Add(soon)
	p.park(end, arm)
	return !time.Now().Before(end)
}

func yes() bool { return true }

func TestDescriptorThatStaysReadableEndsEveryParkByLevelAndOneByEdge(t *testing.T) {
	leaktest.Check(t)
	level, edge := newTestPoller(t), newTestPoller(t)
	f := descriptor(t)
	if err := level.add(int(f.Fd()), byLevel); err != nil {
		t.Fatal(err)
	}
	if err := edge.add(int(f.Fd()), byEdge); err != nil {
		t.Fatal(err)
	}
	if !slept(level, yes) || !slept(edge, yes) {
		t.Fatal("woken by nothing")
	}
	f.Write(bellWord)
	for range 3 {
		if slept(level, yes) {
			t.Error("a readable descriptor was overlooked")
		}
	}
	if slept(edge, yes) {
		t.Error("an edge was overlooked")
	}
	if !slept(edge, yes) {
		t.Error("an old edge ended a park")
	}
	f.Write(bellWord)
	if slept(edge, yes) {
		t.Error("the second edge was overlooked")
	}
	edge.remove(int(f.Fd()))
	f.Write(bellWord)
	if !slept(edge, yes) {
		t.Error("a removed descriptor ended a park")
	}
}

func TestWhatHappensWhileArmingEndsThePark(t *testing.T) {
	leaktest.Check(t)
	p := newTestPoller(t)
	f := descriptor(t)
	if err := p.add(int(f.Fd()), byEdge); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if slept(p, func() bool { f.Write(bellWord); return true }) {
			t.Fatal("an edge between arming and sleeping was lost")
		}
		if slept(p, func() bool { p.wake(); return true }) {
			t.Fatal("a wake-up between arming and sleeping was lost")
		}
		if slept(p, func() bool { return false }) {
			t.Fatal("slept though arming said no")
		}
	}
}

func TestDeadlineMayMoveEitherWay(t *testing.T) {
	leaktest.Check(t)
	p := newTestPoller(t)
	for range 3 {
		p.park(time.Now().Add(time.Hour), func() bool { p.wake(); return true })
		if !slept(p, yes) { // sooner than the one before
			t.Error("woken by nothing")
		}
		p.park(time.Now().Add(-time.Second), yes) // it has passed
		p.park(time.Time{}, func() bool { p.wake(); return true })
	}
}

func TestParkAllocatesNothing(t *testing.T) {
	p := newTestPoller(t)
	arm := func() bool { p.wake(); return true }
	at := time.Now()
	if n := testing.AllocsPerRun(200, func() {
		at = at.Add(time.Second)
		p.park(at, arm)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
