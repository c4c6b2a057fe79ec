package target

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

func TestVanishedHostIsFoundWithinTheDocumentedBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		s := g.ready(func(c *initiatorConfig) { c.Channels = 3 })
		time.Sleep(10 * time.Minute)
		if n := len(g.target.sessions); n != 1 {
			t.Fatalf("%d sessions after ten idle minutes", n)
		}
		start := time.Now()
		g.peer.Vanish()
		synctest.Wait()
		for n := 1; n > 0; {
			time.Sleep(100 * time.Millisecond)
			g.do(func() { n = len(g.target.sessions) })
			if time.Since(start) > 30*time.Second {
				t.Fatal("it still has a session")
			}
		}
		s.Close()
		g.empty()
	})
}

func TestVanishedHostLogsInAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		s := g.ready()
		// Nothing of the old connection gets through any more, not even the news of its end.
		for _, d := range []*rdmatest.Device{g.peer, g.dev} {
			d.Hold(rdmatest.Data)
		}
		start := time.Now()
		n := g.dial()
		if d := time.Since(start); d > time.Second {
			t.Errorf("login took %v", d)
		}
		ended := make(chan error, 1)
		go func() { ended <- tur(t, n, srp.LUN{}) }()
		time.Sleep(2 * time.Second) // the old channel is given up
		g.peer.Release(rdmatest.Data)
		g.dev.Release(rdmatest.Data)
		if err := <-ended; sense(err)[0] != 6 {
			t.Errorf("first command of the new session: %v", err)
		}
		if d := time.Since(start); d > 4*time.Second {
			t.Errorf("the new session ran a command after %v", d)
		}
		s.Close()
		n.Close()
		g.empty()
	})
}

func TestSessionsAreShown(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	s := g.ready(func(c *initiatorConfig) { c.Channels, c.Immediate = 2, true })
	o := g.ready(func(c *initiatorConfig) { c.Initiator[0] = 5 })
	if err := s.Write(t.Context(), srp.LUN{}, 0, 16, make([]byte, 8192)); err != nil {
		t.Fatal(err)
	}
	g.hold()
	begin(t, s, 3)
	g.inStore(3)
	list, err := g.target.Sessions(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	i := list[0]
	if i.Initiator != initiatorID || i.Target != targetID || len(i.Channels) != 2 || i.ID == list[1].ID {
		t.Errorf("%+v", i)
	}
	var active uint32
	var out uint64
	for _, c := range i.Channels {
		active += c.Active
		out += c.BytesOut
		if c.Info.Device != g.dev.Name() || !c.Info.Remote.IsValid() || c.State.String() != "live" {
			t.Errorf("%+v", c)
		}
	}
	if active != 3 || out != 8192 {
		t.Errorf("%d active, %d bytes", active, out)
	}
	g.release()
	if err := g.target.Logout(t.Context(), list[1].ID); err != nil {
		t.Error(err)
	}
	<-o.Done()
	g.waitFor("the session is gone", func() bool { return len(g.target.sessions) == 1 })
	if err := g.target.Logout(t.Context(), list[1].ID); !errors.Is(err, ErrNoSession) {
		t.Error(err)
	}
	g.waitLog("closed by the operator")
	s.Close()
	g.empty()
}

func TestShutdownTellsEveryHostAndWaitsForItsCommands(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	s := g.ready(func(c *initiatorConfig) { c.Channels = 2 })
	g.hold()
	begin(t, s, 4)
	g.inStore(4)
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		ended <- g.target.Shutdown(ctx)
	}()
	g.waitFor("the commands are aborted", func() bool { return aborted(g.target) == 4 })
	<-s.Done()
	select {
	case err := <-ended:
		t.Fatalf("ended (%v) while the store had the buffers", err)
	default:
	}
	g.release()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	g.stopped = true
	if _, err := g.tryDial(); err == nil {
		t.Error("a login after the end")
	}
	if err := g.target.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	s := g.ready()
	g.hold()
	begin(t, s, 2)
	g.inStore(2)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := g.target.Shutdown(ctx)
	g.stopped = true
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 channels") {
		t.Error(err)
	}
	if err := g.arena.Close(); !errors.Is(err, ioctx.ErrLeased) {
		t.Errorf("the arena of a store that still works on it: %v", err)
	}
	// The store ends after all; then the buffers come back, so that the test leaves nothing.
	g.backend.Plan = nil
	g.backend.Release()
	g.guard.Poll(time.Now())
}

func TestConfigurationIsChecked(t *testing.T) {
	leaktest.Check(t)
	p, a, _ := rdmatest.Pair()
	defer p.Close()
	good := func() Config {
		return Config{Name: "x", Devices: []rdma.Device{a}, PortIDs: []srp.PortID{targetID},
			Services: []rdma.Service{{Addr: netip.AddrPortFrom(netip.Addr{}, 1)}}}
	}
	for _, c := range []struct {
		name   string
		change func(*Config)
	}{
		{"no port", func(c *Config) { c.Services[0].Addr = netip.MustParseAddrPort("192.0.2.1:0") }},
		{"no port id", func(c *Config) { c.PortIDs = nil }},
		{"zero port id", func(c *Config) { c.PortIDs = []srp.PortID{{}} }},
		{"negative limit", func(c *Config) { c.Limits.Channels = -1 }},
		{"bad plan", func(c *Config) { c.Plan.Credits = 1 }},
	} {
		cfg := good()
		c.change(&cfg)
		if tg, err := New(cfg, hclog.NewNullLogger()); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", c.name, err)
			if tg != nil {
				tg.Shutdown(t.Context())
			}
		}
	}
}

func TestServiceThatIsTakenIsNamed(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	second, err := New(g.cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(t.Context()); !errors.Is(err, rdma.ErrInUse) || !strings.Contains(err.Error(), "5555") {
		t.Error(err)
	}
	if err := second.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestUnitThatDoesNotFitIsRefused(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	small, err := ioctx.NewArena(ioctx.ArenaConfig{Memory: make([]byte, ioctx.PageSize)})
	if err != nil {
		t.Fatal(err)
	}
	unit := g.disk.Unit(g.guard)
	for _, u := range []Unit{
		{LUN: 0, Unit: unit, Arena: g.arena}, {LUN: 1, Unit: unit, Arena: small}, {LUN: 2, Unit: unit},
		{LUN: 3, Arena: g.arena}, {LUN: 1 << 14, Unit: unit, Arena: g.arena},
	} {
		if err := g.target.AddUnit(t.Context(), u); !errors.Is(err, ErrConfig) {
			t.Errorf("LUN %d: %v", u.LUN, err)
		}
	}
	if n := g.stats().Reactor.Sources; n != 4 { // the small arena, that of tables, the store, its arena
		t.Errorf("%d sources", n)
	}
}

func TestBrokenTransportEndsTheSessionWithAWarning(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	s := g.ready()
	g.dev.FailAfter(0, rdma.OpWrite, rdma.StatusRetryExceeded)
	if err := s.Read(t.Context(), srp.LUN{}, 0, 8, make([]byte, 4096)); err == nil {
		t.Error("read over a broken transport")
	}
	<-s.Done()
	g.empty()
	g.waitLog("RDMA WRITE: retries exceeded")
}
