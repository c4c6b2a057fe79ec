package pluginhost_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/sdk/auth"
	"github.com/gosrpt/gosrpt/sdk/ioctx"
)

// states receives the states of a plugin.
type states chan pluginhost.Status

func (s states) until(t testing.TB, want pluginhost.State) pluginhost.Status {
	t.Helper()
	end := time.After(patience)
	for {
		select {
		case is := <-s:
			if is.State == want {
				return is
			}
		case <-end:
			t.Fatalf("never %v", want)
		}
	}
}

func controlConfig(s states, args ...string) pluginhost.ControlConfig {
	level := hclog.Off
	if testing.Verbose() {
		level = hclog.Info
	}
	return pluginhost.ControlConfig{
		Name: "test", Path: testControl, Args: args, Stop: 5 * time.Second, OnChange: func(is pluginhost.Status) { s <- is },
		Log: hclog.New(&hclog.LoggerOptions{Level: level, Output: os.Stderr}),
	}
}

type authFixture struct {
	*pluginhost.Auth
	states
	changes chan auth.Change
}

func startAuth(t testing.TB, change func(*pluginhost.AuthConfig), args ...string) authFixture {
	t.Helper()
	if len(args) == 0 {
		args = []string{"auth"}
	}
	f := authFixture{states: make(states, 256), changes: make(chan auth.Change, 256)}
	cfg := pluginhost.AuthConfig{ControlConfig: controlConfig(f.states, args...), Changed: func(c auth.Change) { f.changes <- c }}
	if change != nil {
		change(&cfg)
	}
	var err error
	if f.Auth, err = pluginhost.StartAuth(soon(t), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// login asks the test plugin for something.
func login(n byte) auth.Login { return auth.Login{Initiator: auth.ID{15: n}} }

func TestKilledAuthPluginIsReplacedAndEverybodyAskedAbout(t *testing.T) {
	f := startAuth(t, nil)
	if d, err := f.Decide(soon(t), login(1)); err != nil || !d.Allow {
		t.Fatalf("%+v, %v", d, err)
	}
	first := f.Status()
	if first.State != pluginhost.StateRunning || first.Notice != "test authoriser" || first.PID == 0 {
		t.Errorf("status %+v", first)
	}
	for n := range 3 {
		kill(t, f.Status().PID)
		if c := <-f.changes; c.Revoke || len(c.Initiators) != 0 || c.Reason == "" {
			t.Errorf("change %+v", c)
		}
		if d, err := f.Decide(soon(t), login(1)); err != nil || !d.Allow {
			t.Errorf("after the restart: %+v, %v", d, err)
		}
		f.until(t, pluginhost.StateDown)
		if s := f.until(t, pluginhost.StateRunning); s.Restarts != uint64(n+1) || s.LastError == "" || s.PID == first.PID {
			t.Errorf("status %+v", s)
		}
	}
}

func TestWithoutAnAuthPluginThereIsNoDecision(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "authoriser")
	if err := os.Symlink(testControl, link); err != nil {
		t.Fatal(err)
	}
	f := startAuth(t, func(c *pluginhost.AuthConfig) {
		c.Resolve = func() (string, error) { return pluginhost.Find([]string{dir}, "authoriser") }
	})
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	// It dies over the question, which so has no answer.
	if d, err := f.Decide(soon(t), login(5)); err == nil || d.Allow {
		t.Errorf("%+v, %v", d, err)
	}
	f.until(t, pluginhost.StateDown)
	if d, err := f.Decide(soon(t), login(1)); !errors.Is(err, pluginhost.ErrDown) || d.Allow {
		t.Errorf("%+v, %v, want ErrDown", d, err)
	}
	if err := os.Symlink(testControl, link); err != nil {
		t.Fatal(err)
	}
	f.until(t, pluginhost.StateRunning)
	if d, err := f.Decide(soon(t), login(1)); err != nil || !d.Allow {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestAuthPluginThatHangsIsAskedNoLongerThanACallAndReplaced(t *testing.T) {
	f := startAuth(t, func(c *pluginhost.AuthConfig) { c.Call, c.Hang = 100*time.Millisecond, time.Second })
	pid := f.Status().PID
	stop(t, pid)
	if d, err := f.Decide(soon(t), login(1)); !strings.Contains(errText(err), "DeadlineExceeded") || d.Allow {
		t.Errorf("%+v, %v", d, err)
	}
	if s := f.until(t, pluginhost.StateDown); !strings.Contains(s.LastError, pluginhost.ErrHang.Error()) {
		t.Errorf("status %+v", s)
	}
	f.until(t, pluginhost.StateRunning)
	if d, err := f.Decide(soon(t), login(1)); err != nil || !d.Allow || f.Status().PID == pid {
		t.Errorf("%+v, %v", d, err)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestChangesPassInOrder(t *testing.T) {
	f := startAuth(t, nil)
	for n := range 5 {
		l := login(7)
		l.Initiator[0] = byte(n)
		if _, err := f.Decide(soon(t), l); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 5 {
		want := auth.Change{Initiators: []auth.ID{{0: byte(n), 15: 7}}, Revoke: true, Reason: "as asked"}
		if c := <-f.changes; !reflect.DeepEqual(c, want) {
			t.Errorf("%+v, want %+v", c, want)
		}
	}
}

func TestAuthPluginThatBreaksTheProtocolIsReplaced(t *testing.T) {
	for _, how := range []string{"cut-stream", "odd-change"} {
		f := startAuth(t, nil, "hostile", how)
		s := f.until(t, pluginhost.StateDown)
		if s.LastError == "" || strings.Contains(s.LastError, "process ended") {
			t.Errorf("%s: status %+v", how, s)
		}
		f.Close()
	}
}

func TestCloseOfAuthLeavesNoProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "closed")
	f := startAuth(t, func(c *pluginhost.AuthConfig) { c.Config = map[string]string{"closed": file} })
	pid := f.Status().PID
	f.Close()
	f.Close()
	if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); !os.IsNotExist(err) {
		t.Errorf("process %d: %v", pid, err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the authoriser was not closed: %v", err)
	}
	if _, err := f.Decide(soon(t), login(1)); !errors.Is(err, pluginhost.ErrClosed) {
		t.Errorf("Decide after Close: %v", err)
	}
	if s := f.Status(); s.State != pluginhost.StateClosed || s.PID != 0 {
		t.Errorf("status %+v", s)
	}
}

func TestCloseEndsAPluginThatIsDown(t *testing.T) {
	f := startAuth(t, func(c *pluginhost.AuthConfig) {
		first := true
		c.BackoffMin = time.Hour
		c.Resolve = func() (string, error) {
			if first {
				first = false
				return testControl, nil
			}
			return "", errors.New("gone")
		}
	})
	kill(t, f.Status().PID)
	f.until(t, pluginhost.StateStarting)
	f.until(t, pluginhost.StateDown)
	f.Close()
}

func TestStartOfControlPluginsReportsWhatIsWrong(t *testing.T) {
	good := pluginhost.ControlConfig{Name: "x", Path: testControl, Args: []string{"auth"}, Log: hclog.NewNullLogger()}
	for name, change := range map[string]func(*pluginhost.ControlConfig){
		"no name":           func(c *pluginhost.ControlConfig) { c.Name = "" },
		"no path":           func(c *pluginhost.ControlConfig) { c.Path = "" },
		"no logger":         func(c *pluginhost.ControlConfig) { c.Log = nil },
		"negative duration": func(c *pluginhost.ControlConfig) { c.Call = -1 },
	} {
		cfg := good
		change(&cfg)
		if _, err := pluginhost.StartAuth(soon(t), pluginhost.AuthConfig{ControlConfig: cfg}); !errors.Is(err, pluginhost.ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", name, err)
		}
		if _, err := pluginhost.StartIOCtx(soon(t), pluginhost.IOCtxConfig{ControlConfig: cfg}); !errors.Is(err, pluginhost.ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", name, err)
		}
	}
	cfg := good
	cfg.Config = map[string]string{"fail": "no list there"}
	_, err := pluginhost.StartAuth(soon(t), pluginhost.AuthConfig{ControlConfig: cfg})
	var e *auth.Error
	if !errors.As(err, &e) || e.Code != auth.CodeConfig || !strings.Contains(err.Error(), testControl) || !strings.Contains(err.Error(), "no list there") {
		t.Errorf("%v", err)
	}
}

func TestKilledIOCtxPluginLeavesThePlanToWhoeverAsked(t *testing.T) {
	s := make(states, 256)
	reasons := make(chan string, 16)
	p, err := pluginhost.StartIOCtx(soon(t), pluginhost.IOCtxConfig{ControlConfig: controlConfig(s, "ioctx"), Changed: func(r string) { reasons <- r }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	situation := ioctx.Situation{Default: ioctx.Plan{Credits: 128, Unsolicited: 4, Responses: 192, SendWork: 512, MaxRequestIU: 8276,
		MaxResponseIU: 512, MaxTransfer: 1 << 20, ArenaSize: 64 << 20, MaxWait: time.Second}}
	situation.InForce = situation.Default
	if plan, err := p.Plan(soon(t), situation); err != nil || plan != situation.Default {
		t.Errorf("%+v, %v", plan, err)
	}
	if plan, err := p.Replan(soon(t), situation, ioctx.Pressure{}); err != nil || plan.Credits != 64 {
		t.Errorf("%+v, %v", plan, err)
	}
	situation.Memory = 7
	if _, err := p.Plan(soon(t), situation); err != nil || <-reasons != "as asked" {
		t.Errorf("the change is lost: %v", err)
	}
	situation.Memory = 5
	if plan, err := p.Plan(soon(t), situation); err == nil || plan != (ioctx.Plan{}) {
		t.Errorf("%+v, %v", plan, err)
	}
	if r := <-reasons; !strings.Contains(r, "restarted") {
		t.Errorf("reason %q", r)
	}
	situation.Memory = 0
	if plan, err := p.Plan(soon(t), situation); err != nil || plan != situation.Default {
		t.Errorf("after the restart: %+v, %v", plan, err)
	}
	s.until(t, pluginhost.StateDown)
	is := s.until(t, pluginhost.StateRunning)
	if is.Restarts != 1 || is.Notice != "test planner" {
		t.Errorf("status %+v", is)
	}
	if u, err := p.Upgrade(soon(t), pluginhost.UpgradeOptions{Path: testControl}); err != nil || u.Old.PID != is.PID || u.New.PID != p.Status().PID {
		t.Errorf("upgrade %+v, %v", u, err)
	}
	<-reasons // it may plan otherwise
	if plan, err := p.Plan(soon(t), situation); err != nil || plan != situation.Default {
		t.Errorf("after the upgrade: %+v, %v", plan, err)
	}
}

func TestPlannerThatTakesNoPressureKeepsThePlanInForce(t *testing.T) {
	cfg := pluginhost.IOCtxConfig{ControlConfig: controlConfig(make(states, 16), "ioctx")}
	cfg.Config = map[string]string{"mute": ""}
	p, err := pluginhost.StartIOCtx(soon(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	in := ioctx.Plan{Credits: 9}
	if plan, err := p.Replan(context.Background(), ioctx.Situation{InForce: in}, ioctx.Pressure{}); err != nil || plan != in {
		t.Errorf("%+v, %v", plan, err)
	}
}
