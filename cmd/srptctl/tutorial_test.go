package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

var block = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")

// TestTutorialCanBeFollowed runs every command of sdk/README.md, in order, in one shell, in an empty directory. Only git clone is another: it
// copies this tree.
func TestTutorialCanBeFollowed(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds everything again: a minute")
	}
	tree := checkout(t)
	text, err := os.ReadFile(filepath.Join(tree, "sdk", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	script := "set -eu\n"
	blocks := block.FindAllStringSubmatch(string(text), -1)
	for _, b := range blocks {
		script += b[1]
	}
	if len(blocks) < 6 || !strings.Contains(script, "plugin new") || !strings.Contains(script, "bench --verify") {
		t.Fatalf("%d blocks:\n%s", len(blocks), script)
	}
	bin := t.TempDir()
	const git = "#!/bin/sh\n[ \"$1\" = clone ] || exit 1\nmkdir gosrpt && tar -C \"$TREE\" --exclude=./.git --exclude=./bin -c . | tar -x -C gosrpt\n"
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(git), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := follow(t, script, "TREE="+tree, "PATH="+bin+":"+os.Getenv("PATH"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{", 0 failed", "shared-memory ring", "listening", "verified"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// follow runs a script in an empty directory and, where that is possible, in a network of its own. Whatever it leaves running is ended.
func follow(t *testing.T, script string, env ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	args := []string{"bash", "-c", script}
	if exec.Command("unshare", "-n", "ip", "link", "set", "lo", "up").Run() == nil {
		args = []string{"unshare", "-n", "bash", "-c", "ip link set lo up\n" + script}
	}
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Dir = t.TempDir()
	c.Env = append(os.Environ(), env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.WaitDelay = 10 * time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pid := c.Process.Pid
	c.Cancel = func() error { return syscall.Kill(-pid, syscall.SIGKILL) }
	err := c.Wait()
	_ = syscall.Kill(-pid, syscall.SIGKILL) // a daemon that a failed script has left
	return out.String(), err
}
