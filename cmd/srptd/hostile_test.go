package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/initiator"
)

// TestHostilePluginHurtsNothingButItsOwnLUN runs a plugin that changes every field of its rings at random, plays with the
// doorbells and writes all over its arena, next to an honest one under verified I/O. Whatever is asked of the hostile one's LUN has
// some answer. GOSRPT_SOAK_HOSTILE is for how long, as in "10m".
func TestHostilePluginHurtsNothingButItsOwnLUN(t *testing.T) {
	long(t)
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv("GOSRPT_SOAK_HOSTILE"), "10s"))
	if err != nil {
		t.Fatalf("GOSRPT_SOAK_HOSTILE: %v", err)
	}
	c := newCampaign(t, func(cfg *config.Config) {
		cfg.Plugin.CallTimeout, cfg.Plugin.RestartWait = 5*time.Second, 5*time.Second
		// Each process is hostile in another way.
		path := filepath.Join(cfg.PluginDirs[0], "hostile")
		script := fmt.Sprintf("#!/bin/sh\nexec %s hostile $$\n", executable(t, "testplugin"))
		if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte(script), 0o755)); err != nil {
			t.Fatal(err)
		}
	}, "file", "hostile")
	c.wild = c.d.disks[1]
	honest := c.load(t, 0, 8)
	end := honest.background(t)
	begin := time.Now()
	files, routines := openFiles(t), runtime.NumGoroutine()
	h := hostility{c: c, until: begin.Add(lasts)}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { h.ask(t, rand.New(rand.NewPCG(9, uint64(i)))) })
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	for ticks := time.NewTicker(time.Minute); ; {
		select {
		case <-ticks.C:
			t.Logf("%v: %s", time.Since(begin).Round(time.Second), h.String())
			continue
		case <-done:
			ticks.Stop()
		}
		break
	}
	end()
	honest.verifyAll(t)
	s, n := c.plugin(1).Status(), c.d.disks[1].parts.queue.Counters()
	if h.answers.Load() == 0 || s.Restarts == 0 {
		t.Errorf("nothing happened: %s, %+v", h.String(), s)
	}
	if is := c.plugin(0).Status(); is.Restarts != 0 {
		t.Errorf("the honest plugin: %+v", is)
	}
	t.Logf("%v: %s; %d commands to the honest LUN, 0 wrong, 0 failed, the longest %v; breaches of the last queue %v; %d files open, before %d; %d goroutines, before %d",
		time.Since(begin).Round(time.Second), h.String(), honest.requests, honest.worst.Round(time.Millisecond), n.Breaches,
		openFiles(t), files, runtime.NumGoroutine(), routines)
}

// hostility is what is asked of the hostile LUN.
type hostility struct {
	c     *campaign
	until time.Time
	// answers are those to commands, of which some were GOOD.
	answers, good atomic.Uint64
}

func (h *hostility) String() string {
	return fmt.Sprintf("%d answers of the hostile LUN, %d of them GOOD, %d processes", h.answers.Load(), h.good.Load(), h.c.plugin(1).Status().Restarts+1)
}

func (h *hostility) ask(t *testing.T, rng *rand.Rand) {
	buf := make([]byte, 64<<10)
	for time.Now().Before(h.until) && !t.Failed() {
		err := h.one(rng, buf)
		var status *initiator.StatusError
		switch {
		case err == nil:
			h.good.Add(1)
		case !errors.As(err, &status):
			t.Errorf("no answer of the hostile LUN: %v", err)
		}
		h.answers.Add(1)
	}
}

// one is a command to the hostile LUN.
func (h *hostility) one(rng *rand.Rand, buf []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n, lba := 1+rng.IntN(len(buf)/512), uint64(rng.IntN(1024))
	if rng.IntN(2) == 0 {
		return h.c.session.Read(ctx, lunOf(1), lba, uint32(n), buf[:n*512])
	}
	return h.c.session.Write(ctx, lunOf(1), lba, uint32(n), buf[:n*512])
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
