package host_test

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

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
