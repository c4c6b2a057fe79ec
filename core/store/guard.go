package store

import (
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Defaults of Config.
const (
	DefaultDepth    = 128
	DefaultDeadline = 20 * time.Second
	DefaultPatience = 25 * time.Second
)

// batchSize bounds what one Submit or Poll of a backend carries.
const batchSize = 64

// Config is the configuration of a Guard.
type Config struct {
	// Name names the store to the operator.
	Name string
	// Arena is the memory in which every buffer must lie, page aligned; nil if the store takes any.
	Arena []byte
	// Depth is how many requests the backend may hold at once; 0 means DefaultDepth.
	Depth int
	// ReadOnly refuses writes, whatever the store says.
	ReadOnly bool
	// Deadline is how long a backend may hold a request before OnFault is called; 0 means DefaultDeadline.
	Deadline time.Duration
	// Patience is how old a request may become in the guard's own queue, while there is no backend or no
	// room in it; 0 means DefaultPatience.
	Patience time.Duration
	// OnFault is called in the reactor's goroutine, at most once for each backend, when the backend holds a
	// request for too long (ErrDeadline) or breaks the contract (ErrProtocol). It must not block. It must
	// lead to the backend's Close and then to Guard.Detach, because only these give the buffers back.
	OnFault func(err error)
}

// Guard is one store behind the wall.
type Guard struct {
	cfg     Config
	info    backstore.Info
	size    uint64
	backend Backend // nil while there is none
	wrong   bool    // the backend broke the contract
	told    bool    // OnFault was called about the backend
	closed  bool
	dirty   bool // the backend took something since its last Flush

	slots   []slot
	free    []uint32
	waiting list
	flying  list
	// abandoned counts those among flying that change blocks and whose owners do not want them any more.
	abandoned int

	batch   [batchSize]backstore.Request
	results [batchSize]backstore.Result
	stats   counters
}

// slot is a place in the backend's queue. The tag of a request is seq and the slot's number, so that a
// result that comes twice, or from an earlier backend, matches nothing.
type slot struct {
	r   *Request
	seq uint32
}

// Open puts a guard before b. It fails with an *Error that wraps ErrConfig or ErrInfo, and then b is still the caller's.
func Open(b Backend, cfg Config) (*Guard, error) {
	cfg.setDefaults()
	g := &Guard{cfg: cfg}
	if cfg.Depth < 0 || cfg.Deadline < 0 || cfg.Patience < 0 {
		return nil, g.errorf("open", "depth %d, deadline %v, patience %v: %w", cfg.Depth, cfg.Deadline, cfg.Patience, ErrConfig)
	}
	info, err := g.describe("open", b)
	if err != nil {
		return nil, err
	}
	g.slots = make([]slot, cfg.Depth)
	g.free = make([]uint32, cfg.Depth)
	for i := range g.free {
		g.free[i] = uint32(cfg.Depth - 1 - i)
	}
	g.use(b, info)
	return g, nil
}

func (c *Config) setDefaults() {
	if c.Depth == 0 {
		c.Depth = DefaultDepth
	}
	if c.Deadline == 0 {
		c.Deadline = DefaultDeadline
	}
	if c.Patience == 0 {
		c.Patience = DefaultPatience
	}
}

func (g *Guard) use(b Backend, info backstore.Info) {
	g.backend, g.info = b, info
	g.size = info.Blocks * uint64(info.BlockSize)
	g.wrong, g.told, g.dirty = false, false, false
	g.stats.generation.Add(1)
}

// Info describes the store as the logical unit may use it: checked, with defaults filled in, and read
// only if the configuration says so.
func (g *Guard) Info() backstore.Info { return g.info }

// Name is the configured name.
func (g *Guard) Name() string { return g.cfg.Name }

// Ready tells whether requests reach a backend now, rather than wait for one.
func (g *Guard) Ready() bool { return g.backend != nil && !g.wrong }

// Submit queues r; Flush sends it off. A code other than CodeOK refuses it: then r is still the caller's
// and its Owner is not told.
func (g *Guard) Submit(r *Request) backstore.Code {
	code := g.check(r)
	if code != backstore.CodeOK {
		g.stats.refused.Add(1)
		return code
	}
	r.born, r.due = time.Time{}, time.Time{}
	r.state, r.abandoned = requestWaiting, false
	g.waiting.push(r)
	g.stats.waiting.Store(int64(g.waiting.n))
	return backstore.CodeOK
}

// Cancel takes back a request that no backend holds, and tells whether it did: then its Owner is not told. One that a
// backend holds is abandoned: it still ends by Owner.Completed, no other backend gets it, and if it changes blocks what
// concerns the same ones waits until it has ended, so that it cannot land on newer data.
func (g *Guard) Cancel(r *Request) bool {
	if r.state == requestFlying && !r.abandoned {
		r.abandoned = true
		g.abandoned += r.changes()
		if c, ok := g.backend.(Canceller); ok && g.Ready() {
			c.Cancel(g.tag(r.slot))
		}
	}
	if r.state != requestWaiting {
		return false
	}
	g.unqueue(r)
	g.stats.cancelled.Add(1)
	return true
}

func (g *Guard) unqueue(r *Request) {
	g.waiting.remove(r)
	r.state = requestIdle
	g.stats.waiting.Store(int64(g.waiting.n))
}

// FD polls readable when Poll should be called; -1 if there is none. It changes with Attach and Detach.
func (g *Guard) FD() int {
	if g.backend == nil {
		return -1
	}
	return g.backend.FD()
}

// Arm asks the backend for a wake-up. It returns false if Flush or Poll have something to do now.
func (g *Guard) Arm() bool {
	switch {
	case unseen(&g.waiting) || unseen(&g.flying):
		return false
	case !g.Ready():
		return true
	}
	return g.backend.Arm()
}

// blocked tells whether r concerns blocks that an abandoned request may still change.
func (g *Guard) blocked(r *Request) bool {
	if g.abandoned == 0 || r.Op == backstore.OpFlush {
		return false
	}
	for f := g.flying.head; f != nil; f = f.next {
		if f.abandoned && f.changes() == 1 && f.overlaps(r) {
			return true
		}
	}
	return false
}

// unseen tells whether Poll has not yet seen the newest request of l.
func unseen(l *list) bool { return l.tail != nil && l.tail.due.IsZero() }

// Deadline is when Poll must be called at the latest; the zero time means never.
func (g *Guard) Deadline() time.Time {
	var d time.Time
	if r := g.waiting.head; r != nil {
		d = earliest(d, r.due)
	}
	if r := g.flying.head; r != nil && !g.told {
		d = earliest(d, r.due)
	}
	if g.Ready() {
		d = earliest(d, g.backend.Deadline())
	}
	return d
}

// earliest returns the earlier of two times, of which the zero time is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
