package plugin

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gosrpt/gosrpt/sdk/backstore"
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
	info    backstore.Info
	size    uint64

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
	n := info.Concurrency
	if n == 0 {
		n = defaultConcurrency
	}
	s := &store{
		inner: inner, info: info, size: info.Blocks * uint64(info.BlockSize),
		calls: make(chan struct{}, n), jobs: make(chan job), quit: make(chan struct{}), closed: make(chan struct{}),
	}
	if s.engines, _ = inner.(backstore.Engines); s.engines == nil {
		s.async, _ = inner.(backstore.Submitter)
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
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
	}
	return nil
}

// check holds a request against the store's description. The host has done so too: a refusal here counts as its fault.
func (s *store) check(op backstore.Op, flags backstore.Flags, off int64, n int) backstore.Code {
	if op == backstore.OpFlush {
		return backstore.CodeOK
	}
	bs := uint64(s.info.BlockSize)
	switch {
	case n < 0:
		return backstore.CodeInvalid
	case off < 0 || uint64(off) > s.size || uint64(n) > s.size-uint64(off):
		return backstore.CodeRange
	case uint64(off)%bs != 0 || uint64(n)%bs != 0:
		return backstore.CodeInvalid
	case s.info.MaxTransfer != 0 && uint64(n) > uint64(s.info.MaxTransfer):
		return backstore.CodeInvalid
	case op == backstore.OpWrite && s.info.ReadOnly:
		return backstore.CodeReadOnly
	case flags&^backstore.FUA != 0, flags&backstore.FUA != 0 && (op != backstore.OpWrite || !s.info.FUA):
		return backstore.CodeInvalid
	}
	return backstore.CodeOK
}

// call runs one request in the calling goroutine, within the store's concurrency.
func (s *store) call(r *backstore.Request) backstore.Code {
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
		return backstore.CodeNotSupported
	}
	return known(backstore.CodeOf(err))
}

// known maps a code that is not in the list to CodeIO, which is what it counts as.
func known(c backstore.Code) backstore.Code {
	if c > backstore.CodeInvalid {
		return backstore.CodeIO
	}
	return c
}

// one runs one request of the slow path, whichever way the store takes them, and waits for its end.
func (s *store) one(r backstore.Request) backstore.Code {
	if c := s.check(r.Op, r.Flags, r.Off, len(r.Data)); c != backstore.CodeOK {
		return c
	}
	if s.async == nil {
		return s.call(&r)
	}
	end := make(chan backstore.Code, 1)
	s.submit.Lock()
	s.async.Submit([]backstore.Request{r}, func(res backstore.Result) {
		select {
		case end <- known(res.Code):
		default: // completed twice; the first counts
		}
	})
	s.submit.Unlock()
	return <-end
}

// close waits for the calls that are in the store and closes it.
func (s *store) close(ctx context.Context) error {
	defer close(s.closed)
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
