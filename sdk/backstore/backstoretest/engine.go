package backstoretest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
)

// engineDepth is how many requests a check has outstanding in an engine at most.
const engineDepth = 256

// driven is a store whose engine is driven as a host's loop does. It looks like a Submitter; unlike one, its Submit waits
// for room.
type driven struct {
	backstore.Engines
	bell   *shm.Event
	waiter *shm.Waiter
	ended  chan struct{}

	mu     sync.Mutex // calls of the engine take turns
	engine backstore.Engine
	owners [engineDepth]owner
	free   []uint64
	room   *sync.Cond
	res    [64]backstore.Result
	got    int
	closed bool
	wrong  error
}

// owner is whose request a tag of the engine is.
type owner struct {
	tag  uint64
	done func(backstore.Result)
}

// drive makes an engine of s and a goroutine that waits for it.
func drive(ctx context.Context, s backstore.Engines) (*driven, error) {
	d := &driven{Engines: s, ended: make(chan struct{})}
	d.room = sync.NewCond(&d.mu)
	for i := range engineDepth {
		d.free = append(d.free, uint64(i))
	}
	var err error
	if d.bell, err = shm.NewEvent(); err != nil {
		return nil, err
	}
	if d.waiter, err = shm.NewWaiter(d.bell); err != nil {
		return nil, errors.Join(err, d.bell.Close())
	}
	if d.engine, err = s.NewEngine(ctx, d.bell.FD(), engineDepth); err != nil {
		return nil, errors.Join(err, d.waiter.Close(), d.bell.Close())
	}
	go d.run()
	return d, nil
}

func (d *driven) run() {
	defer close(d.ended)
	for {
		for _, f := range d.take() {
			f()
		}
		if d.over() || d.waiter.Wait(d.sleep) != nil {
			return
		}
	}
}

// sleep tells whether there is nothing to take.
func (d *driven) sleep() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.poll() && !d.closed
}

func (d *driven) over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed && (len(d.free) == engineDepth || d.wrong != nil)
}

func (d *driven) poll() bool {
	if d.got == 0 {
		d.got = d.engine.Poll(d.res[:])
	}
	return d.got > 0
}

// take returns what tells the owners of every request that has ended.
func (d *driven) take() (tell []func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.poll() {
		if d.got < 0 || d.got > len(d.res) {
			d.fail(fmt.Errorf("Poll returned %d of %d", d.got, len(d.res)))
			return tell
		}
		for _, r := range d.res[:d.got] {
			if r.Tag >= engineDepth || d.owners[r.Tag].done == nil {
				d.fail(fmt.Errorf("Poll returned tag %d, which is not outstanding", r.Tag))
				continue
			}
			o := d.owners[r.Tag]
			d.owners[r.Tag] = owner{}
			d.free = append(d.free, r.Tag)
			tell = append(tell, func() { o.done(backstore.Result{Tag: o.tag, Code: r.Code}) })
		}
		d.got = 0
	}
	d.room.Broadcast()
	return tell
}

func (d *driven) fail(err error) {
	d.got = 0
	d.wrong = err
}

// Submit gives the engine as many requests at once as there is room for.
func (d *driven) Submit(reqs []backstore.Request, done func(backstore.Result)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(reqs) == 0 {
		d.engine.Submit(nil)
	}
	for len(reqs) > 0 {
		for len(d.free) == 0 {
			d.room.Wait()
		}
		n := min(len(reqs), len(d.free))
		batch := make([]backstore.Request, n)
		for i, r := range reqs[:n] {
			at := d.free[len(d.free)-1]
			d.free = d.free[:len(d.free)-1]
			d.owners[at] = owner{r.Tag, done}
			r.Tag = at
			batch[i] = r
		}
		reqs = reqs[n:]
		d.engine.Submit(batch)
		clear(batch) // it was the caller's again
		if d.poll() {
			d.waiter.Wake()
		}
	}
}

// Close waits for what is outstanding and closes the engine, then the store.
func (d *driven) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.waiter.Wake()
	<-d.ended
	return errors.Join(d.wrong, d.engine.Close(), d.waiter.Close(), d.bell.Close(), d.Engines.Close())
}
