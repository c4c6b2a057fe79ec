package host_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

func await(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
	}
}

func TestDeathEndsOutstandingRequestsWithAnAnswerToRetry(t *testing.T) {
	a := newArena(t, 1<<20)
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			p := start(t, a, func(o *host.Options) { o.Slow = way.slow })
			config := map[string]string{"delay": "1h"}
			for k, v := range way.config {
				config[k] = v
			}
			q := queue(t, open(t, p, config), host.QueueOptions{Entries: 8})
			var reqs []backstore.Request
			for i := range 8 {
				reqs = append(reqs, backstore.Request{Tag: uint64(i), Op: backstore.OpRead, Data: a.Bytes()[i*4096 : i*4096+512]})
			}
			q.Submit(reqs)
			q.Flush()
			if n := q.Poll(make([]backstore.Result, 8)); n != 0 {
				t.Fatalf("%d results before the death", n)
			}
			p.Kill()
			for tag, c := range collect(t, q, 8) {
				if c != backstore.CodeUnavailable {
					t.Errorf("request %d: %v, want %v", tag, c, backstore.CodeUnavailable)
				}
			}
			await(t, p.Dead(), "death")
			if !strings.Contains(p.Ending(), "killed") {
				t.Errorf("ending %q", p.Ending())
			}
		})
	}
}

func TestQueueCarriesItsRequestsToTheNextProcess(t *testing.T) {
	a := newArena(t, 1<<20)
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store")
			config := map[string]string{"path": path, "mode": way.config["mode"]}
			slow := func(o *host.Options) { o.Slow = way.slow }
			first := start(t, a, slow)
			config["delay"] = "1h"
			q := queue(t, open(t, first, config), host.QueueOptions{Entries: 8, Hold: patience})
			data := a.Bytes()[:512]
			copy(data, "carried over")
			q.Submit([]backstore.Request{{Tag: 1, Op: backstore.OpWrite, Off: 512, Data: data}})
			q.Flush()
			if err := open(t, start(t, a, slow), map[string]string{"path": path + "2"}).Attach(soon(t), q); err == nil {
				t.Fatal("a queue was attached to two processes")
			}
			first.Kill()
			await(t, first.Dead(), "death")
			q.Submit([]backstore.Request{{Tag: 2, Op: backstore.OpFlush}})
			q.Flush()
			delete(config, "delay")
			if err := open(t, start(t, a, slow), config).Attach(soon(t), q); err != nil {
				t.Fatal(err)
			}
			for tag, c := range collect(t, q, 2) {
				if c != backstore.CodeOK {
					t.Errorf("request %d: %v", tag, c)
				}
			}
			clear(data)
			if c := one(t, q, backstore.Request{Tag: 3, Op: backstore.OpRead, Off: 512, Data: data}); c != backstore.CodeOK {
				t.Fatalf("read: %v", c)
			}
			if !bytes.HasPrefix(data, []byte("carried over")) {
				t.Errorf("read %q", data[:12])
			}
			if c := q.Counters(); c.Attached != 2 || c.Resent != 1 || c.Expired != 0 {
				t.Errorf("counters %+v", c)
			}
		})
	}
}

// A plugin's child that holds its output open must not delay the news of its death.
func TestDeathIsNoticedAtOnceDespiteAChild(t *testing.T) {
	a := newArena(t, 4096)
	p := start(t, a, func(o *host.Options) { o.Args = []string{"child"} })
	began := time.Now()
	p.Kill()
	await(t, p.Dead(), "death")
	p.Close(soon(t))
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("it took %v; the child sleeps for 30 seconds", d)
	}
}

func TestStoppedProcessIsKilledAtTheDeadlineOfClose(t *testing.T) {
	a := newArena(t, 4096)
	p := start(t, a, nil)
	stop(t, p.PID())
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := p.Health(ctx); err == nil {
		t.Error("a stopped process is well")
	}
	p.Close(ctx)
	await(t, p.Dead(), "death")
}

func TestOrderlyEndsCloseTheStoresHoweverLongItTakes(t *testing.T) {
	for name, end := range map[string]func(*host.Process){
		"close": func(p *host.Process) { p.Close(soon(t)) },
		// A service manager that ends the daemon signals every process of it.
		"SIGTERM first": func(p *host.Process) {
			if err := syscall.Kill(p.PID(), syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			p.Close(soon(t))
		},
	} {
		p := start(t, newArena(t, 4096), nil)
		path := filepath.Join(t.TempDir(), "store")
		open(t, p, map[string]string{"path": path, "close-delay": "2500ms"})
		end(p)
		if _, err := os.Stat(path + ".closed"); err != nil {
			t.Errorf("%s: the store was not closed: %v", name, err)
		}
		if p.Ending() != "exit status 0" {
			t.Errorf("%s: ending %q", name, p.Ending())
		}
	}
}

// TestKilledHostLeavesNoOrphan kills a process that has started a plugin, as the operator's kill -9 does.
//
// running, stopped   the plugin dies
// child              a child of the plugin in its process group dies
// child-apart        a child that has left the group dies in a PID namespace
// launched           a plugin of another user dies although there is no warden
// closed stdin       a host without a standard input is as any other
func TestKilledHostLeavesNoOrphan(t *testing.T) {
	for _, state := range []string{"running", "stopped", "child", "child-apart", "launched", "closed stdin"} {
		t.Run(state, func(t *testing.T) {
			if (state == "child-apart" || state == "launched") && os.Geteuid() != 0 {
				t.Skip("only root can make a PID namespace, or a process of another user")
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestHelperDaemon$", "-test.v")
			if state == "closed stdin" {
				cmd = exec.Command("/bin/sh", "-c", `exec "$0" "$@" <&-`, os.Args[0], "-test.run=^TestHelperDaemon$", "-test.v")
			}
			// What a killed host cannot remove, the test does. A long path would not be used.
			tmp, err := os.MkdirTemp("/tmp", "host")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(tmp)
			if err := os.Chmod(tmp, 0o755); err != nil { // another user must get through
				t.Fatal(err)
			}
			cmd.Env = append(os.Environ(), "HOST_TEST_BUILT="+filepath.Dir(testPlugin), "HOST_TEST_DAEMON="+state, "TMPDIR="+tmp)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pid := 0
			for s := bufio.NewScanner(out); pid == 0 && s.Scan(); {
				if v, ok := strings.CutPrefix(s.Text(), "plugin pid "); ok {
					pid, _ = strconv.Atoi(v)
				}
			}
			if pid == 0 {
				t.Fatal("the helper printed no pid")
			}
			if state == "stopped" {
				stop(t, pid)
			}
			family := descendants(t, cmd.Process.Pid)
			if strings.HasPrefix(state, "child") && len(family) != 3 { // the warden, the plugin, its child
				t.Fatalf("the host has the descendants %v", family)
			}
			for _, other := range family {
				if state == "launched" && other != pid {
					if err := syscall.Kill(other, syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			end := time.Now().Add(patience)
			for _, pid := range family {
				for alive(pid) {
					if time.Now().After(end) {
						t.Fatalf("process %d is still there", pid)
					}
					time.Sleep(5 * time.Millisecond)
				}
			}
			if state == "launched" {
				return
			}
			if left, _ := filepath.Glob(filepath.Join(tmp, "gosrpt-plugin-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// descendants are a process's children and theirs.
func descendants(t testing.TB, pid int) []int {
	t.Helper()
	all := processes(t)
	found := []int{pid}
	for i := 0; i < len(found); i++ {
		for _, p := range all {
			if p.parent == found[i] {
				found = append(found, p.pid)
			}
		}
	}
	return found[1:]
}

// TestChildrenDieWithTheirPlugin: those in its process group always, others in a PID namespace.
func TestChildrenDieWithTheirPlugin(t *testing.T) {
	for _, how := range []string{"child", "child-apart"} {
		if how == "child-apart" && os.Geteuid() != 0 {
			t.Log("child-apart: only root can make a PID namespace")
			continue
		}
		p := start(t, newArena(t, 4096), func(o *host.Options) {
			o.Args, o.Isolation.PIDNamespace = []string{how}, how == "child-apart"
		})
		children := descendants(t, p.PID())
		if len(children) != 1 {
			t.Fatalf("%s: the plugin has the descendants %v", how, children)
		}
		if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil { // a crash: it is not the host that kills
			t.Fatal(err)
		}
		await(t, p.Dead(), "death")
		for end := time.Now().Add(patience); alive(children[0]); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: the child %d is still there", how, children[0])
			}
		}
	}
}

// alive tells whether a process runs; a zombie, which waits for its new parent, does not.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := bytes.Cut(b, []byte(") "))
	return len(after) == 0 || after[0] != 'Z'
}

// TestHelperDaemon is not a test: TestKilledHostLeavesNoOrphan runs it in a process of its own.
func TestHelperDaemon(t *testing.T) {
	if os.Getenv("HOST_TEST_DAEMON") == "" {
		t.Skip("only run by TestKilledHostLeavesNoOrphan")
	}
	p := start(t, newArena(t, 4096), func(o *host.Options) {
		if how := os.Getenv("HOST_TEST_DAEMON"); strings.HasPrefix(how, "child") {
			o.Args, o.Isolation.PIDNamespace = []string{how}, how == "child-apart"
		}
		if os.Getenv("HOST_TEST_DAEMON") == "launched" {
			f, err := os.Open(testPlugin)
			if err != nil {
				t.Fatal(err)
			}
			o.File, o.Isolation.User = f, &host.User{UID: 65534, GID: 65534}
		}
	})
	fmt.Printf("plugin pid %d\n", p.PID())
	<-p.Dead() // the test kills this process first
}

func TestHostilePluginNeverHurtsTheHost(t *testing.T) {
	a := newArena(t, 1<<20)
	for seed := range 6 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := start(t, a, func(o *host.Options) { o.Args = []string{"hostile", fmt.Sprint(seed)} })
			q := queue(t, open(t, p, nil), host.QueueOptions{Entries: 16})
			res := make([]backstore.Result, 16)
			out := map[uint64]bool{}
			took := func(n int) {
				for _, r := range res[:n] {
					if !out[r.Tag] {
						t.Fatalf("a result of nothing: %+v", r)
					}
					if miscompare := r.Code == backstore.CodeMiscompare; miscompare && (r.Tag%2 == 0 || r.At >= 512) || !miscompare && r.At != 0 {
						t.Errorf("an impossible difference: %+v", r)
					}
					delete(out, r.Tag)
				}
			}
			end := time.Now().Add(2 * time.Second)
			fault := false
			for tag := uint64(0); time.Now().Before(end) && !fault; tag++ {
				r := backstore.Request{Tag: tag, Op: backstore.OpRead, Data: a.Bytes()[:512]}
				if tag%2 == 1 {
					r.Op, r.Data = backstore.OpCompareAndWrite, a.Bytes()[:1024]
				}
				if q.Submit([]backstore.Request{r}) == 1 {
					out[tag] = true
				}
				q.Flush()
				took(q.Poll(res))
				select {
				case err := <-p.Faults():
					t.Logf("seed %d: %v", seed, err)
					fault = true
				default:
				}
			}
			p.Kill()
			await(t, p.Dead(), "death")
			for stop := time.Now().Add(patience); len(out) > 0; {
				took(q.Poll(res))
				if time.Now().After(stop) {
					t.Fatalf("%d requests have no result after the death", len(out))
				}
			}
		})
	}
}

// A ring of a full doorbell that blocks holds up whoever rings: other queues, too, so it must end soon.
func TestPluginThatMakesItsDoorbellBlockIsFoundOut(t *testing.T) {
	a := newArena(t, 1<<20)
	p := start(t, a, func(o *host.Options) { o.Args = []string{"hostile", "jam"} })
	q := queue(t, open(t, p, nil), host.QueueOptions{Entries: 4096})
	found := make(chan error, 1)
	go func() {
		select {
		case err := <-p.Faults():
			found <- err
		case <-time.After(patience):
			found <- nil
		}
		p.Kill() // or a ring may wait for ever
	}()
	var longest time.Duration
	for tag := uint64(0); ; tag++ {
		select {
		case err := <-found:
			if !errors.Is(err, host.ErrBell) {
				t.Errorf("fault %v, want %v", err, host.ErrBell)
			}
			t.Logf("the longest ring took %v", longest)
			return
		default:
		}
		q.Submit([]backstore.Request{{Tag: tag, Op: backstore.OpFlush}})
		begin := time.Now()
		q.Flush()
		longest = max(longest, time.Since(begin))
		time.Sleep(time.Millisecond) // there are only so many places in the queue to ring for
	}
}

func TestBadStartsExplainThemselves(t *testing.T) {
	a := newArena(t, 4096)
	for _, c := range []struct {
		name, path, arg, want string
	}{
		{"no such file", "/no/such/plugin", "", "no such file"},
		{"not a plugin", "/bin/true", "", "/bin/true"},
		{"ends at once", testPlugin, "exit", testPlugin},
	} {
		_, err := host.Start(soon(t), host.Options{
			Path: c.path, Args: []string{c.arg}, Arena: a, Log: hclog.NewNullLogger(),
		})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := host.Start(ctx, host.Options{Path: testPlugin, Args: []string{"mute"}, Arena: a, Log: hclog.NewNullLogger()})
	if err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("a mute plugin: %v after %v", err, time.Since(began))
	}
}

func TestNoiseOnStdoutIsTolerated(t *testing.T) {
	a := newArena(t, 1<<20)
	for _, how := range []string{"noisy", "noisy-after"} {
		t.Run(how, func(t *testing.T) {
			p := start(t, a, func(o *host.Options) { o.Args = []string{how} })
			q := queue(t, open(t, p, nil), host.QueueOptions{})
			end := time.Now().Add(300 * time.Millisecond)
			for time.Now().Before(end) {
				if c := one(t, q, backstore.Request{Op: backstore.OpFlush}); c != backstore.CodeOK {
					t.Fatalf("flush: %v", c)
				}
			}
		})
	}
}

func TestEnvironmentIsWhatWasGivenAndTheDirectoryIsRemoved(t *testing.T) {
	t.Setenv("HOST_TEST_SECRET", "do not pass on")
	p := start(t, newArena(t, 4096), func(o *host.Options) { o.Env = []string{"GIVEN=yes"} })
	env := strings.Split(open(t, p, map[string]string{"environment": "true"}).Info().Serial, "\n")
	var dir string
	given := false
	for _, e := range env {
		k, v, _ := strings.Cut(e, "=")
		switch k {
		case "TMPDIR":
			dir = v
		case "HOST_TEST_SECRET", "PATH", "HOME":
			t.Errorf("the plugin got %s", e)
		case "GIVEN":
			given = v == "yes"
		}
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() || st.Mode().Perm() != 0o700 || !given {
		t.Errorf("TMPDIR %q: %v, GIVEN %v", dir, err, given)
	}
	p.Kill()
	p.Close(soon(t))
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory of a dead plugin is still there: %v", err)
	}
}

// stop stops a process and returns when each of its threads has stopped, which takes a moment.
func stop(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); !stopped(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d does not stop", pid)
		}
	}
}

func stopped(pid int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		_, after, _ := bytes.Cut(b, []byte(") "))
		if err == nil && !bytes.HasPrefix(after, []byte("T")) {
			return false
		}
	}
	return len(tasks) > 0
}
