package store

import (
	"sync/atomic"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Stats is a snapshot of what a Guard did.
type Stats struct {
	// Reads, Writes and Flushes are the requests that ended with CodeOK.
	Reads, Writes, Flushes uint64
	// BytesRead and BytesWritten are their payload.
	BytesRead, BytesWritten uint64
	// Unmaps, ZeroWrites, CompareAndWrites and SameWrites are the requests of these kinds that ended with CodeOK.
	Unmaps, ZeroWrites, CompareAndWrites, SameWrites uint64
	// BytesUnmapped, BytesZeroed and BytesSame are how much of the store the unmaps, zero writes and same writes were about.
	BytesUnmapped, BytesZeroed, BytesSame uint64
	// Failed counts requests by the code that they ended with; Failed[CodeOK] is 0.
	Failed [backstore.MaxCode + 1]uint64
	// Refused is how many requests were refused before a backend saw them.
	Refused uint64
	// Cancelled is how many were taken back, and Expired how many waited too long.
	Cancelled, Expired uint64
	// Overdue is how often a backend was reported for holding a request too long.
	Overdue uint64
	// Breaches is how often a backend broke the contract, and UnknownCodes how often it gave a code that is none.
	Breaches, UnknownCodes uint64
	// Resubmitted is how many requests went on to a new backend.
	Resubmitted uint64
	// Generation counts the backends so far.
	Generation uint64
	// Waiting and Flying are the requests in the queue and with the backend now.
	Waiting, Flying int64
	// Oldest is how long the oldest of them had been there when Poll was last called.
	Oldest time.Duration
}

// counters has one writer, the reactor, and any number of readers.
type counters struct {
	ops         [operations]atomic.Uint64
	bytes       [operations]atomic.Uint64
	failed      [backstore.MaxCode + 1]atomic.Uint64
	refused     atomic.Uint64
	cancelled   atomic.Uint64
	expired     atomic.Uint64
	overdue     atomic.Uint64
	breaches    atomic.Uint64
	unknown     atomic.Uint64
	resubmitted atomic.Uint64
	generation  atomic.Uint64
	waiting     atomic.Int64
	flying      atomic.Int64
	oldest      atomic.Int64
}

func (c *counters) done(r *Request) {
	if r.Code != backstore.CodeOK {
		c.failed[r.Code].Add(1)
		return
	}
	c.ops[r.Op].Add(1)
	c.bytes[r.Op].Add(uint64(r.Extent()))
}

// note records the age of the oldest request.
func (c *counters) note(g *Guard, now time.Time) {
	var age time.Duration
	for _, r := range [...]*Request{g.flying.head, g.waiting.head} {
		if r != nil && !r.born.IsZero() {
			age = max(age, now.Sub(r.born))
		}
	}
	c.oldest.Store(int64(age))
}

// Stats returns a snapshot. It may be called from any goroutine; the numbers need not fit each other exactly.
func (g *Guard) Stats() Stats {
	c := &g.stats
	s := Stats{
		Reads: c.ops[backstore.OpRead].Load(), Writes: c.ops[backstore.OpWrite].Load(), Flushes: c.ops[backstore.OpFlush].Load(),
		BytesRead: c.bytes[backstore.OpRead].Load(), BytesWritten: c.bytes[backstore.OpWrite].Load(),
		Unmaps: c.ops[backstore.OpUnmap].Load(), BytesUnmapped: c.bytes[backstore.OpUnmap].Load(),
		ZeroWrites: c.ops[backstore.OpWriteZeroes].Load(), BytesZeroed: c.bytes[backstore.OpWriteZeroes].Load(),
		SameWrites: c.ops[backstore.OpWriteSame].Load(), BytesSame: c.bytes[backstore.OpWriteSame].Load(),
		CompareAndWrites: c.ops[backstore.OpCompareAndWrite].Load(),
		Refused:          c.refused.Load(), Cancelled: c.cancelled.Load(), Expired: c.expired.Load(), Overdue: c.overdue.Load(),
		Breaches: c.breaches.Load(), UnknownCodes: c.unknown.Load(), Resubmitted: c.resubmitted.Load(),
		Generation: c.generation.Load(), Waiting: c.waiting.Load(), Flying: c.flying.Load(),
		Oldest: time.Duration(c.oldest.Load()),
	}
	for i := range s.Failed {
		s.Failed[i] = c.failed[i].Load()
	}
	return s
}
