package store

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Local is a Backend over a store in this process. It does each request at once, in the goroutine that submits it: it
// is for stores that do not block, such as Memory. It allocates nothing for a request.
type Local struct {
	st     backstore.Store
	info   backstore.Info
	ring   []backstore.Result // results that were not polled yet
	head   int
	n      int
	closed atomic.Bool
}

var _ Backend = (*Local)(nil)

// NewLocal returns a Local for a store and its powers, with room for depth results, at least one. The store stays the caller's, to be closed
// after the Local.
func NewLocal(st backstore.Store, depth int) *Local {
	info := st.Info()
	info.Powers = backstore.PowersOf(st)
	return &Local{st: st, info: info, ring: make([]backstore.Result, max(depth, 1))}
}

// Info describes the store.
func (l *Local) Info() backstore.Info { return l.info }

// Submit does the requests that there is room for.
func (l *Local) Submit(reqs []backstore.Request) int {
	if l.closed.Load() {
		return 0
	}
	took := min(len(reqs), len(l.ring)-l.n)
	for i := range reqs[:took] {
		l.ring[(l.head+l.n)%len(l.ring)] = result(reqs[i].Tag, l.do(&reqs[i]))
		l.n++
	}
	return took
}

func (l *Local) do(r *backstore.Request) error {
	ctx := context.Background()
	switch r.Op {
	case backstore.OpRead:
		return l.st.Read(ctx, r.Data, r.Off)
	case backstore.OpWrite:
		return l.st.Write(ctx, r.Data, r.Off, r.Flags)
	case backstore.OpFlush:
		return l.st.Flush(ctx)
	}
	return l.doPower(ctx, r)
}

func (l *Local) doPower(ctx context.Context, r *backstore.Request) error {
	switch r.Op {
	case backstore.OpUnmap:
		if s, ok := l.st.(backstore.Unmapper); ok {
			return s.Unmap(ctx, r.Off, r.N)
		}
	case backstore.OpWriteZeroes:
		if s, ok := l.st.(backstore.ZeroWriter); ok {
			return s.WriteZeroes(ctx, r.Off, r.N, r.Flags)
		}
	case backstore.OpCompareAndWrite:
		if s, ok := l.st.(backstore.Comparer); ok {
			half := len(r.Data) / 2
			return s.CompareAndWrite(ctx, r.Data[:half], r.Data[half:], r.Off, r.Flags)
		}
	case backstore.OpWriteSame:
		if s, ok := l.st.(backstore.SameWriter); ok {
			return s.WriteSame(ctx, r.Data, r.Off, r.N, r.Flags)
		}
	}
	return errNotSupported
}

var errNotSupported = &backstore.Error{Code: backstore.CodeNotSupported}

// result is how a request that ended with err ended.
func result(tag uint64, err error) backstore.Result {
	res := backstore.Result{Tag: tag, Code: backstore.CodeOf(err)}
	if res.Code == backstore.CodeMiscompare {
		var e *backstore.Error
		errors.As(err, &e)
		res.At = e.At
	}
	return res
}

// Flush does nothing.
func (l *Local) Flush() {}

// Poll returns results in the order of submission.
func (l *Local) Poll(res []backstore.Result) int {
	if l.closed.Load() {
		return 0
	}
	n := min(len(res), l.n)
	for i := range res[:n] {
		res[i] = l.ring[(l.head+i)%len(l.ring)]
	}
	l.head = (l.head + n) % len(l.ring)
	l.n -= n
	return n
}

// Arm tells whether there is nothing to poll. Nothing comes but by Submit, so nobody is ever woken.
func (l *Local) Arm() bool { return l.n == 0 || l.closed.Load() }

// FD is -1.
func (l *Local) FD() int { return -1 }

// Deadline is never.
func (l *Local) Deadline() time.Time { return time.Time{} }

// Close drops results that were not polled. It does not close the store.
func (l *Local) Close() error {
	l.closed.Store(true)
	return nil
}
