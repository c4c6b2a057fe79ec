//go:build verbs

package verbs

// #cgo noescape gv_srq_turn
// #cgo nocallback gv_srq_turn
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// maxShared bounds the receives of a shared queue, whose slot has 30 bits in a wr_id.
const maxShared = 1 << 20

// srq is a shared receive queue. It is its completion queue's owner's.
type srq struct {
	cq    *cq
	dev   *Device
	c     *C.struct_gv_srq
	key   uint64 // C's name of it
	place int
	recvs sharedReceives
	wrs   []C.struct_gv_wr
	sges  []C.struct_ibv_sge
	order []C.uint32_t
	users int // queue pairs that are not closed
	// broken tells that the device's queue is of no use any more.
	broken, closed bool
	errFull        error
	found          []lostReceive // reused
}

var _ rdma.SharedReceiver = (*cq)(nil)

// NewSRQ makes a shared receive queue.
func (c *cq) NewSRQ(cfg rdma.SRQConfig) (rdma.SRQ, error) {
	d := c.dev
	const op = "make shared receive queue"
	sge := cfg.MaxSGE
	if sge == 0 {
		sge = 1
	}
	switch {
	case c.closed || d.shut.Load():
		return nil, d.fail(op, rdma.ErrClosed)
	case d.sharedWork == 0:
		return nil, d.fail(op, fmt.Errorf("the device has none: %w", rdma.ErrUnsupported))
	case cfg.Depth < 1, cfg.Depth > d.sharedWork, sge < 0, sge > d.sharedSGE:
		return nil, d.fail(op, fmt.Errorf("%w: the device has at most %d receives of %d elements", rdma.ErrInvalid, d.sharedWork, d.sharedSGE))
	}
	if err := c.reserve(cfg.Depth); err != nil {
		return nil, d.fail(op, err)
	}
	s := &srq{cq: c, dev: d, key: d.prov.handle(), recvs: newSharedReceives(cfg.Depth)}
	if err := s.create(cfg.Depth, sge); err != nil {
		c.used -= cfg.Depth
		return nil, d.fail(op, err)
	}
	d.mu.Lock()
	d.srqs[s.key] = s
	d.mu.Unlock()
	return s, nil
}

func (s *srq) create(depth, sge int) error {
	c := s.cq
	s.place = slices.Index(c.srqs, nil)
	if s.place < 0 {
		if s.place = len(c.srqs); s.place >= 1<<placeBits {
			return rdma.ErrFull
		}
		c.srqs = append(c.srqs, nil)
	}
	err := call("create shared receive queue", C.gv_srq_create(s.dev.pd, C.uint64_t(s.key), C.uint32_t(depth), C.uint32_t(sge), &s.c))
	switch {
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: %w", rdma.ErrInvalid, err)
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: %w", rdma.ErrUnsupported, err)
	case err != nil:
		return err
	}
	s.c.tag = C.uint64_t(uint32(s.key)<<placeBits | uint32(s.place))
	s.wrs, s.sges = rings(&s.c.q)
	s.order = orderOf(s.c)
	s.errFull = failed("post", s.dev.name+" shared receive queue", rdma.ErrFull)
	c.srqs[s.place] = s
	return nil
}

// sharedOf is the shared queue of a configuration, nil if it names none. RecvDepth says nothing then that the device need know.
func (c *cq) sharedOf(cfg *rdma.QPConfig) (*srq, error) {
	if cfg.SRQ == nil {
		return nil, nil
	}
	s, ok := cfg.SRQ.(*srq)
	switch {
	case !ok || s.cq != c || s.closed:
		return nil, rdma.ErrInvalid
	case s.broken:
		return nil, rdma.ErrBroken
	}
	cfg.RecvDepth = 0
	return s, nil
}

// object is C's, nil for none.
func (s *srq) object() *C.struct_gv_srq {
	if s == nil {
		return nil
	}
	return s.c
}

// PostRecv takes receive buffers, which are handed over by the next Flush, Arm or Poll.
func (s *srq) PostRecv(work []rdma.Work) (int, error) {
	for i := range work {
		if err := s.take(&work[i]); err != nil {
			if err == rdma.ErrFull {
				return i, s.errFull
			}
			return i, s.dev.fail("post shared receive", err)
		}
	}
	return len(work), nil
}

func (s *srq) take(w *rdma.Work) error {
	switch {
	case s.closed:
		return rdma.ErrClosed
	case s.broken:
		return rdma.ErrBroken
	case w.Op != rdma.OpRecv:
		return rdma.ErrInvalid
	case s.recvs.full():
		return rdma.ErrFull
	}
	at := C.uint32_t(s.recvs.vacant())
	if _, ok := s.dev.elements(w.SGL, &s.c.q, at, s.sges, &s.wrs[at]); !ok {
		return rdma.ErrInvalid
	}
	s.recvs.post(w.ID)
	s.order[s.c.q.tail&s.c.q.mask] = at
	s.c.q.tail++
	return nil
}

// unposted tells that there are receives to hand over.
func (s *srq) unposted() bool { return s != nil && !s.broken && s.c.q.handed != s.c.q.tail }

// hand gives the device what was posted.
func (s *srq) hand() {
	if !s.unposted() {
		return
	}
	if err := errno(C.gv_srq_turn(s.c)); err != nil {
		s.dev.counts.postErrors.Add(1)
		s.dev.log.Error("the device refused shared receives, their connections end", "device", s.dev.name, "error", err)
		s.fail()
	}
}

// fail ends the queue pairs of a queue that is of no use any more.
func (s *srq) fail() {
	if s.closed {
		return
	}
	s.broken = true
	s.cq.each(func(q *qp) {
		if q.srq == s {
			q.breakDown()
		}
	})
}

// sharedCompleted handles the completion of a receive of a shared queue.
func (c *cq) sharedCompleted(wc *C.struct_ibv_wc) {
	tag := uint32(wc.wr_id >> 32)
	place := int(tag & (1<<placeBits - 1))
	q := c.sharing[uint32(wc.qp_num)]
	if place >= len(c.srqs) || c.srqs[place] == nil || uint32(c.srqs[place].c.tag) != tag || q == nil || q.srq != c.srqs[place] {
		return // of a queue that has been closed
	}
	id, ok := q.srq.recvs.complete(&q.taker, uint32(wc.wr_id&C.GV_PLACE))
	if !ok {
		return // the device is in disorder
	}
	done := rdma.Completion{ID: id, User: q.user, Op: rdma.OpRecv, Status: recvStatusOf(wc.status)}
	switch {
	case q.state == closed:
		done.Status = rdma.StatusFlushed
	case done.Status == rdma.StatusOK:
		done.Bytes = uint32(wc.byte_len)
		q.communicates()
	}
	c.give(lateCompletion{qp: q, srq: q.srq, c: done})
	q.notice(done.Status)
}

// findLost looks for receives that the device has lost, now and then.
func (c *cq) findLost() {
	for _, s := range c.srqs {
		if s != nil && s.recvs.due() {
			s.findLost()
		}
	}
}

// findLost completes the receives of which it is certain that the device has lost them.
func (s *srq) findLost() {
	s.found = s.recvs.lost(s.found[:0])
	s.dev.counts.receivesLost.Add(uint64(len(s.found)))
	for _, l := range s.found {
		done := rdma.Completion{ID: l.id, User: l.user, Op: rdma.OpRecv, Status: rdma.StatusFlushed}
		s.cq.give(lateCompletion{srq: s, c: done})
	}
}

// left: the device has nothing of a queue pair any more.
func (s *srq) left(q *qp) {
	s.recvs.leave(&q.taker, q.user)
	s.findLost()
}

// Close frees the queue, and the queue pairs that linger for it.
func (s *srq) Close() error {
	if s.closed {
		return nil
	}
	c := s.cq
	if s.users > 0 {
		return s.dev.fail("close shared receive queue that has queue pairs", rdma.ErrState)
	}
	var errs []error
	for _, q := range slices.Clone(c.lingering) {
		if q.srq == s {
			errs = append(errs, q.bury())
		}
	}
	s.closed = true
	c.srqs[s.place] = nil
	c.used -= len(s.recvs.slots)
	c.late = slices.DeleteFunc(c.late, func(l lateCompletion) bool { return l.srq == s })
	s.dev.mu.Lock()
	delete(s.dev.srqs, s.key)
	s.dev.mu.Unlock()
	errs = append(errs, call("destroy", C.gv_srq_destroy(s.c)))
	C.gv_srq_free(s.c)
	s.c, s.wrs, s.sges, s.order = nil, nil, nil, nil
	if err := errors.Join(errs...); err != nil {
		return s.dev.fail("close shared receive queue", err)
	}
	return nil
}
