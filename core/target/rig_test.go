package target

import (
	"context"
	"io"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/lu"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/srp"
	"github.com/gosrpt/gosrpt/core/store"
	"github.com/gosrpt/gosrpt/core/store/storetest"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

const listenPort = 5555

var (
	targetID    = srp.MakePortID(0x1000, 0x2000)
	initiatorID = srp.MakePortID(0x3000, 0x4000)
)

type initiatorConfig = initiator.Config

// rig is a target with one disk of 4 MiB at LUN 0, and a device to log in from.
type rig struct {
	t        testing.TB
	cfg      Config
	provider *rdmatest.Provider
	dev      *rdmatest.Device // the target's
	peer     *rdmatest.Device
	target   *Target
	arena    *ioctx.Arena
	backend  *storetest.Faulty // the reactor's
	powers   backstore.Powers  // of the store
	memory   *store.Memory     // what is in it
	guard    *store.Guard
	disk     *lu.Device
	log      *logBuffer
	stopped  bool
	quiet    bool // log lines are made and dropped
	plain    bool // the store has no faults, and allocates nothing
	fence    ioctx.Fence
}

// logBuffer keeps log lines.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newRig(t testing.TB, adjust ...func(*rig)) *rig {
	t.Helper()
	g := &rig{t: t, log: &logBuffer{}}
	g.provider, g.dev, g.peer = rdmatest.Pair()
	t.Cleanup(func() {
		if err := g.provider.Close(); err != nil {
			t.Error(err)
		}
	})
	plan := ioctx.DefaultPlan()
	plan.Credits, plan.Responses, plan.SendWork, plan.MaxTransfer, plan.ArenaSize = 16, 24, 64, 1<<20, 1<<20
	g.cfg = Config{
		Name: "t0", Devices: []rdma.Device{g.dev}, Services: []rdma.Service{
			{Addr: netip.AddrPortFrom(netip.Addr{}, listenPort)}, {ID: rdma.ServiceID(listenPort)},
		},
		PortIDs: []srp.PortID{targetID}, Plan: plan, Immediate: true, Limits: Limits{Channels: 64},
		Identity: scsi.Identity{Vendor: "GOSRPT", Product: "none", Revision: "1"},
	}
	for _, f := range adjust {
		f(g)
	}
	var err error
	out := io.Writer(g.log)
	if g.quiet {
		out = io.Discard
	}
	if g.target, err = New(g.cfg, hclog.New(&hclog.LoggerOptions{Output: out, Level: hclog.Debug})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.shutdown)
	g.addDisk(0)
	if err := g.target.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

// addDisk puts a disk behind a LUN. The rig keeps the parts of the last one.
func (g *rig) addDisk(lun uint16) {
	g.t.Helper()
	arena, err := ioctx.NewArena(ioctx.ArenaConfig{Name: "a" + string(rune('0'+lun)), Memory: make([]byte, 1<<20), Fence: g.fence, Strict: true})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		g.shutdown()
		if err := arena.Close(); err != nil {
			g.t.Error(err)
		}
		if s := arena.Stats(); s.Faults != 0 {
			g.t.Errorf("%+v", s)
		}
	})
	g.arena = arena
	mem := store.NewPowered(backstore.Info{BlockSize: 512, Blocks: 4 << 20 / 512, FUA: true, UnmapZeroes: true})
	g.memory = mem.Memory
	g.backend = storetest.Wrap(store.NewLocal(mem, 256))
	g.backend.Hide = ^g.powers
	var b store.Backend = g.backend
	if g.plain {
		b = store.NewLocal(mem.Memory, 256) // which has no powers
	}
	if g.guard, err = store.Open(b, store.Config{Name: "s"}); err != nil {
		g.t.Fatal(err)
	}
	id := scsi.Identity{Vendor: "GOSRPT", Product: "disk", Revision: "1", Serial: "S", NAA: scsi.LocalNAA("x")}
	if g.disk, err = lu.NewDevice(lu.Config{Name: "d" + string(rune('0'+lun)), Identity: id, MaxTransfer: 1 << 20, Inventory: g.target.Inventory()}, g.guard.Info()); err != nil {
		g.t.Fatal(err)
	}
	if err := g.target.AddUnit(g.t.Context(), Unit{LUN: lun, Unit: g.disk.Unit(g.guard), Arena: arena}); err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) shutdown() {
	if g.stopped {
		return
	}
	g.stopped = true
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := g.target.Shutdown(ctx); err != nil {
		g.t.Error(err)
	}
}

func (g *rig) do(f func()) {
	g.t.Helper()
	if err := g.target.Do(g.t.Context(), f); err != nil {
		g.t.Fatal(err)
	}
}

// waitFor runs turns of the reactor until cond holds.
func (g *rig) waitFor(what string, cond func() bool) {
	g.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		ok := false
		g.do(func() { ok = cond() })
		if ok {
			return
		}
	}
	g.t.Fatalf("waited in vain: %s", what)
}

func (g *rig) stats() Stats {
	g.t.Helper()
	s, err := g.target.Stats(context.Background())
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

// empty waits until no session, channel, buffer or command is left.
func (g *rig) empty() {
	g.t.Helper()
	t := g.target
	g.waitFor("every channel ends", func() bool {
		return t.links == 0 && len(t.sessions) == 0 && t.promised == 0 && len(t.pending) == 0 && t.used.all == 0 && len(t.used.port) == 0
	})
	s := g.stats()
	for name, a := range s.Arenas {
		if a.Held != 0 || a.Waiting != 0 || a.Free != a.Size {
			g.t.Errorf("arena %s: %+v", name, a)
		}
	}
	if n := g.disk.Stats().Nexuses; n != 0 {
		g.t.Errorf("%d nexuses are remembered", n)
	}
	if s.Reactor.Clients != 0 {
		g.t.Errorf("%d channels are with the reactor", s.Reactor.Clients)
	}
}

func (g *rig) remote() netip.AddrPort {
	g.t.Helper()
	ports, err := g.dev.Ports()
	if err != nil {
		g.t.Fatal(err)
	}
	return netip.AddrPortFrom(ports[0].Addrs[0], listenPort)
}

// dial logs in with the project's initiator.
func (g *rig) dial(adjust ...func(*initiator.Config)) *initiator.Session {
	g.t.Helper()
	s, err := g.tryDial(adjust...)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { s.Close() })
	return s
}

func (g *rig) tryDial(adjust ...func(*initiator.Config)) (*initiator.Session, error) {
	cfg := initiator.Config{Device: g.peer, Remote: g.remote(), Initiator: initiatorID, Target: targetID, QueueDepth: 15}
	for _, f := range adjust {
		f(&cfg)
	}
	return initiator.Dial(g.t.Context(), cfg)
}

// ready logs in and takes the unit attention that greets a new nexus.
func (g *rig) ready(adjust ...func(*initiator.Config)) *initiator.Session {
	g.t.Helper()
	s := g.dial(adjust...)
	if err := tur(g.t, s, srp.LUN{}); err == nil {
		g.t.Fatal("a new nexus was not told of the power on")
	}
	return s
}

// tur carries out TEST UNIT READY once, whatever it says.
func tur(t testing.TB, s *initiator.Session, lun srp.LUN) error {
	t.Helper()
	r, err := s.Do(t.Context(), lun, make([]byte, 6), nil, nil)
	if err != nil {
		return err
	}
	return r.Check()
}
