package store

import (
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Detach takes the backend away. The caller has closed it, so that it holds no buffer any more. Its
// requests go to the head of the queue in their old order, to wait for the next backend, and now counts for
// those that Poll has not seen; abandoned ones, and those that must not be done twice, end with CodeAborted: a compare and write may have
// been done, and would then find its own data and call them a difference. It does nothing if there is no backend.
//
// FD changes: a guard that a reactor watches is removed from it before, and added again after.
func (g *Guard) Detach(now time.Time) {
	if g.backend == nil {
		return
	}
	g.stamp(now)
	var dropped list
	for r := g.flying.head; r != nil; {
		next := r.next
		g.vacate(r)
		if r.abandoned || !r.Op.Repeatable() {
			r.abandoned = true // so that Cancel leaves it alone
			g.flying.remove(r)
			r.abandoned = true // so that Cancel leaves it alone
			dropped.push(r)
		} else {
			r.state = requestWaiting
			r.due = r.born.Add(g.cfg.Patience)
		}
		r = next
	}
	g.stats.resubmitted.Add(uint64(g.flying.n))
	g.waiting.prepend(&g.flying)
	g.stats.waiting.Store(int64(g.waiting.n))
	g.stats.flying.Store(0)
	g.backend, g.wrong, g.dirty = nil, false, false
	g.endAll(&dropped, backstore.CodeAborted)
}

// endAll ends the requests of a list of their own, which Cancel takes for flying.
func (g *Guard) endAll(l *list, code backstore.Code) {
	for r := l.head; r != nil; r = l.head {
		l.remove(r)
		g.complete(r, code)
	}
}

// Attach puts a new backend in the place of one that was detached. It must be the same store: same block size,
// no smaller than before. Requests that wait go to it at the next Flush; those that it cannot take,
// because it became read only or its longest transfer is shorter, fail. Errors are *Error and wrap
// ErrConfig, ErrInfo or ErrChanged; then b is still the caller's.
//
// FD changes, see Detach. The logical unit is told Info anew.
func (g *Guard) Attach(b Backend) error {
	if g.backend != nil || g.closed {
		return g.errorf("attach", "there is a backend, or the guard is closed: %w", ErrConfig)
	}
	info, err := g.describe("attach", b)
	if err != nil {
		return err
	}
	if info.BlockSize != g.info.BlockSize || info.Blocks < g.info.Blocks {
		return g.errorf("attach", "%d blocks of %d bytes, were %d of %d: %w",
			info.Blocks, info.BlockSize, g.info.Blocks, g.info.BlockSize, ErrChanged)
	}
	g.use(b, info)
	g.recheck()
	return nil
}

// recheck fails what waits and what the new backend cannot do. Owners are told at the end, when they may submit
// and cancel as they like.
func (g *Guard) recheck() {
	var failed [backstore.MaxCode + 1]list
	for r := g.waiting.head; r != nil; {
		next := r.next
		if code := g.checkOp(r); code != backstore.CodeOK {
			g.waiting.remove(r)
			r.state, r.abandoned = requestFlying, true // so that Cancel leaves it alone
			failed[code].push(r)
		}
		r = next
	}
	g.stats.waiting.Store(int64(g.waiting.n))
	for code := range failed {
		g.endAll(&failed[code], backstore.Code(code))
	}
}

// Close ends the guard: every request that waits fails with CodeUnavailable, as do later ones. The
// caller has closed the backend. It may be called twice.
func (g *Guard) Close(now time.Time) {
	g.Detach(now)
	g.closed = true
	for r := g.waiting.head; r != nil; r = g.waiting.head {
		g.unqueue(r)
		g.complete(r, backstore.CodeUnavailable)
	}
}
