package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// pollPeriod is how often, in milliseconds, the waiting goroutine looks whether the store is being closed.
const pollPeriod = 50

// store is a store of the plugin and its queue. Whoever holds mu may call the queue, and leaves it armed.
type store struct {
	b     *Backstore
	inner *host.Store

	mu      sync.Mutex
	q       *host.Queue
	last    uint64
	waiting map[uint64]chan backstore.Code
	closed  bool
	waiter  sync.WaitGroup
}

func newStore(b *Backstore, inner *host.Store, q *host.Queue) *store {
	s := &store{b: b, inner: inner, q: q, waiting: map[uint64]chan backstore.Code{}}
	s.waiter.Go(s.wait)
	return s
}

// Info implements backstore.Store. Powers are not used here.
func (s *store) Info() backstore.Info {
	i := s.inner.Info()
	i.Powers = 0
	return i
}

// Read implements backstore.Store. When ctx ends first the process is killed: until then the arena is the plugin's.
func (s *store) Read(ctx context.Context, p []byte, off int64) error {
	return s.transfer(ctx, backstore.Request{Op: backstore.OpRead, Off: off}, p)
}

// Write implements backstore.Store.
func (s *store) Write(ctx context.Context, p []byte, off int64, flags backstore.Flags) error {
	return s.transfer(ctx, backstore.Request{Op: backstore.OpWrite, Off: off, Flags: flags}, p)
}

// Flush implements backstore.Store.
func (s *store) Flush(ctx context.Context) error {
	return s.do(ctx, backstore.Request{Op: backstore.OpFlush})
}

// Close implements backstore.Store.
func (s *store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.waiter.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return errors.Join(s.q.Close(), s.inner.Close(ctx))
}

// transfer runs a request whose data are p.
func (s *store) transfer(ctx context.Context, r backstore.Request, p []byte) error {
	if len(p) > slotSize {
		err := fmt.Errorf("a transfer of %d bytes; %d can be here", len(p), slotSize)
		return &backstore.Error{Code: backstore.CodeInvalid, Err: err}
	}
	slot := <-s.b.free
	defer func() { s.b.free <- slot }()
	r.Data = slot[:len(p):len(p)]
	if r.Op == backstore.OpWrite {
		copy(r.Data, p)
	}
	err := s.do(ctx, r)
	if err == nil && r.Op == backstore.OpRead {
		copy(p, r.Data)
	}
	return err
}

// do runs a request and waits for its end.
func (s *store) do(ctx context.Context, r backstore.Request) error {
	end := make(chan backstore.Code, 1)
	s.mu.Lock()
	s.last++
	r.Tag = s.last
	if s.closed || s.q.Submit([]backstore.Request{r}) == 0 {
		s.mu.Unlock()
		return &backstore.Error{Code: backstore.CodeBusy}
	}
	s.waiting[r.Tag] = end
	s.q.Flush()
	s.reap()
	s.mu.Unlock()
	var c backstore.Code
	select {
	case c = <-end:
	case <-ctx.Done():
		s.b.giveUp(fmt.Errorf("a request of kind %d has no answer: %w", r.Op, ctx.Err()))
		c = <-end
	}
	if c == backstore.CodeOK {
		return nil
	}
	err := s.b.Fault()
	if err == nil {
		err = fmt.Errorf("the plugin answered a request of kind %d, %d bytes at %d", r.Op, len(r.Data), r.Off)
	}
	return &backstore.Error{Code: c, Err: err}
}

// reap delivers results until there are none and the queue is armed. The caller holds mu.
func (s *store) reap() {
	var res [entries]backstore.Result
	for {
		n := s.q.Poll(res[:])
		for _, r := range res[:n] {
			s.waiting[r.Tag] <- r.Code
			delete(s.waiting, r.Tag)
		}
		if n == 0 && s.q.Arm() {
			return
		}
	}
}

// wait reaps whenever the queue's bell is rung, until the store is closed and every request has ended.
func (s *store) wait() {
	for {
		s.mu.Lock()
		s.reap()
		over := s.closed && len(s.waiting) == 0
		s.mu.Unlock()
		if over {
			return
		}
		// The bell is the queue's until its Close. An interrupted wait is as good as one that has ended.
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(s.q.FD()), Events: unix.POLLIN}}, pollPeriod)
	}
}
