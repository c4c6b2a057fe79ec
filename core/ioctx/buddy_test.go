package ioctx

import (
	"math/rand/v2"
	"testing"
)

// check walks the free lists: no page is in two blocks, and the counts agree.
func (b *buddy) check(t *testing.T, used []bool) {
	t.Helper()
	seen := make([]bool, b.total)
	free := int32(0)
	for k, page := range b.head {
		for prev := none; page != none; prev, page = page, b.next[page] {
			if b.prev[page] != prev || b.order[page] != int8(k) {
				t.Fatalf("page %d of order %d: prev %d order %d", page, k, b.prev[page], b.order[page])
			}
			if page%(1<<k) != 0 {
				t.Fatalf("page %d of order %d is not aligned", page, k)
			}
			for p := page; p < page+1<<k; p++ {
				if seen[p] || used[p] {
					t.Fatalf("page %d is free twice or in use", p)
				}
				seen[p] = true
			}
			free += 1 << k
		}
	}
	if free != b.free {
		t.Fatalf("free lists hold %d pages, count says %d", free, b.free)
	}
	for p, u := range used {
		if !u && !seen[p] {
			t.Fatalf("page %d is lost", p)
		}
	}
}

func TestBuddyLosesAndDoublesNoPage(t *testing.T) {
	for _, total := range []int32{1, 2, 3, 100, 4096, 5000, 3*4096 + 17} {
		rnd := rand.New(rand.NewPCG(1, uint64(total)))
		b := newBuddy(total)
		used := make([]bool, total)
		type run struct{ page, n int32 }
		var runs []run
		for i := range 4000 {
			if rnd.IntN(5) < 3 {
				n := 1 + rnd.Int32N(min(total, 1<<rnd.IntN(maxOrder+1)))
				fits := b.fits(n)
				page, ok := b.take(n)
				if ok != fits {
					t.Fatalf("fits says %v, take says %v", fits, ok)
				}
				if ok {
					mark(t, used, page, n, true)
					runs = append(runs, run{page, n})
				}
			} else if len(runs) > 0 {
				j := rnd.IntN(len(runs))
				r := runs[j]
				runs[j] = runs[len(runs)-1]
				runs = runs[:len(runs)-1]
				mark(t, used, r.page, r.n, false)
				b.put(r.page, r.n)
			}
			if i%97 == 0 {
				b.check(t, used)
			}
		}
		for _, r := range runs {
			mark(t, used, r.page, r.n, false)
			b.put(r.page, r.n)
		}
		b.check(t, used)
		if b.free != total {
			t.Fatalf("%d of %d pages came back", b.free, total)
		}
		if n := min(total, 1<<maxOrder); total >= 1<<maxOrder {
			if _, ok := b.take(n); !ok {
				t.Fatalf("free blocks were not joined: no run of %d pages in %d", n, total)
			}
		}
	}
}

func mark(t *testing.T, used []bool, page, n int32, to bool) {
	t.Helper()
	for p := page; p < page+n; p++ {
		if used[p] == to {
			t.Fatalf("page %d was %v already", p, to)
		}
		used[p] = to
	}
}

func TestBuddyRunCostsItsPagesOnly(t *testing.T) {
	b := newBuddy(4096)
	if _, ok := b.take(129); !ok || b.free != 4096-129 {
		t.Fatalf("129 pages cost %d", 4096-b.free)
	}
}
