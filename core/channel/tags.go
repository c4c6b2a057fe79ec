package channel

import "github.com/gosrpt/gosrpt/core/srp"

// tagTable maps the tags of unanswered requests to slot indices: open addressing,
// linear probing, at most half full, deletion by shifting back. A peer that picks
// colliding tags slows down only its own channel, by as many steps as it has
// requests outstanding.
type tagTable struct {
	keys []srp.Tag
	vals []uint32 // slot index + 1; 0 is empty
	mask uint64
}

func newTagTable(n int) tagTable {
	size := 2
	for size < 2*n {
		size *= 2
	}
	return tagTable{make([]srp.Tag, size), make([]uint32, size), uint64(size - 1)}
}

func (t *tagTable) home(k srp.Tag) uint64 {
	h := uint64(k) * 0x9E3779B97F4A7C15 // 2^64 over the golden ratio
	return (h >> 32) & t.mask
}

// find returns where k is, or the empty place where it belongs.
func (t *tagTable) find(k srp.Tag) uint64 {
	i := t.home(k)
	for t.vals[i] != 0 && t.keys[i] != k {
		i = (i + 1) & t.mask
	}
	return i
}

func (t *tagTable) get(k srp.Tag) (index uint32, ok bool) {
	v := t.vals[t.find(k)]
	return v - 1, v != 0
}

// put maps k to index, instead of what it was mapped to.
func (t *tagTable) put(k srp.Tag, index uint32) {
	i := t.find(k)
	t.keys[i], t.vals[i] = k, index+1
}

func (t *tagTable) del(k srp.Tag) {
	i := t.find(k)
	if t.vals[i] == 0 {
		return
	}
	for j := i; ; {
		j = (j + 1) & t.mask
		if t.vals[j] == 0 {
			break
		}
		// An entry may move to i only if its home is not between i and itself.
		if h := t.home(t.keys[j]); (j-h)&t.mask >= (j-i)&t.mask {
			t.keys[i], t.vals[i] = t.keys[j], t.vals[j]
			i = j
		}
	}
	t.vals[i] = 0
}

// iuQueue holds received requests that wait, first in, first out. It has room for
// every receive buffer.
type iuQueue struct {
	ring []iuRef
	head int
	n    int
}

type iuRef struct {
	buf uint32
	iu  []byte
}

func newIUQueue(n int) iuQueue { return iuQueue{ring: make([]iuRef, n)} }

// push returns false if the queue is full.
func (q *iuQueue) push(r iuRef) bool {
	if q.n == len(q.ring) {
		return false
	}
	q.ring[(q.head+q.n)%len(q.ring)] = r
	q.n++
	return true
}

func (q *iuQueue) pop() iuRef {
	r := q.ring[q.head]
	q.ring[q.head] = iuRef{}
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return r
}

func (q *iuQueue) clear() {
	for q.n > 0 {
		q.pop()
	}
}
