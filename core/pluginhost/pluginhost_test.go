package pluginhost_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/core/store"
	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// A supervised queue is what the core's guard stands before.
var _ store.Backend = (*host.Queue)(nil)

var testPlugin, testControl string

func TestMain(m *testing.M) {
	pluginhost.RunLauncher()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gosrpt-pluginhost-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	testPlugin, testControl = filepath.Join(dir, "testplugin"), filepath.Join(dir, "testcontrol")
	build := exec.Command("go", "build", "-o", dir, "github.com/gosrpt/gosrpt/sdk/internal/testplugin",
		"github.com/gosrpt/gosrpt/sdk/internal/testcontrol")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the test plugins: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

const patience = 30 * time.Second

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

type fixture struct {
	*pluginhost.Plugin
	arena  *host.Arena
	states chan pluginhost.Status
}

func start(t testing.TB, change func(*pluginhost.Config)) fixture {
	t.Helper()
	a, err := host.NewArena(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	level := hclog.Off
	if testing.Verbose() {
		level = hclog.Info
	}
	f := fixture{arena: a, states: make(chan pluginhost.Status, 256)}
	cfg := pluginhost.Config{
		Name: "test", Path: testPlugin, Arena: a, Stop: 5 * time.Second,
		Log:      hclog.New(&hclog.LoggerOptions{Level: level, Output: os.Stderr}),
		OnChange: func(s pluginhost.Status) { f.states <- s },
	}
	if change != nil {
		change(&cfg)
	}
	if f.Plugin, err = pluginhost.Start(soon(t), cfg); err != nil {
		a.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		a.Close()
	})
	return f
}

// until waits for a state.
func (f fixture) until(t testing.TB, want pluginhost.State) pluginhost.Status {
	t.Helper()
	end := time.After(patience)
	for {
		select {
		case s := <-f.states:
			if s.State == want {
				return s
			}
		case <-end:
			t.Fatalf("never %v; now %+v", want, f.Status())
		}
	}
}

func open(t testing.TB, f fixture, o host.QueueOptions, config map[string]string) *host.Queue {
	t.Helper()
	if config["path"] == "" {
		config["path"] = filepath.Join(t.TempDir(), "store")
	}
	s, err := f.Open(soon(t), config)
	if err != nil {
		t.Fatal(err)
	}
	q, err := s.NewQueue(soon(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// turn does what a reactor does once: poll, and if there is nothing, sleep.
func turn(t testing.TB, q *host.Queue, res []backstore.Result) int {
	t.Helper()
	n := q.Poll(res)
	if n > 0 || !q.Arm() {
		return n
	}
	ms := int(patience.Milliseconds())
	if d := q.Deadline(); !d.IsZero() {
		ms = int(max(time.Until(d).Milliseconds()+1, 0))
	}
	k, err := unix.Poll([]unix.PollFd{{Fd: int32(q.FD()), Events: unix.POLLIN}}, ms)
	if err != nil && !errors.Is(err, unix.EINTR) {
		t.Fatal(err)
	}
	if k == 0 && q.Deadline().IsZero() {
		t.Fatal("no result in time")
	}
	return 0
}

func one(t testing.TB, q *host.Queue, r backstore.Request) backstore.Code {
	t.Helper()
	if n := q.Submit([]backstore.Request{r}); n != 1 {
		t.Fatalf("Submit took %d", n)
	}
	q.Flush()
	res := make([]backstore.Result, 4)
	for {
		switch n := turn(t, q, res); {
		case n > 1:
			t.Fatalf("%d results of one request", n)
		case n == 1:
			return res[0].Code
		}
	}
}

func TestStoreAndQueueSurviveTheProcess(t *testing.T) {
	f := start(t, nil)
	q := open(t, f, host.QueueOptions{Hold: patience}, map[string]string{})
	data := f.arena.Bytes()[:4096]
	copy(data, bytes.Repeat([]byte("before  "), 512))
	if c := one(t, q, backstore.Request{Op: backstore.OpWrite, Data: data}); c != backstore.CodeOK {
		t.Fatalf("write: %v", c)
	}
	first := f.Status().PID
	kill(t, first)
	clear(data)
	if c := one(t, q, backstore.Request{Op: backstore.OpRead, Data: data}); c != backstore.CodeOK {
		t.Fatalf("read over the restart: %v", c)
	}
	if !bytes.HasPrefix(data, []byte("before")) {
		t.Errorf("read %q", data[:8])
	}
	f.until(t, pluginhost.StateDown)
	if s := f.until(t, pluginhost.StateRunning); s.Restarts != 1 || s.PID == first || s.LastError == "" || s.Waiting != 0 {
		t.Errorf("status %+v", s)
	}
}

// The plugin ends itself in the middle of a write, as a crash does, and then again at each try: every time
// the queue sends the write to the next process, until the bound.
func TestRequestThatKillsThePluginFailsAtTheBound(t *testing.T) {
	f := start(t, nil)
	q := open(t, f, host.QueueOptions{Hold: time.Second}, map[string]string{})
	data := f.arena.Bytes()[:4096]
	copy(data, "EXIT")
	done := one(t, q, backstore.Request{Op: backstore.OpWrite, Data: data})
	if done != backstore.CodeUnavailable {
		t.Errorf("code %v, want %v", done, backstore.CodeUnavailable)
	}
	if c := q.Counters(); c.Resent == 0 || c.Expired != 1 {
		t.Errorf("counters %+v", c)
	}
}

func TestKillsUnderLoadLoseAndDoubleNothing(t *testing.T) {
	for _, mode := range []string{"call", "submit"} {
		t.Run(mode, func(t *testing.T) {
			f := start(t, func(c *pluginhost.Config) { c.BackoffMax = time.Millisecond; c.BackoffMin = time.Millisecond })
			q := open(t, f, host.QueueOptions{Entries: 32, Hold: patience}, map[string]string{"mode": mode})
			w := newWorkload(q, f.arena)
			for range 8 {
				pid := f.Status().PID
				w.run(t, 400, func(step int) {
					if step == 200 {
						kill(t, pid)
					}
				})
				f.until(t, pluginhost.StateStarting)
				f.until(t, pluginhost.StateRunning)
			}
			w.run(t, 0, nil)
			if c := q.Counters(); c.Attached != 9 || c.Expired != 0 {
				t.Errorf("counters %+v", c)
			}
		})
	}
}

func TestHangingPluginIsKilledAndReplaced(t *testing.T) {
	f := start(t, func(c *pluginhost.Config) { c.Hang = 2 * time.Second })
	q := open(t, f, host.QueueOptions{Hold: patience}, map[string]string{})
	pid := f.Status().PID
	stop(t, pid)
	if c := one(t, q, backstore.Request{Op: backstore.OpFlush}); c != backstore.CodeOK {
		t.Errorf("flush: %v", c)
	}
	if s := f.Status(); s.PID == pid || s.Restarts != 1 {
		t.Errorf("status %+v", s)
	}
}

func TestMissingExecutableBacksOffAndRequestsExpire(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "plugin")
	if err := os.Symlink(testPlugin, link); err != nil {
		t.Fatal(err)
	}
	f := start(t, func(c *pluginhost.Config) {
		c.Resolve = func() (string, error) { return pluginhost.Find([]string{dir}, "plugin") }
	})
	q := open(t, f, host.QueueOptions{Hold: 300 * time.Millisecond}, map[string]string{})
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	kill(t, f.Status().PID)
	f.until(t, pluginhost.StateDown)
	if c := one(t, q, backstore.Request{Op: backstore.OpFlush}); c != backstore.CodeUnavailable {
		t.Errorf("without a plugin: %v, want %v", c, backstore.CodeUnavailable)
	}
	if _, err := f.Open(soon(t), map[string]string{}); !errors.Is(err, pluginhost.ErrDown) {
		t.Errorf("Open without a process: %v, want ErrDown", err)
	}
	if err := os.Symlink(testPlugin, link); err != nil {
		t.Fatal(err)
	}
	f.until(t, pluginhost.StateRunning)
	if c := one(t, q, backstore.Request{Op: backstore.OpFlush}); c != backstore.CodeOK {
		t.Errorf("with a plugin again: %v", c)
	}
}

// The new process must not serve a store that something of the old one can still write to.
func TestRestartWaitsForTheFence(t *testing.T) {
	f := start(t, nil)
	path := filepath.Join(t.TempDir(), "store")
	q := open(t, f, host.QueueOptions{Hold: patience}, map[string]string{"path": path})
	old, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	locked := make(chan error, 1)
	go func() { locked <- unix.Flock(int(old.Fd()), unix.LOCK_EX) }()
	first := f.Status().PID
	for first == f.Status().PID || len(locked) == 0 { // who gets the lock first is a race: this test must
		kill(t, f.Status().PID)
		select {
		case err := <-locked:
			locked <- err
		case <-time.After(20 * time.Millisecond):
		}
	}
	q.Submit([]backstore.Request{{Tag: 5, Op: backstore.OpFlush}})
	q.Flush()
	res := make([]backstore.Result, 1)
	for range 20 {
		if n := q.Poll(res); n != 0 {
			t.Fatal("a request was answered while the old process's descriptor held the lock")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := unix.Flock(int(old.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	for turn(t, q, res) == 0 {
	}
	if res[0].Tag != 5 || res[0].Code != backstore.CodeOK {
		t.Errorf("result %+v", res[0])
	}
}

func TestCloseLeavesNoProcess(t *testing.T) {
	f := start(t, nil)
	open(t, f, host.QueueOptions{}, map[string]string{})
	pid := f.Status().PID
	f.Close()
	f.Close()
	if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); !os.IsNotExist(err) {
		t.Errorf("process %d: %v", pid, err)
	}
	if s := f.Status().State; s != pluginhost.StateClosed {
		t.Errorf("state %v", s)
	}
	if _, err := f.Open(soon(t), nil); !errors.Is(err, pluginhost.ErrClosed) {
		t.Errorf("Open after Close: %v", err)
	}
}

func TestRefusedOpenIsATypedError(t *testing.T) {
	f := start(t, nil)
	var e *host.Error
	_, err := f.Open(soon(t), map[string]string{"no-such-key": "1"})
	if !errors.As(err, &e) || e.Code != backstore.CodeInvalid {
		t.Errorf("error %v, want a host.Error with CodeInvalid", err)
	}
}

func TestStartReportsWhatIsWrong(t *testing.T) {
	a, err := host.NewArena(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	good := pluginhost.Config{Name: "x", Path: testPlugin, Arena: a, Log: hclog.NewNullLogger()}
	for name, change := range map[string]func(*pluginhost.Config){
		"no name":           func(c *pluginhost.Config) { c.Name = "" },
		"no path":           func(c *pluginhost.Config) { c.Path = "" },
		"no arena":          func(c *pluginhost.Config) { c.Arena = nil },
		"no logger":         func(c *pluginhost.Config) { c.Log = nil },
		"negative duration": func(c *pluginhost.Config) { c.Hang = -1 },
	} {
		cfg := good
		change(&cfg)
		if p, err := pluginhost.Start(soon(t), cfg); !errors.Is(err, pluginhost.ErrConfig) {
			t.Errorf("%s: %v %v, want ErrConfig", name, p, err)
		}
	}
	cfg := good
	cfg.Path = "/bin/true"
	if _, err := pluginhost.Start(soon(t), cfg); err == nil {
		t.Error("/bin/true was taken for a plugin")
	}
}

// kill kills a process, if there is one: 0 and 1 would be this test's own group, and everybody.
func kill(t testing.TB, pid int) {
	t.Helper()
	if pid < 2 {
		return
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
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
