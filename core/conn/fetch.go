package conn

import (
	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/rdma"
)

const (
	// fetchAhead is how many bytes of RDMA READs may be outstanding before another one is posted: enough to fill any link, and
	// little enough that a command whose initiator has given it up on a slow one is soon over.
	fetchAhead = 4 << 20
	// lastPiece is the most that is still read of a command that ends early, in bytes. Its completion comes after that of
	// all that was posted before.
	lastPiece = 512
)

// mayFetch tells whether a READ may be staged: half of the send queue is for all else.
func (q *sendQueue) mayFetch() bool {
	return q.fetches.todo.n > 0 && q.room() && q.pending.bytes < fetchAhead && int(q.pending.reads) < max(q.depth/2, 1)
}

// stageFetch stages the next READ of the fetch at the head.
func (c *Channel) stageFetch() {
	l := &c.q.fetches
	a := l.todo.first()
	if a.Kind == channel.ActFetchTable {
		c.stageTable(l)
		return
	}
	c.stageData(l, c.m.Cmd(a.Slot).DataOut(), rdma.OpRead)
}

// stopFetch reads no more of a command's data-out than it must: nothing if no READ was staged yet, else a last piece, with
// whose completion all have ended. What has been staged to the end is left alone.
func (c *Channel) stopFetch(slot channel.Slot) {
	l := &c.q.fetches
	for i := range l.todo.n {
		a := l.todo.at(i)
		switch {
		case a.Slot != slot:
		case i == 0 && l.place.done > 0:
			a.N = uint32(min(uint64(a.N), l.place.done+lastPiece))
			return
		default:
			l.todo.remove(i)
			c.feed(&channel.Event{Kind: channel.EvFetched, Slot: slot})
			return
		}
	}
}

// cover is what a completion vouches for: work requests, the RDMA READs among them, and the bytes of those.
type cover struct {
	work, reads, bytes uint32
}

func coverOf(w *rdma.Work) cover {
	k := cover{work: 1}
	if w.Op == rdma.OpRead {
		k.reads = 1
		for _, e := range w.SGL {
			k.bytes += uint32(e.Len)
		}
	}
	return k
}

func (k cover) plus(o cover) cover {
	return cover{k.work + o.work, k.reads + o.reads, k.bytes + o.bytes}
}

func (k cover) less(o cover) cover {
	return cover{k.work - o.work, k.reads - o.reads, k.bytes - o.bytes}
}

// coverRing is a queue of a fixed size.
type coverRing struct {
	buf     []cover
	head, n int
}

func newCoverRing(size int) coverRing { return coverRing{buf: make([]cover, size)} }

func (r *coverRing) push(k cover) {
	r.buf[(r.head+r.n)%len(r.buf)] = k
	r.n++
}

// pop returns the oldest, nothing if there is none.
func (r *coverRing) pop() cover {
	if r.n == 0 {
		return cover{}
	}
	k := r.buf[r.head]
	r.head = (r.head + 1) % len(r.buf)
	r.n--
	return k
}
