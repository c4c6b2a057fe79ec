package pluginhost_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// open to all: what a plugin of another user must be able to reach.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "isolation")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func install(t *testing.T, dir, name, from string) string {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	// By renaming, as package managers do.
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", b, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

func text(t *testing.T, path, s string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
		t.Fatal(err)
	}
}

func find(dir, name string) func() (string, error) {
	return func() (string, error) { return pluginhost.Find([]string{dir}, name) }
}

func TestWrongChecksumStopsOnlyItsPluginAndAMendNeedsNoRestart(t *testing.T) {
	dir := t.TempDir()
	install(t, dir, "a", testPlugin)
	install(t, dir, "b", testPlugin)
	b, err := os.ReadFile(testPlugin)
	if err != nil {
		t.Fatal(err)
	}
	line := func(name string, content []byte) string { return fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name) }
	catalogue := filepath.Join(dir, "catalogue")
	good := line("a", b) + line("b", b)
	text(t, catalogue, good)
	of := func(name string) func(*pluginhost.Config) {
		return func(c *pluginhost.Config) {
			c.Name, c.Resolve, c.BackoffMin, c.BackoffMax = name, find(dir, name), time.Millisecond, 50*time.Millisecond
		}
	}
	f, g := start(t, of("a")), start(t, of("b"))
	q := open(t, g, host.QueueOptions{Hold: patience}, map[string]string{})
	text(t, catalogue, line("a", []byte("another"))+line("b", b))
	kill(t, f.Status().PID)
	kill(t, g.Status().PID)
	if c := one(t, q, backstore.Request{Op: backstore.OpFlush}); c != backstore.CodeOK {
		t.Errorf("the plugin whose sum is right: %v", c)
	}
	for s := f.until(t, pluginhost.StateDown); !strings.Contains(s.LastError, "has the SHA-256 sum"); s = f.until(t, pluginhost.StateDown) {
	}
	text(t, catalogue, good)
	f.until(t, pluginhost.StateRunning)
}

func TestPluginOfAnotherTimeIsReplacedWithoutARestart(t *testing.T) {
	dir := t.TempDir()
	path := install(t, dir, "p", testPlugin)
	f := start(t, func(c *pluginhost.Config) {
		c.Resolve, c.BackoffMin, c.BackoffMax = find(dir, "p"), time.Millisecond, 50*time.Millisecond
	})
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("#!/bin/sh\nexec "+testPlugin+" majors 99\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	install(t, dir, "p", other)
	kill(t, f.Status().PID)
	want := "plugin " + path + ": it speaks major version 99 of the plugin protocol, this host speaks 1: upgrade this host"
	for s := f.until(t, pluginhost.StateDown); !strings.Contains(s.LastError, want); s = f.until(t, pluginhost.StateDown) {
	}
	install(t, dir, "p", testPlugin)
	f.until(t, pluginhost.StateRunning)
	if n := zombies(t); n != 0 {
		t.Errorf("%d zombies", n)
	}
}

// zombies counts children of this process that are dead and not waited for.
func zombies(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(b), fmt.Sprintf(") Z %d ", os.Getpid())) {
			n++
		}
	}
	return n
}

// TestLinkedDirectoryIsSearched is case B27.3.
func TestLinkedDirectoryIsSearched(t *testing.T) {
	dir, links := t.TempDir(), t.TempDir()
	install(t, dir, "p", testPlugin)
	one, two := filepath.Join(links, "one"), filepath.Join(links, "two")
	if err := errors.Join(os.Symlink(dir, one), os.Symlink(one, two)); err != nil {
		t.Fatal(err)
	}
	f := start(t, func(c *pluginhost.Config) { c.Resolve = find(two, "p") })
	install(t, dir, "p", testPlugin) // upgraded by renaming while it runs
	kill(t, f.Status().PID)
	f.until(t, pluginhost.StateStarting)
	f.until(t, pluginhost.StateRunning)
}

func TestIsolatedPluginServesAndSurvives(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	dir := publicDir(t)
	path := install(t, dir, "p", testPlugin)
	data := filepath.Join(dir, "data")
	if err := errors.Join(os.Mkdir(data, 0o700), os.Chown(data, 4711, 4712)); err != nil {
		t.Fatal(err)
	}
	text(t, path+".manifest.yaml", `
kind: backstore
description: everything at once
protocol: [1]
user: "4711"
group: "4712"
pid_namespace: true
limits: {nofile: 200, core: 0, fsize: 1GiB}
landlock: {read_write: ["${config.path}"]}
seccomp: {profile: plugin, deny: [getppid]}
`)
	config := map[string]string{"path": filepath.Join(data, "store")}
	f := start(t, func(c *pluginhost.Config) {
		c.Resolve, c.Settings, c.BackoffMin = find(dir, "p"), []map[string]string{config}, time.Millisecond
	})
	q := open(t, f, host.QueueOptions{Hold: patience}, config)
	block := f.arena.Bytes()[:4096]
	copy(block, "kept apart")
	if c := one(t, q, backstore.Request{Op: backstore.OpWrite, Data: block}); c != backstore.CodeOK {
		t.Fatalf("write: %v", c)
	}
	pid := f.Status().PID
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Uid:\t4711\t4711\t4711\t4711\n", "Gid:\t4712\t4712\t4712\t4712\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n", "Umask:\t0077\n"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("no %q in\n%s", want, status)
		}
	}
	if _, err := f.Open(soon(t), map[string]string{"path": filepath.Join(data, "../other")}); err == nil {
		t.Error("another path could be opened")
	}
	kill(t, pid)
	clear(block)
	if c := one(t, q, backstore.Request{Op: backstore.OpRead, Data: block}); c != backstore.CodeOK || string(block[:10]) != "kept apart" {
		t.Errorf("after a crash: %v, %q", c, block[:10])
	}
}

// shippedFile builds the file plugin, with its manifest.
func shippedFile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir, "github.com/gosrpt/gosrpt/plugins/backstore-file")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shipManifest(t, dir, "backstore-file")
	return dir
}

// shipManifest puts a plugin's manifest beside its executable.
func shipManifest(t *testing.T, dir, name string) {
	t.Helper()
	file := name + ".manifest.yaml"
	b, err := os.ReadFile(filepath.Join("../../plugins", name, file))
	if err != nil {
		t.Fatal(err)
	}
	text(t, filepath.Join(dir, file), string(b))
}

func TestShippedFilePluginServesFilesAndDevicesAsItsManifestRestrictsIt(t *testing.T) {
	plugins := shippedFile(t)
	dir := t.TempDir()
	loop := loopDevice(t)
	for name, config := range map[string]map[string]string{
		"new file": {"path": filepath.Join(dir, "new"), "size": "1MiB"},
		"pool":     {"path": filepath.Join(dir, "new"), "engine": "pool"},
		"device":   {"path": loop},
		"link":     {"path": filepath.Join(dir, "link")},
	} {
		if config["path"] == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			_ = os.Symlink(filepath.Join(dir, "new"), filepath.Join(dir, "link"))
			if name != "device" {
				file, err := os.OpenFile(filepath.Join(dir, "new"), os.O_CREATE|os.O_RDWR, 0o600)
				if err == nil && name != "new file" {
					err = file.Truncate(1 << 20)
				}
				if err != nil {
					t.Fatal(err)
				}
				file.Close()
				if name == "new file" {
					if err := os.Remove(file.Name()); err != nil {
						t.Fatal(err)
					}
				}
			}
			f := start(t, func(c *pluginhost.Config) {
				c.Resolve, c.Settings, c.BackoffMin = find(plugins, "backstore-file"), []map[string]string{config}, time.Millisecond
			})
			if s := seccomp(t, f.Status().PID); s != "2" {
				t.Errorf("Seccomp %s", s)
			}
			q := open(t, f, host.QueueOptions{Hold: patience}, config)
			block := f.arena.Bytes()[:4096]
			copy(block, "restricted")
			if c := one(t, q, backstore.Request{Op: backstore.OpWrite, Data: block}); c != backstore.CodeOK {
				t.Fatalf("write: %v", c)
			}
			kill(t, f.Status().PID)
			clear(block)
			if c := one(t, q, backstore.Request{Op: backstore.OpRead, Data: block}); c != backstore.CodeOK || string(block[:10]) != "restricted" {
				t.Errorf("after a crash: %v, %q", c, block[:10])
			}
			if _, err := f.Open(soon(t), map[string]string{"path": "/etc/passwd"}); err == nil {
				t.Error("/etc/passwd could be opened for writing")
			}
		})
	}
}

func seccomp(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), "\nSeccomp:\t")
	mode, _, _ := strings.Cut(after, "\n")
	return mode
}

// loopDevice makes a block device of 1 MiB, if that can be done here.
func loopDevice(t *testing.T) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", image).CombinedOutput()
	if err != nil {
		t.Logf("no loop device, files only: %v: %s", err, out)
		return ""
	}
	dev := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", dev).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return dev
}
