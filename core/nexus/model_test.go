package nexus

import (
	"math/rand/v2"
	"testing"
)

// model plays the owner of a Nexus at random and holds it to its promises: each
// request and each clear is answered exactly once, and only when every channel
// asked has aborted or left; no channel runs while a replaced one is there; each
// channel is admitted at most once, and in the end.
type model struct {
	t        *testing.T
	rng      *rand.Rand
	n        Nexus
	next     Channel
	running  map[Channel]bool // joined: admitted or not
	ending   map[Channel]bool
	asked    map[uint32]map[Channel]bool // by Op
	units    []uint32
	requests map[uint32]Channel
	clears   map[uint32]bool
	serial   uint32
	lost     int
}

func (m *model) step(ev Event) {
	m.t.Helper()
	for _, a := range m.n.Step(ev, nil) {
		m.do(a)
	}
	count := 0
	for c := range m.running {
		if !m.ending[c] {
			count++
		}
	}
	if m.n.Channels() != count {
		m.t.Fatalf("%d channels, want %d", m.n.Channels(), count)
	}
}

func (m *model) do(a Action) {
	m.t.Helper()
	switch a.Kind {
	case ActTerminate:
		if m.ending[a.Channel] {
			m.t.Fatalf("%s twice", show(a))
		}
		m.ending[a.Channel] = true
	case ActAdmit:
		if m.running[a.Channel] || len(m.ending) > 0 {
			m.t.Fatalf("%s with %d channels ending", show(a), len(m.ending))
		}
		m.running[a.Channel] = true
	case ActAbort:
		if m.asked[a.Op] == nil {
			m.asked[a.Op] = map[Channel]bool{}
		}
		if m.asked[a.Op][a.Channel] {
			m.t.Fatalf("%s twice", show(a))
		}
		m.asked[a.Op][a.Channel] = true
	case ActUnit:
		m.units = append(m.units, a.Op)
	case ActAnswer:
		if m.requests[a.Request] != a.Channel {
			m.t.Fatalf("%s: not asked", show(a))
		}
		delete(m.requests, a.Request)
	case ActCleared:
		if !m.clears[a.Op] {
			m.t.Fatalf("%s: not asked", show(a))
		}
		delete(m.clears, a.Op)
	case ActLost:
		m.lost++
		if len(m.running) != 0 {
			m.t.Fatal("lost with channels")
		}
	}
}

// any returns a random channel, in an order that a seed repeats.
func (m *model) any() (Channel, bool) {
	var all []Channel
	for c := Channel(1); c < m.next; c++ {
		if _, ok := m.running[c]; ok {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	return all[m.rng.IntN(len(all))], true
}

func (m *model) leave(c Channel) {
	delete(m.running, c)
	delete(m.ending, c)
	for _, waits := range m.asked {
		delete(waits, c)
	}
	m.step(leave(c))
}

func (m *model) manage(c Channel) {
	m.serial++
	m.requests[m.serial] = c
	functions := []Function{AbortTask, AbortTaskSet, ClearTaskSet, UnitReset, 0x40}
	m.step(Event{
		Kind: EvManage, Channel: c, Request: m.serial, Function: functions[m.rng.IntN(5)], LUN: 3,
		Known: m.rng.IntN(8) > 0, N: m.rng.Uint32N(2),
	})
}

// reply answers one abort that is asked for; false if there is none.
func (m *model) reply() bool {
	for op := uint32(1); op <= m.n.lastOp; op++ {
		for c := Channel(1); c < m.next; c++ {
			if m.asked[op][c] && m.rng.IntN(3) == 0 {
				delete(m.asked[op], c)
				m.step(Event{Kind: EvAborted, Op: op, Channel: c, N: m.rng.Uint32N(2)})
				return true
			}
		}
	}
	if len(m.units) > 0 {
		op := m.units[0]
		m.units = m.units[1:]
		m.step(Event{Kind: EvUnitDone, Op: op})
		return true
	}
	return false
}

func (m *model) stir() {
	switch c, ok := m.any(); m.rng.IntN(10) {
	case 0, 1:
		m.next++
		m.running[m.next-1] = false
		m.step(join(m.next-1, m.rng.IntN(4) == 0))
	case 2, 3:
		if ok {
			m.leave(c)
		}
	case 4, 5:
		if ok {
			m.manage(c)
		}
	case 6:
		m.serial++
		m.clears[m.serial] = true
		m.step(Event{Kind: EvClear, Op: m.serial, LUN: 3, Reset: m.rng.IntN(2) == 0, TaskAborted: m.rng.IntN(2) == 0})
	default:
		m.reply()
	}
}

func TestRandomNexus(t *testing.T) {
	for seed := range uint64(100) {
		m := &model{
			t: t, rng: rand.New(rand.NewPCG(seed, 5)), next: 1, running: map[Channel]bool{}, ending: map[Channel]bool{},
			asked: map[uint32]map[Channel]bool{}, requests: map[uint32]Channel{}, clears: map[uint32]bool{},
		}
		for range 300 {
			m.stir()
		}
		for c := Channel(1); c < m.next; c++ {
			if m.ending[c] {
				m.leave(c)
			}
		}
		for i := 0; i < 10_000 && len(m.requests)+len(m.clears) > 0; i++ {
			m.reply()
		}
		if len(m.requests) != 0 || len(m.clears) != 0 || len(m.n.ops) != 0 {
			t.Fatalf("seed %d: %d requests, %d clears unanswered", seed, len(m.requests), len(m.clears))
		}
		for c, admitted := range m.running {
			if !admitted {
				t.Fatalf("seed %d: channel %d is held for ever", seed, c)
			}
		}
		for {
			c, ok := m.any()
			if !ok {
				break
			}
			m.leave(c)
		}
		if m.lost == 0 {
			t.Fatalf("seed %d: the loss of the nexus was not told", seed)
		}
	}
}
