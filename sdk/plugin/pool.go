package plugin

import "github.com/gosrpt/gosrpt/sdk/backstore"

// job is a request for a worker.
type job struct {
	q   *queue
	req backstore.Request
}

// dispatch gives a job to a worker that waits, to a new one, or, when there are as many as calls may be in the store, to the
// first that is free.
func (s *store) dispatch(j job) {
	select {
	case s.jobs <- j:
		return
	default:
	}
	if int(s.workers.Load()) < cap(s.calls) {
		s.workers.Add(1)
		s.pool.Go(s.work)
	}
	s.jobs <- j
}

func (s *store) work() {
	for {
		select {
		case j := <-s.jobs:
			j.q.finish(s.call(&j.req))
		case <-s.quit:
			return
		}
	}
}
