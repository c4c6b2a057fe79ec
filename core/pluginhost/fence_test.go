package pluginhost_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// The lock of the dead process is what its I/O in the kernel would hold.
func TestDeadPluginsBuffersAreTaintedUntilAnotherHasOpenedTheStore(t *testing.T) {
	f := start(t, func(c *pluginhost.Config) { c.BackoffMin = time.Millisecond; c.BackoffMax = time.Millisecond })
	path := filepath.Join(t.TempDir(), "store")
	q := open(t, f, host.QueueOptions{}, map[string]string{"path": path, "delay": "1h"})
	data := f.arena.Bytes()[:4096]
	q.Submit([]backstore.Request{{Op: backstore.OpRead, Data: data}})
	q.Flush()
	old, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	locked := make(chan error, 1)
	go func() { locked <- unix.Flock(int(old.Fd()), unix.LOCK_EX) }()
	for len(locked) == 0 { // who gets the lock first is a race: this test must
		kill(t, f.Status().PID)
		select {
		case err := <-locked:
			locked <- err
		case <-time.After(20 * time.Millisecond):
		}
	}
	res := make([]backstore.Result, 1)
	for turn(t, q, res) == 0 {
	}
	if res[0].Code != backstore.CodeUnavailable {
		t.Fatalf("answered %v", res[0].Code)
	}
	// The processes that die while they wait for the lock change nothing.
	for range 3 {
		pid := f.Status().PID
		kill(t, pid)
		for f.Status().PID == pid {
			time.Sleep(time.Millisecond)
		}
		if !f.arena.Tainted(data) {
			t.Fatal("given back before the fence")
		}
	}
	if err := unix.Flock(int(old.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); f.arena.Tainted(data); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("tainted for ever: %+v", f.Status())
		}
	}
}
