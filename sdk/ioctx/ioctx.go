package ioctx

import (
	"context"
	"time"
)

// Opener opens planners. One process serves one Opener, and opens it once.
type Opener interface {
	// Open opens the planner that config describes. The map's keys are those of the plugin's documentation; an unknown
	// key or a bad value is an error that names it. ctx bounds the opening only.
	Open(ctx context.Context, config map[string]string) (Planner, error)
}

// Planner says how I/O contexts are shared out. See the package comment for threading and errors.
type Planner interface {
	// Plan plans for a situation. The same situation has the same plan, as long as a Watcher tells of no change.
	Plan(ctx context.Context, s Situation) (Plan, error)
	// Close releases the planner. Every other call has returned.
	Close() error
}

// Replanner is a Planner that is asked when the target is short of something.
type Replanner interface {
	Planner
	// Replan plans anew under pressure. To return the plan in force, s.InForce, is an answer.
	Replan(ctx context.Context, s Situation, p Pressure) (Plan, error)
}

// Watcher is a Planner whose plans change.
type Watcher interface {
	Planner
	// Watch gives the function to call when Plan would answer differently. It is called once, before the first Plan. notify may
	// be called from any goroutine, does not block, and must not be called after Close has returned.
	Watch(notify func(reason string))
}

// Noticer is a Planner that has a line for the operator.
type Noticer interface {
	Planner
	// Notice is that line. It is called once, after Open, and does not block.
	Notice() string
}

// Situation is what a plan is made for.
type Situation struct {
	// Default is the plan that the target would follow without a planner. It is always in order.
	Default Plan
	// InForce is the plan that the target follows now; the zero Plan before the first.
	InForce Plan
	// Devices are the RDMA devices.
	Devices []Device
	// Units are the logical units.
	Units []Unit
	// Channels is the most channels that the configuration permits, ChannelsPerNexus those of one initiator.
	Channels, ChannelsPerNexus int
	// Memory is how many bytes may be registered with the devices together; 0 if nobody has set a bound.
	Memory uint64
}

// Device is an RDMA device.
type Device struct {
	Name string
	// MaxQueueDepth is the most work requests of one queue, 0 if unknown.
	MaxQueueDepth int
	// MTU is the path MTU in bytes, 0 if unknown.
	MTU int
}

// Unit is a logical unit.
type Unit struct {
	LUN  uint16
	Name string
	// MaxTransfer and OptimalTransfer are the store's in bytes, 0 if it has none.
	MaxTransfer, OptimalTransfer uint32
}

// Pressure is what the target is short of. The counts are those since the plan in force began.
type Pressure struct {
	// Waited is how many commands waited for a data buffer, TimedOut how many of them got none in time.
	Waited, TimedOut uint64
	// Refused is how many logins were refused for want of resources.
	Refused uint64
	// Channels is how many there are now.
	Channels int
	// Arena is how large the arenas are together, ArenaFree how much of them is free now, both in bytes.
	Arena, ArenaFree uint64
}

// Plan says how many I/O contexts there are, and how large they are.
type Plan struct {
	// Credits is the request limit that a channel starts with: how many requests an initiator may have outstanding on it.
	// 2..4096.
	Credits int
	// Unsolicited is how many receive buffers a channel has beyond Credits, for the information units that use no credit.
	// 1..64. So a channel's receive depth is Credits + Unsolicited.
	Unsolicited int
	// SharedReceives is how many receive buffers the channels of a device share; 0 means that each channel has its own. With it a channel is
	// promised Credits + Unsolicited of them, or fewer credits when not as many are left, so that there is never more credit than buffers.
	// 0, or 16..65536 and at least Unsolicited + 2. A device that cannot share receives gives each channel its own.
	SharedReceives int
	// Responses is how many response buffers, and so command contexts, a channel has. Credits..8192.
	Responses int
	// SendWork is the depth of a channel's send queue in work requests. 16..32768.
	SendWork int
	// MaxRequestIU is the longest information unit that an initiator may send in bytes: the size of a receive buffer. 64..1 MiB.
	MaxRequestIU uint32
	// MaxResponseIU is the longest information unit that is sent, in bytes. 64..4096. See the package comment.
	MaxResponseIU uint32
	// MaxImmediateOffset is the largest immediate-data offset that is granted, in bytes. 0..4096.
	MaxImmediateOffset uint32
	// MaxTransfer is the most data that one command may move, in bytes. 4096..16 MiB.
	MaxTransfer uint64
	// ArenaSize is the size of an arena, from which data buffers are lent, in bytes. MaxTransfer..1 TiB, a multiple of 4096.
	ArenaSize uint64
	// MaxWait is how long a command may wait for a data buffer before it ends with a status that the initiator retries. 1 ns..1 minute.
	MaxWait time.Duration
}
