package host_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/auth"
	"github.com/gosrpt/gosrpt/sdk/host"
	"github.com/gosrpt/gosrpt/sdk/ioctx"
)

func controlOptions(t testing.TB, args ...string) host.ControlOptions {
	return host.ControlOptions{Path: testControl, Args: args, Log: logger(t)}
}

func startAuth(t testing.TB, o host.ControlOptions) *host.Auth {
	t.Helper()
	a, err := host.StartAuth(soon(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(soon(t)) })
	return a
}

func startIOCtx(t testing.TB, o host.ControlOptions) *host.IOCtx {
	t.Helper()
	p, err := host.StartIOCtx(soon(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(soon(t)) })
	return p
}

// ask is a login whose initiator asks the test plugin for something.
func ask(n byte) auth.Login {
	return auth.Login{Initiator: auth.ID{0: 0xab, 15: n}, SourceAddr: netip.MustParseAddr("10.0.0.7"), Device: "eth0", Port: 4, PKey: 64}
}

func TestDecisionComesFromThePlugin(t *testing.T) {
	a := startAuth(t, controlOptions(t, "auth"))
	want := auth.Decision{Allow: true, Reason: "eth0", LUNs: []auth.LUN{{LUN: 3, Name: "disk", ReadOnly: true}}, Quota: auth.Quota{Channels: 4, QueueDepth: 64}}
	if d, err := a.Decide(soon(t), ask(1)); err != nil || !reflect.DeepEqual(d, want) {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := a.Decide(soon(t), ask(2)); err != nil || d.Allow || !strings.HasPrefix(d.Reason, "not port_id:0xab") {
		t.Errorf("%+v, %v", d, err)
	}
	if a.Notice() != "test authoriser" || !strings.HasPrefix(a.About(), "gosrpt sdk") || a.PID() == 0 {
		t.Errorf("%q, %q, %d", a.Notice(), a.About(), a.PID())
	}
	if err := a.Ping(soon(t)); err != nil {
		t.Error(err)
	}
}

func TestNoDecisionIsAnErrorWithItsCode(t *testing.T) {
	a := startAuth(t, controlOptions(t, "auth"))
	for n, want := range map[byte]auth.Code{3: auth.CodeUnavailable, 6: auth.CodeInternal} {
		d, err := a.Decide(soon(t), ask(n))
		var e *auth.Error
		if !errors.As(err, &e) || e.Code != want || d.Allow {
			t.Errorf("%d: %+v, %v, want code %v", n, d, err, want)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if d, err := a.Decide(ctx, ask(4)); err == nil || d.Allow {
		t.Errorf("after the deadline: %+v, %v", d, err)
	}
	if d, err := a.Decide(soon(t), ask(1)); err != nil || !d.Allow {
		t.Errorf("afterwards: %+v, %v", d, err)
	}
}

func TestPluginThatDiesOverADecisionIsNoticed(t *testing.T) {
	a := startAuth(t, controlOptions(t, "auth"))
	if d, err := a.Decide(soon(t), ask(5)); err == nil || d.Allow {
		t.Errorf("%+v, %v", d, err)
	}
	select {
	case <-a.Dead():
	case <-soon(t).Done():
		t.Fatal("its death is not noticed")
	}
	if !strings.Contains(a.Ending(), "7") {
		t.Errorf("ending %q", a.Ending())
	}
	if err := a.Watch(func(auth.Change) { t.Error("a change") }); err == nil {
		t.Error("the stream goes on")
	}
}

func TestChangeReachesWhoeverWatches(t *testing.T) {
	a := startAuth(t, controlOptions(t, "auth"))
	if _, err := a.Decide(soon(t), ask(7)); err != nil { // before Watch: it must not be lost
		t.Fatal(err)
	}
	changes, ended := make(chan auth.Change, 2000), make(chan error, 1)
	go func() { ended <- a.Watch(func(c auth.Change) { changes <- c }) }()
	want := auth.Change{Initiators: []auth.ID{ask(7).Initiator}, Revoke: true, Reason: "as asked"}
	if c := <-changes; !reflect.DeepEqual(c, want) {
		t.Errorf("%+v", c)
	}
	// More than the plugin keeps: none is lost, but some may be told as one that means everybody.
	if _, err := a.Decide(soon(t), ask(8)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Decide(soon(t), ask(7)); err != nil {
		t.Fatal(err)
	}
	for everybody := false; ; {
		c := <-changes
		everybody = everybody || len(c.Initiators) == 0
		if c.Revoke || everybody {
			break
		}
	}
	a.Close(soon(t))
	if err := <-ended; err == nil {
		t.Error("the stream has no end")
	}
}

func TestAuthoriserWithoutChangesKeepsTheWatcherWaiting(t *testing.T) {
	o := controlOptions(t, "auth")
	o.Config = map[string]string{"mute": ""}
	a := startAuth(t, o)
	ended := make(chan error, 1)
	go func() { ended <- a.Watch(func(auth.Change) { t.Error("a change") }) }()
	if _, err := a.Decide(soon(t), ask(1)); err != nil {
		t.Fatal(err)
	}
	if len(ended) > 0 {
		t.Errorf("it ended: %v", <-ended)
	}
	a.Kill()
	if err := <-ended; err == nil {
		t.Error("no error at the end")
	}
}

func TestCloseClosesWhatIsOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "closed")
	for _, kind := range []string{"auth", "ioctx"} {
		o := controlOptions(t, kind)
		o.Config = map[string]string{"closed": file}
		if kind == "auth" {
			a := startAuth(t, o)
			go a.Decide(soon(t), ask(4)) // hangs until it is cancelled
			a.Close(soon(t))
		} else {
			startIOCtx(t, o).Close(soon(t))
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		os.Remove(file)
	}
}

func TestStartThatFailsSaysWhyAndLeavesNoProcess(t *testing.T) {
	for name, c := range map[string]struct {
		o    host.ControlOptions
		want string
	}{
		"config":         {host.ControlOptions{Path: testControl, Args: []string{"auth"}, Config: map[string]string{"fail": "no\nlist"}}, "wrong configuration: no list"},
		"unknown key":    {host.ControlOptions{Path: testControl, Args: []string{"auth"}, Config: map[string]string{"colour": "red"}}, "colour"},
		"another kind":   {host.ControlOptions{Path: testControl, Args: []string{"ioctx"}}, "is it of the kind auth?"},
		"a backstore":    {host.ControlOptions{Path: testPlugin}, "is it of the kind auth?"},
		"no plugin":      {host.ControlOptions{Path: "/bin/true"}, "/bin/true"},
		"not there":      {host.ControlOptions{Path: filepath.Join(t.TempDir(), "none")}, "none"},
		"no stream":      {host.ControlOptions{Path: testControl, Args: []string{"hostile", "no-stream"}}, "changed my mind"},
		"without logger": {host.ControlOptions{Path: testControl, Args: []string{"auth"}}, "logger"},
	} {
		if name != "without logger" {
			c.o.Log = logger(t)
		}
		if a, err := host.StartAuth(soon(t), c.o); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "no\nlist") {
			t.Errorf("%s: %v, %v, want %q", name, a, err, c.want)
		}
	}
	if p, err := host.StartIOCtx(soon(t), controlOptions(t, "auth")); err == nil || !strings.Contains(err.Error(), "is it of the kind ioctx?") {
		t.Errorf("%v, %v", p, err)
	}
}

func TestHostileAuthoriserAllowsNothing(t *testing.T) {
	for _, how := range []string{"wide-luns", "empty-answer", "strange-code"} {
		a := startAuth(t, controlOptions(t, "hostile", how))
		d, err := a.Decide(soon(t), ask(1))
		if err == nil || d.Allow || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%s: %+v, %q", how, d, err)
		}
		if strings.Contains(a.About(), "\x1b") {
			t.Errorf("about %q", a.About())
		}
	}
	for _, how := range []string{"odd-change", "cut-stream"} {
		a := startAuth(t, controlOptions(t, "hostile", how))
		if err := a.Watch(func(c auth.Change) { t.Errorf("%s: %+v", how, c) }); err == nil {
			t.Errorf("%s: no error", how)
		}
	}
}

func situation(memory uint64) ioctx.Situation {
	return ioctx.Situation{Memory: memory, Default: ioctx.Plan{Credits: 128, Unsolicited: 4, Responses: 192, SendWork: 512, MaxRequestIU: 8276,
		MaxResponseIU: 512, MaxTransfer: 1 << 20, ArenaSize: 64 << 20, MaxWait: time.Second}}
}

func TestPlanComesFromThePlugin(t *testing.T) {
	p := startIOCtx(t, controlOptions(t, "ioctx"))
	s := situation(0)
	if got, err := p.Plan(soon(t), s); err != nil || got != s.Default {
		t.Errorf("%+v, %v", got, err)
	}
	s.InForce = s.Default
	if got, err := p.Replan(soon(t), s, ioctx.Pressure{Waited: 1}); err != nil || got.Credits != 64 || !p.Replans() {
		t.Errorf("%+v, %v", got, err)
	}
	for n, want := range map[uint64]ioctx.Code{3: ioctx.CodeUnavailable, 6: ioctx.CodeInternal} {
		got, err := p.Plan(soon(t), situation(n))
		var e *ioctx.Error
		if !errors.As(err, &e) || e.Code != want || got != (ioctx.Plan{}) {
			t.Errorf("%d: %+v, %v, want code %v", n, got, err, want)
		}
	}
	reasons := make(chan string, 8)
	ended := make(chan error, 1)
	go func() { ended <- p.Watch(func(reason string) { reasons <- reason }) }()
	if _, err := p.Plan(soon(t), situation(7)); err != nil {
		t.Fatal(err)
	}
	if r := <-reasons; r != "as asked" {
		t.Errorf("reason %q", r)
	}
	if err := p.Ping(soon(t)); err != nil {
		t.Error(err)
	}
	if _, err := p.Plan(soon(t), situation(5)); err == nil {
		t.Error("a plan from the dead")
	}
	if err := <-ended; err == nil {
		t.Error("the stream has no end")
	}
}

// TestQuestionsTakeTurns: one question hangs in the planner, and the next waits for its turn no longer than its deadline.
func TestQuestionsTakeTurns(t *testing.T) {
	p := startIOCtx(t, controlOptions(t, "ioctx"))
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan error, 1)
	go func() {
		_, err := p.Plan(ctx, situation(4))
		first <- err
	}()
	for {
		short, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
		_, err := p.Plan(short, situation(0))
		stop()
		if err != nil {
			break // the first is in the planner
		}
	}
	cancel()
	if err := <-first; err == nil {
		t.Error("a plan without an end")
	}
	if _, err := p.Plan(soon(t), situation(0)); err != nil {
		t.Errorf("the turn is lost: %v", err)
	}
}

func TestPlannerWithoutPowersHasNone(t *testing.T) {
	o := controlOptions(t, "ioctx")
	o.Config = map[string]string{"mute": ""}
	p := startIOCtx(t, o)
	s := situation(0)
	s.InForce = s.Default
	if got, err := p.Replan(soon(t), s, ioctx.Pressure{}); err == nil || p.Replans() {
		t.Errorf("%+v, %v", got, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Watch(func(string) { t.Error("a change") }) }()
	p.Close(soon(t))
	if err := <-ended; err == nil {
		t.Error("no error at the end")
	}
}

func TestHostilePlannerPlansNothing(t *testing.T) {
	for _, how := range []string{"empty-plan", "wild-plan"} {
		p := startIOCtx(t, controlOptions(t, "hostile", how))
		if got, err := p.Plan(soon(t), situation(0)); err == nil || got != (ioctx.Plan{}) {
			t.Errorf("%s: %+v, %v", how, got, err)
		}
	}
}
