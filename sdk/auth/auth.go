package auth

import (
	"context"
	"net/netip"
)

// Opener opens authorisers. One process serves one Opener, and opens it once.
type Opener interface {
	// Open opens the authoriser that config describes. The map's keys are those of the plugin's documentation; an
	// unknown key or a bad value is an error that names it. ctx bounds the opening only.
	Open(ctx context.Context, config map[string]string) (Authorizer, error)
}

// Authorizer decides who may log in. See the package comment for threading and errors.
type Authorizer interface {
	// Decide decides a login. It keeps nothing of l and has no effect that a second call would repeat: the host may ask
	// as often as it likes.
	Decide(ctx context.Context, l Login) (Decision, error)
	// Close releases the authoriser. Every Decide has returned.
	Close() error
}

// Watcher is an Authorizer whose decisions change while sessions live.
type Watcher interface {
	Authorizer
	// Watch gives the function to call at each change. It is called once, before the first Decide. notify may be called
	// from any goroutine, does not block, and must not be called after Close has returned. What Decide answers after
	// notify was called must be what is in force from then on.
	Watch(notify func(Change))
}

// Noticer is an Authorizer that has a line for the operator, such as which list it has read.
type Noticer interface {
	Authorizer
	// Notice is that line. It is called once, after Open, and does not block.
	Notice() string
}

// Action is what a login wants done with the channels that its nexus has (SRP r16a 6.2, multi-channel action).
type Action uint8

// The actions.
const (
	// ActionSingle ends them.
	ActionSingle Action = 0
	// ActionMulti keeps them.
	ActionMulti Action = 1
)

// Login is a login request that is in order but for its permission.
type Login struct {
	// Initiator and Target are the port identifiers of the nexus. Neither is authenticated.
	Initiator, Target ID
	// SourceGID is the GID that the request came from.
	SourceGID ID
	// SourceAddr is the IP address that the request came from, without a zone; the zero Addr if there is none, on
	// InfiniBand without IP addressing.
	SourceAddr netip.Addr
	// Device and Port name the local RDMA port that it came in at.
	Device string
	Port   int
	// PKey is the partition of the path.
	PKey uint16
	// Action is what it wants done with the nexus's channels.
	Action Action
}

// Decision is what an initiator is permitted.
type Decision struct {
	// Allow permits the login. Without it only Reason counts.
	Allow bool
	// Reason tells the operator why, in one line. It is logged; the initiator is told only that it is refused.
	Reason string
	// AllLUNs shows every logical unit of the target, under the target's numbers. LUNs must be empty then.
	AllLUNs bool
	// LUNs is what the initiator sees, and under which numbers; nothing if it is empty. A name that the target does not
	// have is logged, and shown as soon as there is a unit of that name.
	LUNs []LUN
	// ReadOnly refuses writes to every logical unit.
	ReadOnly bool
	// Quota bounds what the initiator may use.
	Quota Quota
}

// MaxLUN is the highest LUN that can be exported (SAM-5 4.7, flat space addressing).
const MaxLUN = 16383

// Bounds of a Decision's text, in bytes.
const (
	MaxReason = 1024
	MaxName   = 255
)

// LUN is one logical unit as an initiator sees it.
type LUN struct {
	// LUN is the number that the initiator uses, 0..MaxLUN.
	LUN uint16
	// Name is the operator's name of the logical unit.
	Name string
	// ReadOnly refuses writes to it.
	ReadOnly bool
}

// Quota bounds what an initiator may use. Zero means the target's own limit, which goes first if it is lower.
type Quota struct {
	// Channels is the most channels of the nexus.
	Channels int
	// QueueDepth is the most commands outstanding on a channel, at least 2: one is for task management. It holds for channels that are made
	// after the decision.
	QueueDepth int
}

// Change tells that decisions may have changed.
type Change struct {
	// Initiators are the initiator port identifiers that are concerned; none means that any may be.
	Initiators []ID
	// Revoke ends the sessions of Initiators at once. Without it the host asks Decide about each session concerned, and
	// does what the answer says.
	Revoke bool
	// Reason tells the operator what happened, in one line.
	Reason string
}
