package hca

import (
	"context"
	"sync"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// keep is how many records of events are kept.
const keep = 512

// Record is an event and what was done about it.
type Record struct {
	// Seq counts from 1.
	Seq    uint64
	Time   time.Time
	Event  rdma.AsyncEvent
	Action string
}

// history keeps the last records.
type history struct {
	mu   sync.Mutex
	last uint64
	ring [keep]Record
	news chan struct{} // closed and replaced at each record
}

func (h *history) init() { h.news = make(chan struct{}) }

func (h *history) add(ev rdma.AsyncEvent, action string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	h.ring[h.last%keep] = Record{h.last, time.Now(), ev, action}
	close(h.news)
	h.news = make(chan struct{})
}

// after returns the records after a number that are still kept, and what tells of more.
func (h *history) after(seq uint64) ([]Record, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if seq+keep < h.last {
		seq = h.last - keep
	}
	var out []Record
	for seq++; seq <= h.last; seq++ {
		out = append(out, h.ring[seq%keep])
	}
	return out, h.news
}

// Events returns the records after a number, oldest first. A number that does not follow shows that some in between are not kept.
func (t *Table) Events(seq uint64) []Record {
	list, _ := t.history.after(seq)
	return list
}

// NextEvents waits until there are records after a number.
func (t *Table) NextEvents(ctx context.Context, seq uint64) ([]Record, error) {
	for {
		list, news := t.history.after(seq)
		if len(list) > 0 {
			return list, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-t.ctx.Done():
			return nil, rdma.ErrClosed
		}
	}
}
