package ring

import "fmt"

// Breach is a way to break the protocol of a ring.
type Breach uint8

// The breaches.
const (
	// BreachIndex: a producer's index moved back, or by more than can be.
	BreachIndex Breach = iota
	// BreachGeneration: an entry of another generation.
	BreachGeneration
	// BreachTag: a completion for no request in flight: unknown, completed before, or of an earlier use of the slot.
	BreachTag
	// BreachCode: a completion code that is not in the list.
	BreachCode
	// BreachBytes: a success that is short, or a failure that is longer than the request.
	BreachBytes
	// BreachEntry: a request that names an unknown operation, memory outside the arena, or more of a store than there can be.
	BreachEntry
	// BreachAt: a difference outside the data that were compared.
	BreachAt
	// Breaches is how many there are.
	Breaches
)

// String names the breach.
func (b Breach) String() string {
	names := [Breaches]string{"impossible index", "entry of another generation", "completion of nothing in flight",
		"unknown completion code", "impossible byte count", "invalid request", "difference outside the compared data"}
	if b < Breaches {
		return names[b]
	}
	return fmt.Sprintf("breach %d", uint8(b))
}

// Violation says that the peer broke the protocol. The half that found it does not work again: the ring
// cannot be trusted any more.
type Violation struct {
	Breach Breach
	// Got is the peer's word, Limit what it was held against.
	Got, Limit uint64
}

// Error names the breach and its numbers.
func (v *Violation) Error() string {
	return fmt.Sprintf("ring: the peer broke the protocol: %v (%#x against %#x)", v.Breach, v.Got, v.Limit)
}
