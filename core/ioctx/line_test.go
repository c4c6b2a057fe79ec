package ioctx

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// wait makes a lease that asks for a buffer in somebody's name and has to wait for it.
func wait(t *testing.T, a *Arena, log *[]string, name string, by Turn, bytes uint64) *holder {
	t.Helper()
	h := &holder{name: name, by: by, log: log}
	if ok, err := a.Acquire(&h.Lease, bytes, by, h, epoch); ok || err != nil {
		t.Fatalf("%s has not to wait: %v, %v", name, ok, err)
	}
	return h
}

func TestGreedyNexusDelaysAnotherByOneGrant(t *testing.T) {
	const large = 16 << 20
	for _, greedy := range []int{1, 3} { // nexuses with 128 commands of 16 MiB each
		var log []string
		a := newArena(t, 64<<20/PageSize)
		var inUse []*Lease
		for range 4 {
			h := &holder{log: &log}
			if ok, err := a.Acquire(&h.Lease, large, Turn{Nexus: 1}, h, epoch); !ok || err != nil {
				t.Fatal(ok, err)
			}
			inUse = append(inUse, &h.Lease)
		}
		leases := map[string]*Lease{}
		for i := range 128 {
			for n := range greedy {
				name := fmt.Sprintf("greedy %d.%d", n, i)
				leases[name] = &wait(t, a, &log, name, Turn{Nexus: uint64(n + 1)}, large).Lease
			}
		}
		for i := range 3 {
			name := fmt.Sprintf("small %d", i)
			leases[name] = &wait(t, a, &log, name, Turn{Nexus: 99}, 4096).Lease
		}
		// Buffers come back one by one.
		for len(log) < 128*greedy+3 {
			inUse[0].Release()
			inUse = inUse[1:]
			seen := len(log)
			a.Poll(epoch)
			for _, name := range log[seen:] {
				inUse = append(inUse, leases[name])
			}
		}
		for i := range 3 {
			at := slices.Index(log, fmt.Sprintf("small %d", i))
			if most := (i + 1) * greedy; at > most+i {
				t.Errorf("%d greedy nexuses: request %d of the small one was granted after %d others, want %d at most", greedy, i, at, most+i)
			}
		}
		for _, l := range inUse {
			l.Release()
		}
		if s := a.Stats(); s.Held != 0 || s.Waiting != 0 || s.Free != s.Size {
			t.Errorf("%+v", s)
		}
	}
}

func TestUnitsOfANexusTakeTurns(t *testing.T) {
	var log []string
	a := newArena(t, 1)
	x := holder{log: &log, name: "x"}
	x.acquire(t, a, 1)
	all := map[string]*holder{}
	for _, w := range []struct {
		name        string
		nexus, unit uint64
	}{{"a0.1", 1, 0}, {"a0.2", 1, 0}, {"a0.3", 1, 0}, {"a7.1", 1, 7}, {"b0.1", 2, 0}, {"b0.2", 2, 0}, {"a7.2", 1, 7}, {"a9.1", 1, 9}} {
		all[w.name] = wait(t, a, &log, w.name, Turn{w.nexus, w.unit}, 1)
	}
	last := &x
	for range all {
		last.Release()
		a.Poll(epoch)
		last = all[log[len(log)-1]]
	}
	want := []string{"a0.1", "b0.1", "a7.1", "b0.2", "a9.1", "a0.2", "a7.2", "a0.3"}
	if !slices.Equal(log, want) {
		t.Errorf("granted %v, want %v", log, want)
	}
}

func TestWhoWaitedTooLongIsRefusedWhoseverTurnItIs(t *testing.T) {
	var log []string
	a := newArena(t, 4)
	x := holder{log: &log, name: "x"}
	x.acquire(t, a, 2)
	old := wait(t, a, &log, "old", Turn{Nexus: 1}, 4*PageSize)
	second := &holder{name: "second", log: &log}
	later := epoch.Add(a.maxWait / 2)
	for _, h := range []*holder{{name: "first", log: &log}, second} {
		if ok, err := a.Acquire(&h.Lease, PageSize, Turn{Nexus: 1}, h, later); ok || err != nil {
			t.Fatal("it overtakes", err)
		}
	}
	if d := a.Deadline(); !d.Equal(epoch.Add(a.maxWait)) {
		t.Errorf("deadline %v", d)
	}
	a.Poll(epoch.Add(a.maxWait - 1))
	if len(log) != 0 {
		t.Fatalf("%v", log)
	}
	a.Poll(epoch.Add(a.maxWait)) // and those behind it go on
	if want := []string{"!old", "first", "second"}; !slices.Equal(log, want) || old.Waiting() || !a.Deadline().IsZero() {
		t.Errorf("%v, want %v", log, want)
	}
}

// model is a line as plain lists, the nexus whose turn it is first.
type model []modelNexus

type modelNexus struct {
	key   uint64
	units []modelUnit
}

type modelUnit struct {
	key    uint64
	leases []*Lease
}

func (m *model) push(l *Lease, by Turn) {
	n := slices.IndexFunc(*m, func(n modelNexus) bool { return n.key == by.Nexus })
	if n < 0 {
		n = len(*m)
		*m = append(*m, modelNexus{key: by.Nexus})
	}
	x := &(*m)[n]
	u := slices.IndexFunc(x.units, func(u modelUnit) bool { return u.key == by.Unit })
	if u < 0 {
		u = len(x.units)
		x.units = append(x.units, modelUnit{key: by.Unit})
	}
	x.units[u].leases = append(x.units[u].leases, l)
}

func (m *model) remove(l *Lease) {
	for n := range *m {
		x := &(*m)[n]
		for u := range x.units {
			x.units[u].leases = slices.DeleteFunc(x.units[u].leases, func(o *Lease) bool { return o == l })
		}
		x.units = slices.DeleteFunc(x.units, func(u modelUnit) bool { return len(u.leases) == 0 })
	}
	*m = slices.DeleteFunc(*m, func(n modelNexus) bool { return len(n.units) == 0 })
}

func (m *model) pass() {
	x := &(*m)[0]
	x.units = append(x.units[1:], x.units[0])
	*m = append((*m)[1:], (*m)[0])
}

func (m *model) head() *Lease {
	if len(*m) == 0 {
		return nil
	}
	return (*m)[0].units[0].leases[0]
}

func TestLineIsAsItsModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var q line
	var m model
	var age []*Lease
	for step := range 200_000 {
		switch k := rnd.IntN(10); {
		case k < 5 && q.n < 60:
			l, by := new(Lease), Turn{rnd.Uint64N(7), rnd.Uint64N(4)}
			q.push(l, by)
			m.push(l, by)
			age = append(age, l)
		case k < 8 && q.n > 0:
			l := q.head()
			q.pass()
			m.pass()
			q.remove(l)
			m.remove(l)
			age = slices.DeleteFunc(age, func(o *Lease) bool { return o == l })
		case q.n > 0: // given up
			l := age[rnd.IntN(len(age))]
			q.remove(l)
			m.remove(l)
			age = slices.DeleteFunc(age, func(o *Lease) bool { return o == l })
		}
		var oldest *Lease
		if len(age) > 0 {
			oldest = age[0]
		}
		if q.head() != m.head() || q.all.first != oldest || q.n != len(age) {
			t.Fatalf("step %d: %d wait, %d in the model", step, q.n, len(age))
		}
	}
}

func TestWaitingAllocatesNothing(t *testing.T) {
	a, err := NewArena(ArenaConfig{Memory: make([]byte, PageSize), MaxWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var log []string
	holders := make([]holder, 20)
	if n := testing.AllocsPerRun(100, func() {
		log = log[:0]
		for i := range holders {
			h := &holders[i]
			h.log = &log
			if _, err := a.Acquire(&h.Lease, 1, Turn{uint64(i % 5), uint64(i % 3)}, h, epoch); err != nil {
				t.Fatal(err)
			}
		}
		for range holders {
			for i := range holders {
				if holders[i].Held() {
					holders[i].Release()
				}
			}
			a.Poll(epoch)
		}
	}); n != 0 || a.Stats().Waiting != 0 || a.Stats().Held != 0 {
		t.Fatalf("%v allocations, %+v", n, a.Stats())
	}
}
