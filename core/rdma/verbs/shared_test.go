package verbs

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// srqModel is a device with a shared receive queue: it takes receives in order, and completes those of a queue pair in order.
type srqModel struct {
	t      *testing.T
	recvs  sharedReceives
	queue  []uint32         // posted
	taken  map[int][]uint32 // by queue pair
	takers map[int]*taker
	lost   map[uint64]int // ID to the queue pair that had it
	idle   []uint64       // IDs of nobody, to post
}

func newModel(t *testing.T, depth int) *srqModel {
	m := &srqModel{t: t, recvs: newSharedReceives(depth), taken: map[int][]uint32{}, takers: map[int]*taker{}, lost: map[uint64]int{}}
	for i := range depth {
		m.idle = append(m.idle, uint64(100+i))
	}
	return m
}

// post posts all that is idle.
func (m *srqModel) post() {
	for _, id := range m.idle {
		if m.recvs.full() {
			m.t.Fatal("no slot is left for a receive that is not outstanding")
		}
		m.queue = append(m.queue, m.recvs.vacant())
		m.recvs.post(id)
	}
	m.idle = m.idle[:0]
}

func (m *srqModel) join(qp int) {
	m.takers[qp] = &taker{}
	m.recvs.join(m.takers[qp])
}

// take: a message begins.
func (m *srqModel) take(qp int) bool {
	if len(m.queue) == 0 {
		return false
	}
	m.taken[qp] = append(m.taken[qp], m.queue[0])
	m.queue = m.queue[1:]
	return true
}

// finish: the oldest message of a queue pair ends.
func (m *srqModel) finish(qp int) {
	at := m.taken[qp][0]
	m.taken[qp] = m.taken[qp][1:]
	id, ok := m.recvs.complete(m.takers[qp], at)
	if !ok {
		m.t.Fatalf("slot %d has no receive", at)
	}
	m.idle = append(m.idle, id)
}

// leave: the queue pair goes, and its messages with it.
func (m *srqModel) leave(qp int) {
	for _, at := range m.taken[qp] {
		m.lost[m.recvs.slots[at].id] = qp
	}
	m.recvs.leave(m.takers[qp], uint64(qp))
	delete(m.taken, qp)
	delete(m.takers, qp)
}

// find looks for what is lost.
func (m *srqModel) find() (ids []uint64) {
	for _, l := range m.recvs.lost(nil) {
		if _, lost := m.lost[l.id]; !lost {
			m.t.Fatalf("receive %d of queue pair %d is not lost", l.id, l.user)
		}
		delete(m.lost, l.id)
		ids = append(ids, l.id)
	}
	m.idle = append(m.idle, ids...)
	return ids
}

func TestReceivesCompleteOutOfOrderAndTheirSlotsAreUsedAgain(t *testing.T) {
	m := newModel(t, 4)
	m.post()
	if !m.recvs.full() || m.recvs.outstanding() != 4 {
		t.Fatalf("%d outstanding", m.recvs.outstanding())
	}
	m.join(1)
	m.join(2)
	for range 1000 {
		m.take(1) // keeps one for long
		for range 10 {
			m.take(2)
			m.finish(2)
			m.post()
		}
		m.finish(1)
		m.post()
	}
	if m.recvs.unordered || m.recvs.suspects != 0 {
		t.Errorf("%+v", m.recvs)
	}
}

func TestCompletionOfNoReceiveIsRefused(t *testing.T) {
	m := newModel(t, 2)
	m.join(1)
	for _, at := range []uint32{0, 1, 2, 1<<30 - 1} {
		if id, ok := m.recvs.complete(m.takers[1], at); ok {
			t.Errorf("slot %d has receive %d", at, id)
		}
	}
	m.post()
	m.take(1)
	at := m.taken[1][0]
	m.finish(1)
	if _, ok := m.recvs.complete(m.takers[1], at); ok {
		t.Error("it completes twice")
	}
}

func TestReceiveIsLostOnlyWhenNoQueuePairCanHaveIt(t *testing.T) {
	step := func(m *srqModel, qp int) { m.take(qp); m.finish(qp); m.post() }
	for _, row := range []struct {
		name string
		run  func(m *srqModel)
		want int
	}{
		{"nobody has come further", func(m *srqModel) { m.take(1); m.leave(1) }, 0},
		{"the other has come further", func(m *srqModel) { m.take(1); m.leave(1); step(m, 2) }, 1},
		{"the other had come further before", func(m *srqModel) { m.take(1); step(m, 2); m.leave(1) }, 1},
		{"an idle one may have it", func(m *srqModel) { m.join(3); m.take(1); m.leave(1); step(m, 2) }, 0},
		{"an idle one came later", func(m *srqModel) { m.take(1); step(m, 2); m.leave(1); m.join(3); step(m, 2) }, 1},
		{"the idle one goes, too", func(m *srqModel) { m.join(3); m.take(1); m.leave(1); step(m, 2); m.leave(3) }, 1},
		{"a live one has it", func(m *srqModel) { m.take(2); m.join(3); step(m, 3); m.leave(1) }, 0},
		{"several are lost", func(m *srqModel) { m.take(1); m.take(1); m.take(1); m.leave(1); step(m, 2) }, 3},
		{"nobody is left", func(m *srqModel) { m.take(1); step(m, 2); m.leave(1); m.leave(2) }, 1},
		{"nobody has left", func(m *srqModel) { m.take(1); step(m, 2) }, 0},
		{"it was another's", func(m *srqModel) { m.leave(1); m.take(2); m.finish(2); m.post(); step(m, 2) }, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := newModel(t, 4)
			m.post()
			m.join(1)
			m.join(2)
			row.run(m)
			if got := m.find(); len(got) != row.want {
				t.Errorf("found %v, want %d", got, row.want)
			}
			if got := m.find(); len(got) != 0 {
				t.Errorf("found %v once more", got)
			}
		})
	}
}

func TestLostReceiveIsNamedAfterOneWhoHasLeft(t *testing.T) {
	m := newModel(t, 4)
	m.post()
	m.join(8)
	m.join(9)
	m.take(8)
	m.leave(8)
	m.take(9)
	m.finish(9)
	if got := m.recvs.lost(nil); len(got) != 1 || got[0] != (lostReceive{user: 8, id: 100}) {
		t.Errorf("%+v", got)
	}
}

func TestDeviceThatBreaksTheOrderLosesNothingByProof(t *testing.T) {
	m := newModel(t, 4)
	m.post()
	m.join(1)
	m.join(2)
	m.take(1)
	m.take(2)
	m.take(2)
	slices.Reverse(m.taken[2])
	m.finish(2)
	m.finish(2)
	m.leave(1)
	if got := m.find(); len(got) != 0 {
		t.Errorf("found %v", got)
	}
}

// TestNoReceiveIsLostForGood does everything that can happen, in any order. The model reports a receive that is handed back and is not lost.
func TestNoReceiveIsLostForGood(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		m := newModel(t, 1+rnd.IntN(32))
		m.post()
		var live []int
		for qp := range 400 {
			switch n := rnd.IntN(10); {
			case n == 0 && len(live) < 6 || len(live) == 0:
				m.join(qp)
				live = append(live, qp)
			case n == 1:
				i := rnd.IntN(len(live))
				m.leave(live[i])
				live = slices.Delete(live, i, i+1)
			case n < 6:
				m.take(live[rnd.IntN(len(live))])
			case n == 6 && m.recvs.due():
				m.find()
				m.post()
			default:
				if qp := live[rnd.IntN(len(live))]; len(m.taken[qp]) > 0 {
					m.finish(qp)
					m.post()
				}
			}
		}
		// Who is left goes on, and proves that nobody has what is lost, as far as there are receives for that.
		for _, qp := range live {
			for len(m.taken[qp]) > 0 {
				m.finish(qp)
			}
		}
		m.post()
		m.join(1000)
		for _, qp := range append(live, 1000) {
			if m.take(qp) {
				m.finish(qp)
				m.post()
			}
		}
		m.find()
		if exhausted := len(m.queue) == 0; len(m.lost) > 0 && !exhausted {
			t.Fatalf("seed %d: %v are not found, %+v", seed, m.lost, m.recvs)
		}
		m.post()
		if n := m.recvs.outstanding(); n != len(m.queue)+len(m.lost) {
			t.Fatalf("seed %d: %d receives are outstanding, the device has %d and lost %d", seed, n, len(m.queue), len(m.lost))
		}
		if len(m.lost) == 0 && m.recvs.suspects > len(m.queue) {
			t.Fatalf("seed %d: %d suspects", seed, m.recvs.suspects)
		}
	}
}

func TestSharedReceivesAllocateNothing(t *testing.T) {
	m := newModel(t, 64)
	m.join(1)
	m.join(2)
	m.leave(2)
	one := m.takers[1]
	found := make([]lostReceive, 0, 64)
	n := testing.AllocsPerRun(1000, func() {
		at := m.recvs.vacant()
		m.recvs.post(1)
		m.recvs.complete(one, at)
		if m.recvs.due() {
			found = m.recvs.lost(found[:0])
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
