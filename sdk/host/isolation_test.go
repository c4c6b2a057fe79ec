package host_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

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
