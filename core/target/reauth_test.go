package target

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
	"github.com/gosrpt/gosrpt/sdk/auth"
)

func (g *rig) sessions() map[srp.PortID]SessionInfo {
	g.t.Helper()
	infos, err := g.target.Sessions(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	all := make(map[srp.PortID]SessionInfo)
	for _, i := range infos {
		all[i.Initiator] = i
	}
	return all
}

func TestWhoIsNotPermittedAnyMoreLosesItsSession(t *testing.T) {
	leaktest.Check(t)
	g, a := newGranted(t)
	s, o := g.ready(func(c *initiatorConfig) { c.Channels = 3 }), g.ready(other)
	a.set(func() { delete(a.grants, initiatorID) })
	if err := g.target.Reauthorize(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	g.waitLog("permission withdrawn")
	g.waitLog("it is not there")
	learns(t, o, lun(0), [3]byte{})
	if _, err := g.tryDial(); err == nil {
		t.Error("it may log in again")
	}
	a.grant(initiatorID, Grant{})
	g.ready().Close()
	o.Close()
	g.empty()
}

func TestWhatIsGrantedAnewIsInForceAtOnce(t *testing.T) {
	leaktest.Check(t)
	g, a := newGranted(t)
	s, o := g.ready(), g.ready(other)
	learns(t, s, lun(3), powerOn)
	step := func(grant Grant) {
		t.Helper()
		a.grant(initiatorID, grant)
		if err := g.target.Reauthorize(t.Context(), initiatorID); err != nil {
			t.Fatal(err)
		}
	}
	write := func(l srp.LUN) [3]byte { return sense(s.Write(t.Context(), l, 0, 1, make([]byte, 512))) }
	step(Grant{Reason: "the same"})
	learns(t, s, lun(0), [3]byte{})
	step(Grant{ReadOnly: true})
	learns(t, s, lun(0), otherModes, [3]byte{})
	learns(t, s, lun(3), otherModes, [3]byte{})
	if got := write(lun(0)); got != protected {
		t.Errorf("% x", got)
	}
	// The same units under the same numbers, one of them read-only.
	step(Grant{LUNs: []GrantedLUN{{LUN: 0, Unit: "d0"}, {LUN: 3, Unit: "d3", ReadOnly: true}}})
	learns(t, s, lun(0), otherModes, [3]byte{})
	learns(t, s, lun(3), [3]byte{})
	if a, b := write(lun(0)), write(lun(3)); a != [3]byte{} || b != protected {
		t.Errorf("% x, % x", a, b)
	}
	// One unit goes.
	step(Grant{LUNs: []GrantedLUN{{LUN: 0, Unit: "d0"}}})
	learns(t, s, lun(0), otherLUNs, [3]byte{})
	learns(t, s, lun(3), notThere)
	reported(t, s, lun(0))
	// It comes back as another nexus would find it.
	step(Grant{LUNs: []GrantedLUN{{LUN: 0, Unit: "d0"}, {LUN: 3, Unit: "d3"}}})
	learns(t, s, lun(0), otherLUNs, [3]byte{})
	learns(t, s, lun(3), powerOn, [3]byte{})
	// They change places.
	step(Grant{LUNs: []GrantedLUN{{LUN: 3, Unit: "d0"}, {LUN: 0, Unit: "d3"}}})
	learns(t, s, lun(0), otherLUNs, [3]byte{})
	learns(t, s, lun(3), otherLUNs, [3]byte{})
	step(Grant{})
	learns(t, s, lun(0), otherLUNs, [3]byte{})
	if i := g.sessions()[initiatorID]; !i.AllLUNs || i.ReadOnly {
		t.Errorf("%+v", i)
	}
	learns(t, o, lun(0), [3]byte{}) // nobody disturbed it
	s.Close()
	o.Close()
	g.empty()
}

func TestCommandToAUnitThatIsTakenAwayEndsWithAStatus(t *testing.T) {
	leaktest.Check(t)
	for name, grant := range map[string]Grant{
		"gone":           {LUNs: []GrantedLUN{{LUN: 9, Unit: "d0"}}},
		"another number": {LUNs: []GrantedLUN{{LUN: 9, Unit: "d3"}}},
	} {
		g, a := newGranted(t)
		a.grant(initiatorID, Grant{LUNs: []GrantedLUN{{LUN: 0, Unit: "d3"}}})
		s, o := g.ready(), g.dial(other)
		learns(t, o, lun(3), powerOn)
		g.hold()
		mine := begin(t, s, 3)
		g.inStore(3)
		a.grant(initiatorID, grant)
		if err := g.target.Reauthorize(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.waitFor("the commands are aborted", func() bool { return aborted(g.target) == 3 })
		g.release()
		for range 3 {
			if r := <-mine; r.Status != 0x40 {
				t.Errorf("%s: %+v, want TASK ABORTED", name, r)
			}
		}
		learns(t, s, lun(0), notThere)
		learns(t, o, lun(3), [3]byte{})
		s.Close()
		o.Close()
		g.empty()
	}
}

func TestWithoutAnAnswerSessionsStayAsTheyAreUntilThereIsOne(t *testing.T) {
	leaktest.Check(t)
	g, a := newGranted(t)
	a.grant(initiatorID, Grant{LUNs: []GrantedLUN{{LUN: 0, Unit: "d0"}}})
	s, o := g.ready(), g.ready(other)
	dead := errors.New("the plugin is dead")
	a.set(func() { a.fails = dead; delete(a.grants, otherID) })
	if err := g.target.Reauthorize(t.Context()); !errors.Is(err, ErrUnanswered) || !errors.Is(err, dead) {
		t.Errorf("%v", err)
	}
	learns(t, s, lun(0), [3]byte{})
	learns(t, o, lun(0), [3]byte{})
	if rej := g.knocker(g.peer).refused(func() []byte { r := request(); return r.AppendRDMA(nil) }()); rej.Reason != srp.RejNoReason {
		t.Errorf("a login without an answer: %v", rej.Reason)
	}
	g.target.AuthChanged(auth.Change{Reason: "for a test"})
	g.waitLog("stay as they are until it does")
	learns(t, o, lun(0), [3]byte{})
	a.set(func() { a.fails = nil })
	<-o.Done()
	learns(t, s, lun(0), [3]byte{})
	s.Close()
	g.empty()
}

func TestChangeConcernsWhomItNames(t *testing.T) {
	leaktest.Check(t)
	g, a := newGranted(t)
	s, o := g.ready(), g.ready(other)
	a.set(func() { clear(a.grants); a.asked = 0 })
	g.target.AuthChanged(auth.Change{Initiators: []auth.ID{auth.ID(otherID)}})
	<-o.Done()
	learns(t, s, lun(0), [3]byte{})
	a.set(func() {
		if a.asked != 1 {
			t.Errorf("asked %d times", a.asked)
		}
		a.asked, a.fails = 0, errors.New("it must not be asked")
	})
	g.target.AuthChanged(auth.Change{Initiators: []auth.ID{auth.ID(initiatorID)}, Revoke: true, Reason: "left the company"})
	<-s.Done()
	g.waitLog("left the company")
	a.set(func() {
		if a.asked != 0 {
			t.Errorf("asked %d times", a.asked)
		}
	})
	g.empty()
}

// TestLoginDecidedBeforeAChangeIsAskedAboutAgain: the answer is on its way while the initiator loses its permission.
func TestLoginDecidedBeforeAChangeIsAskedAboutAgain(t *testing.T) {
	leaktest.Check(t)
	for name, change := range map[string]auth.Change{
		"asked":   {},
		"revoked": {Initiators: []auth.ID{auth.ID(initiatorID)}, Revoke: true},
	} {
		g, a := newGranted(t)
		answering, answer := make(chan struct{}), make(chan struct{})
		a.set(func() {
			a.before = func() {
				a.set(func() { a.before = nil })
				close(answering)
				<-answer
			}
		})
		dialled := make(chan error, 1)
		go func() {
			s, err := g.tryDial()
			if err == nil {
				<-s.Done()
				s.Close()
			}
			dialled <- err
		}()
		<-answering
		a.set(func() { delete(a.grants, initiatorID) })
		g.target.AuthChanged(change)
		close(answer)
		<-dialled // whether or not it was let in, it has no session any more
		g.waitFor(name+": the session ends", func() bool { return len(g.target.sessions) == 0 })
		g.empty()
	}
}

func TestOnlyTheChannelsThatAreDeniedEnd(t *testing.T) {
	leaktest.Check(t)
	bad := netip.MustParseAddr("10.7.7.7")
	var deny atomic.Bool
	g := newRig(t, func(g *rig) {
		g.cfg.Authorizer = judge(func(_ context.Context, l Login) (Grant, error) {
			if deny.Load() && l.Info.Remote.Addr() == bad {
				return Grant{}, fmt.Errorf("%w: not from there", ErrDenied)
			}
			return Grant{}, nil
		})
	})
	r := request()
	r.Flags |= srp.LoginFlags(srp.ActionMulti)
	here := g.knocker(g.peer)
	there := g.knocker(g.provider.Add(rdmatest.DeviceConfig{Name: "elsewhere", Addrs: []netip.Addr{bad}}))
	a, _ := here.accepted(r)
	there.accepted(r)
	b, _ := here.accepted(r)
	deny.Store(true)
	if err := g.target.Reauthorize(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.waitFor("two channels are left", func() bool { return g.target.links == 2 })
	g.do(func() {
		for _, l := range g.target.sessions[nexusKey{initiatorID, targetID}].links {
			if l.info.Remote.Addr() == bad {
				t.Error("the channel that was denied is left")
			}
		}
	})
	a.Disconnect()
	b.Disconnect()
	g.empty()
}

func TestManyQuestionsBecomeOneAboutAll(t *testing.T) {
	var q inquiry
	if _, some := q.take(); some {
		t.Error("a question out of nothing")
	}
	q.add([]srp.PortID{initiatorID, otherID, initiatorID})
	if ids, some := q.take(); !some || len(ids) != 2 {
		t.Errorf("%v, %v", ids, some)
	}
	for n := range uint64(maxAsked + 1) {
		q.add([]srp.PortID{srp.MakePortID(1, n)})
	}
	if ids, some := q.take(); !some || len(ids) != 0 {
		t.Errorf("%d, %v", len(ids), some)
	}
	q.add(nil)
	q.add([]srp.PortID{initiatorID})
	if ids, some := q.take(); !some || len(ids) != 0 {
		t.Errorf("%v, %v", ids, some)
	}
	if _, some := q.take(); some {
		t.Error("a question is asked twice")
	}
}

// decider is a Decider that asks a function.
type decider func(auth.Login) (auth.Decision, error)

func (d decider) Decide(_ context.Context, l auth.Login) (auth.Decision, error) { return d(l) }

func TestPluginAuthorizerAsksAndGrantsWhatThePluginSays(t *testing.T) {
	var asked auth.Login
	var decision auth.Decision
	var fails error
	p := PluginAuthorizer{decider(func(l auth.Login) (auth.Decision, error) { asked = l; return decision, fails })}
	l := Login{Initiator: initiatorID, Target: targetID, Action: srp.ActionMulti, Info: rdma.ConnInfo{
		Device: "eth0", Port: 2, PKey: 0x8001, RemoteGID: [16]byte{15: 9}, Remote: netip.MustParseAddrPort("[fe80::1%eth0]:7"),
	}}
	want := auth.Login{Initiator: auth.ID(initiatorID), Target: auth.ID(targetID), SourceGID: auth.ID{15: 9}, SourceAddr: netip.MustParseAddr("fe80::1"),
		Device: "eth0", Port: 2, PKey: 0x8001, Action: auth.ActionMulti}
	for _, c := range []struct {
		d auth.Decision
		g Grant
	}{
		{auth.Decision{Allow: true, AllLUNs: true, ReadOnly: true, Reason: "r"}, Grant{ReadOnly: true, Reason: "r"}},
		{auth.Decision{Allow: true}, Grant{LUNs: []GrantedLUN{}}},
		{auth.Decision{Allow: true, LUNs: []auth.LUN{{LUN: 4, Name: "a", ReadOnly: true}}, Quota: auth.Quota{Channels: 3, QueueDepth: 4}},
			Grant{LUNs: []GrantedLUN{{4, "a", true}}, Channels: 3, QueueDepth: 4}},
	} {
		decision = c.d
		if g, err := p.Authorize(t.Context(), l); err != nil || !reflect.DeepEqual(g, c.g) {
			t.Errorf("%+v, %v, want %+v", g, err, c.g)
		}
	}
	if asked != want {
		t.Errorf("asked about %+v", asked)
	}
	decision = auth.Decision{Reason: "not on the list"}
	if g, err := p.Authorize(t.Context(), l); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "not on the list") || !reflect.DeepEqual(g, Grant{}) {
		t.Errorf("%+v, %v", g, err)
	}
	fails = errors.New("dead")
	if _, err := p.Authorize(t.Context(), l); errors.Is(err, ErrDenied) || !errors.Is(err, fails) {
		t.Errorf("%v", err)
	}
	l.Info.Remote = netip.AddrPort{}
	fails = nil
	if _, err := p.Authorize(t.Context(), l); !errors.Is(err, ErrDenied) || asked.SourceAddr.IsValid() {
		t.Errorf("%v, %v", asked, err)
	}
}
