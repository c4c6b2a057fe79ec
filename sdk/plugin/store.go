package plugin

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/internal/power"
)

const (
	defaultConcurrency = 32
	maxConcurrency     = 4096
)

// store is one open store and the limits that it declared.
type store struct {
	id    uint64
	inner backstore.Store
	// At most one of both; inner as that.
	async   backstore.Submitter
	engines backstore.Engines
	info    backstore.Info // as it was opened, powers included
	size    atomic.Uint64  // in bytes; it may change under way

	// use is held for reading by each queue and slow request, and for writing by Sanitize. Nobody waits for it.
	use  sync.RWMutex
	side side

	submit sync.Mutex // calls of Submit take turns
	// calls holds a token for each call that may be in the store at once.
	calls chan struct{}
	ctx   context.Context
	stop  context.CancelFunc

	// The pool: workers take jobs until quit is closed.
	jobs    chan job
	quit    chan struct{}
	workers atomic.Int32
	pool    sync.WaitGroup

	closed chan struct{}
}

// newStore checks that a store's description makes sense.
func newStore(inner backstore.Store) (*store, error) {
	info := inner.Info()
	if err := checkInfo(info); err != nil {
		return nil, err
	}
	info.Powers = backstore.PowersOf(inner)
	n := info.Concurrency
	if n == 0 {
		n = defaultConcurrency
	}
	s := &store{
		inner: inner, info: info,
		calls: make(chan struct{}, n), jobs: make(chan job), quit: make(chan struct{}), closed: make(chan struct{}),
	}
	if s.engines, _ = inner.(backstore.Engines); s.engines == nil {
		s.async, _ = inner.(backstore.Submitter)
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.size.Store(info.Blocks * uint64(info.BlockSize))
	s.side.start(s)
	return s, nil
}

func checkInfo(i backstore.Info) error {
	switch {
	case i.BlockSize != 512 && i.BlockSize != 4096:
		return invalid("the store says that its block size is %d; 512 or 4096 can be", i.BlockSize)
	case i.Blocks == 0 || i.Blocks > (1<<63-1)/uint64(i.BlockSize):
		return invalid("the store says that it has %d blocks", i.Blocks)
	case i.Concurrency < 0 || i.Concurrency > maxConcurrency:
		return invalid("the store says that %d calls may be in it at once; 0 to %d can be", i.Concurrency, maxConcurrency)
	case i.UnmapGranularity != 0 && (i.UnmapGranularity < i.BlockSize || i.UnmapGranularity&(i.UnmapGranularity-1) != 0):
		return invalid("the store says that it unmaps units of %d bytes, of blocks of %d", i.UnmapGranularity, i.BlockSize)
	case i.MaxCompareAndWrite%i.BlockSize != 0 || i.MaxCompareAndWrite > maxCompare:
		return invalid("the store says that it compares and writes %d bytes at once; whole blocks up to %d can be", i.MaxCompareAndWrite, maxCompare)
	}
	return nil
}

// check holds a request against the store's description. The host has done so too: a refusal here counts as its fault.
func (s *store) check(r *backstore.Request) backstore.Code {
	switch {
	case r.Op == backstore.OpFlush:
		return backstore.CodeOK
	case r.Op > backstore.OpFlush:
		return s.checkPower(r)
	}
	n := uint64(len(r.Data))
	if c := s.inside(r.Off, n); c != backstore.CodeOK {
		return c
	}
	switch {
	case s.info.MaxTransfer != 0 && n > uint64(s.info.MaxTransfer):
		return backstore.CodeInvalid
	case r.Op == backstore.OpWrite && s.info.ReadOnly:
		return backstore.CodeReadOnly
	case r.Flags&^backstore.FUA != 0, r.Flags&backstore.FUA != 0 && (r.Op != backstore.OpWrite || !s.info.FUA):
		return backstore.CodeInvalid
	}
	return backstore.CodeOK
}

// inside tells whether n bytes from off are whole blocks of the store.
func (s *store) inside(off int64, n uint64) backstore.Code {
	bs, size := uint64(s.info.BlockSize), s.size.Load()
	switch {
	case off < 0 || uint64(off) > size || n > size-uint64(off):
		return backstore.CodeRange
	case uint64(off)%bs != 0 || n%bs != 0:
		return backstore.CodeInvalid
	}
	return backstore.CodeOK
}

// call runs one request in the calling goroutine, within the store's concurrency.
func (s *store) call(r *backstore.Request) backstore.Result {
	s.calls <- struct{}{}
	defer func() { <-s.calls }()
	var err error
	switch r.Op {
	case backstore.OpRead:
		err = s.inner.Read(s.ctx, r.Data, r.Off)
	case backstore.OpWrite:
		err = s.inner.Write(s.ctx, r.Data, r.Off, r.Flags)
	case backstore.OpFlush:
		err = s.inner.Flush(s.ctx)
	default:
		err = power.Run(s.ctx, s.inner, *r)
	}
	return result(r.Tag, err)
}

// result is how the request of a tag ended.
func result(tag uint64, err error) backstore.Result {
	r := backstore.Result{Tag: tag, Code: known(backstore.CodeOf(err))}
	if r.Code == backstore.CodeMiscompare {
		r.At = differsAt(err)
	}
	return r
}

// known maps a code that is not in the list to CodeIO, which is what it counts as.
func known(c backstore.Code) backstore.Code {
	if c > backstore.MaxCode {
		return backstore.CodeIO
	}
	return c
}

// one runs one request of the slow path, whichever way the store takes them, and waits for its end.
func (s *store) one(r backstore.Request) backstore.Result {
	if !s.use.TryRLock() {
		return backstore.Result{Code: backstore.CodeBusy} // it is being sanitized
	}
	defer s.use.RUnlock()
	if c := s.check(&r); c != backstore.CodeOK {
		return backstore.Result{Code: c}
	}
	if s.async == nil || r.Op > backstore.OpFlush {
		return honest(&r, s.call(&r))
	}
	end := make(chan backstore.Result, 1)
	s.submit.Lock()
	s.async.Submit([]backstore.Request{r}, func(res backstore.Result) {
		res.Code = known(res.Code)
		select {
		case end <- honest(&r, res):
		default: // completed twice; the first counts
		}
	})
	s.submit.Unlock()
	return <-end
}

// close ends what goes on beside requests, waits for the calls that are in the store and closes it.
func (s *store) close(ctx context.Context) error {
	defer close(s.closed)
	if err := s.side.end(ctx); err != nil {
		return err
	}
	close(s.quit)
	s.pool.Wait()
	for range cap(s.calls) {
		select {
		case s.calls <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("calls are still in the store: %w", ctx.Err())
		}
	}
	s.stop()
	return s.inner.Close()
}

func (s *store) waitClosed(ctx context.Context) {
	select {
	case <-s.closed:
	case <-ctx.Done():
	}
}
