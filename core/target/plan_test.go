package target

import (
	"errors"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/srp"
)

func TestAnotherPlanIsInForceForLaterLogins(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	s := g.ready()
	p := g.target.Plan()
	if p != g.cfg.Plan {
		t.Errorf("%+v", p)
	}
	p.Credits, p.MaxRequestIU, p.MaxResponseIU = 4, 9000, 256
	if err := g.target.SetPlan(p); err != nil {
		t.Fatal(err)
	}
	k := g.knocker(g.peer)
	r := request()
	r.Initiator[0] = 7
	e, rsp := k.accepted(r)
	if rsp.Delta != 4 || rsp.MaxITIU != 9000 || rsp.MaxTIIU != 256 {
		t.Errorf("%+v", rsp)
	}
	if err := s.Write(t.Context(), srp.LUN{}, 0, 2048, pattern(1<<20, 3)); err != nil {
		t.Errorf("the session from before: %v", err)
	}
	e.Disconnect()
	s.Close()
	g.ready().Close()
	g.empty()
}

func TestPlanThatCannotBeLeavesTheOneInForce(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	in := g.target.Plan()
	for want, change := range map[string]func(*ioctx.Plan){
		"credits":              func(p *ioctx.Plan) { p.Credits = 0 },
		"responses of 513":     func(p *ioctx.Plan) { p.MaxResponseIU = 513 },
		"restart to have more": func(p *ioctx.Plan) { p.SendWork++ },
	} {
		p := in
		change(&p)
		if err := g.target.SetPlan(p); err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, ErrConfig) && !errors.Is(err, ioctx.ErrPlan) {
			t.Errorf("%v, want %q", err, want)
		}
		if g.target.Plan() != in {
			t.Errorf("%s: %+v is in force", want, g.target.Plan())
		}
	}
	p := in
	p.Credits, p.SendWork = p.Credits-1, p.SendWork+1 // as many work requests
	if err := g.target.SetPlan(p); err != nil {
		t.Error(err)
	}
	p.MaxResponseIU = 256
	if err := g.target.SetPlan(p); err != nil {
		t.Error(err)
	}
	p.MaxResponseIU = 300
	if err := g.target.SetPlan(p); !errors.Is(err, ErrConfig) {
		t.Errorf("what initiators were told grew: %v", err)
	}
}
