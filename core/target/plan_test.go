package target

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/rdma"
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

// TestAnnouncedResponsesNeverGrow: an initiator sizes its receive buffers by its first login.
func TestAnnouncedResponsesNeverGrow(t *testing.T) {
	leaktest.Check(t)
	entered, leave := make(chan bool), make(chan bool)
	g := newRig(t, func(g *rig) {
		g.cfg.Authorizer = judge(func(context.Context, Login) (Grant, error) {
			entered <- true
			<-leave
			return Grant{}, nil
		})
	})
	k := g.knocker(g.peer)
	told := uint32(1<<32 - 1)
	for _, size := range []uint32{512, 512, 400, 513, 300, 399, 256, 64, 512} {
		e := k.loop.NewEnd(rdma.QPConfig{SendDepth: 1, RecvDepth: 1})
		r := request()
		e.Connect(rdma.ConnectParams{Remote: rdma.Service{Addr: g.remote()}, Private: r.AppendRDMA(nil), Timeout: time.Minute})
		<-entered
		// The plan changes while the login is examined.
		p := g.target.Plan()
		grows := size > p.MaxResponseIU
		p.MaxResponseIU = size
		if err := g.target.SetPlan(p); (err != nil) != grows {
			t.Errorf("responses of %d bytes: %v", size, err)
		}
		leave <- true
		c := e.Next()
		rsp, err := srp.ParseLoginRsp(c.Data)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if in := g.target.Plan().MaxResponseIU; rsp.MaxTIIU > told || rsp.MaxTIIU != in {
			t.Errorf("told of %d bytes after %d, the plan in force has %d", rsp.MaxTIIU, told, in)
		}
		told = rsp.MaxTIIU
		e.Disconnect()
		e.Event(rdma.EventDisconnected)
		e.Close()
	}
	g.empty()
}
