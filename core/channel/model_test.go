package channel

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

var (
	modelSeed  = flag.Uint64("model.seed", 0, "seed of the random conversations; 0 draws one")
	modelSteps = flag.Int("model.steps", 1_000_000, "steps of the random conversations together")
)

// stir does one random thing that cannot end the channel.
func (w *world) stir() {
	switch w.rng.IntN(22) {
	case 0, 1, 2, 3, 4:
		w.send()
	case 5, 6, 7:
		w.deliver()
	case 8, 9, 10:
		w.complete()
	case 11:
		w.fetched()
	case 12, 13:
		w.lease()
	case 14, 15, 16:
		w.handle()
	case 17:
		if w.rng.IntN(4) == 0 {
			w.abort()
		}
	case 18:
		w.answerAsk()
	case 19:
		w.flush()
	case 20:
		w.managed()
	case 21:
		switch w.rng.IntN(16) {
		case 0:
			w.tooLate()
		case 1:
			w.report()
		}
	}
}

// idle works everything off without new requests.
func (w *world) idle() {
	w.step(Event{Kind: EvAdmit})
	for before := 0; before != w.steps || w.seen < len(w.queue); {
		before = w.steps
		w.deliver()
		w.complete()
		w.fetched()
		w.lease()
		w.handle()
		w.answerAsk()
		w.managed()
	}
}

// end ends the channel in one of the ways it can.
func (w *world) end() {
	switch w.rng.IntN(7) {
	case 0:
		w.step(Event{Kind: EvClose, Cause: CauseReplaced})
	case 1:
		w.receive(srp.AppendILogout(nil, 0))
	case 2:
		w.step(Event{Kind: EvTransportError})
	case 3:
		w.receive(unit(0x7e, 20))
	case 4:
		w.qpDead = true // the peer left: flushes come first
		w.flush()
	case 5:
		w.step(Event{Kind: EvConnectFailed})
	case 6:
		if w.step(Event{Kind: EvAskTimeout}); w.m.State() <= Live { // nothing was asked
			w.step(Event{Kind: EvClose, Cause: CauseInactive})
		}
	}
}

// drain finishes what an ended channel waits for.
func (w *world) drain() {
	for i := 0; i < 5000 && !w.closed; i++ {
		w.stir()
		if w.qpDead && !w.closed && !w.gone && w.rng.IntN(50) == 0 {
			w.lastEvent()
		}
	}
}

func (w *world) lastEvent() {
	kind := EvDrainTimeout
	if w.rng.IntN(2) == 0 {
		for len(w.queue) > 0 { // every completion comes before the last event
			w.complete()
		}
		kind = EvDisconnected
	}
	w.lose()
	w.step(Event{Kind: kind})
}

// lose ends all work: no completion may come any more.
func (w *world) lose() {
	w.qpDead, w.gone = true, true
	for _, k := range w.live {
		k.fetching, k.table.fetching = false, false
	}
}

// converse plays one channel from its login to its end, and returns how many steps that took.
func converse(t *testing.T, seed uint64) int {
	w := newWorld(t, seed)
	for range 5 + w.rng.IntN(600) {
		w.stir()
		if w.rng.IntN(100) == 0 {
			w.step(Event{Kind: EvAdmit})
		}
	}
	if w.m.State() > Live {
		w.failf("a well-behaved initiator was thrown out: %v", w.m.Err())
	}
	if w.rng.IntN(2) == 0 {
		w.idle()
		w.settled()
	}
	w.end()
	w.drain()
	w.over()
	return w.steps
}

// TestRandomConversationsKeepThePromises plays a million steps, of new conversations each time. A failure names its seed;
// go test -run RandomConversations -model.seed N repeats it.
func TestRandomConversationsKeepThePromises(t *testing.T) {
	if *modelSeed != 0 {
		converse(t, *modelSeed)
		return
	}
	const parts = 8
	for i := range parts {
		first := rand.Uint64() | 1 // never 0
		t.Run(fmt.Sprintf("part %d", i), func(t *testing.T) {
			t.Parallel()
			steps, played := 0, 0
			for seed := first; steps < *modelSteps/parts; seed += 2 {
				steps += converse(t, seed)
				played++
			}
			t.Logf("%d steps, %d conversations from seed %d on", steps, played, first)
		})
	}
}

// settled checks an idle channel: every credit is back, nothing is held.
func (w *world) settled() {
	if w.window != w.login {
		w.failf("the initiator has %d credits of %d", w.window, w.login)
	}
	if len(w.live) != 0 || len(w.ops) != 0 || len(w.inUse) != 0 || len(w.watched) != 0 {
		w.failf("%d slots, %d aborts, %d receives in use, %d deadlines", len(w.live), len(w.ops), len(w.inUse), len(w.watched))
	}
	missing := 0
	for tag, n := range w.sent {
		if !w.vanished[tag] {
			missing += n
		}
	}
	if missing > w.silent {
		w.failf("%d requests were never answered, %d ended without a word: %v", missing, w.silent, w.sent)
	}
}

// over checks that nothing is left of a channel.
func (w *world) over() {
	if !w.closed || len(w.live) != 0 || len(w.ops) != 0 || len(w.watched) != 0 {
		w.failf("%v, %d slots in use, %d aborts, %d deadlines", w.m.State(), len(w.live), len(w.ops), len(w.watched))
	}
	if n, work := w.m.Waiting(); n != 0 || work || len(w.m.free) != w.m.cfg.Slots {
		w.failf("%d slots, work %v, %d free", n, work, len(w.m.free))
	}
}
