package rdmatest

import (
	"slices"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// entry is a completion on its way to Poll.
type entry struct {
	c  rdma.Completion
	qp *qp
	// covers is, for a completion of work, the count of slots of its queue that are free once it
	// has been returned.
	covers uint64
}

// cq is a completion queue: a ring of entries, oldest at head.
type cq struct {
	fabric *Fabric
	dev    *Device
	wake   func()
	depth  int
	closed bool
	armed  bool
	qps    []*qp
	srqs   []*srq
	dirty  []*qp
	// timed counts the queue pairs that have a deadline.
	timed int

	ring        []entry
	head, count int
}

var _ rdma.CQ = (*cq)(nil)

// push queues an entry and wakes an armed owner.
func (c *cq) push(e entry) {
	if c.count == len(c.ring) {
		c.grow()
	}
	if c.count >= c.depth {
		c.dev.count.completionOverruns++
	}
	c.ring[(c.head+c.count)%len(c.ring)] = e
	c.count++
	e.qp.queued++
	c.notify()
}

func (c *cq) grow() {
	ring := make([]entry, 2*len(c.ring))
	n := copy(ring, c.ring[c.head:])
	copy(ring[n:], c.ring[:c.head])
	c.ring, c.head = ring, 0
}

func (c *cq) pop() entry {
	e := c.ring[c.head]
	c.ring[c.head] = entry{}
	c.head = (c.head + 1) % len(c.ring)
	c.count--
	e.qp.queued--
	return e
}

func (c *cq) notify() {
	if c.armed {
		c.armed = false
		if c.wake != nil {
			c.fabric.wakes = append(c.fabric.wakes, c.wake)
		}
	}
}

// forget removes the entries of a queue pair, but for the receives that it has taken from a shared queue, which end as flushed.
func (c *cq) forget(q *qp) {
	for n := c.count; n > 0; n-- {
		e := c.pop()
		if e.qp == q && (q.srq == nil || e.c.Op != rdma.OpRecv) {
			continue
		}
		if e.qp == q {
			e.c.Status, e.c.Bytes = rdma.StatusFlushed, 0
		}
		c.ring[(c.head+c.count)%len(c.ring)] = e
		c.count++
		e.qp.queued++
	}
}

// Poll carries out what is due and returns completions.
func (c *cq) Poll(out []rdma.Completion) int {
	c.fabric.mu.Lock()
	defer c.fabric.unlock()
	if c.closed {
		return 0
	}
	c.armed = false
	c.expire()
	n := 0
	for left := c.count; left > 0 && n < len(out); left-- {
		e := c.pop()
		if e.c.Op == rdma.OpEvent && !e.qp.returning(e) {
			continue
		}
		e.qp.free(e)
		out[n] = e.c
		n++
	}
	return n
}

// expire ends the waits whose deadline has passed.
func (c *cq) expire() {
	if c.timed == 0 {
		return
	}
	now := time.Now()
	for _, q := range slices.Clone(c.qps) {
		if !q.deadline.IsZero() && !now.Before(q.deadline) {
			q.expire(now)
		}
	}
}

// Flush transmits.
func (c *cq) Flush() {
	c.fabric.mu.Lock()
	defer c.fabric.unlock()
	c.flush()
}

func (c *cq) flush() {
	if c.closed || len(c.dirty) == 0 {
		return
	}
	var now time.Time
	for _, q := range c.dirty {
		q.dirty = false
		q.sq.ready = q.sq.posted
		q.progress(now)
	}
	clear(c.dirty)
	c.dirty = c.dirty[:0]
}

// Arm transmits, and asks for a wake-up call if nothing is there.
func (c *cq) Arm() bool {
	c.fabric.mu.Lock()
	defer c.fabric.unlock()
	c.flush()
	c.armed = c.count == 0
	return c.armed
}

// FD is -1: the twin wakes by CQConfig.Wake.
func (c *cq) FD() int { return -1 }

// Deadline is the earliest deadline of the queue pairs.
func (c *cq) Deadline() time.Time {
	c.fabric.mu.Lock()
	defer c.fabric.unlock()
	var first time.Time
	if c.timed == 0 {
		return first
	}
	for _, q := range c.qps {
		if !q.deadline.IsZero() && (first.IsZero() || q.deadline.Before(first)) {
			first = q.deadline
		}
	}
	return first
}

// NewQP makes a queue pair.
func (c *cq) NewQP(cfg rdma.QPConfig) (rdma.QP, error) {
	c.fabric.mu.Lock()
	defer c.fabric.unlock()
	maxSGE := orDefault(cfg.MaxSGE, 1)
	switch {
	case c.closed:
		return nil, opError("make queue pair", c.dev.cfg.Name, rdma.ErrClosed)
	case cfg.SendDepth < 0, cfg.RecvDepth < 0, cfg.SendDepth > c.dev.cfg.MaxQPWork,
		cfg.RecvDepth > c.dev.cfg.MaxQPWork, maxSGE < 0, maxSGE > c.dev.cfg.MaxSGE:
		return nil, opError("make queue pair beyond the device's limits", c.dev.cfg.Name, rdma.ErrInvalid)
	}
	maxSGE = min(maxSGE, c.dev.cfg.GrantedSGE)
	q := &qp{cq: c, dev: c.dev, num: c.fabric.newQPN(), user: cfg.User, maxSGE: maxSGE, sq: newQueue(cfg.SendDepth, maxSGE)}
	if err := q.receiveFrom(cfg, maxSGE); err != nil {
		return nil, opError("make queue pair", c.dev.cfg.Name, err)
	}
	q.errFull = opError("post", q.String(), rdma.ErrFull)
	q.info = rdma.ConnInfo{Device: c.dev.cfg.Name, Port: 1}
	c.qps = append(c.qps, q)
	c.dev.qps = append(c.dev.qps, q)
	return q, nil
}

// Close frees the queue.
func (c *cq) Close() error {
	c.fabric.mu.Lock()
	defer c.fabric.unlock()
	if c.closed {
		return nil
	}
	if len(c.qps)+len(c.srqs) > 0 {
		return opError("close completion queue that has queue pairs or shared receive queues", c.dev.cfg.Name, rdma.ErrState)
	}
	c.closed = true
	c.dev.cqs = slices.DeleteFunc(c.dev.cqs, func(o *cq) bool { return o == c })
	return nil
}
