package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/internal/ring"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
)

// batch is how many requests are taken from a ring at once.
const batch = 64

// queueMemory is what a queue maps: the ring's two regions and the two doorbells.
type queueMemory struct {
	regions ring.Regions
	mems    []*shm.Mem
	mine    *shm.Event // the host rings it
	peer    *shm.Event // rung for the host
}

// mapQueue takes over the four descriptors of a queue: host's region, plugin's region, the plugin's doorbell, the host's.
func mapQueue(fds []int, entries uint32) (*queueMemory, error) {
	host, err := shm.Map(fds[0], ring.HostSize(entries), false)
	if err != nil {
		shm.CloseAll(fds[1:])
		return nil, err
	}
	own, err := shm.Map(fds[1], ring.PluginSize(entries), true)
	if err != nil {
		host.Close()
		shm.CloseAll(fds[2:])
		return nil, err
	}
	return &queueMemory{
		regions: ring.Regions{Host: host.Bytes(), Plugin: own.Bytes()}, mems: []*shm.Mem{host, own},
		mine: shm.EventFrom(fds[2]), peer: shm.EventFrom(fds[3]),
	}, nil
}

func (m *queueMemory) close() {
	for _, mem := range m.mems {
		mem.Close()
	}
	m.mine.Close()
	m.peer.Close()
}

// pending is a request that has been taken from the ring.
type pending struct {
	tag    uint64
	length uint32
	op     backstore.Op
	busy   bool
}

// queue serves one ring.
type queue struct {
	id     uint64
	store  *store
	memory *queueMemory
	arena  []byte
	ring   *ring.Plugin
	bell   *shm.Waiter
	done   func(backstore.Result)

	// Of the loop alone.
	entries  [batch]ring.Entry
	reqs     [batch]backstore.Request
	crowd    int
	inline   *inline
	engine   backstore.Engine // nil unless the store has engines
	results  [batch]backstore.Result
	polled   int // results that are there
	inEngine int // requests that the engine has
	draining bool
	aside    aside

	// outstanding counts what the store has, until the host has been told of its end.
	outstanding sync.WaitGroup

	mu    sync.Mutex
	table []pending
	free  []uint32
	hold  bool // completions are published when the batch has been submitted
	wrong string

	stopping atomic.Bool
	ended    chan struct{}
}

func newQueue(ctx context.Context, st *store, m *queueMemory, arena []byte, entries, generation uint32) (*queue, error) {
	r, err := ring.NewPlugin(m.regions, entries, generation, uint64(len(arena)))
	if err != nil {
		return nil, err
	}
	bell, err := shm.NewWaiter(m.mine)
	if err != nil {
		return nil, err
	}
	q := &queue{
		store: st, memory: m, arena: arena, ring: r, bell: bell,
		table: make([]pending, entries), free: make([]uint32, 0, entries), ended: make(chan struct{}),
	}
	if st.engines != nil {
		if q.engine, err = st.engines.NewEngine(ctx, m.mine.FD(), int(entries)); err != nil {
			bell.Close()
			return nil, fmt.Errorf("the store makes no engine: %w", err)
		}
	}
	q.inline = newInline(q.run)
	q.aside.prepare(q, entries)
	for i := range entries {
		q.free = append(q.free, entries-1-i)
	}
	q.done = q.finish
	return q, nil
}

// run takes requests until the queue is stopped, the host breaks the protocol, or another goroutine runs it.
func (q *queue) run() {
	if !q.loop() {
		return
	}
	q.outstanding.Wait()
	q.aside.end()
	q.inline.stop()
	if err := q.close(); err != nil {
		q.fail(err.Error())
	}
	close(q.ended)
}

// close ends what the queue has, but for the memory. Nothing is under way.
func (q *queue) close() error {
	var err error
	if q.engine != nil {
		err = q.engine.Close()
	}
	return errors.Join(err, q.bell.Close())
}

// loop returns false if another goroutine goes on. Otherwise the engine has nothing any more.
func (q *queue) loop() bool {
	sleep := q.sleep
	for {
		q.ring.Beat()
		busy := q.reap()
		if q.stopping.Load() {
			q.draining = true
		}
		if !q.draining {
			n, err := q.ring.Take(q.entries[:])
			if n > 0 && !q.serve(q.accept(n)) {
				return false // and err, which is for ever, comes to its next owner
			}
			if err != nil {
				q.fail(err.Error())
				q.draining = true
			}
			busy = busy || n > 0
		}
		if q.draining && q.inEngine == 0 {
			return true
		}
		if busy {
			continue
		}
		if err := q.bell.Wait(sleep); err != nil {
			return true
		}
		q.ring.Awake()
	}
}

// sleep tells whether there is nothing to do. Whatever comes afterwards rings the bell: the host's requests, the engine's
// results and stop.
func (q *queue) sleep() bool {
	if q.stopping.Load() && !q.draining || q.poll() {
		return false
	}
	return q.draining || q.ring.Sleep()
}

// poll asks the engine for results, unless there are some already.
func (q *queue) poll() bool {
	if q.engine != nil && q.polled == 0 {
		q.polled = q.engine.Poll(q.results[:])
	}
	return q.polled > 0
}

// reap completes what the engine has ended. All that came together is published at once.
func (q *queue) reap() (some bool) {
	for q.poll() {
		some = true
		q.mu.Lock()
		ended := 0
		for _, r := range q.results[:q.polled] {
			if q.end(r) {
				ended++
			}
		}
		ring := q.ring.Publish()
		q.mu.Unlock()
		q.polled = 0
		if ring {
			q.memory.peer.Ring()
		}
		q.inEngine -= ended
		q.outstanding.Add(-ended)
	}
	return some
}

// accept makes requests of the first n entries. Those that the store's description refuses are completed at once; those for
// its powers are set aside.
func (q *queue) accept(n int) []backstore.Request {
	reqs := q.reqs[:0]
	q.mu.Lock()
	for i := range q.entries[:n] {
		e := &q.entries[i]
		at := q.free[len(q.free)-1]
		q.free = q.free[:len(q.free)-1]
		q.table[at] = pending{tag: e.Tag, length: e.Length, op: backstore.Op(e.Op), busy: true}
		r := backstore.Request{Tag: uint64(at), Op: backstore.Op(e.Op), Flags: backstore.Flags(e.Flags), Off: int64(e.Offset), N: int64(e.Extent)}
		if carriesData(r.Op) {
			r.Data = q.arena[e.Arena : e.Arena+uint64(e.Length) : e.Arena+uint64(e.Length)]
		}
		if c := q.store.check(&r); c != backstore.CodeOK {
			q.complete(at, backstore.Result{Code: c})
			continue
		}
		q.outstanding.Add(1)
		if r.Op > backstore.OpFlush {
			q.aside.put(r)
			continue
		}
		reqs = append(reqs, r)
	}
	ring := q.ring.Publish()
	q.mu.Unlock()
	if ring {
		q.memory.peer.Ring()
	}
	return reqs
}

// serve runs a batch. A read or write that is alone runs right here, which saves two hand-overs between goroutines.
// Otherwise an Engine or a Submitter gets the batch whole, and for other stores it goes to the pool. It returns false if the loop has
// been given to another goroutine meanwhile.
func (q *queue) serve(reqs []backstore.Request) bool {
	switch {
	case len(reqs) == 0:
	case q.alone(reqs):
		return q.serveAlone(reqs[0])
	case q.engine != nil:
		q.inEngine += len(reqs)
		q.engine.Submit(reqs)
	case q.store.async != nil:
		q.submit(reqs)
	case cap(q.store.calls) == 1:
		for i := range reqs {
			q.finish(q.store.call(&reqs[i]))
		}
	default:
		for i := range reqs {
			q.store.dispatch(job{q: q, req: reqs[i]})
		}
	}
	return true
}

// alone tells whether the batch's only request is also the only one outstanding, and short. After a request has arrived
// while another ran here, the next ones do not: otherwise a queue depth of two would be served one by one.
func (q *queue) alone(reqs []backstore.Request) bool {
	if q.crowd > 0 {
		q.crowd--
		return false
	}
	return len(reqs) == 1 && reqs[0].Op != backstore.OpFlush && len(reqs[0].Data) <= maxInline && q.ring.Outstanding() == 1
}

// serveAlone gets a copy of the request: the loop's next owner uses the batch's memory.
func (q *queue) serveAlone(r backstore.Request) bool {
	res, mine := q.inline.call(q.store, &r)
	// What waits now came before the host could know of this end.
	if mine && q.ring.Waiting() > 0 {
		q.crowd = 4 * batch
	}
	q.finish(res)
	return mine
}

func (q *queue) submit(reqs []backstore.Request) {
	q.mu.Lock()
	q.hold = true
	q.mu.Unlock()
	q.store.submit.Lock()
	q.store.async.Submit(reqs, q.done)
	q.store.submit.Unlock()
	q.mu.Lock()
	q.hold = false
	ring := q.ring.Publish()
	q.mu.Unlock()
	if ring {
		q.memory.peer.Ring()
	}
}

// finish completes a request, from any goroutine.
func (q *queue) finish(res backstore.Result) {
	q.mu.Lock()
	if !q.end(res) {
		q.mu.Unlock()
		return
	}
	ring := !q.hold && q.ring.Publish()
	q.mu.Unlock()
	if ring {
		q.memory.peer.Ring()
	}
	q.outstanding.Done()
}

// end completes what the store has ended. The caller holds mu and publishes.
func (q *queue) end(res backstore.Result) bool {
	if res.Tag >= uint64(len(q.table)) || !q.table[res.Tag].busy {
		q.wrong = "the store completed a request that is not outstanding"
		return false
	}
	res.Code = known(res.Code)
	q.complete(uint32(res.Tag), res)
	return true
}

// complete writes a completion. The caller holds mu and publishes.
func (q *queue) complete(at uint32, res backstore.Result) {
	p := q.table[at]
	if res.Code == backstore.CodeMiscompare {
		res = judge(res, p.op, p.length)
	}
	q.table[at].busy = false
	q.free = append(q.free, at)
	out := ring.Completion{Tag: p.tag, Code: uint16(res.Code), At: res.At}
	if res.Code == backstore.CodeOK {
		out.Bytes = p.length
	}
	q.ring.Complete(out)
}

// stop ends the queue and returns when nothing of it is under way. It may be called again after an error.
func (q *queue) stop(ctx context.Context) error {
	q.stopping.Store(true)
	q.bell.Wake()
	select {
	case <-q.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *queue) fail(why string) {
	q.mu.Lock()
	q.wrong = why
	q.mu.Unlock()
}

func (q *queue) broken() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.wrong
}
