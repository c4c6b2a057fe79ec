package ioctx

import "math/bits"

// buddy allocates runs of pages. Free blocks are powers of two of pages, aligned to their size; a
// run of another length is carved out of one block and its tail is given back at once, so that a
// run of n pages costs n pages. All its memory is taken when it is made.
type buddy struct {
	total int32
	free  int32
	// head is the first free block of each order, or none.
	head [maxOrder + 1]int32
	// order is that of the free block which begins at a page, or notFree.
	order []int8
	// next and prev link the free blocks of an order.
	next, prev []int32
}

const (
	maxOrder = 12 // 2^12 pages of 4 KiB: 16 MiB
	none     = int32(-1)
	notFree  = int8(-1)
)

func newBuddy(pages int32) *buddy {
	b := &buddy{
		total: pages,
		order: make([]int8, pages),
		next:  make([]int32, pages),
		prev:  make([]int32, pages),
	}
	for i := range b.head {
		b.head[i] = none
	}
	for i := range b.order {
		b.order[i] = notFree
	}
	b.put(0, pages)
	return b
}

// take returns the first page of a run of n pages, 1..2^maxOrder, or false if no block is large enough.
func (b *buddy) take(n int32) (int32, bool) {
	want := bits.Len32(uint32(n - 1))
	k := want
	for k <= maxOrder && b.head[k] == none {
		k++
	}
	if k > maxOrder {
		return 0, false
	}
	page := b.head[k]
	b.unlink(page, k)
	b.free -= 1 << k
	b.put(page+n, 1<<k-n)
	return page, true
}

// fits tells whether take(n) would succeed.
func (b *buddy) fits(n int32) bool {
	for k := bits.Len32(uint32(n - 1)); k <= maxOrder; k++ {
		if b.head[k] != none {
			return true
		}
	}
	return false
}

// put gives back n pages from page on.
func (b *buddy) put(page, n int32) {
	b.free += n
	for n > 0 {
		k := min(bits.Len32(uint32(n))-1, maxOrder)
		if page != 0 {
			k = min(k, bits.TrailingZeros32(uint32(page)))
		}
		b.join(page, k)
		page += 1 << k
		n -= 1 << k
	}
}

// join frees one block, merged with its buddies as far as they are free.
func (b *buddy) join(page int32, k int) {
	for k < maxOrder {
		other := page ^ 1<<k
		if other >= b.total || b.order[other] != int8(k) {
			break
		}
		b.unlink(other, k)
		page = min(page, other)
		k++
	}
	b.link(page, k)
}

func (b *buddy) link(page int32, k int) {
	first := b.head[k]
	b.next[page], b.prev[page] = first, none
	if first != none {
		b.prev[first] = page
	}
	b.head[k] = page
	b.order[page] = int8(k)
}

func (b *buddy) unlink(page int32, k int) {
	next, prev := b.next[page], b.prev[page]
	if prev == none {
		b.head[k] = next
	} else {
		b.next[prev] = next
	}
	if next != none {
		b.prev[next] = prev
	}
	b.order[page] = notFree
}
