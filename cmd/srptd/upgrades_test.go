package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/pluginhost"
)

// TestUpgradesUnderLoadAreNotNoticed replaces the file plugin's executable and then its process, again and again, under verified
// random I/O; every fifth time another plugin is tried first that cannot take over. GOSRPT_SOAK_UPGRADES is how often; the longest pause must be under a second then.
func TestUpgradesUnderLoadAreNotNoticed(t *testing.T) {
	upgrades := times(t, "GOSRPT_SOAK_UPGRADES", 5)
	c := newCampaign(t, nil, "file")
	l := c.load(t, 0, 16)
	end := l.background(t)
	p := c.plugin(0)
	var worst, sum time.Duration
	var held, rolledBack uint64
	bad := filepath.Join(c.dir, "bad")
	if err := os.WriteFile(bad, fmt.Appendf(nil, "#!/bin/sh\nexec %s no-open\n", executable(t, "testplugin")), 0o755); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= upgrades && !t.Failed(); n++ {
		before := c.d.disks[0].parts.guard.Stats().Writes
		eventually(t, "writes go on", func() bool { return c.d.disks[0].parts.guard.Stats().Writes > before+20 })
		if n%5 == 0 {
			if _, err := p.Upgrade(soon(t), pluginhost.UpgradeOptions{Path: bad}); !errors.Is(err, pluginhost.ErrRolledBack) {
				t.Fatalf("a plugin that opens nothing: %v", err)
			}
			rolledBack++
		}
		c.install(t, "file", "backstore-file")
		old := p.Status().PID
		u, err := p.Upgrade(soon(t), pluginhost.UpgradeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if now := p.Status().PID; u.Old.PID != old || u.New.PID != now || now == old {
			t.Fatalf("%+v, and the process is %d", u, now)
		}
		pause, waited := u.Worst()
		worst, sum, held = max(worst, pause), sum+pause, held+waited
		if n%20 == 0 {
			t.Logf("%d upgrades, the longest pause %v", n, worst.Round(time.Microsecond))
		}
	}
	end()
	if t.Failed() {
		return
	}
	l.verifyAll(t)
	c.clean(t)
	s, counts := p.Status(), c.d.disks[0].parts.queue.Counters()
	if s.Restarts != 0 || counts.Resent+counts.Expired+counts.Dropped != 0 || counts.Attached != uint64(upgrades)+rolledBack+1 {
		t.Errorf("%+v, %+v", s, counts)
	}
	t.Logf("%d upgrades, %d more rolled back: %d commands, 0 wrong, 0 failed; pauses %v on average, p100 %v; %d requests waited; the longest command %v",
		upgrades, rolledBack, l.requests, (sum / time.Duration(upgrades)).Round(time.Microsecond), worst.Round(time.Microsecond), held, l.worst.Round(time.Microsecond))
	if os.Getenv("GOSRPT_SOAK_UPGRADES") != "" && worst >= time.Second {
		t.Errorf("the longest pause was %v, want less than a second", worst)
	}
}
