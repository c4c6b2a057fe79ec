package target

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// authority is an Authorizer whose mind a test changes.
type authority struct {
	mu     sync.Mutex
	grants map[srp.PortID]Grant // who is not there is denied
	fails  error                // instead of an answer
	asked  int
	before func() // called before each answer
}

func (a *authority) Authorize(_ context.Context, l Login) (Grant, error) {
	a.mu.Lock()
	before, fails := a.before, a.fails
	a.asked++
	g, ok := a.grants[l.Initiator]
	a.mu.Unlock()
	if before != nil {
		before()
	}
	if fails != nil {
		return Grant{}, fails
	}
	if !ok {
		return Grant{}, fmt.Errorf("%w: it is not there", ErrDenied)
	}
	return g, nil
}

func (a *authority) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *authority) grant(id srp.PortID, g Grant) { a.set(func() { a.grants[id] = g }) }

// otherID is a second initiator.
var otherID = srp.MakePortID(0x3000, 0x4001)

func other(c *initiatorConfig) { c.Initiator = otherID }

// newGranted is a rig with disks d0 and d3, and an authority that permits both initiators everything.
func newGranted(t testing.TB, adjust ...func(*rig)) (*rig, *authority) {
	t.Helper()
	a := &authority{grants: map[srp.PortID]Grant{initiatorID: {}, otherID: {}}}
	g := newRig(t, append(adjust, func(g *rig) { g.cfg.Authorizer = a })...)
	g.addDisk(3)
	return g, a
}

func lun(n byte) srp.LUN { return srp.LUN{1: n} }

var (
	notThere   = [3]byte{5, 0x25, 0}
	powerOn    = [3]byte{6, 0x29, 0}
	otherLUNs  = [3]byte{6, 0x3f, 0x0e}
	otherModes = [3]byte{6, 0x2a, 1}
	protected  = [3]byte{7, 0x27, 0}
)

// learns holds the sense of TEST UNIT READY against what is wanted, in order.
func learns(t testing.TB, s *initiator.Session, l srp.LUN, want ...[3]byte) {
	t.Helper()
	for _, w := range want {
		if err := tur(t, s, l); sense(err) != w {
			t.Errorf("LUN %v: %v, want % x", l, err, w)
		}
	}
}

func reported(t testing.TB, s *initiator.Session, want ...srp.LUN) {
	t.Helper()
	if luns, err := s.ReportLUNs(t.Context()); err != nil || !slices.Equal(luns, want) {
		t.Errorf("REPORT LUNS: %v, %v, want %v", luns, err, want)
	}
}

func TestSessionSeesItsOwnLUNs(t *testing.T) {
	leaktest.Check(t)
	g, a := newGranted(t)
	a.grant(initiatorID, Grant{Reason: "rule 7", LUNs: []GrantedLUN{{LUN: 300, Unit: "d0"}, {LUN: 5, Unit: "d3", ReadOnly: true}}})
	s, o := g.dial(), g.ready(other)
	reported(t, s, lun(5), srp.LUN{0x41, 44})
	reported(t, o, lun(0), lun(3))
	learns(t, s, lun(5), powerOn, [3]byte{})
	learns(t, s, srp.LUN{0x41, 44}, powerOn, [3]byte{})
	for _, l := range []srp.LUN{lun(0), lun(3), lun(6), {0x41, 45}, {0x40, 6}, {1: 5, 3: 1}} {
		learns(t, s, l, notThere)
		if inq, err := s.Inquiry(t.Context(), l); err != nil || inq[0] != 0x7f {
			t.Errorf("LUN %v: % x, %v", l, inq[:1], err)
		}
	}
	if inq, err := s.Inquiry(t.Context(), srp.ReportLUNs()); err != nil || inq[0]&0x1f != 0x1e {
		t.Errorf("well known logical unit: % x, %v", inq, err)
	}
	// Both reach the same blocks.
	learns(t, o, lun(3), powerOn)
	want := pattern(4096, 7)
	if err := o.Write(t.Context(), lun(3), 16, 8, want); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4096)
	if err := s.Read(t.Context(), srp.LUN{0x40, 5}, 16, 8, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, the same %v", err, bytes.Equal(got, want))
	}
	if err := s.Write(t.Context(), lun(5), 16, 8, want); sense(err) != protected {
		t.Errorf("a read-only logical unit was written: %v", err)
	}
	if err := s.Write(t.Context(), srp.LUN{0x41, 44}, 16, 8, want); err != nil {
		t.Errorf("the other one cannot be written: %v", err)
	}
	infos, err := g.target.Sessions(t.Context())
	if err != nil || len(infos) != 2 {
		t.Fatal(infos, err)
	}
	if i := infos[0]; i.AllLUNs || i.Permission != "rule 7" || !slices.Equal(i.LUNs, []LUNInfo{{5, "d3", true}, {300, "d0", false}}) {
		t.Errorf("%+v", i)
	}
	if i := infos[1]; !i.AllLUNs || !slices.Equal(i.LUNs, []LUNInfo{{0, "d0", false}, {3, "d3", false}}) {
		t.Errorf("%+v", i)
	}
	s.Close()
	o.Close()
	g.empty()
	if n := len(*g.target.luns.views.Load()); n != 0 {
		t.Errorf("%d views are remembered", n)
	}
}

func TestEmptyMapShowsNothing(t *testing.T) {
	leaktest.Check(t)
	g, a := newGranted(t)
	a.grant(initiatorID, Grant{LUNs: []GrantedLUN{}})
	s := g.dial()
	reported(t, s)
	learns(t, s, lun(0), notThere)
	s.Close()
	g.empty()
}

func TestUnitOfAGrantedNameAppearsAndGoes(t *testing.T) {
	leaktest.Check(t)
	g, a := newGranted(t)
	a.grant(initiatorID, Grant{LUNs: []GrantedLUN{{LUN: 1, Unit: "d0"}, {LUN: 2, Unit: "d7"}}})
	s, o := g.dial(), g.dial(other)
	g.waitLog("d7")
	learns(t, s, lun(1), powerOn, [3]byte{})
	learns(t, o, lun(0), powerOn, [3]byte{})
	g.addDisk(7)
	learns(t, s, lun(1), otherLUNs, [3]byte{})
	learns(t, o, lun(0), otherLUNs, [3]byte{})
	reported(t, s, lun(1), lun(2))
	learns(t, s, lun(2), powerOn, [3]byte{})
	// What it does not see does not concern it.
	if err := g.target.RemoveUnit(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	learns(t, s, lun(1), [3]byte{})
	learns(t, o, lun(0), otherLUNs, [3]byte{})
	// A command to a unit that goes ends, whatever number it was sent to.
	g.hold()
	ended := make(chan error, 1)
	go func() {
		r, err := s.Do(context.Background(), lun(2), read10(0, 8), nil, make([]byte, 4096))
		if err == nil {
			err = r.Check()
		}
		ended <- err
	}()
	g.inStore(1)
	removed := make(chan error, 1)
	go func() { removed <- g.target.RemoveUnit(context.Background(), 7) }()
	g.waitFor("the command is aborted", func() bool { return aborted(g.target) == 1 })
	g.release()
	if err := <-removed; err != nil {
		t.Error(err)
	}
	learns(t, s, lun(1), otherLUNs, [3]byte{})
	learns(t, s, lun(2), notThere)
	reported(t, s, lun(1))
	s.Close()
	if err := <-ended; err == nil {
		t.Error("the command of the unit that went was done")
	}
	o.Close()
	g.empty()
}

func TestGrantedNameThatTheTargetDoesNotHaveIsReportedOnce(t *testing.T) {
	leaktest.Check(t)
	g, a := newGranted(t)
	lost := Grant{LUNs: []GrantedLUN{{LUN: 0, Unit: "d0"}, {LUN: 1, Unit: "d7"}, {LUN: 2, Unit: "typo"}}}
	a.grant(initiatorID, lost)
	a.grant(otherID, lost)
	count := func() (d7, typo int) {
		lines := strings.Split(g.log.String(), "\n")
		lines = slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, "does not have") })
		all := strings.Join(lines, "\n")
		return strings.Count(all, "d7"), strings.Count(all, "typo")
	}
	g.dial().Close()
	g.dial(other).Close()
	g.dial().Close()
	g.addDisk(7) // it has been there since, so that it is another loss when it goes
	if err := g.target.RemoveUnit(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	g.dial().Close()
	g.shutdown() // writes every line
	if d7, typo := count(); d7 != 2 || typo != 1 {
		t.Errorf("d7 is reported %d times, want 2; typo %d times, want 1\n%s", d7, typo, g.log)
	}
}

func TestTaskManagementFindsTheUnitUnderEveryNumber(t *testing.T) {
	leaktest.Check(t)
	g, a := newGranted(t)
	a.grant(initiatorID, Grant{LUNs: []GrantedLUN{{LUN: 0, Unit: "d3"}}})
	third := srp.MakePortID(0x3000, 0x4002)
	a.grant(third, Grant{LUNs: []GrantedLUN{{LUN: 3, Unit: "d0"}}})
	s, o, blind := g.ready(), g.dial(other), g.dial(func(c *initiatorConfig) { c.Initiator = third })
	learns(t, o, lun(0), powerOn)
	learns(t, o, lun(3), powerOn)
	learns(t, blind, lun(3), powerOn)
	g.hold() // of d3, the last
	begin(t, s, 2)
	g.inStore(2)
	answered := make(chan error, 1)
	go func() { answered <- o.ResetLUN(context.Background(), lun(3)) }()
	g.waitFor("the commands are aborted", func() bool { return aborted(g.target) == 2 })
	g.release()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	reset := [3]byte{6, 0x29, 3}
	learns(t, s, lun(0), reset, [3]byte{})
	learns(t, o, lun(0), [3]byte{}) // d0
	learns(t, blind, lun(3), [3]byte{})
	if err := s.ResetLUN(t.Context(), lun(0)); err != nil {
		t.Error(err)
	}
	learns(t, o, lun(3), reset, [3]byte{})
	learns(t, o, lun(0), [3]byte{})
	if err := blind.ResetLUN(t.Context(), lun(0)); err == nil {
		t.Error("a unit that is not seen was reset")
	}
	for _, x := range []*initiator.Session{s, o, blind} {
		x.Close()
	}
	g.empty()
}

func TestQuotaBoundsChannelsAndQueueDepth(t *testing.T) {
	leaktest.Check(t)
	g, a := newGranted(t)
	a.grant(initiatorID, Grant{Channels: 2, QueueDepth: 5})
	a.grant(otherID, Grant{Channels: 1000, QueueDepth: 1000})
	k := g.knocker(g.peer)
	r := request()
	r.Flags |= srp.LoginFlags(srp.ActionMulti)
	for range 2 {
		if _, rsp := k.accepted(r); rsp.Delta != 5 {
			t.Errorf("a request limit of %d", rsp.Delta)
		}
	}
	if rej := k.refused(r.AppendRDMA(nil)); rej.Reason != srp.RejChannelLimit {
		t.Errorf("%v", rej.Reason)
	}
	if s := g.sessions()[initiatorID]; s.MaxChannels != 2 || s.QueueDepth != 5 {
		t.Errorf("the operator is told of %d channels and %d commands", s.MaxChannels, s.QueueDepth)
	}
	r.Initiator = otherID
	if _, rsp := k.accepted(r); rsp.Delta != 16 {
		t.Errorf("a request limit of %d, beyond the target's own", rsp.Delta)
	}
}

func TestSteadyStateOfASessionWithItsOwnLUNsAllocatesNothing(t *testing.T) {
	g, a := newGranted(t, func(g *rig) { g.plain = true })
	a.grant(initiatorID, Grant{LUNs: []GrantedLUN{{LUN: 0, Unit: "d3"}}})
	for _, write := range []bool{false, true} {
		l := loadOn(g.ready(), t, 12, write)
		l.run(2000)
		if n := testing.AllocsPerRun(20, func() { l.run(100) }); n != 0 {
			t.Errorf("write %v: %v allocations for 100 commands", write, n)
		}
	}
}

// BenchmarkFind is the part of a command that finds its unit.
func BenchmarkFind(b *testing.B) {
	g, a := newGranted(b)
	a.grant(initiatorID, Grant{LUNs: []GrantedLUN{{LUN: 0, Unit: "d3"}}})
	g.ready()
	g.ready(other)
	for name, id := range map[string]srp.PortID{"own LUNs": initiatorID, "all LUNs": otherID} {
		b.Run(name, func(b *testing.B) {
			g.do(func() {
				s := g.target.sessions[nexusKey{id, targetID}]
				b.ReportAllocs()
				for b.Loop() {
					s.find(0)
				}
			})
		})
	}
}
