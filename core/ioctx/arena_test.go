package ioctx

import (
	"errors"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// device is as much of an rdma.Device as memory needs.
type device struct {
	rdma.Device
	open int
	err  error
}

func (d *device) Name() string { return "test0" }

func (d *device) Register(mem []byte, access rdma.Access) (rdma.Region, error) {
	if d.err != nil {
		return nil, d.err
	}
	d.open++
	return &region{dev: d, mem: mem, access: access}, nil
}

type region struct {
	rdma.Region
	dev    *device
	mem    []byte
	access rdma.Access
}

func (r *region) Bytes() []byte { return r.mem }
func (r *region) Close() error  { r.dev.open--; return nil }

// holder records what it is told.
type holder struct {
	Lease
	name    string
	by      Turn
	log     *[]string
	onGrant func()
}

func (h *holder) Granted(l *Lease) {
	*h.log = append(*h.log, h.name)
	if h.onGrant != nil {
		h.onGrant()
	}
}
func (h *holder) Refused(l *Lease) { *h.log = append(*h.log, "!"+h.name) }

func newArena(t *testing.T, pages int) *Arena {
	t.Helper()
	a, err := NewArena(ArenaConfig{Name: "t", Memory: make([]byte, pages*PageSize), MaxWait: time.Second, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var epoch = time.Unix(1000, 0)

func (h *holder) acquire(t *testing.T, a *Arena, pages uint64) bool {
	t.Helper()
	ok, err := a.Acquire(&h.Lease, pages*PageSize, h.by, h, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestArenaRefusesMemoryItCannotUse(t *testing.T) {
	for _, n := range []int{0, 1, PageSize - 1, PageSize + 1} {
		if _, err := NewArena(ArenaConfig{Memory: make([]byte, n)}); !errors.Is(err, ErrSize) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestLeasesWaitInLineWhateverTheirSize(t *testing.T) {
	var log []string
	a := newArena(t, 4)
	first, big, small := holder{log: &log, name: "first"}, holder{log: &log, name: "big"}, holder{log: &log, name: "small"}
	if !first.acquire(t, a, 1) {
		t.Fatal("an empty arena lends nothing")
	}
	if big.acquire(t, a, 4) || small.acquire(t, a, 1) {
		t.Fatal("a later lease overtook the line")
	}
	if a.Poll(epoch) || !a.Arm() {
		t.Fatal("granted what is not there")
	}
	first.Release()
	if a.Arm() {
		t.Fatal("Arm overlooks a lease that can be granted")
	}
	if !a.Poll(epoch) || len(log) != 1 || log[0] != "big" {
		t.Fatalf("granted %v", log)
	}
	big.Release()
	a.Poll(epoch)
	small.Release()
	if s := a.Stats(); len(log) != 2 || log[1] != "small" || s.Held != 0 || s.Free != s.Size || s.Waited != 2 || s.Granted != 3 {
		t.Fatalf("granted %v, %+v", log, s)
	}
}

func TestLeaseThatWaitsTooLongIsRefused(t *testing.T) {
	var log []string
	a := newArena(t, 1)
	x, y := holder{log: &log, name: "x"}, holder{log: &log, name: "y"}
	x.acquire(t, a, 1)
	y.acquire(t, a, 1)
	if want := epoch.Add(time.Second); !a.Deadline().Equal(want) {
		t.Fatalf("deadline %v", a.Deadline())
	}
	if a.Poll(epoch.Add(time.Second - 1)) {
		t.Fatal("refused too early")
	}
	if !a.Poll(epoch.Add(time.Second)) || log[0] != "!y" || !a.Deadline().IsZero() || a.Stats().TimedOut != 1 {
		t.Fatalf("%v %+v", log, a.Stats())
	}
	if y.Held() || y.Waiting() {
		t.Fatal("a refused lease is not idle")
	}
}

func TestOwnerMayUseTheArenaWhenGranted(t *testing.T) {
	var log []string
	a := newArena(t, 1)
	x, y, z := holder{log: &log, name: "x"}, holder{log: &log, name: "y"}, holder{log: &log, name: "z"}
	x.acquire(t, a, 1)
	y.acquire(t, a, 1)
	z.acquire(t, a, 1)
	y.onGrant = func() { y.Release() }
	x.Release()
	a.Poll(epoch)
	if len(log) != 2 || !z.Held() {
		t.Fatalf("granted %v", log)
	}
}

func TestWaitIsGivenUpByRelease(t *testing.T) {
	var log []string
	a := newArena(t, 1)
	x, y, z := holder{log: &log, name: "x"}, holder{log: &log, name: "y"}, holder{log: &log, name: "z"}
	x.acquire(t, a, 1)
	y.acquire(t, a, 1)
	z.acquire(t, a, 1)
	y.Release()
	x.Release()
	a.Poll(epoch)
	if len(log) != 1 || log[0] != "z" || a.Stats().Waiting != 0 {
		t.Fatalf("granted %v", log)
	}
}

func TestReleaseTwiceIsAFault(t *testing.T) {
	var log []string
	a := newArena(t, 1)
	a.strict = false
	x := holder{log: &log}
	x.acquire(t, a, 1)
	x.Release()
	x.Release()
	if s := a.Stats(); s.Faults != 1 || s.Free != s.Size {
		t.Fatalf("%+v", s)
	}
	a.strict = true
	defer func() {
		if recover() == nil {
			t.Fatal("a strict arena let it pass")
		}
	}()
	x.Release()
}

func TestAcquireRefusesWhatCanNeverBe(t *testing.T) {
	a := newArena(t, 2)
	var l Lease
	if _, err := a.Acquire(&l, 2*PageSize+1, Turn{}, nil, epoch); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	if _, err := a.Acquire(&l, 1<<63, Turn{}, nil, epoch); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	if ok, err := a.Acquire(&l, 0, Turn{}, nil, epoch); !ok || err != nil || len(l.Bytes()) != 0 {
		t.Fatal(ok, err)
	}
	if _, err := a.Acquire(&l, 1, Turn{}, nil, epoch); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
}

func TestSGEStaysInTheBuffer(t *testing.T) {
	dev, other := &device{}, &device{}
	a := newArena(t, 4)
	if err := errors.Join(a.Register(dev), a.Register(dev)); err != nil || dev.open != 1 {
		t.Fatal(err, dev.open)
	}
	var l, m Lease
	a.Acquire(&l, PageSize, Turn{}, nil, epoch)
	a.Acquire(&m, 5000, Turn{}, nil, epoch)
	for _, c := range []struct {
		off, n uint64
		ok     bool
	}{{0, 5000, true}, {4999, 1, true}, {5000, 0, true}, {0, 5001, false}, {5001, 0, false}, {1, ^uint64(0), false}, {^uint64(0), 2, false}} {
		sge, ok := m.SGE(dev, c.off, c.n)
		if ok != c.ok {
			t.Errorf("SGE(%d, %d): %v", c.off, c.n, ok)
		}
		if ok && c.off == 0 && &a.Bytes()[sge.Off] != &m.Bytes()[0] {
			t.Errorf("SGE names other memory")
		}
	}
	if _, ok := m.SGE(other, 0, 1); ok {
		t.Error("a device without access may use the buffer")
	}
	l.Release()
	if _, ok := l.SGE(dev, 0, 1); ok {
		t.Error("a released lease still names memory")
	}
	m.Release()
	if err := a.Close(); err != nil || dev.open != 0 {
		t.Fatal(err, dev.open)
	}
}

func TestArenaIsNotClosedUnderALease(t *testing.T) {
	dev := &device{}
	a := newArena(t, 1)
	a.Register(dev)
	var l Lease
	a.Acquire(&l, 1, Turn{}, nil, epoch)
	if err := a.Close(); !errors.Is(err, ErrLeased) || dev.open != 1 {
		t.Fatal(err)
	}
	l.Release()
	if err := errors.Join(a.Close(), a.Close()); err != nil || dev.open != 0 {
		t.Fatal(err)
	}
	if _, err := a.Acquire(&l, 1, Turn{}, nil, epoch); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if err := a.Register(dev); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestLeaseAllocatesNothing(t *testing.T) {
	a := newArena(t, 16)
	dev := &device{}
	a.Register(dev)
	var l Lease
	if n := testing.AllocsPerRun(100, func() {
		a.Acquire(&l, 3*PageSize, Turn{}, nil, epoch)
		l.SGE(dev, 0, PageSize)
		a.Poll(epoch)
		l.Release()
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
