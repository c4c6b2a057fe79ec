package store

import (
	"fmt"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Flush gives the backend what was submitted and fits in, and rings its doorbell once.
func (g *Guard) Flush() {
	for g.Ready() && g.waiting.n > 0 && len(g.free) > 0 {
		if !g.send() {
			break
		}
	}
	if g.dirty && g.Ready() {
		g.dirty = false
		g.backend.Flush()
	}
}

// send offers one batch and returns whether there may be more to send.
func (g *Guard) send() bool {
	n := 0
	for r := g.waiting.head; r != nil && n < batchSize && n < len(g.free) && !g.blocked(r); r = r.next {
		r.slot = g.free[len(g.free)-1-n]
		g.batch[n] = backstore.Request{Tag: g.tag(r.slot), Op: r.Op, Flags: r.Flags, Off: r.Off, Data: r.Data, N: r.N}
		n++
	}
	if n == 0 {
		return false
	}
	took := g.backend.Submit(g.batch[:n])
	clear(g.batch[:n])
	if took < 0 || took > n {
		g.breach("submit", "%d requests offered, %d taken", n, took)
		took = n // what it holds is not known, so it holds all
	}
	for range took {
		g.launch(g.waiting.head)
	}
	g.dirty = g.dirty || took > 0
	g.stats.waiting.Store(int64(g.waiting.n))
	g.stats.flying.Store(int64(g.flying.n))
	return took == n
}

func (g *Guard) tag(slot uint32) uint64 { return uint64(g.slots[slot].seq)<<32 | uint64(slot) }

// launch moves r from the queue to the backend.
func (g *Guard) launch(r *Request) {
	g.waiting.remove(r)
	g.free = g.free[:len(g.free)-1]
	g.slots[r.slot].r = r
	r.state, r.due = requestFlying, time.Time{}
	g.flying.push(r)
}

// land takes r back from the backend.
func (g *Guard) land(r *Request) {
	g.vacate(r)
	g.flying.remove(r)
}

// vacate frees the place of r in the backend's queue.
func (g *Guard) vacate(r *Request) {
	s := &g.slots[r.slot]
	s.r = nil
	s.seq++
	g.free = append(g.free, r.slot)
	if r.abandoned {
		g.abandoned -= r.changes()
	}
}

// Poll tells owners what has finished, and looks after deadlines. It returns whether there was anything,
// and handles a bounded number of results a call.
func (g *Guard) Poll(now time.Time) bool {
	g.stamp(now)
	worked := g.collect()
	worked = g.expire(now) || worked
	g.stats.note(g, now)
	return worked
}

// stamp gives the requests that Poll has not seen yet, which are the newest, their times.
func (g *Guard) stamp(now time.Time) {
	for r := g.waiting.tail; r != nil && r.due.IsZero(); r = r.prev {
		r.age(now)
		r.due = r.born.Add(g.cfg.Patience)
	}
	for r := g.flying.tail; r != nil && r.due.IsZero(); r = r.prev {
		r.age(now)
		r.due = now.Add(g.cfg.Deadline)
	}
}

func (r *Request) age(now time.Time) {
	if r.born.IsZero() {
		r.born = now
	}
}

func (g *Guard) collect() bool {
	if !g.Ready() {
		return false
	}
	n := g.backend.Poll(g.results[:])
	if n < 0 || n > len(g.results) {
		g.breach("poll", "%d results in room for %d", n, len(g.results))
		return true
	}
	for _, res := range g.results[:n] {
		if !g.finish(res) {
			break
		}
	}
	return n > 0
}

// finish checks one result and ends its request.
func (g *Guard) finish(res backstore.Result) bool {
	i := uint32(res.Tag)
	if uint64(i) >= uint64(len(g.slots)) || g.slots[i].r == nil || uint32(res.Tag>>32) != g.slots[i].seq {
		g.breach("poll", "result for tag %#x, which is not outstanding", res.Tag)
		return false
	}
	r := g.slots[i].r
	g.land(r)
	g.stats.flying.Store(int64(g.flying.n))
	g.complete(r, g.believe(r, &res))
	return true
}

// believe returns the code of a result as it may be. Only a compare and write can find a difference, and only in what it
// compared.
func (g *Guard) believe(r *Request, res *backstore.Result) backstore.Code {
	r.At = 0
	switch {
	case res.Code < backstore.CodeMiscompare:
		return res.Code
	case res.Code == backstore.CodeMiscompare && r.Op == backstore.OpCompareAndWrite && int64(res.At) < r.Extent():
		r.At = res.At
		return res.Code
	}
	g.stats.unknown.Add(1)
	return backstore.CodeIO
}

// complete ends a request that is in no list.
func (g *Guard) complete(r *Request, code backstore.Code) {
	r.state, r.Code = requestIdle, code
	g.stats.done(r)
	r.Owner.Completed(r)
}

// expire fails what has waited too long, and reports a backend that holds a request for too long.
func (g *Guard) expire(now time.Time) bool {
	worked := false
	for r := g.waiting.head; r != nil && !r.due.IsZero() && !now.Before(r.due); r = g.waiting.head {
		g.unqueue(r)
		g.stats.expired.Add(1)
		g.complete(r, g.whyWaiting())
		worked = true
	}
	if r := g.flying.head; r != nil && !r.due.IsZero() && !now.Before(r.due) && !g.told {
		g.stats.overdue.Add(1)
		g.fault(g.errorf("poll", "a request has been with the backend for %v, %d are: %w", now.Sub(r.born).Round(time.Millisecond), g.flying.n, ErrDeadline))
	}
	return worked
}

// whyWaiting is the code of a request that nobody took.
func (g *Guard) whyWaiting() backstore.Code {
	if g.Ready() {
		return backstore.CodeBusy
	}
	return backstore.CodeUnavailable
}

// breach ends all trust in the backend: it is neither called nor believed until it is replaced.
func (g *Guard) breach(op, format string, args ...any) {
	g.stats.breaches.Add(1)
	g.wrong = true
	g.fault(g.errorf(op, "%s: %w", fmt.Sprintf(format, args...), ErrProtocol))
}

func (g *Guard) fault(err error) {
	if g.told {
		return
	}
	g.told = true
	if g.cfg.OnFault != nil {
		g.cfg.OnFault(err)
	}
}
