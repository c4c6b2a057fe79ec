package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/initiator"
)

func TestBuffersOfADeadPluginStayOutOfUseUntilTheFence(t *testing.T) {
	for _, c := range []struct {
		name string
		wait time.Duration // of commands
		// end makes the commands end; err is how.
		end func(t *testing.T, c *campaign)
		err func(error) bool
	}{
		{"answered at the bound", time.Second, func(*testing.T, *campaign) {}, retryable},
		{"aborted by the initiator", patience, func(t *testing.T, c *campaign) {
			if err := c.session.ResetLUN(soon(t), lunOf(0)); err != nil {
				t.Errorf("LUN reset: %v", err)
			}
		}, func(err error) bool { return errors.Is(err, initiator.ErrAborted) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newCampaign(t, func(cfg *config.Config) { cfg.Plugin.RestartWait = c.wait }, "file")
			results, fence := r.orphan(t)
			c.end(t, r)
			for err := range results {
				if !c.err(err) {
					t.Errorf("a command ended with %v", err)
				}
			}
			if n := r.quarantined(t); n != pieces*pieceSize {
				t.Errorf("%d bytes in quarantine, want %d", n, pieces*pieceSize)
			}
			fence()
			eventually(t, "the store is served again", func() bool {
				s := r.plugin(0).Status()
				return s.PID != 0 && s.Waiting == 0
			})
			for err := range r.writeEach(t, 0, 2) {
				if err != nil {
					t.Errorf("afterwards: %v", err)
				}
			}
			r.holdsEach(t, 0, 2)
			r.clean(t)
			if n := r.d.disks[0].parts.queue.Counters().Resent; n != 0 {
				t.Errorf("%d commands that had been answered were sent again", n)
			}
		})
	}
}

// orphan has the plugin of LUN 0 die with a write of every piece, while the test holds the lock that its I/O in the kernel would
// hold. fence gives it up, so that another process can open the store.
func (c *campaign) orphan(t *testing.T) (results <-chan error, fence func()) {
	t.Helper()
	f, err := os.Open(filepath.Join(c.dir, "0.img"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	freeze(t, c.plugin(0).Status().PID)
	results = c.writeEach(t, 0, 1)
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
	return results, func() {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *campaign) quarantined(t *testing.T) uint64 {
	t.Helper()
	st, err := c.d.target.Stats(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	return st.Arenas["disk0"].Quarantined
}
