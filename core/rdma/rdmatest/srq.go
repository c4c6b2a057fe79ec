package rdmatest

import (
	"slices"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// srq is a shared receive queue. Its slots are freed in the order they were taken in, as all completions of them pass one queue.
type srq struct {
	cq      *cq
	q       queue
	qps     []*qp
	next    int // whose turn it is to be served first
	broken  bool
	closed  bool
	errFull error
}

var _ rdma.SharedReceiver = (*cq)(nil)

// NewSRQ makes a shared receive queue.
func (c *cq) NewSRQ(cfg rdma.SRQConfig) (rdma.SRQ, error) {
	c.fabric.mu.Lock()
	defer c.fabric.unlock()
	maxSGE := orDefault(cfg.MaxSGE, 1)
	fail := func(err error) (rdma.SRQ, error) {
		return nil, opError("make shared receive queue", c.dev.cfg.Name, err)
	}
	switch {
	case c.closed:
		return fail(rdma.ErrClosed)
	case c.dev.cfg.NoSRQ:
		return fail(rdma.ErrUnsupported)
	case cfg.Depth < 1, cfg.Depth > c.dev.cfg.MaxSRQWork, maxSGE < 0, maxSGE > c.dev.cfg.MaxSGE:
		return fail(rdma.ErrInvalid)
	}
	s := &srq{cq: c, q: newQueue(cfg.Depth, maxSGE), errFull: opError("post", c.dev.cfg.Name+" shared receive queue", rdma.ErrFull)}
	c.srqs = append(c.srqs, s)
	return s, nil
}

// receiveFrom gives a queue pair its receive queue.
func (q *qp) receiveFrom(cfg rdma.QPConfig, maxSGE int) error {
	if cfg.SRQ == nil {
		own := newQueue(cfg.RecvDepth, maxSGE)
		q.rq = &own
		return nil
	}
	s, ok := cfg.SRQ.(*srq)
	if !ok || s.cq != q.cq || s.closed {
		return rdma.ErrInvalid
	}
	if s.broken {
		return rdma.ErrBroken
	}
	q.srq, q.rq = s, &s.q
	s.qps = append(s.qps, q)
	return nil
}

// PostRecv takes receive buffers. SENDs that wait for one go on, those of one connection after those of another.
func (s *srq) PostRecv(work []rdma.Work) (int, error) {
	s.cq.fabric.mu.Lock()
	defer s.cq.fabric.unlock()
	n, err := len(work), error(nil)
	for i := range work {
		if err = s.take(&work[i]); err != nil {
			n = i
			break
		}
	}
	s.q.ready = s.q.posted
	for range len(s.qps) {
		if s.q.done == s.q.posted {
			break
		}
		q := s.qps[s.next%len(s.qps)]
		s.next++
		if p := q.peer; p != nil && p.stall == noReceive {
			p.progress(time.Time{})
		}
	}
	return n, err
}

func (s *srq) take(w *rdma.Work) error {
	switch {
	case s.closed, s.cq.closed:
		return opError("post receive", s.cq.dev.cfg.Name, rdma.ErrClosed)
	case s.broken:
		return opError("post receive", s.cq.dev.cfg.Name, rdma.ErrBroken)
	case w.Op != rdma.OpRecv:
		return opError("post receive", s.cq.dev.cfg.Name, rdma.ErrInvalid)
	case s.q.full():
		return s.errFull
	case !s.q.put(s.cq.dev, w):
		return opError("post receive", s.cq.dev.cfg.Name, rdma.ErrInvalid)
	}
	return nil
}

// Close frees the queue.
func (s *srq) Close() error {
	c := s.cq
	c.fabric.mu.Lock()
	defer c.fabric.unlock()
	if s.closed {
		return nil
	}
	if len(s.qps) > 0 {
		return opError("close shared receive queue that has queue pairs", c.dev.cfg.Name, rdma.ErrState)
	}
	s.closed = true
	c.srqs = slices.DeleteFunc(c.srqs, func(o *srq) bool { return o == s })
	for n := c.count; n > 0; n-- { // what its queue pairs have left
		e := c.pop()
		if e.c.Op == rdma.OpRecv && e.qp.srq == s {
			continue
		}
		c.ring[(c.head+c.count)%len(c.ring)] = e
		c.count++
		e.qp.queued++
	}
	return nil
}
