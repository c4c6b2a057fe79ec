package ioctx

import (
	"errors"
	"fmt"
	"time"
)

// Plan says how many I/O contexts there are and how large they are.
type Plan struct {
	// Credits is the request limit that a channel starts with: how many requests an initiator may
	// have outstanding on it. 2..4096.
	Credits int
	// Unsolicited is how many receive buffers a channel has beyond Credits, for the IUs that use no
	// credit (CRED_RSP, AER_RSP, I_LOGOUT). At least 1.
	Unsolicited int
	// SharedReceives is how many receive buffers the channels of a device share; 0 means that each has its own. Each channel is then
	// promised as many as it has credits and unsolicited receives, and gets fewer credits when there are not enough left. 16..65536, and
	// more than Unsolicited.
	SharedReceives int
	// Responses is how many response buffers, and so command contexts, a channel has. More than
	// Credits lets an initiator use a returned credit before the acknowledgement of the response
	// that returned it has come in. At least Credits.
	Responses int
	// SendWork is the depth of a channel's send queue in work requests.
	SendWork int
	// MaxRequestIU is the longest IU that an initiator may send, in bytes: the size of a receive buffer.
	MaxRequestIU uint32
	// MaxResponseIU is the longest IU that is sent, in bytes. An initiator sizes its receive
	// buffers by it at its first login, so it must never grow during the life of a target.
	MaxResponseIU uint32
	// MaxImmediateOffset is the largest immediate-data offset that is granted, in bytes.
	MaxImmediateOffset uint32
	// MaxTransfer is the most data that one command may move, in bytes.
	MaxTransfer uint64
	// ArenaSize is the size of an arena that the core makes, in bytes.
	ArenaSize uint64
	// MaxWait is how long a command may wait for a data buffer before it ends with a status that
	// the initiator retries.
	MaxWait time.Duration
}

// DefaultPlan is the plan in force without an ioctx plugin. MaxRequestIU is what the Linux kernel's
// target takes: enough for 8 KiB of immediate data.
func DefaultPlan() Plan {
	return Plan{
		Credits:            128,
		Unsolicited:        4,
		Responses:          192,
		SendWork:           512,
		MaxRequestIU:       8276,
		MaxResponseIU:      512,
		MaxImmediateOffset: 512,
		MaxTransfer:        16 << 20,
		ArenaSize:          64 << 20,
		MaxWait:            10 * time.Second,
	}
}

// ErrPlan is wrapped by what Validate returns.
var ErrPlan = errors.New("I/O context plan is not usable")

// Validate returns an error that names every field that is out of range, or nil.
func (p Plan) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(p.Credits >= 2 && p.Credits <= 4096, "credits %d: must be 2..4096", p.Credits)
	check(p.Unsolicited >= 1 && p.Unsolicited <= 64, "unsolicited receives %d: must be 1..64", p.Unsolicited)
	check(p.SharedReceives == 0 || p.SharedReceives >= 16 && p.SharedReceives <= 65536 && p.SharedReceives >= LeastCredits+p.Unsolicited,
		"shared receives %d: must be 0, or 16..65536 and at least %d more than the unsolicited ones", p.SharedReceives, LeastCredits)
	check(p.Responses >= p.Credits && p.Responses <= 8192, "response buffers %d: must be credits (%d)..8192", p.Responses, p.Credits)
	check(p.SendWork >= 16 && p.SendWork <= 32768, "send queue depth %d: must be 16..32768", p.SendWork)
	check(p.MaxRequestIU >= 64 && p.MaxRequestIU <= 1<<20, "request IU of %d bytes: must be 64..1048576", p.MaxRequestIU)
	check(p.MaxResponseIU >= 64 && p.MaxResponseIU <= 4096, "response IU of %d bytes: must be 64..4096", p.MaxResponseIU)
	check(p.MaxImmediateOffset <= 4096, "immediate-data offset of %d bytes: must be at most 4096", p.MaxImmediateOffset)
	check(p.MaxTransfer >= PageSize && p.MaxTransfer <= MaxBuffer, "transfer of %d bytes: must be %d..%d", p.MaxTransfer, PageSize, MaxBuffer)
	check(p.ArenaSize >= p.MaxTransfer && p.ArenaSize <= MaxArena, "arena of %d bytes: must be the longest transfer (%d)..%d", p.ArenaSize, p.MaxTransfer, uint64(MaxArena))
	check(p.MaxWait > 0 && p.MaxWait <= time.Minute, "buffer wait of %v: must be more than 0 and at most 1m", p.MaxWait)
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrPlan, errors.Join(errs...))
}

// LeastCredits is the fewest that an initiator can work with: it keeps one for task management.
const LeastCredits = 2

// Receives is the number of receive buffers of a channel, or the most that it is promised of the shared ones.
func (p Plan) Receives() int { return p.Credits + p.Unsolicited }

// ChannelBytes is how much registered memory a channel takes.
func (p Plan) ChannelBytes() uint64 {
	n := ringBytes(p.Responses+ReservedResponses, p.MaxResponseIU)
	if p.SharedReceives == 0 {
		n += ringBytes(p.Receives(), p.MaxRequestIU)
	}
	return n
}

// SharedBytes is how much registered memory the shared receives of a device take.
func (p Plan) SharedBytes() uint64 { return ringBytes(p.SharedReceives, p.MaxRequestIU) }

// ReservedResponses is the number of response buffers that a channel has for IUs of the target's
// own, such as T_LOGOUT, beside Plan.Responses.
const ReservedResponses = 2
