//go:build verbs

package verbs

// #cgo noescape gv_cq_turn
// #cgo nocallback gv_cq_turn
// #cgo noescape gv_cq_arm
// #cgo nocallback gv_cq_arm
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// cq is a completion queue. All but the notes is the owner's.
type cq struct {
	dev    *Device
	handle uint64
	c      *C.struct_gv_cq
	epfd   int // the completion channel and the bell
	bell   int
	closed bool

	// qps are the queue pairs by the lower bits of their tags; the upper ones count how often a place has been given.
	qps   []*qp
	alive int
	// srqs are the shared receive queues, by their tags as well, sharing the queue pairs that take from them, by number.
	srqs    []*srq
	sharing map[uint32]*qp
	// room is for the completions of so much work; used is the depth of the queues.
	room, used   int
	dirty, spare []*qp
	slots        []*C.struct_gv_qp // where C finds the dirty ones
	// ending are those that end and whose work has not all been completed; timed those with a deadline; lingering are closed, and the device
	// may still have receives of a shared queue for them.
	ending, timed, lingering []*qp
	at, got                  int // of the completions in C those from at on have not been handled

	// out[:n] is what Poll has filled, late what had no room, or came about outside Poll.
	out  []rdma.Completion
	n    int
	late []lateCompletion

	mu       sync.Mutex
	notes    []note
	shutNote bool
	noted    atomic.Bool
	rung     atomic.Bool // the bell has been rung since Arm silenced it
	taken    []note      // the owner's half, reused
}

// lateCompletion is of a queue pair, or of a shared queue and perhaps of a queue pair that is gone.
type lateCompletion struct {
	qp  *qp
	srq *srq
	c   rdma.Completion
}

// placeBits are those of a tag that name a place in cq.qps.
const placeBits = 16

// NewCQ makes a completion queue.
func (d *Device) NewCQ(cfg rdma.CQConfig) (rdma.CQ, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, d.fail("make completion queue", rdma.ErrClosed)
	}
	c := &cq{dev: d, handle: d.prov.handle(), bell: -1, epfd: -1, sharing: make(map[uint32]*qp)}
	depth, vector := C.int(min(max(cfg.Depth, 1), d.maxCQ)), C.int(max(cfg.Index, 0)%d.vectors)
	err := call("create completion queue", C.gv_cq_create(d.ctx, depth, vector, C.uint64_t(c.handle), &c.c))
	if err == nil {
		c.room = int(c.c.cq.cqe)
		if err = c.open(); err != nil {
			err = errors.Join(err, c.free())
		}
	}
	if err != nil {
		return nil, d.fail("make completion queue", err)
	}
	d.cqs[c.handle] = c
	return c, nil
}

// open makes the descriptor to wait on.
func (c *cq) open() (err error) {
	if c.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	c.c.bell = C.int(c.bell)
	if c.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	for _, fd := range []int{c.bell, int(c.c.channel.fd)} {
		if err := unix.EpollCtl(c.epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
	}
	return nil
}

func (c *cq) free() error {
	for _, fd := range []int{c.epfd, c.bell} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	err := call("destroy completion queue", C.gv_cq_destroy(c.c))
	c.c, c.slots = nil, nil
	return err
}

// Poll takes completions and what has been noted.
func (c *cq) Poll(out []rdma.Completion) int {
	if c.closed {
		return 0
	}
	c.out, c.n = out, 0
	c.takeLate()
	if c.noted.Load() {
		c.takeNotes()
	}
	if len(c.timed) > 0 {
		c.expire(time.Now())
	}
	c.fetch()
	c.findLost()
	if len(c.ending) > 0 {
		c.finish()
	}
	n := c.n
	c.out, c.n = nil, 0
	return n
}

// emit returns a completion at once, or keeps it for the next Poll.
func (c *cq) emit(q *qp, done rdma.Completion) {
	done.User = q.user
	c.give(lateCompletion{qp: q, c: done})
}

func (c *cq) give(l lateCompletion) {
	if len(c.late) == 0 && c.n < len(c.out) {
		c.out[c.n] = l.c
		c.n++
		return
	}
	c.late = append(c.late, l)
}

func (c *cq) takeLate() {
	n := min(len(c.late), len(c.out))
	for i := range n {
		c.out[i] = c.late[i].c
	}
	c.n = n
	c.late = slices.Delete(c.late, 0, n)
}

// fetch gets completions from the device, and hands over what has been posted.
func (c *cq) fetch() {
	if c.at == c.got {
		room := len(c.out) - c.n
		if room == 0 && !c.unposted() {
			return
		}
		c.turn(room)
	}
	c.consume()
}

// consume works through what C has fetched. It may be called again from within.
func (c *cq) consume() {
	for c.at < c.got {
		c.at++
		c.completed(&c.c.wc[c.at-1])
	}
}

// sweep fetches all completions that there are, those that come meanwhile as far as the queue is long.
func (c *cq) sweep() {
	c.consume()
	for left := c.room; left > 0; left -= C.GV_BATCH {
		n := int(C.gv_cq_turn(c.c, 0, C.GV_BATCH))
		c.at, c.got = 0, max(n, 0)
		c.consume()
		if n < C.GV_BATCH {
			return
		}
	}
}

// unposted tells that there is work to hand over.
func (c *cq) unposted() bool { return len(c.dirty) > 0 || slices.ContainsFunc(c.srqs, (*srq).unposted) }

// turn hands over work and fetches completions. With room there must be none that have not been handled.
func (c *cq) turn(room int) {
	for _, s := range c.srqs {
		s.hand()
	}
	n := 0
	for _, q := range c.dirty {
		if q.dirty = false; q.state < ending && q.c.qp != nil {
			c.slots[n] = q.c
			n++
		}
	}
	got := int(C.gv_cq_turn(c.c, C.int(n), C.int(room)))
	if room > 0 {
		c.at, c.got = 0, max(got, 0)
	}
	handed := c.dirty
	c.dirty, c.spare = c.spare[:0], nil
	for _, q := range handed {
		if q.c != nil && q.c.err != 0 {
			q.refused()
		}
	}
	c.spare = handed
	if got < 0 {
		c.lose("the completion queue cannot be polled")
	}
}

// touch has a queue pair's work handed over.
func (c *cq) touch(q *qp) {
	if !q.dirty {
		q.dirty = true
		c.dirty = append(c.dirty, q)
	}
}

// Flush hands over what was posted.
func (c *cq) Flush() {
	if !c.closed && c.unposted() {
		c.turn(0)
	}
}

// Arm asks for a wake-up.
func (c *cq) Arm() bool {
	if c.closed {
		return true
	}
	c.Flush()
	if len(c.late) > 0 || c.at < c.got || len(c.dirty) > 0 || slices.ContainsFunc(c.ending, (*qp).drained) {
		return false
	}
	rung := C.int(0)
	if c.rung.Swap(false) {
		rung = 1
	}
	n := int(C.gv_cq_arm(c.c, rung))
	if n < 0 {
		c.lose("the completion queue cannot be armed")
		return false
	}
	c.at, c.got = 0, n
	return n == 0 && !c.noted.Load()
}

// lose ends all queue pairs of a queue that is of no use.
func (c *cq) lose(why string) {
	c.dev.log.Error("connections end: "+why, "device", c.dev.name)
	c.each(func(q *qp) { q.vanish() })
}

func (c *cq) each(f func(*qp)) {
	for _, q := range c.qps {
		if q != nil {
			f(q)
		}
	}
}

// FD polls readable when a completion has come since Arm, or a note.
func (c *cq) FD() int { return c.epfd }

// Deadline is the first of the queue pairs'.
func (c *cq) Deadline() (first time.Time) {
	for _, q := range c.timed {
		if first.IsZero() || q.deadline.Before(first) {
			first = q.deadline
		}
	}
	return first
}

func (c *cq) expire(now time.Time) {
	for i := len(c.timed) - 1; i >= 0; i-- { // from the end, for expired takes them off, and with a shared queue perhaps others
		if i < len(c.timed) && !now.Before(c.timed[i].deadline) {
			c.timed[i].expired()
		}
	}
}

// finish completes the queue pairs that end and have nothing left in the device.
func (c *cq) finish() {
	c.ending = slices.DeleteFunc(c.ending, func(q *qp) bool {
		if !q.drained() {
			return false
		}
		q.conclude()
		return true
	})
}

// place finds a tag for a queue pair.
func (c *cq) place(q *qp) error {
	i := slices.Index(c.qps, nil)
	if i < 0 {
		if i = len(c.qps); i >= 1<<placeBits {
			return rdma.ErrFull
		}
		c.qps = append(c.qps, nil)
	}
	if err := c.growDirty(c.alive + 1); err != nil {
		return err
	}
	q.place = i
	c.qps[i] = q
	c.alive++
	return nil
}

// reserve sets room aside for the completions of so much work. Who lingers has to go for it.
func (c *cq) reserve(depth int) error {
	for c.used+depth > c.room && len(c.lingering) > 0 {
		if c.lingering[0].bury() != nil {
			break
		}
	}
	if c.used+depth > c.room {
		return fmt.Errorf("%w: its completions might not fit the completion queue, which has %d of %d left", rdma.ErrFull, c.room-c.used, c.room)
	}
	c.used += depth
	return nil
}

// drop forgets a queue pair and what it has not been told of. The receives that it took from a shared queue have come to nothing.
func (c *cq) drop(q *qp) {
	same := func(o *qp) bool { return o == q }
	c.qps[q.place] = nil
	c.alive--
	c.dirty = slices.DeleteFunc(c.dirty, same)
	c.ending = slices.DeleteFunc(c.ending, same)
	q.setDeadline(time.Time{})
	c.late = slices.DeleteFunc(c.late, func(l lateCompletion) bool { return l.qp == q && l.srq == nil })
	for i := range c.late {
		if l := &c.late[i]; l.qp == q {
			l.c.Status, l.c.Bytes = rdma.StatusFlushed, 0
		}
	}
}

// Close frees the queue.
func (c *cq) Close() error {
	if c.closed {
		return nil
	}
	if c.alive > 0 {
		return c.dev.fail("close completion queue that has queue pairs", rdma.ErrState)
	}
	if slices.ContainsFunc(c.srqs, func(s *srq) bool { return s != nil }) {
		return c.dev.fail("close completion queue that has shared receive queues", rdma.ErrState)
	}
	return c.shutdown()
}

// shutdown closes the queue with its queue pairs and shared receive queues.
func (c *cq) shutdown() error {
	if c.closed {
		return nil
	}
	var errs []error
	c.each(func(q *qp) { errs = append(errs, q.Close()) })
	for _, s := range c.srqs {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	c.closed = true
	c.mu.Lock()
	c.shutNote, c.notes = true, nil
	c.mu.Unlock()
	c.dev.mu.Lock()
	delete(c.dev.cqs, c.handle)
	c.dev.mu.Unlock()
	if err := c.free(); err != nil {
		errs = append(errs, c.dev.fail("close completion queue", err))
	}
	return errors.Join(errs...)
}
