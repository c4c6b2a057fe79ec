package conn

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// Bounds of the work of one turn, which keep one queue, channel or source from starving the others.
const (
	pollBatch   = 128 // completions taken from one queue
	controlTurn = 16  // control calls
)

// Sentinels of this package's errors.
var (
	// ErrStopped: the reactor has ended, or never began.
	ErrStopped = errors.New("reactor is not running")
	// ErrDevice: the reactor has no completion queue on the device.
	ErrDevice = errors.New("the reactor does not serve the device")
)

// ReactorConfig is the configuration of a Reactor.
type ReactorConfig struct {
	// Name names the reactor to the operator.
	Name string
	// Devices are the devices to make a completion queue on.
	Devices []rdma.Device
	// QueueDepth is the depth of each completion queue.
	QueueDepth int
	// Index and Count number the reactors of the process.
	Index, Count int
	// TableBytes is the size of the memory that indirect tables are read into from their initiators, a multiple of
	// ioctx.PageSize; without it such tables are refused. TableWait is how long a command may wait for room in it; 0
	// means the default plan's MaxWait.
	TableBytes uint64
	TableWait  time.Duration
}

// Reactor is the goroutine that runs the I/O path. Its methods are called in its own goroutine,
// that is from a Handler, a Source or a function run by Call, unless they say otherwise.
type Reactor struct {
	cfg     ReactorConfig
	queues  []queue
	sources []watched
	clients clients
	park    *parker
	control control
	now     time.Time
	timer   time.Time
	batch   [pollBatch]rdma.Completion
	stats   ReactorStats
	armFn   func() bool
	// rewatchFn is rewatch, made once as armFn is.
	rewatchFn func()
	tables    tables
	// sourceErr is why a descriptor that changed is not waited on.
	sourceErr error
}

// queue is the completion queue of a device.
type queue struct {
	dev rdma.Device
	cq  rdma.CQ
	// pools are those on it, lastPool the number of the newest.
	pools    []*ReceivePool
	lastPool uint32
}

// close frees the queue; its channels have been killed.
func (q *queue) close() error {
	var errs []error
	for _, p := range slices.Clone(q.pools) {
		p.retired = true
		errs = append(errs, p.kill(), p.settle())
	}
	return errors.Join(append(errs, q.cq.Close())...)
}

// reclaim takes a receive back that a queue pair without a channel had taken from a pool.
func (q *queue) reclaim(c *rdma.Completion) {
	if k, buf := splitID(c.ID); c.Op == rdma.OpRecv && k == kindRecv {
		for _, p := range q.pools {
			if p.num == poolOf(c.ID) {
				p.back(buf)
			}
		}
	}
}

// queueOf is the queue on a device, nil if there is none.
func (r *Reactor) queueOf(dev rdma.Device) *queue {
	for i := range r.queues {
		if r.queues[i].dev == dev {
			return &r.queues[i]
		}
	}
	return nil
}

// dropPool forgets a pool.
func (r *Reactor) dropPool(p *ReceivePool) {
	if q := r.queueOf(p.dev); q != nil {
		q.pools = slices.DeleteFunc(q.pools, func(o *ReceivePool) bool { return o == p })
	}
}

// ReactorStats counts what a reactor did.
type ReactorStats struct {
	// Turns of the loop, Parks of it, and Completions handled.
	Turns, Parks, Completions uint64
	// Clients is the number of channels, Sources that of stores and arenas.
	Clients, Sources int
	// Err tells of descriptors of sources that cannot be waited on: their work is late.
	Err error
}

// NewReactor makes a reactor and its completion queues. Start starts it; Close frees it in any case.
func NewReactor(cfg ReactorConfig) (*Reactor, error) {
	r := &Reactor{cfg: cfg, park: newParker(), control: newControl()}
	r.armFn, r.rewatchFn = r.arm, r.rewatch
	if err := r.makeTables(); err != nil {
		return nil, errors.Join(err, r.free())
	}
	for _, dev := range cfg.Devices {
		if err := r.AddDevice(dev); err != nil {
			return nil, errors.Join(err, r.free())
		}
	}
	return r, nil
}

func (r *Reactor) watch(fd int, t trigger) error {
	if fd < 0 {
		return nil
	}
	return r.park.watch(fd, t)
}

// Wake makes the reactor look at all its sources soon. It may be called from any goroutine.
func (r *Reactor) Wake() { r.park.wake() }

// Name is the reactor's configured name. It may be called from any goroutine.
func (r *Reactor) Name() string { return r.cfg.Name }

// Now is the time at the beginning of the turn.
func (r *Reactor) Now() time.Time { return r.now }

// Stats returns a snapshot.
func (r *Reactor) Stats() ReactorStats {
	s := r.stats
	s.Clients, s.Sources, s.Err = r.clients.n, len(r.sources), r.sourceErr
	return s
}

func (r *Reactor) cq(dev rdma.Device) (rdma.CQ, error) {
	if q := r.queueOf(dev); q != nil {
		return q.cq, nil
	}
	return nil, fmt.Errorf("conn: reactor %s: device %s: %w", r.cfg.Name, dev.Name(), ErrDevice)
}

// Start starts the reactor's goroutine. It is called once, from any goroutine.
func (r *Reactor) Start() {
	r.control.begin()
	go r.run()
}

// Close stops the reactor, closes the channels that are left at once, and frees the completion
// queues. It waits for the goroutine. It may be called from any other goroutine, and twice.
func (r *Reactor) Close() error {
	if !r.control.end(r.Wake) {
		return nil
	}
	return r.free()
}

func (r *Reactor) free() error {
	r.now = time.Now()
	r.clients.each(func(c client) { c.kill() })
	var errs []error
	for i := range r.queues {
		errs = append(errs, r.queues[i].close())
	}
	r.queues = nil
	return errors.Join(append(errs, r.tables.close(), r.park.close())...)
}

func (r *Reactor) run() {
	defer close(r.control.ended)
	for !r.control.stopping() {
		if !r.turn() {
			r.stats.Parks++
			r.park.park(r.deadline(), r.armFn)
		}
	}
}

// turn does one round. It returns true if another one is worth while before a park: one that moved something often meets what that
// brought about, and a look costs much less than to arm all sources, sleep and be woken.
func (r *Reactor) turn() bool {
	r.stats.Turns++
	r.now = time.Now()
	more := r.poll()
	r.control.run(controlTurn, r.rewatchFn)
	r.runTimers()
	r.clients.runReady()
	for _, s := range r.sources {
		s.src.Flush()
	}
	for _, s := range r.sources {
		more = s.src.Poll(r.now) || more
	}
	more = r.clients.runReady() || more
	for i := range r.queues {
		r.queues[i].cq.Flush()
	}
	return more
}

// poll takes completions, and returns true if there were any.
func (r *Reactor) poll() bool {
	more := false
	for i := range r.queues {
		n := r.queues[i].cq.Poll(r.batch[:])
		for j := range r.batch[:n] {
			c := &r.batch[j]
			if cl := r.clients.get(c.User); cl != nil {
				cl.complete(c)
			} else {
				r.queues[i].reclaim(c)
			}
			c.Data = nil
		}
		r.stats.Completions += uint64(n)
		more = more || n > 0
	}
	return more
}

// arm arms everything, and returns false if something is there already.
func (r *Reactor) arm() bool {
	if r.control.pending() {
		return false
	}
	for i := range r.queues {
		if !r.queues[i].cq.Arm() {
			return false
		}
	}
	for _, s := range r.sources {
		if !s.src.Arm() {
			return false
		}
	}
	return true
}

func (r *Reactor) deadline() time.Time {
	d := r.timer
	for i := range r.queues {
		d = earliest(d, r.queues[i].cq.Deadline())
	}
	for _, s := range r.sources {
		d = earliest(d, s.src.Deadline())
	}
	return d
}

// expectAt makes the reactor look at its channels' timers at t at the latest.
func (r *Reactor) expectAt(t time.Time) { r.timer = earliest(r.timer, t) }

// runTimers calls the channels whose time has come. A timer that was put off is noticed here.
func (r *Reactor) runTimers() {
	if r.timer.IsZero() || r.now.Before(r.timer) {
		return
	}
	r.timer = time.Time{}
	r.clients.each(func(c client) {
		if d := c.deadline(); !d.IsZero() && !r.now.Before(d) {
			c.expire()
		}
		r.timer = earliest(r.timer, c.deadline())
	})
}
