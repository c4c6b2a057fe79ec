package target

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/srp"
	"github.com/gosrpt/gosrpt/core/store/storetest"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>9) ^ byte(i*7) ^ seed
	}
	return b
}

func TestInitiatorReadsWhatItWrote(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	for _, c := range []struct {
		name      string
		channels  int
		immediate bool
	}{{"one channel", 1, false}, {"four channels", 4, false}, {"immediate data", 2, true}} {
		s := g.ready(func(cfg *initiator.Config) { cfg.Channels, cfg.Immediate = c.channels, c.immediate })
		if n := len(s.Channels()); n != c.channels {
			t.Fatalf("%s: %d channels", c.name, n)
		}
		if c.immediate != s.Channels()[0].Immediate {
			t.Errorf("%s: immediate data granted: %v", c.name, !c.immediate)
		}
		for i, blocks := range []uint32{1, 8, 16, 100, 2048} {
			want := pattern(int(blocks)*512, byte(i))
			if err := s.Write(t.Context(), srp.LUN{}, uint64(i)*7, blocks, want); err != nil {
				t.Fatalf("%s: write %d blocks: %v", c.name, blocks, err)
			}
			got := make([]byte, len(want))
			if err := s.Read(t.Context(), srp.LUN{}, uint64(i)*7, blocks, got); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: read %d blocks: %v, same %v", c.name, blocks, err, bytes.Equal(got, want))
			}
		}
		if err := s.SyncCache(t.Context(), srp.LUN{}); err != nil {
			t.Error(err)
		}
		if err := s.Logout(t.Context()); err != nil {
			t.Error(err)
		}
		g.empty()
	}
}

func TestLUNsThatAreThereAndThatAreNot(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	g.addDisk(3)
	s := g.ready()
	luns, err := s.ReportLUNs(t.Context())
	if err != nil || !slices.Equal(luns, []srp.LUN{{}, {1: 3}}) {
		t.Fatal(luns, err)
	}
	flat := srp.LUN{0x40, 3}
	if err := tur(t, s, flat); sense(err) != [3]byte{6, 0x29, 0} {
		t.Errorf("LUN 3 in flat addressing: %v", err)
	}
	if err := tur(t, s, srp.LUN{1: 3}); err != nil {
		t.Errorf("LUN 3: %v", err)
	}
	for _, lun := range []srp.LUN{{1: 1}, {0x41, 0}, {1: 3, 3: 1}, {0xc1, 2}} {
		if err := tur(t, s, lun); sense(err) != [3]byte{5, 0x25, 0} {
			t.Errorf("LUN %v: %v", lun, err)
		}
		if inq, err := s.Inquiry(t.Context(), lun); err != nil || inq[0] != 0x7f {
			t.Errorf("LUN %v: % x, %v", lun, inq, err)
		}
	}
	if inq, err := s.Inquiry(t.Context(), srp.ReportLUNs()); err != nil || inq[0]&0x1f != 0x1e {
		t.Errorf("well known logical unit: % x, %v", inq, err)
	}
	if err := g.target.RemoveUnit(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if err := tur(t, s, srp.LUN{}); sense(err) != [3]byte{6, 0x3f, 0x0e} {
		t.Errorf("after the LUN list changed: %v", err)
	}
	if err := tur(t, s, srp.LUN{1: 3}); sense(err) != [3]byte{5, 0x25, 0} {
		t.Errorf("removed LUN: %v", err)
	}
	if err := g.target.RemoveUnit(t.Context(), 3); err == nil {
		t.Error("removed twice")
	}
}

// sense returns key, code and qualifier of a status error.
func sense(err error) (s [3]byte) {
	var e *initiator.StatusError
	if errors.As(err, &e) && len(e.Sense) >= 14 {
		s = [3]byte{e.Sense[2] & 15, e.Sense[12], e.Sense[13]}
	}
	return s
}

func TestStoreErrorsBecomeSense(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	s := g.ready()
	for _, c := range []struct {
		code backstore.Code
		key  byte
	}{{backstore.CodeIO, 3}, {backstore.CodeUnavailable, 2}, {backstore.CodeNoSpace, 7}} {
		g.do(func() {
			g.backend.Plan = func(*backstore.Request) storetest.Fault { return storetest.Fault{Code: c.code, Skip: true} }
		})
		err := s.Write(t.Context(), srp.LUN{}, 0, 1, make([]byte, 512))
		if got := sense(err); got[0] != c.key {
			t.Errorf("%v: %v", c.code, err)
		}
	}
	g.do(func() { g.backend.Plan = nil })
	if err := s.Write(t.Context(), srp.LUN{}, 0, 1, make([]byte, 512)); err != nil {
		t.Error(err)
	}
}

// hold has the store keep its results back.
func (g *rig) hold() {
	g.do(func() {
		g.backend.Plan = func(*backstore.Request) storetest.Fault { return storetest.Fault{Hold: true} }
	})
}

func (g *rig) release() {
	g.do(func() {
		g.backend.Plan = nil
		g.backend.Release()
	})
	g.target.Wake()
}

// begin submits n reads and returns a channel of their results.
func begin(t testing.TB, s *initiator.Session, n int) <-chan initiator.Result {
	t.Helper()
	results := make(chan initiator.Result, n)
	for range n {
		go func() {
			r, err := s.Do(context.Background(), srp.LUN{}, read10(0, 8), nil, make([]byte, 4096))
			if err != nil {
				r.Err = err
			}
			results <- r
		}()
	}
	return results
}

func read10(lba, blocks byte) []byte { return []byte{0x28, 0, 0, 0, 0, lba, 0, 0, blocks, 0} }

// inStore waits until the store holds n results back.
func (g *rig) inStore(n int) {
	g.t.Helper()
	g.waitFor("commands reach the store", func() bool { return g.backend.Held() == n })
}

func TestTaskManagementReachesEveryChannelOfTheNexus(t *testing.T) {
	leaktest.Check(t)
	for _, f := range []srp.TaskFunction{srp.FuncAbortTaskSet, srp.FuncClearTaskSet, srp.FuncLUNReset} {
		g := newRig(t)
		s := g.ready(func(cfg *initiator.Config) { cfg.Channels = 3 })
		g.hold()
		mine := begin(t, s, 6)
		g.inStore(6)
		answered := make(chan error, 1)
		go func() { answered <- s.Manage(context.Background(), f, srp.LUN{}) }()
		g.waitFor("the commands of the first channel are aborted", func() bool { return aborted(g.target) > 0 })
		select {
		case err := <-answered:
			t.Fatalf("%v: answered (%v) while the store had the buffers", f, err)
		default:
		}
		g.release()
		if err := <-answered; err != nil {
			t.Error(err)
		}
		// The other channels are asked when the first has none left; what the store gave back by then
		// has been answered.
		gone := 0
		for range 6 {
			if r := <-mine; errors.Is(r.Err, initiator.ErrAborted) {
				gone++
			} else if r.Check() != nil {
				t.Error(r.Check())
			}
		}
		if gone == 0 {
			t.Errorf("%v: no command was aborted", f)
		}
		if err := tur(t, s, srp.LUN{}); err != nil {
			t.Errorf("%v: its own nexus learnt %v", f, err)
		}
		s.Close()
		g.empty()
	}
}

func TestTaskManagementAcrossNexuses(t *testing.T) {
	leaktest.Check(t)
	for _, c := range []struct {
		f     srp.TaskFunction
		other [3]byte // what another nexus learns of it
		n     uint64  // of its commands ended
	}{
		{srp.FuncAbortTaskSet, [3]byte{}, 0},
		{srp.FuncClearTaskSet, [3]byte{}, 4}, // the status of its commands tells it (TAS)
		{srp.FuncLUNReset, [3]byte{6, 0x29, 3}, 4},
	} {
		g := newRig(t)
		s := g.ready()
		o := g.ready(func(cfg *initiator.Config) { cfg.Initiator[0], cfg.Channels = 9, 2 })
		g.hold()
		theirs := begin(t, o, 4)
		g.inStore(4)
		answered := make(chan error, 1)
		go func() { answered <- s.Manage(context.Background(), c.f, srp.LUN{}) }()
		if c.n > 0 {
			g.waitFor("the commands are aborted", func() bool { return aborted(g.target) == c.n })
			select {
			case err := <-answered:
				t.Fatalf("%v: answered (%v) while the store had the buffers", c.f, err)
			default:
			}
			g.release()
		}
		if err := <-answered; err != nil {
			t.Error(err)
		}
		g.release()
		want := byte(0)
		if c.n > 0 {
			want = 0x40
		}
		for range 4 {
			if r := <-theirs; r.Err != nil || r.Status != want {
				t.Errorf("%v: a command of the other nexus ended with %v, status %02x, want %02x", c.f, r.Err, r.Status, want)
			}
		}
		if err := tur(t, o, srp.LUN{}); sense(err) != c.other {
			t.Errorf("%v: the other nexus learnt %v", c.f, err)
		}
		if err := tur(t, s, srp.LUN{}); err != nil {
			t.Errorf("%v: its own nexus learnt %v", c.f, err)
		}
		s.Close()
		o.Close()
		g.empty()
	}
}

func aborted(t *Target) (n uint64) {
	for _, s := range t.sessions {
		for _, l := range s.links {
			n += l.ch.Stats().Aborted
		}
	}
	return n
}

func TestTaskManagementThatCannotBeDone(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	s := g.ready()
	for _, c := range []struct {
		f    srp.TaskFunction
		lun  srp.LUN
		code srp.RspCode
	}{
		{srp.FuncClearACA, srp.LUN{}, srp.RspNotSupported},
		{srp.FuncTargetReset, srp.LUN{}, srp.RspNotSupported},
		{0x7f, srp.LUN{}, srp.RspNotSupported},
		{srp.FuncLUNReset, srp.LUN{1: 9}, srp.RspFailed},
	} {
		err := s.Manage(t.Context(), c.f, c.lun)
		var e *initiator.TaskError
		if !errors.As(err, &e) || e.Code != c.code {
			t.Errorf("%v: %v", c.f, err)
		}
	}
}

func TestSlowStoreHoldsUpNobodyElse(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	first := g.backend
	g.addDisk(1)
	s := g.ready()
	tur(t, s, srp.LUN{1: 1})
	g.do(func() {
		first.Plan = func(*backstore.Request) storetest.Fault { return storetest.Fault{Hold: true} }
	})
	slow := begin(t, s, 10)
	for range 50 {
		if err := s.Read(t.Context(), srp.LUN{1: 1}, 0, 8, make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
	}
	g.do(func() { first.Plan = nil; first.Release() })
	g.target.Wake()
	for range 10 {
		if r := <-slow; r.Check() != nil {
			t.Error(r.Check())
		}
	}
}

func TestRemoveUnitWaitsForItsCommands(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	s := g.ready()
	g.hold()
	begin(t, s, 3)
	g.inStore(3)
	ctx, cancel := context.WithCancel(t.Context())
	removed := make(chan error, 1)
	go func() { removed <- g.target.RemoveUnit(ctx, 0) }()
	g.waitFor("the commands are aborted", func() bool { return aborted(g.target) == 3 })
	select {
	case err := <-removed:
		t.Fatalf("removed (%v) while the store had buffers", err)
	default:
	}
	g.release()
	if err := <-removed; err != nil {
		t.Error(err)
	}
	cancel()
	s.Close()
	g.empty()
}
