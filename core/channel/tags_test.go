package channel

import (
	"math/rand/v2"
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

func TestTagTableAgainstAMap(t *testing.T) {
	const n = 64
	rng := rand.New(rand.NewPCG(1, 2))
	table, model := newTagTable(n), map[srp.Tag]uint32{}
	for range 100_000 {
		k := srp.Tag(rng.Uint64N(3*n)) << (rng.Uint64N(2) * 32)
		switch {
		case rng.Uint64N(2) == 0 && len(model) < n:
			v := rng.Uint32N(n)
			table.put(k, v)
			model[k] = v
		default:
			table.del(k)
			delete(model, k)
		}
		probe := srp.Tag(rng.Uint64N(3 * n))
		v, ok := table.get(probe)
		if mv, mok := model[probe]; ok != mok || ok && v != mv {
			t.Fatalf("%v: %d, %v; want %d, %v", probe, v, ok, mv, mok)
		}
	}
	for k, v := range model {
		if got, ok := table.get(k); !ok || got != v {
			t.Fatalf("%v is lost", k)
		}
	}
}

func TestTagTableSurvivesCollidingTags(t *testing.T) {
	const n = 16
	table := newTagTable(n)
	home := table.home(0)
	var keys []srp.Tag
	for k := srp.Tag(0); len(keys) < n; k++ {
		if table.home(k) == home {
			keys = append(keys, k)
			table.put(k, uint32(k))
		}
	}
	for i, k := range keys {
		table.del(k)
		for _, left := range keys[i+1:] {
			if v, ok := table.get(left); !ok || v != uint32(left) {
				t.Fatalf("%v is lost after %v was deleted", left, k)
			}
		}
	}
	for i, v := range table.vals {
		if v != 0 {
			t.Fatalf("place %d is still used", i)
		}
	}
}

func TestIUQueueWrapsAndRefusesWhenFull(t *testing.T) {
	q := newIUQueue(3)
	var next, expect uint32
	for range 10 {
		for q.push(iuRef{buf: next}) {
			next++
		}
		if q.n != 3 || q.ring[q.head].buf != expect {
			t.Fatalf("%d units, first %d, want %d", q.n, q.ring[q.head].buf, expect)
		}
		for range 2 {
			if r := q.pop(); r.buf != expect {
				t.Fatalf("got %d, want %d", r.buf, expect)
			}
			expect++
		}
	}
	q.clear()
	if q.n != 0 {
		t.Error("not empty")
	}
}

func TestWindowCannotGoNegative(t *testing.T) {
	w := window{1}
	if !w.take() || w.take() || w.left() != 0 {
		t.Errorf("left %d", w.left())
	}
	w.grant(2)
	took := 0
	for w.take() {
		took++
	}
	if took != 2 {
		t.Errorf("a grant of 2 let %d requests in", took)
	}
}
