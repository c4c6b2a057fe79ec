package ring

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/internal/shm"
)

// mapped makes regions as they are between processes.
func mapped(t *testing.T, entries uint32) Regions {
	t.Helper()
	region := func(size int) []byte {
		m, err := shm.Create("ring", size, shm.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m.Bytes()
	}
	return Regions{Host: region(HostSize(entries)), Plugin: region(PluginSize(entries))}
}

// await is until the word is as wanted.
func await(word *atomic.Uint32, ok func(uint32) bool) uint32 {
	for i := 1; ; i++ {
		if w := word.Load(); ok(w) {
			return w
		}
		if i%1000 == 0 {
			runtime.Gosched()
		}
	}
}

// TestSleepAndPublishAtOnceLoseNoWakeUp has the plugin fall asleep while the host publishes, as near to one another as they come.
func TestSleepAndPublishAtOnceLoseNoWakeUp(t *testing.T) {
	const rounds = 8000
	r := mapped(t, 1)
	h, err := NewHost(r, 1, 7)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlugin(r, 1, 7, arenaSize)
	if err != nil {
		t.Fatal(err)
	}
	var round, slept atomic.Uint32
	var wg sync.WaitGroup
	defer func() {
		round.Store(rounds)
		wg.Wait()
	}()
	wg.Go(func() {
		for n := uint32(1); n <= rounds; n++ {
			await(&round, func(w uint32) bool { return w >= n })
			result := 2 * n
			if p.Sleep() {
				result++
			}
			slept.Store(result)
		}
	})
	for n := uint32(1); n <= rounds; n++ {
		h.Push(0, read(0))
		round.Store(n)
		rung := h.Publish()
		asleep := await(&slept, func(w uint32) bool { return w>>1 == n })&1 == 1
		if asleep && !rung {
			t.Fatalf("round %d: the plugin sleeps over a request and is not rung", n)
		}
		p.Awake()
		p.Complete(Completion{Tag: take(t, p, 1)[0].Tag, Bytes: 512})
		p.Publish()
		if n, err := h.Pop(make([]Done, 1)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
}
