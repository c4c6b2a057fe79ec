package ioctx

import "github.com/gosrpt/gosrpt/sdk/ioctx"

// Contract is the plan in the terms of the contract with planners.
func (p Plan) Contract() ioctx.Plan {
	return ioctx.Plan{
		Credits: p.Credits, Unsolicited: p.Unsolicited, Responses: p.Responses, SendWork: p.SendWork,
		MaxRequestIU: p.MaxRequestIU, MaxResponseIU: p.MaxResponseIU, MaxImmediateOffset: p.MaxImmediateOffset,
		MaxTransfer: p.MaxTransfer, ArenaSize: p.ArenaSize, MaxWait: p.MaxWait,
		SharedReceives: p.SharedReceives,
	}
}

// FromContract is a planner's plan. An error wraps ErrPlan.
func FromContract(c ioctx.Plan) (Plan, error) {
	p := Plan{
		Credits: c.Credits, Unsolicited: c.Unsolicited, Responses: c.Responses, SendWork: c.SendWork,
		MaxRequestIU: c.MaxRequestIU, MaxResponseIU: c.MaxResponseIU, MaxImmediateOffset: c.MaxImmediateOffset,
		MaxTransfer: c.MaxTransfer, ArenaSize: c.ArenaSize, MaxWait: c.MaxWait,
		SharedReceives: c.SharedReceives,
	}
	return p, p.Validate()
}
