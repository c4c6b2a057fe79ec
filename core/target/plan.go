package target

import (
	"fmt"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/ioctx"
)

// planned is a plan and what is offered at login because of it. It is replaced as a whole.
type planned struct {
	plan   ioctx.Plan
	policy channel.Policy
}

func (c *Config) planned(p ioctx.Plan) *planned {
	return &planned{p, channel.Policy{
		Targets: c.PortIDs, MaxITIU: p.MaxRequestIU, MaxTIIU: p.MaxResponseIU,
		Credits: uint32(p.Credits), MaxChannels: c.Limits.ChannelsPerNexus,
		Immediate: c.Immediate, MaxImmediateOffset: p.MaxImmediateOffset, MaxTransfer: uint32(p.MaxTransfer),
	}}
}

// policyFor is the policy, as far as a grant reaches.
func (p *planned) policyFor(g *Grant) channel.Policy {
	policy := p.policy
	if g.Channels > 0 {
		policy.MaxChannels = min(policy.MaxChannels, g.Channels)
	}
	if g.QueueDepth > 0 {
		policy.Credits = min(policy.Credits, uint32(g.QueueDepth))
	}
	return policy
}

// Plan is the plan in force.
func (t *Target) Plan() ioctx.Plan { return t.planned.Load().plan }

// SetPlan puts another plan in force, for the channels of later logins; arenas are not the target's. It may be called from
// any goroutine. An error, which wraps ErrConfig or ioctx.ErrPlan, leaves the plan as it is: the longest response cannot grow, and the completion queues
// have the depth that the first plan called for.
func (t *Target) SetPlan(p ioctx.Plan) error {
	t.planning.Lock()
	defer t.planning.Unlock()
	in := t.Plan()
	have, want := t.cfg.queueDepth(), t.cfg.workOf(&p)
	err := p.Validate()
	switch {
	case err != nil:
	case p.MaxResponseIU > in.MaxResponseIU:
		err = fmt.Errorf("%w: responses of %d bytes, initiators were told of %d", ErrConfig, p.MaxResponseIU, in.MaxResponseIU)
	case want > have:
		err = fmt.Errorf("%w: %d work requests, the completion queues were made for %d: restart to have more", ErrConfig, want, have)
	}
	if err != nil {
		return fmt.Errorf("target %s: the plan in force stays: %w", t.cfg.Name, err)
	}
	if p != in {
		t.planned.Store(t.cfg.planned(p))
		t.log.Info("another plan is in force for later logins", "credits", p.Credits, "shared_receives", p.SharedReceives, "responses", p.Responses, "send_work", p.SendWork,
			"request_iu", p.MaxRequestIU, "response_iu", p.MaxResponseIU, "max_transfer", p.MaxTransfer)
	}
	return nil
}
