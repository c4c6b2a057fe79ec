package ioctx

import (
	"errors"
	"fmt"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// Sizes of arenas and of the buffers in them, in bytes.
const (
	// PageSize is the unit of allocation and the alignment of every buffer.
	PageSize = 4096
	// MaxBuffer is the longest buffer.
	MaxBuffer = PageSize << maxOrder
	// MaxArena is the largest arena.
	MaxArena = 1 << 40
)

// Sentinels of this package's errors.
var (
	// ErrTooLarge: the arena can never lend a buffer of that size.
	ErrTooLarge = errors.New("buffer larger than the arena can lend")
	// ErrSize: the memory does not suit an arena.
	ErrSize = errors.New("unsuitable size")
	// ErrLeased: buffers are still lent out.
	ErrLeased = errors.New("buffers are still in use")
	// ErrClosed: the arena was closed.
	ErrClosed = errors.New("arena closed")
	// ErrBusy: the lease is in use already.
	ErrBusy = errors.New("lease is in use already")
)

// ArenaConfig is the configuration of an Arena.
type ArenaConfig struct {
	// Name names the arena to the operator, such as the store's name.
	Name string
	// Memory is the caller's: at least a page, of at most MaxArena bytes, aligned to PageSize where a
	// backstore does direct I/O. It must stay mapped until Close has returned nil.
	Memory []byte
	// MaxWait bounds the wait for a buffer; 0 means that of DefaultPlan.
	MaxWait time.Duration
	// Fence, if not nil, keeps buffers that were given back from being lent again while it says that they are tainted.
	Fence Fence
	// Strict makes a Lease that is released twice panic, for tests.
	Strict bool
}

// Arena is memory that commands lease their data buffers from. See the package comment for who may
// call it.
type Arena struct {
	name    string
	mem     []byte
	pages   *buddy
	access  []deviceRegion
	line    line
	maxWait time.Duration
	strict  bool
	closed  bool
	stats   ArenaStats

	quarantine quarantine
}

type deviceRegion struct {
	dev    rdma.Device
	region rdma.Region
}

// ArenaStats is a snapshot of an arena.
type ArenaStats struct {
	// Size and Free are in bytes.
	Size, Free uint64
	// Quarantined is how many bytes were given back but may still be touched by somebody who is gone.
	Quarantined uint64
	// Held and Waiting count leases.
	Held, Waiting int
	// Granted counts buffers lent, Waited those that had to wait, TimedOut the waits in vain.
	Granted, Waited, TimedOut uint64
	// Faults counts leases released twice; it must stay 0.
	Faults uint64
}

// NewArena makes an arena of the memory of cfg, which no device has access to yet.
func NewArena(cfg ArenaConfig) (*Arena, error) {
	n := uint64(len(cfg.Memory))
	if n < PageSize || n > MaxArena || n%PageSize != 0 {
		return nil, fmt.Errorf("ioctx: arena %s of %d bytes: %w: must be a multiple of %d, up to %d",
			cfg.Name, n, ErrSize, PageSize, uint64(MaxArena))
	}
	if cfg.MaxWait == 0 {
		cfg.MaxWait = DefaultPlan().MaxWait
	}
	return &Arena{
		name: cfg.Name, mem: cfg.Memory, pages: newBuddy(int32(n / PageSize)),
		maxWait: cfg.MaxWait, strict: cfg.Strict, quarantine: quarantine{fence: cfg.Fence},
	}, nil
}

// Name is the arena's configured name.
func (a *Arena) Name() string { return a.name }

// Bytes is the arena's memory.
func (a *Arena) Bytes() []byte { return a.mem }

// Register gives dev local access, for RDMA READs too. A second call for the same device does nothing.
func (a *Arena) Register(dev rdma.Device) error {
	if a.closed {
		return fmt.Errorf("ioctx: arena %s: %w", a.name, ErrClosed)
	}
	if a.region(dev) != nil {
		return nil
	}
	region, err := dev.Register(a.mem, rdma.ReadSink)
	if err != nil {
		return fmt.Errorf("ioctx: arena %s cannot be registered with %s: %w", a.name, dev.Name(), err)
	}
	a.access = append(a.access, deviceRegion{dev, region})
	return nil
}

func (a *Arena) region(dev rdma.Device) rdma.Region {
	for i := range a.access {
		if a.access[i].dev == dev {
			return a.access[i].region
		}
	}
	return nil
}

// Largest is the longest buffer that the arena can lend when nothing else is lent, in bytes.
func (a *Arena) Largest() uint64 { return min(uint64(len(a.mem)), MaxBuffer) }

// Acquire asks for a buffer of n bytes for the idle lease l, in somebody's name. It returns true if l holds it already;
// otherwise l stands in line and o is told how that ended. A buffer of 0 bytes takes a page. now is no earlier than in the call before. An
// error means that l is untouched: it wraps ErrTooLarge, ErrBusy or ErrClosed.
func (a *Arena) Acquire(l *Lease, n uint64, by Turn, o Owner, now time.Time) (bool, error) {
	switch {
	case a.closed:
		return false, ErrClosed
	case l.state != idle:
		return false, ErrBusy
	case n > a.Largest():
		return false, ErrTooLarge
	}
	l.arena, l.owner, l.size = a, o, n
	if a.line.n == 0 && a.grant(l) {
		return true, nil
	}
	l.state = waiting
	l.deadline = now.Add(a.maxWait)
	a.line.push(l, by)
	a.stats.Waited++
	return false, nil
}

func pagesOf(n uint64) int32 { return int32((max(n, 1) + PageSize - 1) / PageSize) }

func (a *Arena) grant(l *Lease) bool {
	page, ok := a.pages.take(pagesOf(l.size))
	if !ok {
		return false
	}
	l.off, l.state = uint64(page)*PageSize, held
	a.stats.Granted++
	a.stats.Held++
	return true
}

func (a *Arena) giveBack(l *Lease) {
	if !a.keeps(block{l.off, l.size}) {
		a.pages.put(int32(l.off/PageSize), pagesOf(l.size))
	}
	a.stats.Held--
	l.reset()
}

// Poll takes back what has left the quarantine, grants buffers to those in line, and refuses those whose time is up. It calls
// the Owners, which may use the arena. It returns whether it did anything.
func (a *Arena) Poll(now time.Time) bool {
	did := a.discharge()
	for l := a.line.head(); l != nil; l = a.line.head() {
		switch late := a.line.all.first; {
		case a.grant(l):
			a.line.pass()
			a.line.remove(l)
			l.owner.Granted(l)
		case !now.Before(late.deadline):
			o := late.owner
			a.line.remove(late)
			late.reset()
			a.stats.TimedOut++
			o.Refused(late)
		default:
			return did
		}
		did = true
	}
	return did
}

// Flush does nothing: an arena is a source of a reactor like a store.
func (a *Arena) Flush() {}

// Arm returns false if Poll would grant a buffer now. What leaves the quarantine later wakes nobody by itself: the store whose
// requests had the buffers does, as it can do them again from then on.
func (a *Arena) Arm() bool {
	if a.quarantine.lifted() {
		return false
	}
	l := a.line.head()
	return l == nil || !a.pages.fits(pagesOf(l.size))
}

// FD is -1: an arena is woken by nobody but its owner.
func (a *Arena) FD() int { return -1 }

// Deadline is when the one that has waited longest has waited for too long; the zero time if nobody waits.
func (a *Arena) Deadline() time.Time {
	if a.line.all.first == nil {
		return time.Time{}
	}
	return a.line.all.first.deadline
}

// Stats returns a snapshot.
func (a *Arena) Stats() ArenaStats {
	s := a.stats
	s.Size, s.Free = uint64(len(a.mem)), uint64(a.pages.free)*PageSize
	s.Waiting = a.line.n
	return s
}

// Close takes the devices' access away. It returns an error that wraps ErrLeased, and does nothing,
// while buffers are lent out or waited for. Quarantined ones hold nothing up: their memory is never lent again.
func (a *Arena) Close() error {
	if a.closed {
		return nil
	}
	if a.stats.Held > 0 || a.line.n > 0 {
		return fmt.Errorf("ioctx: arena %s: %w: %d lent, %d waited for", a.name, ErrLeased, a.stats.Held, a.line.n)
	}
	a.closed = true
	var errs []error
	for _, r := range a.access {
		errs = append(errs, r.region.Close())
	}
	a.access = nil
	return errors.Join(errs...)
}
