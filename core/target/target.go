package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/conn"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/lu"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// Target is a target port. Its methods may be called from any goroutine but the reactor's.
type Target struct {
	cfg     Config
	log     hclog.Logger
	planned atomic.Pointer[planned]
	reactor *conn.Reactor
	luns    *lunMap
	small   *ioctx.Arena // for units without a store
	mapping *ioctx.Mapping
	pools   pools

	// The following belong to the reactor's goroutine.
	sessions  map[nexusKey]*session
	lastNexus lu.NexusID
	links     int // channels, those that are ending included
	pending   map[nexusKey]int
	promised  int // the sum of pending
	used      occupancy
	held      string // by whom, at heldAt
	heldAt    time.Time
	closing   bool
	drained   chan struct{} // closed when closing and no channel is left

	// revision counts the changes of what the authoriser may decide. It changes before the sessions concerned are looked for.
	revision atomic.Uint64
	planning sync.Mutex // held by SetPlan
	asked    inquiry

	counts  counts
	news    chan func()
	quit    chan struct{}
	newsOut sync.WaitGroup
	// following is the goroutine that follows the authoriser.
	following sync.WaitGroup

	state     sync.Mutex // guards what follows
	devices   []rdma.Device
	listeners []listening
	deaf      []deaf
	started   bool
	stopped   bool
	cancel    context.CancelFunc
	ctx       context.Context
	logins    chan struct{}
	working   sync.WaitGroup
}

const (
	// smallArena is for the answers of units without a store: INQUIRY, REPORT LUNS.
	smallArena = 1 << 20
	// tableArena is for indirect tables that are read from initiators' memory: 8 of the longest that a transfer of 16 MiB can
	// have, or 128 of the longest that Linux makes.
	tableArena = 4 << 20
	// newsDepth bounds the log lines that wait to be written.
	newsDepth = 512
)

// New makes a target and starts its reactor; nothing is listened on before Start. Shutdown frees it.
// Errors of the configuration wrap ErrConfig.
func New(cfg Config, log hclog.Logger) (*Target, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t := &Target{
		cfg: cfg, log: log.Named("target"), luns: newLUNMap(),
		sessions: make(map[nexusKey]*session), pending: make(map[nexusKey]int),
		drained: make(chan struct{}), news: make(chan func(), newsDepth), quit: make(chan struct{}), logins: make(chan struct{}, cfg.Limits.Logins),
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.devices = slices.Clone(cfg.Devices)
	t.planned.Store(cfg.planned(cfg.Plan))
	r, err := conn.NewReactor(conn.ReactorConfig{Name: cfg.Name, Devices: cfg.Devices, QueueDepth: cfg.queueDepth(),
		TableBytes: tableArena, TableWait: cfg.Plan.MaxWait})
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", cfg.Name, err)
	}
	t.reactor = r
	if err := t.makeSmallArena(); err != nil {
		return nil, fmt.Errorf("target %s: %w", cfg.Name, errors.Join(err, r.Close(), t.freeSmallArena()))
	}
	t.luns.missing = mapped{unit: lu.NewMissing(cfg.Identity, t.luns), arena: t.small}
	t.luns.known = mapped{unit: lu.NewWellKnown(cfg.Identity, t.luns), arena: t.small}
	r.Start()
	t.newsOut.Go(t.writeNews)
	t.asked.kick = make(chan struct{}, 1)
	t.following.Go(t.followAuthorizer)
	return t, nil
}

// writeNews writes log lines until quit is closed, and then those that are left.
func (t *Target) writeNews() {
	for {
		select {
		case write := <-t.news:
			write()
		case <-t.quit:
			for len(t.news) > 0 {
				(<-t.news)()
			}
			return
		}
	}
}

func (t *Target) makeSmallArena() error {
	m, err := ioctx.Map(smallArena)
	if err != nil {
		return err
	}
	t.mapping = m
	t.small, err = ioctx.NewArena(ioctx.ArenaConfig{Name: "answers", Memory: m.Bytes(), MaxWait: t.cfg.Plan.MaxWait})
	if err != nil {
		return err
	}
	for _, dev := range t.cfg.Devices {
		if err := t.small.Register(dev); err != nil {
			return err
		}
	}
	return t.reactor.AddSource(t.small)
}

func (t *Target) freeSmallArena() error {
	if t.mapping == nil {
		return nil
	}
	if t.small != nil {
		if err := t.small.Close(); err != nil {
			return err // something still uses the memory: it stays mapped
		}
	}
	return t.mapping.Close()
}

// Wake makes the reactor look at its sources: it is the wake-up call of backends in this process.
// It may be called from any goroutine.
func (t *Target) Wake() { t.reactor.Wake() }

// Do runs f in the reactor's goroutine: for what touches a unit's guard, as when its backend is
// replaced. f must not block. An error means that f was not run and never will be.
func (t *Target) Do(ctx context.Context, f func()) error { return t.reactor.Call(ctx, f) }

// tell has a log line written by a goroutine that may block, unlike the reactor's. A line that finds
// no room is counted.
func (t *Target) tell(write func()) {
	select {
	case t.news <- write:
	default:
		t.counts.unlogged.Add(1)
	}
}

// Shutdown stops listening, refuses the logins under way, tells every initiator to go, waits for
// their commands and channels to end, and frees the target. When ctx ends before that, the rest is
// cut off, and the error says how many channels that were. It may be called twice.
func (t *Target) Shutdown(ctx context.Context) error {
	if !t.stopListening() {
		return nil
	}
	t.waitForLogins(ctx)
	waitFor(ctx, &t.following)
	var left int
	err := t.reactor.Call(ctx, t.closeAll)
	if err == nil {
		select {
		case <-t.drained:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if e := t.reactor.Call(c, func() { left = t.links }); e == nil {
			err = fmt.Errorf("target %s: %d channels were cut off: %w", t.cfg.Name, left, err)
		}
	}
	err = errors.Join(err, t.reactor.Close(), t.freeSmallArena())
	close(t.quit)
	t.newsOut.Wait()
	return err
}

// waitForLogins waits until no login is under way, or ctx ends: an authoriser may be deaf to its context.
func (t *Target) waitForLogins(ctx context.Context) {
	waitFor(ctx, &t.working)
}

func waitFor(ctx context.Context, wg *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// stopListening returns false if it was done before. It ends the goroutines that admit.
func (t *Target) stopListening() bool {
	t.state.Lock()
	defer t.state.Unlock()
	if t.stopped {
		return false
	}
	t.stopped = true
	t.cancel()
	for _, l := range t.listeners {
		if err := l.Close(); err != nil {
			t.log.Warn("closing a listener", "service", l.Service().String(), "error", err)
		}
	}
	return true
}

// closeAll begins to end every channel. It runs in the reactor's goroutine.
func (t *Target) closeAll() {
	t.closing = true
	for _, s := range t.sessions {
		for _, l := range s.list() {
			l.ch.Close(channel.CauseAdmin)
		}
	}
	t.checkDrained()
}

func (t *Target) checkDrained() {
	if !t.closing || t.links > 0 {
		return
	}
	select {
	case <-t.drained:
	default:
		close(t.drained)
	}
}

// counts is what the target counts. They are read from other goroutines.
type counts struct {
	accepted, refused, abandoned, unlogged atomic.Uint64
	mu                                     sync.Mutex
	reasons                                map[string]uint64
}

func (c *counts) refuse(reason string) {
	c.refused.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reasons == nil {
		c.reasons = make(map[string]uint64)
	}
	c.reasons[reason]++
}
