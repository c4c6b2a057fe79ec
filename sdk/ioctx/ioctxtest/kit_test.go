package ioctxtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/ioctx"
	"github.com/gosrpt/gosrpt/sdk/ioctx/ioctxtest"
)

// modest plans what the target would, with fewer credits after a change, and less of everything under pressure.
type modest struct {
	credits int
	notify  func(string)
}

func (m *modest) Plan(_ context.Context, s ioctx.Situation) (ioctx.Plan, error) {
	p := s.Default
	p.Credits = min(p.Credits, m.credits)
	if s.InForce.MaxResponseIU != 0 {
		p.MaxResponseIU = min(p.MaxResponseIU, s.InForce.MaxResponseIU)
	}
	return p, nil
}

func (m *modest) Replan(_ context.Context, s ioctx.Situation, _ ioctx.Pressure) (ioctx.Plan, error) {
	p := s.InForce
	p.Credits = max(p.Credits/2, 2)
	return p, nil
}

func (m *modest) Watch(notify func(string)) { m.notify = notify }

func (m *modest) Notice() string { return "modest" }

func (m *modest) Close() error { return nil }

func (m *modest) change() {
	m.credits /= 2
	if m.notify != nil {
		m.notify("half the credits")
	}
}

// opener opens modest planners, wrapped.
type opener struct {
	wrap func(*modest) ioctx.Planner
	last *modest
}

func (o *opener) Open(_ context.Context, config map[string]string) (ioctx.Planner, error) {
	for k := range config {
		return nil, fmt.Errorf("there is no key %q", k)
	}
	o.last = &modest{credits: 64}
	return o.wrap(o.last), nil
}

func subject(wrap func(*modest) ioctx.Planner) ioctxtest.Subject {
	o := &opener{wrap: wrap}
	return ioctxtest.Subject{
		Opener: o,
		Config: func(testing.TB) map[string]string { return nil },
		Change: func(testing.TB, map[string]string) { o.last.change() },
	}
}

func TestReferencePasses(t *testing.T) {
	ioctxtest.Test(t, subject(func(m *modest) ioctx.Planner { return m }))
}

// TestMinimumPasses: a planner without any optional power, and a subject that cannot change it.
func TestMinimumPasses(t *testing.T) {
	s := subject(func(m *modest) ioctx.Planner { return struct{ ioctx.Planner }{m} })
	s.Change = nil
	ioctxtest.Test(t, s)
}

// broken are planners with one fault, and the check that must find it.
var broken = map[string]struct {
	wrap func(*modest) ioctx.Planner
	find string
}{
	"greedy":    {func(m *modest) ioctx.Planner { return greedy{m} }, "every_situation"},
	"shy":       {func(m *modest) ioctx.Planner { return shy{m} }, "every_situation"},
	"moody":     {func(m *modest) ioctx.Planner { return &moody{modest: m} }, "the_same_situation"},
	"forgetful": {func(m *modest) ioctx.Planner { return forgetful{m} }, "what_initiators_were_told"},
	"shrinking": {func(m *modest) ioctx.Planner { return shrinking{m} }, "pressure"},
	"stubborn":  {func(m *modest) ioctx.Planner { return stubborn{m} }, "a_change"},
	"loud":      {func(m *modest) ioctx.Planner { return loud{m} }, "the_notice"},
}

type greedy struct{ *modest }

func (greedy) Plan(_ context.Context, s ioctx.Situation) (ioctx.Plan, error) {
	p := s.Default
	p.ArenaSize = s.Memory // whatever it is
	return p, nil
}

type shy struct{ *modest }

func (p shy) Plan(ctx context.Context, s ioctx.Situation) (ioctx.Plan, error) {
	if len(s.Units) == 0 {
		return ioctx.Plan{}, errors.New("what for?")
	}
	return p.modest.Plan(ctx, s)
}

type moody struct {
	*modest
	n int
}

func (p *moody) Plan(ctx context.Context, s ioctx.Situation) (ioctx.Plan, error) {
	plan, err := p.modest.Plan(ctx, s)
	p.n++
	plan.MaxWait += time.Duration(p.n)
	return plan, err
}

type forgetful struct{ *modest }

func (forgetful) Plan(_ context.Context, s ioctx.Situation) (ioctx.Plan, error) {
	return s.Default, nil
}

type shrinking struct{ *modest }

func (shrinking) Replan(_ context.Context, s ioctx.Situation, _ ioctx.Pressure) (ioctx.Plan, error) {
	p := s.InForce
	p.Credits /= 2
	return p, nil
}

type stubborn struct{ *modest }

func (p stubborn) Plan(_ context.Context, s ioctx.Situation) (ioctx.Plan, error) {
	return (&modest{credits: 64}).Plan(context.Background(), s)
}

type loud struct{ *modest }

func (loud) Notice() string { return "one\ntwo" }

// TestKitFindsBrokenPlanners runs the kit on each in a process of its own, where it must fail.
func TestKitFindsBrokenPlanners(t *testing.T) {
	if name := os.Getenv("IOCTXTEST_BROKEN"); name != "" {
		ioctxtest.Test(t, subject(broken[name].wrap))
		return
	}
	for name, b := range broken {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestKitFindsBrokenPlanners$")
			cmd.Env = append(os.Environ(), "IOCTXTEST_BROKEN="+name)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("the kit passes a planner that is %s", name)
			}
			if !strings.Contains(string(out), "FAIL: TestKitFindsBrokenPlanners/"+b.find) {
				t.Errorf("the check %q did not find it:\n%s", b.find, out)
			}
		})
	}
}
