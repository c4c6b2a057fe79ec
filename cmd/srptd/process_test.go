package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// freeze stops a process and returns when all its threads stand still.
func freeze(t testing.TB, pid int) {
	t.Helper()
	kill(t, pid, syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) }) // it may be gone
	eventually(t, fmt.Sprintf("process %d stands still", pid), func() bool {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, task := range tasks {
			b, err := os.ReadFile(task)
			_, after, _ := bytes.Cut(b, []byte(") "))
			if err == nil && !bytes.HasPrefix(after, []byte("T")) {
				return false
			}
		}
		return true
	})
}

// kill sends a signal to a process, which may be gone: 0 is one that there is not at the moment.
func kill(t testing.TB, pid int, sig syscall.Signal) {
	t.Helper()
	if pid < 2 {
		return // not this test's own group, and not everybody
	}
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
}

// holdStore makes a file and holds its lock, so that no plugin can open it.
func holdStore(t testing.TB, path string, size int64) *os.File {
	t.Helper()
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(f.Truncate(size), syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// residentMemory is what a process uses, in bytes.
func residentMemory(t testing.TB, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := bytes.Cut(b, []byte("VmRSS:"))
	var kib int64
	if _, err := fmt.Sscan(string(after), &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
