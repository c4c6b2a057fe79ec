package target

import "slices"

// Grant is what an initiator is permitted.
type Grant struct {
	// Reason tells the operator why it is permitted, such as the rule that names it.
	Reason string
	// ReadOnly refuses it what writes, on every logical unit.
	ReadOnly bool
	// LUNs is what it sees, and under which numbers; nil means every logical unit, under the target's own numbers, and an
	// empty list none. It is not changed any more once given.
	LUNs []GrantedLUN
	// Channels is the most channels of the nexus, QueueDepth the most commands outstanding on each; 0 means the target's
	// own limit, which goes first if it is lower.
	Channels, QueueDepth int
}

// sameAccess tells whether two grants permit the same access to the same units.
func (g *Grant) sameAccess(o *Grant) bool {
	return g.ReadOnly == o.ReadOnly && (g.LUNs == nil) == (o.LUNs == nil) && slices.Equal(g.LUNs, o.LUNs)
}

// GrantedLUN is a logical unit as an initiator sees it.
type GrantedLUN struct {
	// LUN is the number that the initiator uses, 0..scsi.MaxLUN. Each comes once.
	LUN uint16
	// Unit is the name of the lu.Device. Each comes once; one that the target does not have is seen as soon as it has.
	Unit string
	// ReadOnly refuses what writes to it.
	ReadOnly bool
}
