// Package static is the planner whose numbers are those of its configuration, whatever the situation.
package static

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/gosrpt/gosrpt/sdk/ioctx"
)

// Opener opens planners. The settings are
//
//	policy                  static (default); there is no other yet
//	credits                 requests that an initiator may have outstanding on a channel
//	unsolicited             receive buffers of a channel beyond credits
//	responses               response buffers of a channel; by default one and a half times the credits that are set
//	send_work               depth of a channel's send queue; by default four times the credits that are set, if that is more than the target's own
//	max_request_iu          longest information unit of an initiator, with a unit, as 8KiB
//	max_response_iu         longest information unit of the target, with a unit
//	max_immediate_offset    largest immediate-data offset, with a unit
//	max_transfer            most data of one command, with a unit
//	arena_size              memory for data of a plugin, with a unit
//	max_wait                how long a command may wait for memory, as 10s
//
// A number that is not set is the target's own. The ranges are those of sdk/ioctx.Plan.
type Opener struct{}

// Open reads the settings.
func (Opener) Open(_ context.Context, config map[string]string) (ioctx.Planner, error) {
	p := &planner{}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if err := p.set(key, config[key]); err != nil {
			return nil, &ioctx.Error{Code: ioctx.CodeConfig, Err: fmt.Errorf("%s: %w", key, err)}
		}
	}
	return p, nil
}

// planner is the numbers that are set; the others are 0.
type planner struct{ numbers ioctx.Plan }

// set takes one setting.
func (p *planner) set(key, value string) error {
	n := &p.numbers
	switch key {
	case "policy":
		if value != "static" {
			return fmt.Errorf("%q; there is only static", value)
		}
		return nil
	case "credits":
		return number(&n.Credits, value)
	case "unsolicited":
		return number(&n.Unsolicited, value)
	case "responses":
		return number(&n.Responses, value)
	case "send_work":
		return number(&n.SendWork, value)
	case "max_request_iu":
		return size32(&n.MaxRequestIU, value)
	case "max_response_iu":
		return size32(&n.MaxResponseIU, value)
	case "max_immediate_offset":
		return size32(&n.MaxImmediateOffset, value)
	case "max_transfer":
		return size(&n.MaxTransfer, value)
	case "arena_size":
		return size(&n.ArenaSize, value)
	case "max_wait":
		return duration(&n.MaxWait, value)
	}
	return fmt.Errorf("no such setting; there are %s", strings.Join(settings, ", "))
}

var settings = []string{"policy", "credits", "unsolicited", "responses", "send_work", "max_request_iu", "max_response_iu",
	"max_immediate_offset", "max_transfer", "arena_size", "max_wait"}

func number(to *int, value string) error {
	n, err := strconv.ParseUint(value, 10, 31)
	if err == nil && n == 0 {
		err = fmt.Errorf("0 cannot be; leave it out for the target's own")
	}
	*to = int(n)
	return err
}

func size(to *uint64, value string) error {
	n, err := humanize.ParseBytes(value)
	if err == nil && n == 0 {
		err = fmt.Errorf("0 cannot be; leave it out for the target's own")
	}
	*to = n
	return err
}

func size32(to *uint32, value string) error {
	var n uint64
	if err := size(&n, value); err != nil {
		return err
	}
	if n > math.MaxUint32 {
		return fmt.Errorf("%s is too much", value)
	}
	*to = uint32(n)
	return nil
}

func duration(to *time.Duration, value string) error {
	d, err := time.ParseDuration(value)
	if err == nil && d <= 0 {
		err = fmt.Errorf("%v cannot be", d)
	}
	*to = d
	return err
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
