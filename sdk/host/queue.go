package host

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/internal/ring"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
)

const (
	defaultEntries = 128
	closeTime      = 10 * time.Second
)

// QueueOptions shape a queue.
type QueueOptions struct {
	// Entries is how many requests can be in flight, a power of two up to 4096. 0 means 128.
	Entries uint32
	// Hold is for how long requests wait for a process after one was lost. Then, and for new requests until
	// there is one, the answer is CodeUnavailable. Requests that a lost process had taken wait at least until it is dead, and
	// their data is tainted after the answer: see Arena.Tainted.
	Hold time.Duration
	// EdgeTriggered promises that FD is watched edge-triggered (EPOLLET). Poll then saves a system call at each wake-up.
	EdgeTriggered bool
}

// Queue carries requests to one store, in one process after another. One goroutine calls Submit, Cancel, Flush, Poll,
// Arm and Deadline; none of them blocks, and none allocates but when a process is lost or won.
//
// A request's Data must lie in the arena. It belongs to the queue until Poll has returned the Result, or Close
// has returned, and is not to be used for anything else before Arena.Tainted says no.
type Queue struct {
	info   backstore.Info
	memory *Arena
	arena  []byte // memory's
	opt    QueueOptions
	bell   *shm.Event
	count  counters

	// Of the calling goroutine.
	slots []slot
	free  []uint32
	ended []uint32 // slots that have a result without a link
	order uint64
	link  link
	sick  bool      // link broke; waiting for its process's death
	since time.Time // without a working link since; zero with one, and before the first
	done  [64]ring.Done
	slept bool
	// paused: nothing is sent although there is a link; quiet, if not nil, is closed when nothing is under way any more.
	paused bool
	quiet  chan struct{}

	mail    atomic.Bool
	mailbox mailbox
}

// slot is one request in flight.
type slot struct {
	req   backstore.Request
	arena uint64
	order uint64
	state slotState
	again bool           // a lost process had it
	code  backstore.Code // of an ended one
	at    uint32         // of a miscompare
	// cancelled: nobody waits for it.
	cancelled bool
}

type slotState uint8

const (
	slotFree slotState = iota
	// slotHeld: taken by the queue, not given to a link that still counts.
	slotHeld
	// slotSent: given to the link. The plugin may touch the data.
	slotSent
	// slotEnded: has a result.
	slotEnded
)

// mailbox is how the goroutine that supervises processes talks to the one that calls the queue.
type mailbox struct {
	sync.Mutex
	next   link          // to use from now on
	gone   []link        // whose process is dead, or has let go
	pause  chan struct{} // to be closed when nothing is under way
	resume bool
	closed bool
	// owner is the process attached to last, generation how many there have been.
	owner      *Process
	generation uint32
}

// NewQueue makes a queue for a store that is described by info. Without a process, requests wait.
func NewQueue(info backstore.Info, arena *Arena, o QueueOptions) (*Queue, error) {
	if o.Entries == 0 {
		o.Entries = defaultEntries
	}
	if err := ring.CheckEntries(o.Entries); err != nil {
		return nil, fmt.Errorf("host: queue: %w", err)
	}
	bell, err := shm.NewEvent()
	if err != nil {
		return nil, fmt.Errorf("host: queue: %w", err)
	}
	q := &Queue{
		info: info, memory: arena, arena: arena.Bytes(), opt: o, bell: bell, since: time.Now(),
		slots: make([]slot, o.Entries), free: make([]uint32, 0, o.Entries), ended: make([]uint32, 0, o.Entries),
	}
	for i := range o.Entries {
		q.free = append(q.free, o.Entries-1-i)
	}
	return q, nil
}

// Info describes the store.
func (q *Queue) Info() backstore.Info { return q.info }

// FD polls readable when Poll should be called, after Arm has returned true. It is the same for the queue's whole life.
func (q *Queue) FD() int { return q.bell.FD() }

// Counters may be read from any goroutine.
func (q *Queue) Counters() Counters { return q.count.snapshot() }

// Submit takes requests in order and returns how many; fewer than all means that the queue is full.
func (q *Queue) Submit(reqs []backstore.Request) int {
	if q.mail.Load() {
		q.readMail()
	}
	for i := range reqs {
		if len(q.free) == 0 {
			return i
		}
		q.take(&reqs[i])
	}
	return len(reqs)
}

func (q *Queue) take(r *backstore.Request) {
	n := q.free[len(q.free)-1]
	q.free = q.free[:len(q.free)-1]
	s := &q.slots[n]
	at, ok := offset(q.arena, r.Data)
	q.order++
	*s = slot{req: *r, arena: at, order: q.order, state: slotHeld}
	switch {
	case !ok || uint64(len(r.Data)) > 1<<32-1 || r.Off < 0:
		q.count.refused.add(1)
		q.end(n, backstore.CodeInvalid)
	case r.Op > backstore.OpFlush && q.refuses(r) != backstore.CodeOK:
		q.count.refused.add(1)
		q.end(n, q.refuses(r))
	case q.sending():
		q.send(n)
	case q.expired():
		q.count.expired.add(1)
		q.end(n, backstore.CodeUnavailable)
	default:
		q.count.held.add(1)
	}
}

func (q *Queue) working() bool { return q.link != nil && !q.sick }

func (q *Queue) sending() bool { return q.working() && !q.paused }

func (q *Queue) send(n uint32) {
	s := &q.slots[n]
	s.state = slotSent
	q.link.push(n, &s.req, s.arena)
}

func (q *Queue) end(n uint32, c backstore.Code) {
	q.slots[n].state, q.slots[n].code = slotEnded, c
	q.ended = append(q.ended, n)
}

// Flush rings the plugin's doorbell, if it sleeps, for everything submitted since the last Flush.
func (q *Queue) Flush() {
	if q.working() {
		q.link.flush()
	}
}

// Poll fills res with finished requests and returns how many.
func (q *Queue) Poll(res []backstore.Result) int {
	if q.slept {
		q.wakeUp()
	}
	if q.mail.Load() {
		if !q.opt.EdgeTriggered {
			q.bell.Drain()
		}
		q.readMail()
	}
	n := 0
	if q.working() {
		n = q.pollLink(res)
	}
	if q.quiet != nil {
		q.settle()
	}
	if !q.sending() {
		q.expire()
	}
	for n < len(res) && len(q.ended) > 0 {
		at := q.ended[len(q.ended)-1]
		q.ended = q.ended[:len(q.ended)-1]
		res[n] = q.result(at, q.slots[at].code)
		n++
	}
	return n
}

func (q *Queue) pollLink(res []backstore.Result) int {
	n := 0
	for n < len(res) {
		got, err := q.link.poll(q.done[:min(len(q.done), len(res)-n)])
		for _, d := range q.done[:got] {
			q.slots[d.Slot].at = d.At
			res[n] = q.result(d.Slot, backstore.Code(d.Code))
			n++
		}
		if err != nil {
			q.fault(err)
		}
		if got == 0 || err != nil {
			break
		}
	}
	return n
}

// result frees a slot and makes its request's result.
func (q *Queue) result(n uint32, c backstore.Code) backstore.Result {
	s := &q.slots[n]
	r := backstore.Result{Tag: s.req.Tag, Code: c, At: s.at}
	s.req.Data, s.state = nil, slotFree
	q.free = append(q.free, n)
	return r
}

// Arm asks that FD become readable when there is something to Poll. It returns false if there is already.
func (q *Queue) Arm() bool {
	if q.mail.Load() || len(q.ended) > 0 {
		return false
	}
	if q.working() && !q.link.sleep() {
		return false
	}
	q.slept = true
	return true
}

// wakeUp ends what Arm began. FD is drained before anything is looked for, so that nothing is lost.
func (q *Queue) wakeUp() {
	q.slept = false
	if q.link != nil {
		q.link.awake()
	}
	if !q.opt.EdgeTriggered {
		q.bell.Drain()
	}
}

// Deadline is when Poll must be called at the latest: the end of waiting for a process. Zero means never.
func (q *Queue) Deadline() time.Time {
	if q.sending() || len(q.free)+len(q.ended) == len(q.slots) || !q.anyHeld() {
		return time.Time{}
	}
	return q.since.Add(q.opt.Hold)
}

func (q *Queue) anyHeld() bool {
	for i := range q.slots {
		if q.slots[i].state == slotHeld {
			return true
		}
	}
	return false
}

func (q *Queue) expired() bool { return time.Since(q.since) >= q.opt.Hold }

// expire ends the requests that have waited for a process for too long.
func (q *Queue) expire() {
	if len(q.free) == len(q.slots) || !q.expired() {
		return
	}
	for n := range q.slots {
		if q.slots[n].state == slotHeld {
			q.count.expired.add(1)
			q.end(uint32(n), backstore.CodeUnavailable)
		}
	}
}
