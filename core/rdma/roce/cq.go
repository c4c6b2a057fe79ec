package roce

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/roce/rc"
	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

const (
	holdBuffers = 1024
	wakeEvent   = -1 // epoll's name of the eventfd
)

// cq is a completion queue: member number member of every endpoint's group of sockets, and the
// transports of its queue pairs.
type cq struct {
	dev    *Device
	member int
	wake   func()
	epoll  int
	event  int
	closed bool
	epoch  epoch
	now    int64

	socks []*socket
	ready [16]unix.EpollEvent
	rx    *receiver
	tx    transmitter
	in    rc.Packet
	out   rc.Packet
	pool  *rc.Pool

	qps     map[ib.QPN]*qp
	active  []*qp // have something to send, or may have
	spare   []*qp
	starved []*qp // wait for the READ budget
	due     []*qp // have completions or events
	goodbye []*qp // have failed: the peer is to be told
	srqs    int
	orphans []rdma.Completion // receives of shared queues whose queue pairs were closed
	next    int64             // earliest deadline of a QP, or earlier; 0: none

	cnt           counters
	nextComplaint int64
	mail          mailbox
}

// mailbox brings the news of the connection managers to the owner.
type mailbox struct {
	n     atomic.Int32
	mu    sync.Mutex
	items []notice
}

// NewCQ makes a completion queue.
func (d *Device) NewCQ(cfg rdma.CQConfig) (rdma.CQ, error) {
	if cfg.Depth < 0 || cfg.Index < 0 || cfg.Count < 0 {
		return nil, d.fail("new completion queue", rdma.ErrInvalid)
	}
	c := &cq{dev: d, wake: cfg.Wake, epoll: -1, event: -1, qps: make(map[ib.QPN]*qp), pool: rc.NewPool(holdBuffers, wire.MaxPayload)}
	size := bufferGRO
	if d.cfg.NoGRO {
		size = bufferPlain
	}
	c.rx = newReceiver(size)
	c.tx.gso = !d.cfg.NoGSO
	if err := c.open(); err != nil {
		c.closeFDs()
		return nil, d.fail("new completion queue", err)
	}
	if err := d.join(c); err != nil {
		c.closeFDs()
		return nil, d.fail("new completion queue", err)
	}
	return c, nil
}

func (c *cq) open() (err error) {
	if c.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if c.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	return c.watch(c.event, wakeEvent)
}

func (c *cq) watch(fd, name int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(name)}
	if err := unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// addSocket makes a socket part of the queue, before its owner starts.
func (c *cq) addSocket(ep *endpoint, fd int) error {
	s := &socket{ep: ep, fd: fd, budget: rc.NewBudget(int64(receiveRoom(fd)) / 2)}
	i := slices.Index(c.socks, nil) // the place of an address that is gone
	if i < 0 {
		i = len(c.socks)
		c.socks = append(c.socks, nil)
	}
	c.socks[i] = s
	return c.watch(fd, i)
}

func (c *cq) unwatch(fd int) {
	_ = unix.EpollCtl(c.epoll, unix.EPOLL_CTL_DEL, fd, nil) // it fails only for a descriptor that is not there
}

func (c *cq) closeFDs() {
	for _, fd := range []*int{&c.epoll, &c.event} {
		if *fd >= 0 {
			unix.Close(*fd)
		}
		*fd = -1
	}
}

// Poll moves the transport and fills out with completions.
func (c *cq) Poll(out []rdma.Completion) int {
	if c.closed || c.dev.isClosed() {
		return 0
	}
	c.epoch.enter()
	c.now = clock()
	c.receive()
	c.notices()
	c.timers()
	c.transmit()
	c.partings()
	n := c.collect(out)
	c.cnt.publish(c.now)
	c.epoch.leave()
	return n
}

// Flush transmits what was posted.
func (c *cq) Flush() {
	if c.closed || c.dev.isClosed() {
		return
	}
	c.epoch.enter()
	c.now = clock()
	c.transmit()
	c.partings()
	c.epoch.leave()
}

// Arm makes FD report what comes; its descriptors are level-triggered, so nothing needs arming.
func (c *cq) Arm() bool {
	c.Flush()
	if c.closed {
		return true
	}
	c.cnt.publishNow(c.now)
	return len(c.due) == 0 && len(c.active) == 0 && len(c.orphans) == 0 && c.mail.n.Load() == 0
}

// FD is the epoll descriptor over all sockets and the eventfd.
func (c *cq) FD() int { return c.epoll }

// Deadline is the earliest of the transports' timers.
func (c *cq) Deadline() time.Time {
	if c.next == 0 || c.closed {
		return time.Time{}
	}
	return clockBase.Add(time.Duration(c.next))
}

// timers lets the transports whose deadline has come act.
func (c *cq) timers() {
	if c.next == 0 || c.now < c.next {
		return
	}
	c.next = 0
	for _, q := range c.qps {
		if d := q.m.Deadline(); d != 0 && d <= c.now {
			q.m.Tick(c.now)
			c.activate(q)
		}
		c.settle(q)
	}
}

// activate puts q on the list of those that may have something to send.
func (c *cq) activate(q *qp) {
	if !q.active && !q.closed {
		q.active = true
		c.active = append(c.active, q)
	}
}

// settle looks at what a call has left in q's transport: a deadline, completions, failure.
func (c *cq) settle(q *qp) {
	if d := q.m.Deadline(); d != 0 && (c.next == 0 || d < c.next) {
		c.next = d
	}
	if q.m.Waiting() && !q.starved {
		q.starved = true
		c.starved = append(c.starved, q)
	}
	if q.m.State() == rc.Failed && q.alive() {
		q.lost()
	}
	if !q.due && (q.m.Pending() > 0 || q.hasEvent()) {
		q.due = true
		c.due = append(c.due, q)
	}
	if q.srq != nil && q.m.Awaits() {
		q.srq.wait(q)
	}
}

// wakeStarved lets those that wait for the READ budget try again, in turn.
func (c *cq) wakeStarved() {
	for _, q := range c.starved {
		q.starved = false
		c.activate(q)
	}
	c.starved = c.starved[:0]
}

// partings tells the peers of the queue pairs that have failed, after the last packets have left.
func (c *cq) partings() {
	for _, q := range c.goodbye {
		q.sayGoodbye()
	}
	c.goodbye = c.goodbye[:0]
}

// collect fills out from the queue pairs that have something.
func (c *cq) collect(out []rdma.Completion) int {
	n, kept := c.collectOrphans(out), 0
	for _, q := range c.due {
		if !q.closed && n < len(out) {
			n += q.collect(out[n:])
			if q.srq != nil && q.m.Awaits() {
				c.activate(q) // it may have waited for what it has completed to be taken
			}
		}
		if !q.closed && (q.m.Pending() > 0 || q.hasEvent()) {
			c.due[kept] = q
			kept++
			continue
		}
		q.due = false
	}
	clear(c.due[kept:])
	c.due = c.due[:kept]
	return n
}

// Close frees the queue.
func (c *cq) Close() error {
	if c.closed {
		return nil
	}
	if len(c.qps) > 0 || c.srqs > 0 {
		return failed("close completion queue", c.dev.name, rdma.ErrState)
	}
	c.closed = true
	c.cnt.publishNow(clock())
	c.dev.leave(c)
	c.releaseAll()
	c.mail.mu.Lock() // the connection managers write to the eventfd
	defer c.mail.mu.Unlock()
	c.closeFDs()
	return nil
}

// releaseAll gives back the addresses that are gone, of which nobody looks at the news any more.
func (c *cq) releaseAll() {
	c.mail.mu.Lock()
	items := c.mail.items
	c.mail.items = nil
	c.mail.mu.Unlock()
	for i := range items {
		if items[i].kind == noticeGone {
			c.dev.release(items[i].ep)
		}
	}
}

// post brings news to the owner. It may be called from any goroutine.
func (c *cq) post(n notice) {
	c.mail.mu.Lock()
	c.mail.items = append(c.mail.items, n)
	c.mail.n.Add(1)
	// Written under the lock, so that the owner, who reads it under the lock, leaves none behind.
	_, _ = unix.Write(c.event, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	c.mail.mu.Unlock()
	if c.wake != nil {
		c.wake()
	}
}

// notices handles the news.
func (c *cq) notices() {
	if c.mail.n.Load() == 0 {
		return
	}
	c.mail.mu.Lock()
	items := c.mail.items
	c.mail.items = nil
	c.mail.n.Store(0)
	var counter [8]byte
	_, _ = unix.Read(c.event, counter[:])
	c.mail.mu.Unlock()
	c.beforeTheEnd(items)
	for i := range items {
		c.notice(&items[i])
	}
}

func (c *cq) notice(n *notice) {
	switch {
	case n.kind == noticeSocket:
		_ = c.addSocket(n.ep, n.fd) // without it the address stays silent
	case n.kind == noticeGone:
		c.lose(n.ep)
	case n.kind == noticeMTU:
		c.shrink(n.mtu)
	case !n.q.closed:
		n.q.notice(n)
		c.settle(n.q)
	}
}

// newsOf handles the news that q is established, if that has come. A batch is being received.
func (c *cq) newsOf(q *qp) {
	c.mail.mu.Lock()
	i := slices.IndexFunc(c.mail.items, func(n notice) bool { return n.q == q && n.kind == noticeEstablished })
	var n notice
	if i >= 0 {
		n = c.mail.items[i]
		c.mail.items = slices.Delete(c.mail.items, i, i+1)
	}
	c.mail.mu.Unlock()
	if i >= 0 {
		q.notice(&n)
		c.settle(q)
	}
}

// beforeTheEnd receives once more if a connection has ended: what the peer sent before it
// disconnected is in the sockets, and comes first.
func (c *cq) beforeTheEnd(items []notice) {
	for i := range items {
		if items[i].kind == noticeEnded {
			c.receive()
			return
		}
	}
}

// clock is nanoseconds since clockBase, which is never 0.
func clock() int64 { return int64(time.Since(clockBase)) + 1 }

var clockBase = time.Now()
