package host_test

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
)

func write(t testing.TB, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// foreign is the test plugin as a program for a machine that this one is not.
func foreign(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(testPlugin)
	if err != nil {
		t.Fatal(err)
	}
	b[18], b[19] = byte(elf.EM_S390), 0 // e_machine
	return write(t, filepath.Join(t.TempDir(), "foreign"), string(b), 0o755)
}

// light is an isolation that takes a launcher and changes nothing that matters.
var light = host.Isolation{Limits: []host.Limit{{Name: "core", Resource: unix.RLIMIT_CORE, Value: 0}}}

// TestEachBadExecutableHasItsOwnMessage is case B25.2: text file, wrong architecture, not executable, ends, sleeps, and what a shell
// script adds to it.
func TestEachBadExecutableHasItsOwnMessage(t *testing.T) {
	dir := t.TempDir()
	cases := []struct{ name, path, want string }{
		{"text file", write(t, filepath.Join(dir, "text"), "hello\nworld\n", 0o755), "neither a program nor a script"},
		{"another machine", foreign(t), "a program for S390"},
		{"not executable", write(t, filepath.Join(dir, "plain"), "#!/bin/sh\n", 0o644), "not executable: chmod +x"},
		{"no interpreter", write(t, filepath.Join(dir, "orphan"), "#!/no/such/shell\n", 0o755), "/no/such/shell, is not there"},
		{"exits", write(t, filepath.Join(dir, "exits"), "#!/bin/sh\necho no licence >&2\nexit 1\n", 0o755), `exit status 1); it printed to stderr: "no licence"`},
		{"prints and exits", write(t, filepath.Join(dir, "prints"), "#!/bin/sh\necho usage: prints\n", 0o755), `printed to stdout: "usage: prints"`},
		{"sleeps", write(t, filepath.Join(dir, "sleeps"), "#!/bin/sh\nexec sleep 100\n", 0o755), "did not print its handshake in time"},
		{"closes stdout", write(t, filepath.Join(dir, "closes"), "#!/bin/sh\nexec sleep 100 >&-\n", 0o755), "closed its stdout without a handshake"},
	}
	for _, way := range []struct {
		name string
		is   host.Isolation
	}{{"direct", host.Isolation{}}, {"launcher", light}} {
		seen := map[string]string{}
		for _, c := range cases {
			t.Run(way.name+"/"+c.name, func(t *testing.T) {
				bound := patience
				if c.name == "sleeps" {
					bound = 2 * time.Second
				}
				ctx, cancel := context.WithTimeout(context.Background(), bound)
				defer cancel()
				_, err := host.Start(ctx, host.Options{
					Path: c.path, Launch: host.Launch{Isolation: way.is}, Arena: newArena(t, 4096), Log: hclog.NewNullLogger(),
				})
				if err == nil || !strings.Contains(err.Error(), c.path) || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("%v\nwant %s and %q", err, c.path, c.want)
				}
				text := strings.ReplaceAll(err.Error(), c.path, "")
				if other, twice := seen[text]; twice {
					t.Errorf("the same as of %q: %v", other, err)
				}
				seen[text] = c.name
				noZombies(t)
			})
		}
	}
}

// noZombies fails if this process has a child that it has not waited for.
func noZombies(t testing.TB) {
	t.Helper()
	for _, p := range processes(t) {
		if p.parent == os.Getpid() && p.state == "Z" {
			t.Errorf("process %d is a zombie", p.pid)
		}
	}
}

type proc struct {
	pid, parent, group int
	state              string
}

func processes(t testing.TB) []proc {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var all []proc
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		var p proc
		name := bytes.LastIndexByte(b, ')')
		if _, err := fmt.Sscan(string(b), &p.pid); err != nil || name < 0 {
			t.Fatalf("%q", b)
		}
		if _, err := fmt.Sscan(string(b[name+1:]), &p.state, &p.parent, &p.group); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestStrayLineBeforeTheHandshakeIsTolerated(t *testing.T) {
	wrapper := write(t, filepath.Join(t.TempDir(), "wrapper"), "#!/bin/sh\necho starting\nexec "+testPlugin+"\n", 0o755)
	p := start(t, newArena(t, 4096), func(o *host.Options) { o.Path = wrapper })
	if err := p.Health(soon(t)); err != nil {
		t.Error(err)
	}
}

func TestBusyExecutableIsTriedAgain(t *testing.T) {
	for _, is := range []host.Isolation{{}, light} {
		b, err := os.ReadFile(testPlugin)
		if err != nil {
			t.Fatal(err)
		}
		path := write(t, filepath.Join(t.TempDir(), "busy"), string(b), 0o755)
		writer, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(300*time.Millisecond, func() { writer.Close() })
		p, err := host.Start(soon(t), host.Options{
			Path: path, Launch: host.Launch{Isolation: is}, Arena: newArena(t, 4096), Log: logger(t),
		})
		timer.Stop()
		writer.Close()
		if err != nil {
			t.Fatal(err)
		}
		p.Close(soon(t))
	}
}

// TestSocketsArePrivateUnderAnyUmask is case B27.2.
func TestSocketsArePrivateUnderAnyUmask(t *testing.T) {
	for _, mask := range []int{0, 0o077} {
		old := syscall.Umask(mask)
		p := start(t, newArena(t, 4096), nil)
		now := syscall.Umask(old)
		if now != mask {
			t.Errorf("the host's umask became %03o", now)
		}
		found := 0
		_ = filepath.WalkDir(private(t, p.PID()), func(path string, d os.DirEntry, err error) error {
			if err != nil {
				t.Error(err)
				return nil
			}
			st, err := d.Info()
			if err != nil || st.Mode().Perm()&0o077 != 0 {
				t.Errorf("umask %03o: %s has mode %v, %v", mask, path, st.Mode(), err)
			}
			if st.Mode()&os.ModeSocket != 0 {
				found++
			}
			return nil
		})
		if found == 0 {
			t.Error("no socket was found")
		}
	}
}

// private is a plugin's private directory.
func private(t testing.TB, pid int) string {
	t.Helper()
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range strings.Split(string(env), "\x00") {
		if dir, ok := strings.CutPrefix(e, "TMPDIR="); ok {
			return dir
		}
	}
	t.Fatal("the plugin has no TMPDIR")
	return ""
}

// TestLongTemporaryDirectoryIsNoObstacle is case B27.1.
func TestLongTemporaryDirectoryIsNoObstacle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 200))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	p := start(t, newArena(t, 4096), nil)
	if err := p.Health(soon(t)); err != nil {
		t.Error(err)
	}
}

// status reads a line of /proc/PID/status.
func status(t testing.TB, pid int, key string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + key + `:[ \t]*(.*)$`).FindSubmatch(b)
	if m == nil {
		t.Fatalf("no %s in the status of process %d", key, pid)
	}
	return string(m[1])
}

func TestEveryPluginHasNoNewPrivilegesUnlessItAsks(t *testing.T) {
	for want, is := range map[string]host.Isolation{"1": {}, "0": {NewPrivs: true}} {
		p := start(t, newArena(t, 4096), func(o *host.Options) { o.Isolation = is })
		if got := status(t, p.PID(), "NoNewPrivs"); got != want {
			t.Errorf("%+v: NoNewPrivs %s, want %s", is, got, want)
		}
	}
	if got := status(t, os.Getpid(), "NoNewPrivs"); got != "0" {
		t.Errorf("the host itself has NoNewPrivs %s", got)
	}
}

// buffer is a log that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestLogLinesKeepTheirLevelBeforeAndAfterTheHandshake(t *testing.T) {
	var log buffer
	p := start(t, newArena(t, 4096), func(o *host.Options) {
		o.Args = []string{"complain"}
		o.Log = hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: &log})
	})
	open(t, p, map[string]string{"print": "[WARN] later"})
	open(t, p, map[string]string{"print": `{"@level":"error","@message":"last"}`})
	for _, want := range []string{"[WARN]  testplugin: [WARN] at the start", "[WARN]  testplugin: [WARN] later", "[ERROR] testplugin: last"} {
		for end := time.Now().Add(patience); !strings.Contains(log.String(), want); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no %q in\n%s", want, log.String())
			}
		}
	}
}

func TestFloodOfLogLinesIsBoundedAndCounted(t *testing.T) {
	var log buffer
	began := time.Now()
	p := start(t, newArena(t, 4096), func(o *host.Options) {
		o.Args = []string{"flood"}
		o.Log = hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &log})
	})
	for end := time.Now().Add(patience); !strings.Contains(log.String(), "lines were dropped"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing was dropped")
		}
	}
	if err := p.Health(soon(t)); err != nil {
		t.Errorf("in the flood: %v", err)
	}
	p.Kill()
	p.Close(soon(t))
	most := 1000 + 100*int(time.Since(began).Seconds()+1) + 200 // and the host's own lines
	if n := strings.Count(log.String(), "\n"); n > most {
		t.Errorf("%d lines were logged, want at most %d", n, most)
	}
	if i := strings.Index(log.String(), strings.Repeat("w", 1000)); i >= 0 {
		t.Error("a line of stdout was not cut")
	}
}

func TestHostSpeaksTheMajorBeforeToo(t *testing.T) {
	for _, c := range []struct {
		plugin, want string
		host         []int
		speak        int
	}{
		{"1", "", []int{1, 2}, 1},
		{"2", "", []int{1, 2}, 2},
		{"1 2", "", []int{1, 2}, 2},
		{"1 2", "", []int{1}, 1},
		{"2 3", "", []int{1, 2}, 2},
		{"2", "major version 2 of the plugin protocol, this host speaks 1: upgrade this host", []int{1}, 0},
		{"99", "major version 99 of the plugin protocol, this host speaks 1, 2: upgrade this host", []int{1, 2}, 0},
		{"1", "major version 1 of the plugin protocol, this host speaks 2, 3: upgrade the plugin", []int{2, 3}, 0},
	} {
		p, err := bridge.Start(soon(t), bridge.Options{
			Path: testPlugin, Args: append([]string{"majors"}, strings.Fields(c.plugin)...), Majors: c.host, Log: hclog.NewNullLogger(),
		})
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), testPlugin) {
				t.Errorf("%s, %v: %v, want %q", c.plugin, c.host, err, c.want)
			}
		case err != nil:
			t.Errorf("%s, %v: %v", c.plugin, c.host, err)
		default:
			if p.Major() != c.speak {
				t.Errorf("%s, %v: speak %d, want %d", c.plugin, c.host, p.Major(), c.speak)
			}
			p.Stop(soon(t))
		}
		noZombies(t)
	}
}

func TestLauncherSaysWhichStepFailed(t *testing.T) {
	_, err := host.Start(soon(t), host.Options{
		Path: testPlugin, Arena: newArena(t, 4096), Log: hclog.NewNullLogger(),
		Launch: host.Launch{Isolation: host.Isolation{Files: &host.Files{ReadOnly: []string{"/no/such/directory"}}}},
	})
	for _, want := range []string{testPlugin, "prepare Landlock", "/no/such/directory", "errno 2", "manifest"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	noZombies(t)
}

func TestOpenFileIsExecutedWhateverIsAtItsPath(t *testing.T) {
	dir := t.TempDir()
	b, err := os.ReadFile(testPlugin)
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nexec " + testPlugin + "\n"
	for name, text := range map[string]string{"program": string(b), "script": script} {
		for _, is := range []host.Isolation{{}, light} {
			path := write(t, filepath.Join(dir, name), text, 0o755)
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			evil := write(t, filepath.Join(dir, "evil"), "#!/bin/sh\nexit 66\n", 0o755)
			if err := os.Rename(evil, path); err != nil {
				t.Fatal(err)
			}
			p, err := host.Start(soon(t), host.Options{
				Path: path, Launch: host.Launch{File: f, Isolation: is}, Arena: newArena(t, 4096), Log: logger(t),
			})
			f.Close()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			p.Close(soon(t))
		}
	}
}

func TestFileThatChangesAroundItsExecutionIsNotStarted(t *testing.T) {
	wrong := errors.New("it changed")
	for _, is := range []host.Isolation{{}, light} {
		for at := range 2 { // before, after
			f, err := os.Open(testPlugin)
			if err != nil {
				t.Fatal(err)
			}
			asked := 0
			_, err = host.Start(soon(t), host.Options{
				Path: testPlugin, Arena: newArena(t, 4096), Log: hclog.NewNullLogger(),
				Launch: host.Launch{File: f, Isolation: is, Unchanged: func() error {
					if asked++; asked > at {
						return wrong
					}
					return nil
				}},
			})
			f.Close()
			if !errors.Is(err, wrong) || asked != at+1 {
				t.Errorf("asked %d times: %v", asked, err)
			}
			noZombies(t)
		}
	}
}

func TestPluginOfAnotherUserIsReachedAndKilled(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	const nobody = 65534
	f, err := os.Open(testPlugin) // its directory is not nobody's to enter
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := start(t, newArena(t, 1<<20), func(o *host.Options) {
		o.Launch = host.Launch{File: f, Isolation: host.Isolation{User: &host.User{UID: nobody, GID: nobody}}}
	})
	const four = "65534\t65534\t65534\t65534"
	if uid, gid, groups := status(t, p.PID(), "Uid"), status(t, p.PID(), "Gid"), status(t, p.PID(), "Groups"); groups != "" ||
		uid != four || gid != four {
		t.Errorf("uid %q gid %q groups %q", uid, gid, groups)
	}
	// Descriptor channel, arena and rings work: the store is in the private directory.
	q := queue(t, open(t, p, map[string]string{"path": filepath.Join(private(t, p.PID()), "store")}), host.QueueOptions{})
	if c := one(t, q, backstore.Request{Op: backstore.OpFlush}); c != backstore.CodeOK {
		t.Errorf("flush: %v", c)
	}
	dir := private(t, p.PID())
	p.Kill()
	await(t, p.Dead(), "death")
	p.Close(soon(t))
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the private directory is still there: %v", err)
	}
}

func TestFilterDeniesTheProfileAndNoIOUring(t *testing.T) {
	for _, is := range []host.Isolation{{Deny: append(host.PluginProfile(), "getppid")}, {}} {
		p := start(t, newArena(t, 4096), func(o *host.Options) { o.Isolation = is })
		got := open(t, p, map[string]string{"try": "ptrace,mount,bpf,setns,getppid,getpid,io_uring_setup"}).Info().Serial
		const no = "operation not permitted"
		if is.Deny == nil {
			if strings.Contains(got, "ptrace="+no) || strings.Contains(got, "getppid="+no) {
				t.Errorf("without a filter: %s", got)
			}
			continue
		}
		for _, call := range []string{"ptrace", "mount", "bpf", "setns", "getppid"} {
			if !strings.Contains(got, call+"="+no) {
				t.Errorf("%s is not denied: %s", call, got)
			}
		}
		// Of zeroes the kernel makes a complaint of its own.
		if !strings.Contains(got, "getpid=done") || strings.Contains(got, "io_uring_setup="+no) {
			t.Errorf("too much is denied: %s", got)
		}
	}
}

func TestLandlockLeavesWhatIsAllowed(t *testing.T) {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); errno != 0 {
		t.Skip("this kernel has no Landlock: ", errno)
	}
	allowed, other := t.TempDir(), t.TempDir()
	p := start(t, newArena(t, 4096), func(o *host.Options) {
		o.Isolation = host.Isolation{Files: &host.Files{ReadWrite: []string{filepath.Join(allowed, "new"), "/dev/null"}, Required: true}}
	})
	s, err := p.Open(soon(t), map[string]string{"path": filepath.Join(allowed, "new")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(soon(t)); err != nil {
		t.Error(err)
	}
	if _, err := p.Open(soon(t), map[string]string{"path": filepath.Join(other, "store")}); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("beyond what is allowed: %v", err)
	}
	if _, err := p.Open(soon(t), map[string]string{"path": ""}); err != nil { // a temporary file
		t.Errorf("in the private directory: %v", err)
	}
}

func limitOf(t testing.TB, pid int, name string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + `\s+(\S+)\s+(\S+)`).FindSubmatch(b)
	if m == nil {
		t.Fatalf("no limit %q", name)
	}
	return string(m[1]) + "/" + string(m[2])
}

func TestLimitsAreSet(t *testing.T) {
	p := start(t, newArena(t, 4096), func(o *host.Options) {
		o.Isolation.Limits = []host.Limit{
			{Name: "core", Resource: unix.RLIMIT_CORE, Value: 0}, {Name: "nofile", Resource: unix.RLIMIT_NOFILE, Value: 123},
		}
	})
	if core, files := limitOf(t, p.PID(), "Max core file size"), limitOf(t, p.PID(), "Max open files"); core != "0/0" || files != "123/123" {
		t.Errorf("core %s, open files %s", core, files)
	}
}
