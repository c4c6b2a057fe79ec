package warden

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Run()
	os.Exit(m.Run())
}

// sleeper starts a process group whose leader ends at once and leaves a child, and a directory.
func sleeper(t *testing.T) (leader, child int, dir *os.File) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "sleep 1000 >/dev/null & echo $!; read x")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 32)
	n, err := out.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	if child, err = strconv.Atoi(strings.TrimSpace(string(b[:n]))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // not waited for before
		in.Close()
		_ = cmd.Wait()
	})
	if dir, err = os.Open(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return cmd.Process.Pid, child, dir
}

func running(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func gone(path string) bool {
	_, err := os.Stat(path)
	return os.IsNotExist(err)
}

func TestWardenCleansWhatIsStillEntrustedAtTheEnd(t *testing.T) {
	var g Guard
	leader, child, dir := sleeper(t)
	otherLeader, otherChild, otherDir := sleeper(t)
	if _, err := g.Entrust(leader, dir); err != nil {
		t.Fatal(err)
	}
	forget, err := g.Entrust(otherLeader, otherDir)
	if err != nil {
		t.Fatal(err)
	}
	forget()
	forget()
	g.c.Close() // as the end of this process would
	if err := g.cmd.Wait(); err != nil {
		t.Error(err)
	}
	until(t, "the child is dead", func() bool { return !running(child) })
	until(t, "the directory is removed", func() bool { return gone(dir.Name()) })
	if !running(otherChild) || gone(otherDir.Name()) {
		t.Error("what was taken back was cleaned")
	}
}

func TestBrokenWardenHarmsNothingAndIsReplaced(t *testing.T) {
	var g Guard
	leader, child, dir := sleeper(t)
	if _, err := g.Entrust(leader, dir); err != nil {
		t.Fatal(err)
	}
	if err := g.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	first := g.cmd
	until(t, "the warden is dead", func() bool { return !running(first.Process.Pid) })
	forget, err := g.Entrust(leader, dir)
	if err != nil || g.cmd == first {
		t.Fatalf("%v", err)
	}
	forget()
	g.dismiss()
	if !running(child) || gone(dir.Name()) {
		t.Error("something was cleaned")
	}
}

func TestDirectoryThatIsAnotherByThenStays(t *testing.T) {
	var g Guard
	leader, child, dir := sleeper(t)
	if _, err := g.Entrust(leader, dir); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(filepath.Dir(dir.Name()), "moved")
	if err := os.Rename(dir.Name(), moved); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir.Name(), 0o700); err != nil {
		t.Fatal(err)
	}
	g.c.Close()
	if err := g.cmd.Wait(); err != nil {
		t.Error(err)
	}
	until(t, "the child is dead", func() bool { return !running(child) })
	if gone(dir.Name()) || !gone(moved) {
		t.Error("the wrong directory was removed")
	}
}
