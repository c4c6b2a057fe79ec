package target

import (
	"context"
	"testing"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// TestGreedyHostDelaysAnotherByOneBuffer has a host with as many commands outstanding as it may, each of which takes all of the arena,
// and a slow store.
func TestGreedyHostDelaysAnotherByOneBuffer(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	greedy := g.ready()
	small := g.ready(func(c *initiator.Config) { c.Initiator[0] = 9 })
	g.hold()
	large := make(chan error, 15)
	for range cap(large) {
		go func() { large <- greedy.Read(context.Background(), srp.LUN{}, 0, 2048, make([]byte, 1<<20)) }()
	}
	waiting := func(n int) {
		t.Helper()
		g.waitFor("commands wait for a buffer", func() bool { return g.backend.Held() == 1 && g.arena.Stats().Waiting == n })
	}
	waiting(14)
	done := make(chan error, 2)
	read := func() { done <- small.Read(context.Background(), srp.LUN{}, 0, 8, make([]byte, 4096)) }
	go read()
	waiting(15)

	// Task management does not wait for buffers.
	if err := small.Manage(t.Context(), srp.FuncAbortTaskSet, srp.LUN{}); err != nil {
		t.Errorf("task management while all buffers are in use: %v", err)
	}
	if err := <-done; err == nil {
		t.Error("the command that was to be aborted was done")
	}
	waiting(14)

	go read()
	waiting(15)
	step := func() {
		g.do(func() { g.backend.Release() })
		g.target.Wake()
	}
	step()
	waiting(14) // the greedy host waited before, so it has the next buffer, and the small one that after it
	step()
	waiting(13)
	step()
	if err := <-done; err != nil {
		t.Errorf("the small host: %v", err)
	}
	if n := len(large); n > 2 {
		t.Errorf("%d commands of the greedy host were done before", n)
	}
	g.release()
	for range cap(large) {
		if err := <-large; err != nil {
			t.Errorf("the greedy host: %v", err)
		}
	}
	g.do(func() {
		if s := g.arena.Stats(); s.TimedOut != 0 {
			t.Errorf("%+v", s)
		}
	})
	greedy.Close()
	small.Close()
	g.empty()
}
