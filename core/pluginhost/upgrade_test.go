package pluginhost_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// another makes an executable that is the test plugin, with something wrong.
func another(t *testing.T, how string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "new-plugin")
	script := fmt.Sprintf("#!/bin/sh\nexec %s %s\n", testPlugin, how)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// upgrading is an upgrade under way.
type upgrading struct {
	report pluginhost.Upgrade
	err    error
	done   chan struct{}
}

func upgrade(t *testing.T, f fixture, o pluginhost.UpgradeOptions) *upgrading {
	ctx := soon(t)
	u := &upgrading{done: make(chan struct{})}
	go func() {
		u.report, u.err = f.Upgrade(ctx, o)
		close(u.done)
	}()
	return u
}

// gone waits until a process is no more.
func gone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); os.IsNotExist(err) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}

func TestUpgradeUnderLoadLosesNothing(t *testing.T) {
	for _, slow := range []bool{false, true} {
		t.Run(fmt.Sprintf("slow %v", slow), func(t *testing.T) {
			f := start(t, func(c *pluginhost.Config) { c.Slow = slow })
			q := open(t, f, host.QueueOptions{Entries: 32, Hold: patience}, map[string]string{})
			w := newWorkload(q, f.arena)
			w.run(t, 100, func(int) {})
			for n := range 5 {
				before, path := f.Status(), another(t, "")
				u := upgrade(t, f, pluginhost.UpgradeOptions{Path: path, Step: patience})
				w.runUntil(t, u.done)
				if u.err != nil {
					t.Fatal(u.err)
				}
				after, r := f.Status(), u.report
				if r.Old != (pluginhost.Version{Path: before.Path, PID: before.PID, About: before.About}) ||
					r.New != (pluginhost.Version{Path: path, PID: after.PID, About: after.About}) || r.New.PID == r.Old.PID {
					t.Fatalf("%+v, from %+v to %+v", r, before, after)
				}
				pause, waited := r.Worst()
				if len(r.Pauses) != 1 || pause <= 0 || after.State != pluginhost.StateRunning || after.Restarts != 0 || after.Waiting != 0 {
					t.Fatalf("%+v, %+v", r, after)
				}
				t.Logf("upgrade %d: a pause of %v for %d requests", n, pause, waited)
				gone(t, r.Old.PID)
			}
			if c := q.Counters(); c.Attached != 6 || c.Resent != 0 || c.Expired != 0 || c.Held == 0 {
				t.Errorf("counters %+v", c)
			}
			if f.arena.Lifted() == 0 || f.arena.Tainted(f.arena.Bytes()) {
				t.Error("something is tainted")
			}
		})
	}
}

func TestUpgradeThatFailsLeavesTheOldProcessServing(t *testing.T) {
	for _, c := range []struct {
		name, how, path string
		want            error
		text            string
		attached        uint64
	}{
		{"there is no such file", "", "/no/such/plugin", nil, "nothing was changed", 1},
		{"ends at once", "exit", "", nil, "nothing was changed", 1},
		{"never shakes hands", "mute", "", nil, "nothing was changed", 1},
		{"is no backstore", "", testControl, nil, "nothing was changed", 1},
		{"opens nothing", "no-open", "", pluginhost.ErrRolledBack, "this plugin opens nothing", 2},
		{"dies when it opens", "die-open", "", pluginhost.ErrRolledBack, "", 2},
		{"hangs when it opens", "hang-open", "", pluginhost.ErrRolledBack, "DeadlineExceeded", 2},
		{"has another store", "other-store", "", pluginhost.ErrRolledBack, pluginhost.ErrChanged.Error(), 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t, func(cfg *pluginhost.Config) {
				if c.how == "mute" {
					cfg.Ready = 2 * time.Second
				}
			})
			q := open(t, f, host.QueueOptions{Entries: 32, Hold: patience}, map[string]string{})
			w := newWorkload(q, f.arena)
			w.run(t, 100, func(int) {})
			before := f.Status()
			if c.path == "" {
				c.path = another(t, c.how)
			}
			o := pluginhost.UpgradeOptions{Path: c.path, Step: patience}
			if c.how == "hang-open" {
				o.Step = time.Second
			}
			u := upgrade(t, f, o)
			w.runUntil(t, u.done)
			w.run(t, 200, func(int) {})
			if u.err == nil || (c.want != nil && !errors.Is(u.err, c.want)) || !strings.Contains(u.err.Error(), c.text) {
				t.Errorf("error %v, want %v with %q", u.err, c.want, c.text)
			}
			if s := f.Status(); s.PID != before.PID || s.Path != before.Path || s.State != pluginhost.StateRunning || s.Waiting != 0 || s.Restarts != 0 {
				t.Errorf("%+v, was %+v", s, before)
			}
			if n := q.Counters(); n.Expired != 0 || n.Attached != c.attached {
				t.Errorf("counters %+v", n)
			}
			kill(t, before.PID)
			w.run(t, 200, func(int) {})
			if s := f.Status(); s.Path != before.Path {
				t.Errorf("the restart is of %s", s.Path)
			}
		})
	}
}

// gated is a plugin whose requests wait while a file is there.
func gated(t *testing.T) (f fixture, q *host.Queue, gate string) {
	t.Helper()
	f = start(t, nil)
	gate = filepath.Join(t.TempDir(), "gate")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	q = open(t, f, host.QueueOptions{Entries: 32, Hold: patience}, map[string]string{"gate": gate})
	q.Submit([]backstore.Request{{Tag: 0, Op: backstore.OpWrite, Data: f.arena.Bytes()[:4096]}})
	q.Flush()
	return f, q, gate
}

// held submits flushes until one is held, and returns how many requests are outstanding then.
func held(t *testing.T, q *host.Queue) int {
	t.Helper()
	n := 1
	for end := time.Now().Add(patience); q.Counters().Held == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing is held")
		}
		n += q.Submit([]backstore.Request{{Tag: uint64(n), Op: backstore.OpFlush}})
		q.Flush()
		if got := q.Poll(make([]backstore.Result, 4)); got != 0 {
			t.Fatal("a request was answered")
		}
		if n > 30 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	return n
}

func finish(t *testing.T, q *host.Queue, n int) {
	t.Helper()
	res := make([]backstore.Result, 8)
	for n > 0 {
		got := turn(t, q, res)
		for _, r := range res[:got] {
			if r.Code != backstore.CodeOK {
				t.Errorf("request %d: %v", r.Tag, r.Code)
			}
		}
		n -= got
	}
}

func TestOldProcessDiesWhileItsRequestsAreWaitedFor(t *testing.T) {
	f, q, gate := gated(t)
	old := f.Status().PID
	u := upgrade(t, f, pluginhost.UpgradeOptions{Path: another(t, ""), Step: patience})
	n := held(t, q)
	kill(t, old)
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	finish(t, q, n)
	<-u.done
	if s := f.Status(); u.err != nil || s.PID != u.report.New.PID || s.Restarts != 0 {
		t.Errorf("%+v, %v; %+v", u.report, u.err, s)
	}
	if c := q.Counters(); c.Resent == 0 {
		t.Errorf("counters %+v", c)
	}
}

func TestUpgradeGivesUpWhenTheOldProcessDoesNotEndItsRequests(t *testing.T) {
	for _, state := range []string{"slow", "stopped"} {
		t.Run(state, func(t *testing.T) {
			f, q, gate := gated(t)
			old := f.Status().PID
			if state == "stopped" {
				stop(t, old)
			}
			u := upgrade(t, f, pluginhost.UpgradeOptions{Path: another(t, ""), Step: time.Second})
			n := held(t, q)
			<-u.done
			if !errors.Is(u.err, pluginhost.ErrQuiesce) {
				t.Errorf("error %v, want ErrQuiesce", u.err)
			}
			if err := errors.Join(os.Remove(gate), syscall.Kill(old, syscall.SIGCONT)); err != nil {
				t.Fatal(err)
			}
			finish(t, q, n)
			if s := f.Status(); s.PID != old || s.Restarts != 0 {
				t.Errorf("%+v", s)
			}
			if c := q.Counters(); c.Resent != 0 || c.Attached != 1 {
				t.Errorf("counters %+v", c)
			}
		})
	}
}

// The old one closes its store for longer than the upgrade waits: it is killed, and the new one's Open waits for its end.
func TestOldProcessThatDoesNotLetGoIsKilled(t *testing.T) {
	f := start(t, func(c *pluginhost.Config) { c.Stop = 100 * time.Millisecond })
	q := open(t, f, host.QueueOptions{Entries: 32, Hold: patience}, map[string]string{"close-delay": "1h"})
	w := newWorkload(q, f.arena)
	w.run(t, 100, func(int) {})
	u := upgrade(t, f, pluginhost.UpgradeOptions{Path: another(t, ""), Step: time.Second})
	w.runUntil(t, u.done)
	w.run(t, 200, func(int) {})
	if s := f.Status(); u.err != nil || s.PID != u.report.New.PID || s.Restarts != 0 {
		t.Errorf("%+v, %v; %+v", u.report, u.err, s)
	}
	gone(t, u.report.Old.PID)
}

func TestSecondUpgradeAtOnceIsRefused(t *testing.T) {
	f, q, gate := gated(t)
	u := upgrade(t, f, pluginhost.UpgradeOptions{Path: another(t, ""), Step: patience})
	n := held(t, q)
	if _, err := f.Upgrade(soon(t), pluginhost.UpgradeOptions{}); !errors.Is(err, pluginhost.ErrUpgrading) {
		t.Errorf("error %v, want ErrUpgrading", err)
	}
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	finish(t, q, n)
	<-u.done
	if u.err != nil {
		t.Error(u.err)
	}
	if _, err := f.Upgrade(soon(t), pluginhost.UpgradeOptions{Path: another(t, "exit")}); err == nil || errors.Is(err, pluginhost.ErrUpgrading) {
		t.Errorf("a later one: %v", err)
	}
}

func TestNewProcessThatDiesAfterTheHandOverIsRestarted(t *testing.T) {
	f := start(t, nil)
	q := open(t, f, host.QueueOptions{Entries: 32, Hold: patience}, map[string]string{})
	w := newWorkload(q, f.arena)
	path := another(t, "")
	u := upgrade(t, f, pluginhost.UpgradeOptions{Path: path, Step: patience})
	w.runUntil(t, u.done)
	if u.err != nil {
		t.Fatal(u.err)
	}
	kill(t, u.report.New.PID)
	f.until(t, pluginhost.StateStarting) // of the restart: an upgrade has no such state
	w.run(t, 400, func(int) {})
	if s := f.Status(); s.Path != path || s.Restarts != 1 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
	// The configured one comes back when it is asked for.
	u = upgrade(t, f, pluginhost.UpgradeOptions{Step: patience})
	w.runUntil(t, u.done)
	if s := f.Status(); u.err != nil || s.Path != testPlugin || u.report.New.Path != testPlugin {
		t.Errorf("%v, %+v, %+v", u.err, u.report, s)
	}
}

func TestUpgradeMendsAPluginThatIsDown(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "plugin")
	if err := os.Symlink(testPlugin, link); err != nil {
		t.Fatal(err)
	}
	f := start(t, func(c *pluginhost.Config) {
		c.Path, c.BackoffMin, c.BackoffMax = link, time.Hour, time.Hour
	})
	q := open(t, f, host.QueueOptions{Hold: patience}, map[string]string{})
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	kill(t, f.Status().PID)
	for !strings.Contains(f.until(t, pluginhost.StateDown).LastError, "no such file") {
	}
	u, err := f.Upgrade(soon(t), pluginhost.UpgradeOptions{Path: testPlugin})
	if err != nil || u.Old != (pluginhost.Version{}) || u.New.PID != f.Status().PID {
		t.Errorf("%+v, %v", u, err)
	}
	if c := one(t, q, backstore.Request{Op: backstore.OpFlush}); c != backstore.CodeOK {
		t.Errorf("flush: %v", c)
	}
}

func TestCloseEndsAnUpgradeAndLeavesNoProcess(t *testing.T) {
	f, q, _ := gated(t)
	old := f.Status().PID
	u := upgrade(t, f, pluginhost.UpgradeOptions{Path: another(t, "hang-open"), Step: patience})
	held(t, q)
	kill(t, old) // so that the new one is asked to open, and hangs
	time.Sleep(50 * time.Millisecond)
	q.Poll(nil) // reads the news of the death; then nobody calls the queue any more
	f.Close()
	<-u.done
	if !errors.Is(u.err, pluginhost.ErrClosed) {
		t.Errorf("error %v, want ErrClosed", u.err)
	}
	if s := f.Status(); s.State != pluginhost.StateClosed || s.PID != 0 {
		t.Errorf("%+v", s)
	}
	if _, err := f.Upgrade(soon(t), pluginhost.UpgradeOptions{}); !errors.Is(err, pluginhost.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestUpgradeTakesEveryStoreAlong(t *testing.T) {
	f := start(t, nil)
	var qs []*host.Queue
	for range 3 {
		qs = append(qs, open(t, f, host.QueueOptions{Hold: patience}, map[string]string{}))
	}
	ctx, cancel := context.WithCancel(soon(t))
	polled := make(chan struct{})
	go func() { // as a reactor does
		defer close(polled)
		for ctx.Err() == nil {
			for _, q := range qs {
				q.Poll(nil)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	r, err := f.Upgrade(soon(t), pluginhost.UpgradeOptions{Path: another(t, ""), Step: patience})
	cancel()
	<-polled
	if err != nil || len(r.Pauses) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, q := range qs {
		if c := one(t, q, backstore.Request{Op: backstore.OpFlush}); c != backstore.CodeOK {
			t.Errorf("flush: %v", c)
		}
	}
}

func TestUpgradedAuthPluginAnswersWhatItWasAskedAndEverybodyIsAskedAbout(t *testing.T) {
	f := startAuth(t, nil)
	old := f.Status().PID
	hangs := make(chan error, 1)
	ctx := soon(t)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := f.Decide(ctx, login(4))
		hangs <- err
	}()
	time.Sleep(100 * time.Millisecond) // so that it is asked; if not, the test shows less
	r, err := f.Upgrade(soon(t), pluginhost.UpgradeOptions{})
	if err != nil || r.Old.PID != old || r.New.PID != f.Status().PID || r.New.PID == old {
		t.Fatalf("%+v, %v", r, err)
	}
	if d, err := f.Decide(soon(t), login(1)); err != nil || !d.Allow {
		t.Errorf("%+v, %v", d, err)
	}
	if c := <-f.changes; c.Revoke || len(c.Initiators) != 0 {
		t.Errorf("change %+v", c)
	}
	if err := <-hangs; err == nil || strings.Contains(err.Error(), "Unavailable") {
		t.Errorf("the question to the old process was cut off: %v", err)
	}
	gone(t, old)
	if _, err := f.Upgrade(soon(t), pluginhost.UpgradeOptions{Path: "/bin/true"}); err == nil || f.Status().PID != r.New.PID {
		t.Errorf("/bin/true: %v, %+v", err, f.Status())
	}
	kill(t, r.New.PID)
	f.until(t, pluginhost.StateDown)
	f.until(t, pluginhost.StateRunning)
	if s := f.Status(); s.Restarts != 1 {
		t.Errorf("%+v", s)
	}
}
