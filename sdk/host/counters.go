package host

import (
	"sync/atomic"

	"github.com/gosrpt/gosrpt/sdk/internal/ring"
)

// counter is written by one goroutine and read by any.
type counter struct{ v atomic.Uint64 }

func (c *counter) add(n uint64) { c.v.Store(c.v.Load() + n) }

// Counters are what a queue has counted since it was made.
type Counters struct {
	// Rings is how often the plugin's doorbell was rung.
	Rings uint64
	// Attached is how many processes the queue has been attached to.
	Attached uint64
	// Held is how many requests came while there was no process to send them to, or during a pause, and waited.
	Held uint64
	// Resent is how many requests were sent again to a later process.
	Resent uint64
	// Dropped is how many were not sent, or not again, because they were cancelled or must not be done twice.
	Dropped uint64
	// Expired is how many were given up because no process came in time.
	Expired uint64
	// Refused is how many had their data outside the arena, or were for a power that the store does not have.
	Refused uint64
	// Breaches is how often a plugin broke the ring's protocol, by kind.
	Breaches [ring.Breaches]uint64
}

type counters struct {
	rings, attached, held, resent, dropped, expired, refused counter
	breaches                                                 [ring.Breaches]counter
}

func (c *counters) snapshot() Counters {
	s := Counters{Rings: c.rings.v.Load(), Attached: c.attached.v.Load(), Held: c.held.v.Load(), Resent: c.resent.v.Load(),
		Dropped: c.dropped.v.Load(), Expired: c.expired.v.Load(), Refused: c.refused.v.Load()}
	for i := range s.Breaches {
		s.Breaches[i] = c.breaches[i].v.Load()
	}
	return s
}
