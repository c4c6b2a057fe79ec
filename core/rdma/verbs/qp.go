//go:build verbs

package verbs

// #include "shim.h"
import "C"

import (
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// state is where a queue pair is in its life.
//
//	idle -Connect-> resolving -> connecting -reply-> connected -end-> ending -all flushed-> ended
//	idle -Accept--> accepted -ready to use-> connected
//	resolving, connecting, accepted -rejection, failure, Disconnect-> ending
//	any -Close-> closed
type state uint8

const (
	idle state = iota
	resolving
	connecting
	accepted
	connected
	ending
	ended
	closed
)

// qp is a queue pair. It is its queue's owner's.
type qp struct {
	cq    *cq
	dev   *Device
	c     *C.struct_gv_qp
	key   uint64 // C's name of it
	place int
	num   uint32
	depth int // of both queues, without a shared one
	sge   int // elements of a list
	user  uint64
	state state
	dirty bool

	sendWRs, recvWRs   []C.struct_gv_wr
	sendSGEs, recvSGEs []C.struct_ibv_sge
	sends              []sent
	recvs              []uint64 // IDs
	// quiet counts the work since the last that the device was asked to tell of; it is asked at least every so often.
	quiet, every uint32
	failed       bool // the device has reported a failure
	broken       bool // a send that failed has been told of
	errFull      error

	// srq is where the receives come from, if that is a shared queue, and taker this queue pair's part in it as long as it takes.
	srq   *srq
	taker taker
	takes bool
	// halted is when the queue pair was put into error, spent tells that the device has said that it takes no more receives.
	halted time.Time
	spent  bool

	id       *cmID
	private  []byte
	info     rdma.ConnInfo
	deadline time.Time
	// final is the event that ends the queue pair.
	final rdma.Completion
}

// sent is what is kept of a Work of the send queue, and once it is known what became of it, that and whether it is told.
type sent struct {
	id          uint64
	op          rdma.Op
	signaled    bool
	known, told bool
	status      rdma.Status
}

// opcodes are those of C for the operations of the send queue.
var opcodes = [...]C.uint8_t{rdma.OpSend: C.IBV_WR_SEND, rdma.OpWrite: C.IBV_WR_RDMA_WRITE, rdma.OpRead: C.IBV_WR_RDMA_READ}

// NewQP makes a queue pair.
func (c *cq) NewQP(cfg rdma.QPConfig) (rdma.QP, error) {
	d := c.dev
	sge := cfg.MaxSGE
	if sge == 0 {
		sge = 1
	}
	switch {
	case c.closed || d.shut.Load():
		return nil, d.fail("make queue pair", rdma.ErrClosed)
	case cfg.SendDepth < 0, cfg.RecvDepth < 0, cfg.SendDepth > d.attr.MaxQPWork, cfg.RecvDepth > d.attr.MaxQPWork, sge < 0, sge > d.attr.MaxSGE:
		return nil, d.fail("make queue pair beyond the device's limits", rdma.ErrInvalid)
	}
	s, err := c.sharedOf(&cfg)
	if err != nil {
		return nil, d.fail("make queue pair on a shared receive queue", err)
	}
	q := &qp{cq: c, dev: d, key: d.prov.handle(), user: cfg.User, depth: cfg.SendDepth + cfg.RecvDepth, srq: s}
	if err := c.reserve(q.depth); err != nil {
		return nil, d.fail("make queue pair", err)
	}
	if err := c.place(q); err != nil {
		c.used -= q.depth
		return nil, d.fail("make queue pair", err)
	}
	if err := q.create(&cfg, sge); err != nil {
		c.drop(q)
		c.used -= q.depth
		return nil, d.fail("make queue pair", err)
	}
	q.prepare()
	if s != nil {
		s.users++
		c.sharing[q.num] = q
	}
	d.mu.Lock()
	d.qps[q.key] = q
	d.mu.Unlock()
	return q, nil
}

// prepare makes the Go half.
func (q *qp) prepare() {
	q.num, q.sge = uint32(q.c.qp.qp_num), int(q.c.sq.max_sge)
	q.c.tag = C.uint64_t(uint32(q.key)<<placeBits | uint32(q.place))
	q.sendWRs, q.sendSGEs = rings(&q.c.sq)
	q.recvWRs, q.recvSGEs = rings(&q.c.rq)
	q.sends, q.recvs = make([]sent, len(q.sendWRs)), make([]uint64, len(q.recvWRs))
	q.every = max(min(uint32(q.c.sq.hw), uint32(q.c.sq.depth))/4, 1)
	q.errFull = failed("post", q.String(), rdma.ErrFull)
	q.info = rdma.ConnInfo{Device: q.dev.name, Port: 1}
}

func (q *qp) Num() uint32 { return q.num }

// MaxSGE is the longest list that is taken, as the device granted it.
func (q *qp) MaxSGE() int { return q.sge }

func (q *qp) String() string { return fmt.Sprintf("%s/%#06x", q.dev.name, q.num) }

// Info describes the connection.
func (q *qp) Info() rdma.ConnInfo { return q.info }

// PostSend takes work, which is handed over by the next Flush, Arm or Poll.
func (q *qp) PostSend(work []rdma.Work) (int, error) {
	for i := range work {
		if err := q.takeSend(&work[i]); err != nil {
			return i, q.refusal("post send", err)
		}
	}
	return len(work), nil
}

func (q *qp) takeSend(w *rdma.Work) error {
	switch {
	case q.state == closed:
		return rdma.ErrClosed
	case q.silent():
		return rdma.ErrState
	case w.Op != rdma.OpSend && w.Op != rdma.OpWrite && w.Op != rdma.OpRead:
		return rdma.ErrInvalid
	}
	s := &q.c.sq
	if s.tail-s.done >= s.depth {
		return rdma.ErrFull
	}
	at := s.tail & s.mask
	wr := &q.sendWRs[at]
	total, ok := q.dev.elements(w.SGL, s, at, q.sendSGEs, wr)
	if !ok {
		return rdma.ErrInvalid
	}
	wr.opcode, wr.flags = opcodes[w.Op], 0
	wr.remote, wr.rkey = C.uint64_t(w.RemoteAddr), C.uint32_t(w.RKey)
	q.quiet++
	if w.Flags&rdma.Signaled != 0 || q.quiet >= q.every || w.Op == rdma.OpRead && q.dev.iwarp {
		wr.flags = C.IBV_SEND_SIGNALED
		q.quiet = 0
	}
	if w.Flags&rdma.Solicited != 0 && w.Op == rdma.OpSend {
		wr.flags |= C.IBV_SEND_SOLICITED
	}
	if w.Op != rdma.OpRead && total > 0 && total <= uint64(q.c.max_inline) {
		wr.flags |= C.IBV_SEND_INLINE
	}
	q.sends[at] = sent{id: w.ID, op: w.Op, signaled: w.Flags&rdma.Signaled != 0}
	s.tail++
	switch q.state {
	case connected:
		q.cq.touch(q)
	case ending: // conclude flushes it
	default:
		q.flushSends()
	}
	return nil
}

// PostRecv takes receive buffers; as PostSend.
func (q *qp) PostRecv(work []rdma.Work) (int, error) {
	for i := range work {
		if err := q.takeRecv(&work[i]); err != nil {
			return i, q.refusal("post receive", err)
		}
	}
	return len(work), nil
}

func (q *qp) takeRecv(w *rdma.Work) error {
	switch {
	case q.state == closed:
		return rdma.ErrClosed
	case q.silent():
		return rdma.ErrState
	case w.Op != rdma.OpRecv, q.srq != nil:
		return rdma.ErrInvalid
	}
	s := &q.c.rq
	if s.tail-s.done >= s.depth {
		return rdma.ErrFull
	}
	at := s.tail & s.mask
	if _, ok := q.dev.elements(w.SGL, s, at, q.recvSGEs, &q.recvWRs[at]); !ok {
		return rdma.ErrInvalid
	}
	if wr := &q.recvWRs[at]; wr.nsge == 0 && q.dev.iwarp { // libsiw refuses a receive that has no elements
		q.recvSGEs[uint64(at)*uint64(s.max_sge)] = C.struct_ibv_sge{}
		wr.nsge = 1
	}
	q.recvs[at] = w.ID
	s.tail++
	switch {
	case q.state < ending:
		q.cq.touch(q)
	case q.state == ended:
		q.flushRecvs()
	}
	return nil
}

// silent: the last completion has been made.
func (q *qp) silent() bool { return q.state == ended && q.final.Event == rdma.EventDisconnected }

// refusal makes the error of a post. A full queue belongs to the steady state, and so its error is made beforehand.
func (q *qp) refusal(op string, err error) error {
	if err == rdma.ErrFull {
		return q.errFull
	}
	return failed(op, q.String(), err)
}

// elements checks a list, lays it into a place of the ring and returns how many bytes it names. Empty elements are left out: devices
// differ in what they take them for, 2 GiB being one meaning.
func (d *Device) elements(sgl []rdma.SGE, s *C.struct_gv_queue, at C.uint32_t, ring []C.struct_ibv_sge, wr *C.struct_gv_wr) (total uint64, ok bool) {
	if len(sgl) > int(s.max_sge) {
		return 0, false
	}
	first := uint64(at) * uint64(s.max_sge)
	n := uint64(0)
	for i := range sgl {
		to := &ring[first+n]
		if !d.element(&sgl[i], to) {
			return 0, false
		}
		if to.length > 0 {
			n++
			total += uint64(to.length)
		}
	}
	wr.nsge = C.uint16_t(n)
	return total, total <= min(uint64(d.attr.MaxMessage), math.MaxUint32)
}

// flushSends completes everything in the send queue as flushed. The device must have none of it.
func (q *qp) flushSends() {
	for s := &q.c.sq; s.done != s.tail; s.done++ {
		e := &q.sends[s.done&s.mask]
		q.cq.emit(q, rdma.Completion{ID: e.id, Op: e.op, Status: rdma.StatusFlushed})
	}
	q.c.sq.handed = q.c.sq.tail
	q.quiet = 0
}

func (q *qp) flushRecvs() {
	for s := &q.c.rq; s.done != s.tail; s.done++ {
		q.cq.emit(q, rdma.Completion{ID: q.recvs[s.done&s.mask], Op: rdma.OpRecv, Status: rdma.StatusFlushed})
	}
	q.c.rq.handed = q.c.rq.tail
}

// refused: the device has not taken what was handed over. One that is merely full is tried again after a completion.
func (q *qp) refused() {
	code := unix.Errno(q.c.err)
	outstanding := q.c.sq.handed != q.c.sq.done || q.c.rq.handed != q.c.rq.done
	if code == unix.ENOMEM && outstanding {
		q.c.err = 0
		return
	}
	q.dev.counts.postErrors.Add(1)
	q.dev.log.Warn("the device refused work, the connection ends", "queue_pair", q.String(), "peer", q.info.Remote, "error", code)
	q.breakDown()
}

// setDeadline bounds what the queue pair waits for.
func (q *qp) setDeadline(t time.Time) {
	c := q.cq
	if q.deadline.IsZero() && !t.IsZero() {
		c.timed = append(c.timed, q)
	}
	if !q.deadline.IsZero() && t.IsZero() {
		c.timed = slices.DeleteFunc(c.timed, func(o *qp) bool { return o == q })
	}
	q.deadline = t
}

// Close destroys the queue pair, or leaves that for later if it may have receives of a shared queue.
func (q *qp) Close() error {
	if q.state == closed {
		return nil
	}
	q.leave()
	q.state = closed
	wait := q.owes()
	q.cq.drop(q)
	if q.srq != nil {
		q.srq.users--
	}
	if wait {
		q.linger()
		return nil
	}
	err := q.demolish()
	q.forget()
	if err != nil {
		return failed("close", q.String(), err)
	}
	return nil
}

// demolish destroys the queue pair of the device.
func (q *qp) demolish() error {
	if q.takes {
		q.cq.sweep() // a driver may take the completions of a queue pair away with it
	}
	if err := call("destroy queue pair", C.gv_qp_destroy(q.c)); err != nil {
		return err
	}
	if q.takes {
		q.takes = false
		q.cq.sweep() // later on the number may be another's
		q.srq.left(q)
	}
	return nil
}

// forget frees what is left of a closed queue pair.
func (q *qp) forget() {
	c := q.cq
	c.used -= q.depth
	if c.sharing[q.num] == q {
		delete(c.sharing, q.num)
	}
	q.dev.mu.Lock()
	delete(q.dev.qps, q.key)
	q.dev.mu.Unlock()
	C.gv_qp_free(q.c)
	q.c = nil
}
