package main

import (
	"math/rand/v2"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/pluginhost"
)

// TestKillsAtRandomMomentsLoseNothing kills the file plugin again and again under verified random I/O: no command fails, none
// gets stuck, no byte is wrong. GOSRPT_SOAK_KILLS is how often.
func TestKillsAtRandomMomentsLoseNothing(t *testing.T) {
	kills := times(t, "GOSRPT_SOAK_KILLS", 25)
	c := newCampaign(t, nil, "file")
	l := c.load(t, 0, 16)
	end := l.background(t)
	files, routines := openFiles(t), runtime.NumGoroutine()
	k := killer{p: c.plugin(0), rng: rand.New(rand.NewPCG(3, uint64(kills))), begin: time.Now()}
	for n := 1; n <= kills && !t.Failed(); n++ {
		k.kill(t)
		if n%500 == 0 {
			t.Logf("%d kills, %.1f a second, the longest outage %v, %d MiB resident", n, float64(n)/time.Since(k.begin).Seconds(),
				k.worst.Round(time.Millisecond), residentMemory(t, os.Getpid())>>20)
		}
	}
	k.next(t)
	took := time.Since(k.begin)
	end()
	if t.Failed() {
		return
	}
	l.verifyAll(t)
	c.clean(t)
	counts, guard := c.d.disks[0].parts.queue.Counters(), c.d.disks[0].parts.guard.Stats()
	if guard.Expired+counts.Expired+guard.Overdue+guard.Breaches+counts.Refused != 0 {
		t.Errorf("%+v\n%+v", guard, counts)
	}
	// What is left of a dead process goes away by itself, a moment later.
	eventually(t, "every descriptor and goroutine of a dead process is freed", func() bool {
		return openFiles(t) <= files+8 && runtime.NumGoroutine() <= routines+8
	})
	t.Logf("%d kills in %v, %.1f a second: %d commands, %d requests sent again, 0 wrong, 0 lost; the longest outage %v, the longest command %v",
		kills, took.Round(time.Second), float64(kills)/took.Seconds(), l.requests, counts.Resent, k.worst.Round(time.Millisecond), l.worst.Round(time.Millisecond))
}

// killer kills one process of a plugin after another.
type killer struct {
	p     *pluginhost.Plugin
	rng   *rand.Rand
	begin time.Time
	last  int // the process killed last
	since time.Time
	worst time.Duration
}

// kill waits for a process, and then kills it at a random moment: while it opens the store, or while it serves it.
func (k *killer) kill(t *testing.T) {
	t.Helper()
	pid := k.next(t)
	time.Sleep(time.Duration(k.rng.Int64N(int64(30 * time.Millisecond))))
	k.last, k.since = pid, time.Now()
	kill(t, pid, syscall.SIGKILL)
}

// next is the process after the one killed last.
func (k *killer) next(t *testing.T) int {
	t.Helper()
	for {
		s := k.p.Status()
		if s.PID != 0 && s.PID != k.last {
			if k.last != 0 {
				k.worst = max(k.worst, time.Since(k.since))
			}
			return s.PID
		}
		if k.last != 0 && time.Since(k.since) > patience {
			t.Fatalf("no process after %v: %+v", patience, s)
		}
		time.Sleep(time.Millisecond)
	}
}
