package plugintest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
)

// depth is how many requests a remote store has in its queue.
const depth = 128

// remote is a store in a plugin's process, as the store of this one: a Submitter, over a queue of the host.
type remote struct {
	p     *process
	store *host.Store
	q     *host.Queue
	info  backstore.Info
	pool  *pool
	wait  *shm.Waiter
	ended chan struct{}

	mu     sync.Mutex // calls of the queue take turns
	out    [depth]request
	free   []uint64
	room   *sync.Cond
	res    [64]backstore.Result
	closed bool
	wrong  error
}

// request is one under way.
type request struct {
	tag   uint64
	done  func(backstore.Result)
	lease lease
	// into is where a read's data goes.
	into []byte
}

func openRemote(ctx context.Context, p *process, config map[string]string) (*remote, error) {
	st, err := p.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	r := &remote{p: p, store: st, info: st.Info(), pool: newPool(p.arena.Bytes())}
	r.room = sync.NewCond(&r.mu)
	for i := range depth {
		r.free = append(r.free, uint64(i))
	}
	if err := r.connect(ctx); err != nil {
		return nil, errors.Join(err, st.Close(ctx))
	}
	return r, nil
}

// connect attaches a queue and drives it.
func (r *remote) connect(ctx context.Context) error {
	q, err := r.store.NewQueue(ctx, host.QueueOptions{Entries: depth, Hold: time.Millisecond, EdgeTriggered: true})
	if err != nil {
		return err
	}
	w, err := shm.NewWaiter(shm.EventFrom(q.FD()))
	if err != nil {
		return errors.Join(err, q.Close())
	}
	r.mu.Lock()
	r.q, r.wait, r.ended, r.closed = q, w, make(chan struct{}), false
	r.mu.Unlock()
	go r.run()
	return nil
}

// disconnect lets go of the queue. Nothing is outstanding that anybody waits for.
func (r *remote) disconnect() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.wait.Wake()
	<-r.ended
	return errors.Join(r.wait.Close(), r.q.Close())
}

func (r *remote) run() {
	defer close(r.ended)
	for {
		for _, f := range r.take() {
			f()
		}
		if r.over() || r.wait.Wait(r.sleep) != nil {
			return
		}
	}
}

func (r *remote) sleep() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.closed && r.q.Deadline().IsZero() && r.q.Arm()
}

func (r *remote) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// take returns what tells the owners of every request that has ended.
func (r *remote) take() (tell []func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		n := r.q.Poll(r.res[:])
		for _, res := range r.res[:n] {
			o := r.out[res.Tag]
			r.out[res.Tag] = request{}
			r.free = append(r.free, res.Tag)
			if res.Code == backstore.CodeOK {
				copy(o.into, o.lease.data)
			}
			if err := r.pool.back(o.lease); err != nil && r.wrong == nil {
				r.wrong = err
			}
			res.Tag = o.tag
			tell = append(tell, func() { o.done(res) })
		}
		if n == 0 {
			r.room.Broadcast()
			return tell
		}
	}
}

// Submit implements backstore.Submitter. Unlike others it waits for room.
func (r *remote) Submit(reqs []backstore.Request, done func(backstore.Result)) {
	for i := range reqs {
		q := reqs[i]
		if q.Off > math.MaxInt64-int64(len(q.Data))-q.N {
			done(backstore.Result{Tag: q.Tag, Code: backstore.CodeRange}) // no entry of a ring can say it
			continue
		}
		l, err := r.pool.lend(len(q.Data))
		if err != nil {
			done(backstore.Result{Tag: q.Tag, Code: backstore.CodeInvalid})
			continue
		}
		o := request{tag: q.Tag, done: done, lease: l}
		if q.Op == backstore.OpRead {
			o.into = q.Data
		} else {
			copy(l.data, q.Data)
		}
		if q.Data != nil {
			q.Data = l.data
		}
		r.send(q, o)
	}
	r.mu.Lock()
	r.q.Flush()
	r.mu.Unlock()
	r.wait.Wake() // for what the queue ended without the plugin
}

func (r *remote) send(q backstore.Request, o request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.free) == 0 {
		r.q.Flush()
		r.room.Wait()
	}
	q.Tag = r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	r.out[q.Tag] = o
	r.q.Submit([]backstore.Request{q})
}

// call runs one request. The request itself cannot be taken back: a plugin that does not answer is a fault of its own.
func (r *remote) call(ctx context.Context, q backstore.Request) error {
	end := make(chan backstore.Result, 1)
	r.Submit([]backstore.Request{q}, func(res backstore.Result) { end <- res })
	select {
	case res := <-end:
		return r.problem(res)
	case <-ctx.Done():
		return fmt.Errorf("a request was not answered: %w", ctx.Err())
	}
}

func (r *remote) problem(res backstore.Result) error {
	if res.Code == backstore.CodeOK {
		return nil
	}
	return &backstore.Error{Code: res.Code, At: res.At, Err: r.p.trouble()}
}

// Close closes the queue and the store, and tells what was wrong with them.
func (r *remote) Close() error {
	err := errors.Join(r.disconnect(), r.wrong, r.p.trouble())
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		err = r.store.Close(ctx)
	}
	return err
}
