package main

import (
	"sync"
	"sync/atomic"

	"github.com/gosrpt/gosrpt/sdk/internal/ring"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
)

// queue serves a ring from one goroutine, one request after the other.
type queue struct {
	st        *store
	arena     []byte
	ring      *ring.Plugin
	host, own *shm.Mem
	mine      *shm.Event
	peer      *shm.Event
	bell      *shm.Waiter
	stopping  atomic.Bool
	ended     chan struct{}
	stopOnce  sync.Once
	mu        sync.Mutex
	wrong     string
}

func newQueue(st *store, arena []byte, fds []int, entries, generation uint32) (*queue, error) {
	q := &queue{st: st, arena: arena, mine: shm.EventFrom(fds[2]), peer: shm.EventFrom(fds[3]), ended: make(chan struct{})}
	announced := entries
	if fault("trusting") && ring.CheckEntries(entries) != nil {
		announced = 8
	}
	err := ring.CheckEntries(announced)
	if err != nil {
		shm.CloseAll(fds[:2])
		q.release()
		return nil, err
	}
	if q.host, err = shm.Map(fds[0], ring.HostSize(announced), false); err != nil {
		shm.CloseAll(fds[1:2])
		q.release()
		return nil, err
	}
	if q.own, err = shm.Map(fds[1], ring.PluginSize(announced), true); err == nil {
		limit := uint64(len(arena))
		if fault("careless") {
			limit = 1 << 63
		}
		q.ring, err = ring.NewPlugin(ring.Regions{Host: q.host.Bytes(), Plugin: q.own.Bytes()}, announced, generation, limit)
	}
	if err == nil {
		q.bell, err = shm.NewWaiter(q.mine)
	}
	if err != nil {
		q.release()
		return nil, err
	}
	go q.run()
	return q, nil
}

func (q *queue) run() {
	defer close(q.ended)
	var es [16]ring.Entry
	for !q.stopping.Load() {
		q.ring.Beat()
		n, err := q.ring.Take(es[:])
		for _, e := range es[:n] {
			q.serve(e)
		}
		if err != nil {
			q.fail(err.Error())
			return
		}
		if n > 0 {
			if q.ring.Publish() {
				q.peer.Ring()
			}
			continue
		}
		if q.bell.Wait(func() bool { return !q.stopping.Load() && q.ring.Sleep() }) != nil {
			return
		}
		q.ring.Awake()
	}
}

func (q *queue) serve(e ring.Entry) {
	code := uint16(0)
	if end := e.Arena + uint64(e.Length); end <= uint64(len(q.arena)) && e.Arena <= end {
		code = q.st.do(e.Op, q.arena[e.Arena:end], e.Offset)
		if fault("sloppy") && e.Op == 1 && e.Arena > 0 {
			q.arena[e.Arena-1] = 0
		}
	}
	done := ring.Completion{Tag: e.Tag, Code: code}
	if code == 0 {
		done.Bytes = e.Length
	}
	q.ring.Complete(done)
	if fault("double") {
		q.ring.Complete(done)
	}
}

func (q *queue) fail(why string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wrong = why
}

func (q *queue) broken() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if fault("silent") {
		return ""
	}
	return q.wrong
}

func (q *queue) stop() {
	q.stopOnce.Do(func() {
		q.stopping.Store(true)
		q.bell.Wake()
		<-q.ended
		q.release()
	})
}

func (q *queue) release() {
	if q.bell != nil {
		q.bell.Close()
	}
	if q.host != nil {
		q.host.Close()
	}
	if q.own != nil {
		q.own.Close()
	}
	q.mine.Close()
	q.peer.Close()
}
