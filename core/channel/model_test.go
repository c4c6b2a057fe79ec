package channel

import (
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

// stir does one random thing that cannot end the channel.
func (w *world) stir() {
	switch w.rng.IntN(20) {
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
		w.answerCredReq()
	case 19:
		w.flush()
	}
}

// idle works everything off without new requests.
func (w *world) idle() {
	w.step(Event{Kind: EvAdmit})
	for range 2000 {
		w.deliver()
		w.complete()
		w.fetched()
		w.lease()
		w.handle()
		w.answerCredReq()
	}
}

// end ends the channel in one of the ways it can.
func (w *world) end() {
	switch w.rng.IntN(6) {
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
	}
}

// drain finishes what an ended channel waits for.
func (w *world) drain() {
	for i := 0; i < 5000 && !w.closed; i++ {
		w.stir()
		if w.rng.IntN(100) == 0 && !w.closed {
			w.step(Event{Kind: EvAdmit}) // what ends the channel may wait behind a hold
		}
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
		k.fetching = false
	}
}

func TestRandomConversationsKeepThePromises(t *testing.T) {
	for seed := range uint64(300) {
		w := newWorld(t, seed)
		for range 400 {
			w.stir()
			if w.rng.IntN(100) == 0 {
				w.step(Event{Kind: EvAdmit})
			}
		}
		if w.m.State() > Live {
			w.failf("seed %d: a well-behaved initiator was thrown out: %v", seed, w.m.Err())
		}
		w.idle()
		w.settled(seed)
		w.end()
		w.drain()
		if !w.closed || len(w.live) != 0 || len(w.ops) != 0 {
			w.failf("seed %d: %v, %d slots in use, %d aborts", seed, w.m.State(), len(w.live), len(w.ops))
		}
	}
}

func TestRandomEndsDrain(t *testing.T) {
	for seed := range uint64(1000) {
		w := newWorld(t, seed+10_000)
		for range 5 + w.rng.IntN(150) {
			w.stir()
		}
		w.end()
		w.drain()
		if !w.closed || len(w.live) != 0 || len(w.ops) != 0 {
			w.failf("seed %d: %v, %d slots in use, %d aborts", seed, w.m.State(), len(w.live), len(w.ops))
		}
		if n, work := w.m.Waiting(); n != 0 || work || len(w.m.free) != w.m.cfg.Slots {
			w.failf("seed %d: %d slots, work %v, %d free", seed, n, work, len(w.m.free))
		}
	}
}

// settled checks an idle channel: every credit is back, nothing is held.
func (w *world) settled(seed uint64) {
	if w.window != int(w.m.cfg.Credits) {
		w.failf("seed %d: the initiator has %d credits of %d", seed, w.window, w.m.cfg.Credits)
	}
	if len(w.live) != 0 || len(w.ops) != 0 || len(w.inUse) != 0 {
		w.failf("seed %d: %d slots, %d aborts, %d receives in use", seed, len(w.live), len(w.ops), len(w.inUse))
	}
	for tag, n := range w.sent {
		if n != 0 && !w.vanished[tag] {
			w.failf("seed %d: tag %v was never answered", seed, tag)
		}
	}
}
