package plugin

import (
	"sync"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// aside runs a queue's requests for the store's powers: method calls in workers of their own, whatever way the store takes
// the other requests. The loop never waits for them. It is the loop's but for the workers.
type aside struct {
	q *queue
	// jobs has room for every request of the ring. Nil if the store has no power that has requests.
	jobs    chan backstore.Request
	workers int
	most    int
	crew    sync.WaitGroup
}

func (a *aside) prepare(q *queue, entries uint32) {
	if a.q = q; q.store.info.Powers&dataPowers != 0 {
		a.jobs, a.most = make(chan backstore.Request, entries), min(cap(q.store.calls), int(entries))
	}
}

// put does not block. It adds a worker when none has taken the request at once.
func (a *aside) put(r backstore.Request) {
	a.jobs <- r
	if len(a.jobs) > 0 && a.workers < a.most {
		a.workers++
		a.crew.Go(a.work)
	}
}

func (a *aside) work() {
	for r := range a.jobs {
		a.q.finish(a.q.store.call(&r))
	}
}

// end ends the workers. Nothing is outstanding.
func (a *aside) end() {
	if a.jobs != nil {
		close(a.jobs)
	}
	a.crew.Wait()
}
