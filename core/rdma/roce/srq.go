package roce

import (
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/roce/rc"
)

// maxShared is the most receives of a shared queue.
const maxShared = 1 << 16

// srq is a shared receive queue. It is its CQ's owner's.
type srq struct {
	cq     *cq
	recvs  *rc.Shared
	users  int
	closed bool
	// waiting are the queue pairs with a message that may wait for a receive, in the order in which they are served.
	waiting []*qp
	segs    [maxSGE][]byte
}

var _ rdma.SharedReceiver = (*cq)(nil)

// NewSRQ makes a shared receive queue.
func (c *cq) NewSRQ(cfg rdma.SRQConfig) (rdma.SRQ, error) {
	switch {
	case c.closed || c.dev.isClosed():
		return nil, c.dev.fail("new shared receive queue", rdma.ErrClosed)
	case cfg.Depth < 1 || cfg.Depth > maxShared || cfg.MaxSGE < 0 || cfg.MaxSGE > maxSGE:
		return nil, c.dev.fail("new shared receive queue", rdma.ErrInvalid)
	}
	c.srqs++
	return &srq{cq: c, recvs: rc.NewShared(cfg.Depth, max(cfg.MaxSGE, 1))}, nil
}

// sharedOf is the shared queue of a configuration, nil if it names none.
func (c *cq) sharedOf(r rdma.SRQ) (*srq, error) {
	if r == nil {
		return nil, nil
	}
	s, ok := r.(*srq)
	if !ok || s.cq != c || s.closed {
		return nil, rdma.ErrInvalid
	}
	return s, nil
}

// receives is what the machine of a queue pair takes from, nil without a shared queue.
func (s *srq) receives() *rc.Shared {
	if s == nil {
		return nil
	}
	return s.recvs
}

func (s *srq) join() {
	if s != nil {
		s.users++
	}
}

// wait puts a queue pair at the end of those that wait, unless it is there.
func (s *srq) wait(q *qp) {
	if !q.waiting && !q.closed {
		q.waiting = true
		s.waiting = append(s.waiting, q)
	}
}

// PostRecv queues receives, and serves the queue pairs that wait for one, each in its turn.
func (s *srq) PostRecv(work []rdma.Work) (n int, err error) {
	c := s.cq
	if s.closed || c.closed || c.dev.isClosed() {
		return 0, c.dev.fail("post shared receive", rdma.ErrClosed)
	}
	for i := range work {
		if err = s.post(&work[i]); err != nil {
			break
		}
		n++
	}
	if len(s.waiting) > 0 {
		s.serve()
	}
	return n, err
}

// serve executes what waits for a receive, as far as there are some.
func (s *srq) serve() {
	c := s.cq
	c.epoch.enter() // it writes to memory
	c.now = clock()
	for turns := len(s.waiting); turns > 0 && s.recvs.Ready() > 0; turns-- {
		q := s.waiting[0]
		s.waiting = append(s.waiting[:0], s.waiting[1:]...)
		q.waiting = false
		q.m.RecvPosted(c.now)
		c.activate(q)
		c.settle(q)
	}
	c.epoch.leave()
}

func (s *srq) post(w *rdma.Work) error {
	d := s.cq.dev
	if w.Op != rdma.OpRecv || len(w.SGL) > s.recvs.MaxSGE() {
		return d.fail("post shared receive", rdma.ErrInvalid)
	}
	total := 0
	for i := range w.SGL {
		b, ok := d.segment(&w.SGL[i])
		if !ok {
			return d.fail("post shared receive", rdma.ErrInvalid)
		}
		s.segs[i] = b
		total += len(b)
	}
	switch {
	case total > rc.MaxWorkLength:
		return d.fail("post shared receive", rdma.ErrInvalid)
	case !s.recvs.Post(w.ID, s.segs[:len(w.SGL)]):
		return d.errFull
	}
	return nil
}

// giveBack ends the receives that a closing queue pair has taken from a shared queue: they complete as flushed.
func (q *qp) giveBack() {
	s := q.srq
	if s == nil {
		return
	}
	s.users--
	s.waiting = without(s.waiting, q)
	q.m.Fail()
	for q.m.Pending() > 0 {
		for _, x := range q.comp[:q.m.Poll(q.comp[:])] {
			if x.Kind == rc.Recv {
				s.cq.orphans = append(s.cq.orphans, rdma.Completion{ID: x.ID, User: q.user, Op: rdma.OpRecv, Status: rdma.StatusFlushed})
			}
		}
	}
}

func (c *cq) collectOrphans(out []rdma.Completion) int {
	n := copy(out, c.orphans)
	c.orphans = append(c.orphans[:0], c.orphans[n:]...)
	return n
}

// Close frees the queue.
func (s *srq) Close() error {
	if s.closed {
		return nil
	}
	if s.users > 0 {
		return s.cq.dev.fail("close shared receive queue", rdma.ErrState)
	}
	s.closed = true
	s.cq.srqs--
	return nil
}
