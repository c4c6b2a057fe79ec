// Package static is the planner whose numbers are those of its configuration, whatever the situation.
package static

import (
	"context"
	"fmt"
	"math"

	"github.com/gosrpt/gosrpt/sdk/ioctx"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

// Opener opens planners. What is not set is the target's own. The ranges that count are those of sdk/ioctx.Plan.
type Opener struct{}

var settings = schema.Schema{
	{Key: "policy", Kind: schema.KindChoice, Choices: []string{"static"}, Default: "static", Help: "there is no other yet"},
	number("credits", "requests that an initiator may have outstanding on a channel"),
	number("unsolicited", "receive buffers of a channel beyond credits"),
	{Key: "shared_receives", Kind: schema.KindNumber, Min: 0, Max: math.MaxInt32, Help: "receive buffers that the channels of a device share; 0: each has its own"},
	number("responses", "response buffers of a channel; by default one and a half times the credits that are set"),
	number("send_work", "depth of a channel's send queue; by default four times the credits that are set, if that is more than the target's own"),
	size("max_request_iu", "longest information unit of an initiator, as 8KiB", math.MaxUint32),
	size("max_response_iu", "longest information unit of the target", math.MaxUint32),
	size("max_immediate_offset", "largest immediate-data offset", math.MaxUint32),
	size("max_transfer", "most data of one command", math.MaxInt64),
	size("arena_size", "memory for data of a plugin", math.MaxInt64),
	{Key: "max_wait", Kind: schema.KindDuration, Help: "how long a command may wait for memory, as 10s"},
}

func number(key, help string) schema.Setting {
	return schema.Setting{Key: key, Kind: schema.KindNumber, Min: 1, Max: math.MaxInt32, Help: help}
}

func size(key, help string, most int64) schema.Setting {
	return schema.Setting{Key: key, Kind: schema.KindSize, Min: 1, Max: most, Help: help}
}

// Describe implements schema.Describer.
func (Opener) Describe() schema.Description {
	return schema.Description{Name: "static", Version: "1.0.0", Summary: "I/O contexts by fixed numbers", Settings: settings}
}

// Open reads the settings.
func (Opener) Open(_ context.Context, config map[string]string) (ioctx.Planner, error) {
	v, err := settings.Read(config)
	if _, set := config["max_wait"]; err == nil && set && v.Duration("max_wait") == 0 {
		err = fmt.Errorf("max_wait: 0 cannot be; leave it out for the target's own")
	}
	if err != nil {
		return nil, &ioctx.Error{Code: ioctx.CodeConfig, Err: err}
	}
	_, shared := config["shared_receives"]
	return &planner{shared: shared, numbers: ioctx.Plan{
		SharedReceives: int(v.Number("shared_receives")),
		Credits:        int(v.Number("credits")), Unsolicited: int(v.Number("unsolicited")), Responses: int(v.Number("responses")),
		SendWork: int(v.Number("send_work")), MaxRequestIU: uint32(v.Size("max_request_iu")), MaxResponseIU: uint32(v.Size("max_response_iu")),
		MaxImmediateOffset: uint32(v.Size("max_immediate_offset")), MaxTransfer: uint64(v.Size("max_transfer")),
		ArenaSize: uint64(v.Size("arena_size")), MaxWait: v.Duration("max_wait"),
	}}, nil
}

// planner is the numbers that are set; the others are 0.
type planner struct {
	numbers ioctx.Plan
	shared  bool // SharedReceives is set, perhaps to 0
}

// Plan is the target's own plan with the numbers that are set. If they do not go together the error names those that do not.
func (p *planner) Plan(_ context.Context, s ioctx.Situation) (ioctx.Plan, error) {
	plan, set := s.Default, p.numbers
	if set.Credits != 0 {
		plan.Responses = set.Credits + set.Credits/2
		plan.SendWork = max(plan.SendWork, 4*set.Credits)
	}
	put(&plan.Credits, set.Credits)
	put(&plan.Unsolicited, set.Unsolicited)
	if p.shared {
		plan.SharedReceives = set.SharedReceives
	}
	put(&plan.Responses, set.Responses)
	put(&plan.SendWork, set.SendWork)
	put(&plan.MaxRequestIU, set.MaxRequestIU)
	put(&plan.MaxResponseIU, set.MaxResponseIU)
	put(&plan.MaxImmediateOffset, set.MaxImmediateOffset)
	put(&plan.MaxTransfer, set.MaxTransfer)
	put(&plan.ArenaSize, set.ArenaSize)
	put(&plan.MaxWait, set.MaxWait)
	if in := s.InForce.MaxResponseIU; in != 0 {
		plan.MaxResponseIU = min(plan.MaxResponseIU, in) // it must not grow while the target runs
	}
	if err := plan.Validate(); err != nil {
		return ioctx.Plan{}, &ioctx.Error{Code: ioctx.CodeConfig, Err: err}
	}
	return plan, nil
}

func put[T comparable](to *T, v T) {
	var unset T
	if v != unset {
		*to = v
	}
}

// Close has nothing to do.
func (*planner) Close() error { return nil }
