package plugin

import (
	"context"
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
	entries [batch]ring.Entry
	reqs    [batch]backstore.Request
	crowd   int

	mu      sync.Mutex
	table   []pending
	free    []uint32
	hold    bool // completions are published when the batch has been submitted
	wrong   string
	stopped bool
	idle    chan struct{} // closed when stopped and nothing is outstanding

	stopping atomic.Bool
	ended    chan struct{}
}

func newQueue(st *store, m *queueMemory, arena []byte, entries, generation uint32) (*queue, error) {
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
		table: make([]pending, entries), free: make([]uint32, 0, entries),
		idle: make(chan struct{}), ended: make(chan struct{}),
	}
	for i := range entries {
		q.free = append(q.free, entries-1-i)
	}
	q.done = func(res backstore.Result) { q.finish(res.Tag, res.Code) }
	return q, nil
}

// run takes requests until the queue is stopped or the host breaks the protocol.
func (q *queue) run() {
	defer close(q.ended)
	sleep := q.ring.Sleep
	for !q.stopping.Load() {
		q.ring.Beat()
		n, err := q.ring.Take(q.entries[:])
		if n > 0 {
			q.serve(q.accept(n))
		}
		if err != nil {
			q.fail(err.Error())
			break
		}
		if n > 0 {
			continue
		}
		if err := q.bell.Wait(sleep); err != nil {
			break
		}
		q.ring.Awake()
	}
	q.drain()
}

// accept makes requests of the first n entries. Those that the store's description refuses are completed at once.
func (q *queue) accept(n int) []backstore.Request {
	reqs := q.reqs[:0]
	q.mu.Lock()
	for i := range q.entries[:n] {
		e := &q.entries[i]
		at := q.free[len(q.free)-1]
		q.free = q.free[:len(q.free)-1]
		q.table[at] = pending{tag: e.Tag, length: e.Length, busy: true}
		r := backstore.Request{Tag: uint64(at), Op: backstore.Op(e.Op), Flags: backstore.Flags(e.Flags), Off: int64(e.Offset)}
		if r.Op != backstore.OpFlush {
			r.Data = q.arena[e.Arena : e.Arena+uint64(e.Length) : e.Arena+uint64(e.Length)]
		}
		if c := q.store.check(r.Op, r.Flags, r.Off, int(e.Length)); c != backstore.CodeOK {
			q.complete(at, c)
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

// serve runs a batch. A Submitter gets it whole. Otherwise a request that is alone runs right here, which
// saves two hand-overs between goroutines; several go to the pool.
func (q *queue) serve(reqs []backstore.Request) {
	switch {
	case len(reqs) == 0:
	case q.store.async != nil:
		q.submit(reqs)
	case cap(q.store.calls) == 1 || q.alone(len(reqs)):
		for i := range reqs {
			q.finish(reqs[i].Tag, q.store.call(&reqs[i]))
		}
		if q.ring.Waiting() > 0 {
			q.crowd = 4 * batch
		}
	default:
		for i := range reqs {
			q.store.dispatch(job{q: q, req: reqs[i]})
		}
	}
}

// alone tells whether the batch's only request is also the only one outstanding. After a request has arrived while
// another ran here, the next ones go to the pool: otherwise a queue depth of two would be served one by one.
func (q *queue) alone(n int) bool {
	if q.crowd > 0 {
		q.crowd--
		return false
	}
	return n == 1 && q.ring.Outstanding() == 1
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
func (q *queue) finish(tag uint64, c backstore.Code) {
	q.mu.Lock()
	if tag >= uint64(len(q.table)) || !q.table[tag].busy {
		q.wrong = "the store completed a request that is not outstanding"
		q.mu.Unlock()
		return
	}
	q.complete(uint32(tag), known(c))
	ring := !q.hold && q.ring.Publish()
	q.mu.Unlock()
	if ring {
		q.memory.peer.Ring()
	}
}

// complete writes a completion. The caller holds mu and publishes.
func (q *queue) complete(at uint32, c backstore.Code) {
	p := q.table[at]
	q.table[at].busy = false
	q.free = append(q.free, at)
	out := ring.Completion{Tag: p.tag, Code: uint16(c)}
	if c == backstore.CodeOK {
		out.Bytes = p.length
	}
	q.ring.Complete(out)
	if q.stopped && len(q.free) == len(q.table) {
		close(q.idle)
	}
}

// drain waits until nothing is outstanding.
func (q *queue) drain() {
	q.mu.Lock()
	q.stopped = true
	idle := len(q.free) == len(q.table)
	q.mu.Unlock()
	if !idle {
		<-q.idle
	}
}

// stop ends the queue and returns when nothing of it is under way. It may be called again after an error.
func (q *queue) stop(ctx context.Context) error {
	q.stopping.Store(true)
	q.bell.Close()
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
