package ioctx

import (
	"testing"
	"time"
)

// fence says of every buffer whose first byte is in it that it is tainted.
type fence struct {
	tainted map[*byte]bool
	lifted  uint64
}

func (f *fence) Tainted(b []byte) bool { return len(b) > 0 && f.tainted[&b[0]] }
func (f *fence) Lifted() uint64        { return f.lifted }

func (f *fence) lift() {
	clear(f.tainted)
	f.lifted++
}

func newFencedArena(t *testing.T, pages int) (*Arena, *fence) {
	t.Helper()
	f := &fence{tainted: map[*byte]bool{}}
	a, err := NewArena(ArenaConfig{Name: "t", Memory: make([]byte, pages*PageSize), MaxWait: time.Second, Strict: true, Fence: f})
	if err != nil {
		t.Fatal(err)
	}
	return a, f
}

func TestTaintedBufferIsNotLentBeforeTheFence(t *testing.T) {
	a, f := newFencedArena(t, 4)
	var log []string
	hs := make([]holder, 4)
	for i := range hs {
		hs[i].name, hs[i].log = string(rune('a'+i)), &log
	}
	dead, alive, next, last := &hs[0], &hs[1], &hs[2], &hs[3]
	dead.acquire(t, a, 2)
	alive.acquire(t, a, 2)
	buf := dead.Bytes()
	f.tainted[&buf[0]] = true
	dead.Release()
	if s := a.Stats(); s.Quarantined != 2*PageSize || s.Held != 1 || s.Free != 0 {
		t.Fatalf("%+v", s)
	}
	if next.acquire(t, a, 2) {
		t.Fatal("a tainted buffer was lent")
	}
	for range 3 {
		if a.Poll(epoch); !a.Arm() {
			t.Fatal("the quarantine keeps the reactor awake")
		}
	}
	// Who waits gets another buffer as soon as there is one.
	alive.Release()
	if a.Poll(epoch); !next.Held() || &next.Bytes()[0] == &buf[0] {
		t.Fatalf("held %v", next.Held())
	}
	if last.acquire(t, a, 1) {
		t.Fatal("a tainted buffer was lent")
	}
	f.lift()
	if a.Arm() {
		t.Error("what has left the quarantine waits for nothing")
	}
	if !a.Poll(epoch) || !last.Held() {
		t.Error("nothing left the quarantine")
	}
	next.Release()
	last.Release()
	if s := a.Stats(); s.Quarantined != 0 || s.Free != s.Size {
		t.Errorf("%+v", s)
	}
}

func TestOnlyWhatIsStillTaintedStaysInQuarantine(t *testing.T) {
	a, f := newFencedArena(t, 3)
	var log []string
	hs := make([]holder, 3)
	var first []*byte
	for i := range hs {
		hs[i].log = &log
		hs[i].acquire(t, a, 1)
		first = append(first, &hs[i].Bytes()[0])
		f.tainted[first[i]] = true
	}
	for i := range hs {
		hs[i].Release()
	}
	for n := range first {
		delete(f.tainted, first[n])
		f.lifted++
		a.Poll(epoch)
		if s := a.Stats(); s.Quarantined != uint64(2-n)*PageSize || s.Free != uint64(n+1)*PageSize {
			t.Errorf("after %d: %+v", n+1, s)
		}
	}
}

func TestArenaClosesWithBuffersInQuarantine(t *testing.T) {
	a, f := newFencedArena(t, 1)
	h := holder{log: &[]string{}}
	h.acquire(t, a, 1)
	f.tainted[&h.Bytes()[0]] = true
	h.Release()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func TestFenceCostsNoAllocation(t *testing.T) {
	a, _ := newFencedArena(t, 4)
	h := holder{log: &[]string{}}
	if n := testing.AllocsPerRun(100, func() {
		if ok, err := a.Acquire(&h.Lease, 2*PageSize, Turn{}, &h, epoch); !ok || err != nil {
			t.Fatal(ok, err)
		}
		a.Poll(epoch)
		h.Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
