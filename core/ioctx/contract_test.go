package ioctx

import (
	"errors"
	"reflect"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/ioctx"
)

func TestPlanSurvivesTheContract(t *testing.T) {
	// Every number is another, so that none can stand for another one.
	p := DefaultPlan()
	p.Unsolicited, p.MaxResponseIU, p.MaxImmediateOffset, p.MaxTransfer, p.SharedReceives = 5, 300, 511, 1<<20, 4000
	got, err := FromContract(p.Contract())
	if err != nil || got != p {
		t.Errorf("%+v, %v, want %+v", got, err, p)
	}
	if ours, theirs := reflect.TypeFor[Plan]().NumField(), reflect.TypeFor[ioctx.Plan]().NumField(); ours != theirs {
		t.Errorf("a plan has %d numbers here and %d in the contract", ours, theirs)
	}
	if _, err := FromContract(ioctx.Plan{}); !errors.Is(err, ErrPlan) {
		t.Errorf("the zero plan: %v", err)
	}
}

// TestBothSidesAgreeOnTheRanges: what the contract lets through is what Validate does, at the ends of every range.
func TestBothSidesAgreeOnTheRanges(t *testing.T) {
	for _, change := range []func(*ioctx.Plan){
		func(p *ioctx.Plan) {},
		func(p *ioctx.Plan) { p.Credits = 2 }, func(p *ioctx.Plan) { p.Credits = 1 },
		func(p *ioctx.Plan) { p.Credits, p.Responses = 4096, 4096 }, func(p *ioctx.Plan) { p.Credits, p.Responses = 4097, 4097 },
		func(p *ioctx.Plan) { p.Unsolicited = 1 }, func(p *ioctx.Plan) { p.Unsolicited = 0 },
		func(p *ioctx.Plan) { p.Unsolicited = 64 }, func(p *ioctx.Plan) { p.Unsolicited = 65 },
		func(p *ioctx.Plan) { p.SharedReceives = 16 }, func(p *ioctx.Plan) { p.SharedReceives = 15 }, func(p *ioctx.Plan) { p.SharedReceives = -1 },
		func(p *ioctx.Plan) { p.SharedReceives = 65536 }, func(p *ioctx.Plan) { p.SharedReceives = 65537 },
		func(p *ioctx.Plan) { p.Unsolicited, p.SharedReceives = 20, 21 }, func(p *ioctx.Plan) { p.Unsolicited, p.SharedReceives = 20, 22 },
		func(p *ioctx.Plan) { p.Responses = p.Credits }, func(p *ioctx.Plan) { p.Responses = p.Credits - 1 },
		func(p *ioctx.Plan) { p.Responses = 8192 }, func(p *ioctx.Plan) { p.Responses = 8193 },
		func(p *ioctx.Plan) { p.SendWork = 16 }, func(p *ioctx.Plan) { p.SendWork = 15 },
		func(p *ioctx.Plan) { p.SendWork = 32768 }, func(p *ioctx.Plan) { p.SendWork = 32769 },
		func(p *ioctx.Plan) { p.MaxRequestIU = 64 }, func(p *ioctx.Plan) { p.MaxRequestIU = 63 },
		func(p *ioctx.Plan) { p.MaxRequestIU = 1 << 20 }, func(p *ioctx.Plan) { p.MaxRequestIU = 1<<20 + 1 },
		func(p *ioctx.Plan) { p.MaxResponseIU = 64 }, func(p *ioctx.Plan) { p.MaxResponseIU = 63 },
		func(p *ioctx.Plan) { p.MaxResponseIU = 4096 }, func(p *ioctx.Plan) { p.MaxResponseIU = 4097 },
		func(p *ioctx.Plan) { p.MaxImmediateOffset = 0 }, func(p *ioctx.Plan) { p.MaxImmediateOffset = 4096 },
		func(p *ioctx.Plan) { p.MaxImmediateOffset = 4097 },
		func(p *ioctx.Plan) { p.MaxTransfer = 4096 }, func(p *ioctx.Plan) { p.MaxTransfer = 4095 },
		func(p *ioctx.Plan) { p.MaxTransfer = MaxBuffer }, func(p *ioctx.Plan) { p.MaxTransfer = MaxBuffer + 1 },
		func(p *ioctx.Plan) { p.ArenaSize = p.MaxTransfer }, func(p *ioctx.Plan) { p.ArenaSize = p.MaxTransfer - PageSize },
		func(p *ioctx.Plan) { p.ArenaSize = MaxArena }, func(p *ioctx.Plan) { p.ArenaSize = MaxArena + PageSize },
		func(p *ioctx.Plan) { p.MaxWait = 1 }, func(p *ioctx.Plan) { p.MaxWait = 0 },
		func(p *ioctx.Plan) { p.MaxWait = 60e9 }, func(p *ioctx.Plan) { p.MaxWait = 60e9 + 1 },
	} {
		p := DefaultPlan().Contract()
		change(&p)
		_, ours := FromContract(p)
		if theirs := p.Validate(); (ours == nil) != (theirs == nil) {
			t.Errorf("%+v: here %v, by the contract %v", p, ours, theirs)
		}
	}
}
