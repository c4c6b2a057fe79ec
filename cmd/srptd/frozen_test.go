package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/scsi"
)

// TestPluginStoppedBeyondTheBound stops the plugin of one LUN for longer than commands wait, and lets it go on: the other LUN does
// not notice, the commands of the stopped one end retryably at the bound, and nothing of the old process changes what was written
// after that.
func TestPluginStoppedBeyondTheBound(t *testing.T) {
	long(t)
	// After call the queue is replaced, for which a plugin that lives has ten seconds.
	const call, letGo = time.Second, 10 * time.Second
	c := newCampaign(t, func(cfg *config.Config) { cfg.Plugin.CallTimeout, cfg.Plugin.RestartWait = call, 2*time.Second }, "ice", "free")
	var before, during []time.Duration
	for round := range 2 {
		before = append(before, c.probe(t, 1, 300)...)
		pid := c.plugin(0).Status().PID
		freeze(t, pid)
		begin := time.Now()
		results := c.writeEach(t, 0, byte(2*round+1))
		during = append(during, c.probe(t, 1, 300)...)
		if round == 1 {
			time.Sleep(call + letGo/2) // it goes on in the middle of being told to let go
			kill(t, pid, syscall.SIGCONT)
		}
		failed := 0
		for err := range results {
			if err == nil {
				continue
			}
			if !retryable(err) {
				t.Errorf("a command of the stopped LUN ended with %v", err)
			}
			failed++
		}
		took := time.Since(begin)
		if round == 0 && failed != pieces {
			t.Errorf("%d of %d commands ended retryably", failed, pieces)
		}
		eventually(t, "the LUN is served again", func() bool { return c.d.disks[0].status().State == "ready" })
		if now := c.plugin(0).Status().PID; (now == pid) != (round == 1) {
			t.Errorf("process %d serves, it was %d", now, pid)
		}
		for err := range c.writeEach(t, 0, byte(2*round+2)) {
			if err != nil {
				t.Errorf("afterwards: %v", err)
			}
		}
		kill(t, pid, syscall.SIGCONT) // it may be dead
		c.holdsEach(t, 0, byte(2*round+2))
		time.Sleep(100 * time.Millisecond) // for what a process that goes on would do; nothing tells that it does not
		c.holdsEach(t, 0, byte(2*round+2))
		t.Logf("round %d: %d of %d commands ended retryably, all within %v", round, failed, pieces, took.Round(time.Millisecond))
	}
	c.clean(t)
	b, d := median(before), median(during)
	t.Logf("the other LUN's latency, median of %d: %v before, %v while the plugin was stopped: ratio %.2f", len(before), b, d, float64(d)/float64(b))
	if d > 20*b {
		t.Errorf("the other LUN was held up: %v, before %v", d, b)
	}
}

// retryable tells whether an initiator tries a command again that ended so: BUSY, NOT READY becoming ready, or ABORTED COMMAND.
func retryable(err error) bool {
	var status *initiator.StatusError
	if !errors.As(err, &status) {
		return false
	}
	key, asc, ascq := status.Code()
	return status.Status == byte(scsi.StatusBusy) || key == 2 && asc == 4 && ascq == 1 || key == 0xb
}

// pieces are the parts of a LUN that writeEach writes, of pieceSize each.
const pieces, pieceSize = 32, 4096

// writeEach writes every piece at once, and returns the outcomes.
func (c *campaign) writeEach(t *testing.T, lun uint32, content byte) <-chan error {
	results := make(chan error, pieces)
	ctx := soon(t)
	var all sync.WaitGroup
	for i := range pieces {
		all.Go(func() {
			results <- c.session.Write(ctx, lunOf(lun), uint64(i*pieceSize/512), pieceSize/512, slices.Repeat([]byte{content}, pieceSize))
		})
	}
	go func() {
		all.Wait()
		close(results)
	}()
	return results
}

func (c *campaign) holdsEach(t *testing.T, lun uint32, content byte) {
	t.Helper()
	got := make([]byte, pieces*pieceSize)
	if err := c.session.Read(soon(t), lunOf(lun), 0, uint32(len(got)/512), got); err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(got, func(b byte) bool { return b != content }); i >= 0 {
		t.Fatalf("byte %d is %d, want %d", i, got[i], content)
	}
}

// probe measures reads, one after the other.
func (c *campaign) probe(t *testing.T, lun uint32, n int) []time.Duration {
	t.Helper()
	var took []time.Duration
	buf := make([]byte, 4096)
	ctx := soon(t)
	for i := range n {
		begin := time.Now()
		if err := c.session.Read(ctx, lunOf(lun), uint64(i%64*8), 8, buf); err != nil {
			t.Fatal(fmt.Errorf("the other LUN: %w", err))
		}
		took = append(took, time.Since(begin))
	}
	return took
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
