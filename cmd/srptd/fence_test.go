package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/config"
)

// The test holds the lock that the dead plugin's last I/O would hold: commands are answered at the bound, and their buffers wait.
func TestBuffersOfADeadPluginStayOutOfUseUntilTheFence(t *testing.T) {
	c := newCampaign(t, func(cfg *config.Config) { cfg.Plugin.RestartWait = time.Second }, "file")
	quarantined := func() uint64 {
		st, err := c.d.target.Stats(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		return st.Arenas["disk0"].Quarantined
	}
	f, err := os.Open(filepath.Join(c.dir, "0.img"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	freeze(t, c.plugin(0).Status().PID)
	results := c.writeEach(t, 0, 1)
	eventually(t, "the plugin has every command", func() bool { return c.d.disks[0].parts.guard.Stats().Flying == pieces })
	locked := make(chan error, 1)
	go func() { locked <- syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }()
	for waits := true; waits; { // who gets the lock first is a race: the test must
		kill(t, c.plugin(0).Status().PID, syscall.SIGKILL)
		select {
		case err := <-locked:
			if waits = false; err != nil {
				t.Fatal(err)
			}
		case <-time.After(20 * time.Millisecond):
		}
	}
	for err := range results {
		if !retryable(err) {
			t.Errorf("a command ended with %v", err)
		}
	}
	if n := quarantined(); n != pieces*pieceSize {
		t.Errorf("%d bytes in quarantine, want %d", n, pieces*pieceSize)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the store is served again", func() bool {
		s := c.plugin(0).Status()
		return s.PID != 0 && s.Waiting == 0
	})
	for err := range c.writeEach(t, 0, 2) {
		if err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
	c.holdsEach(t, 0, 2)
	c.clean(t)
}
