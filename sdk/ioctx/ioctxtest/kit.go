package ioctxtest

import (
	"context"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/conformance"
	"github.com/gosrpt/gosrpt/sdk/ioctx"
)

// patience bounds each check; a planner that hangs fails.
const patience = 30 * time.Second

// Subject is what is tested.
type Subject struct {
	// Opener opens the planners.
	Opener ioctx.Opener
	// Config returns a configuration. Each check asks for one.
	Config func(t testing.TB) map[string]string
	// Change makes a change that whoever watches is told. config is what Config returned. Nil if that cannot be done.
	Change func(t testing.TB, config map[string]string)
}

// check is one promise of the contract.
type check struct {
	name string
	run  func(*run)
}

// Test runs every check as a subtest.
func Test(t *testing.T, s Subject) { conformance.Test(t, Checks(s)) }

// Checks lists the checks, for conformance.Runner.
func Checks(s Subject) []conformance.Check {
	if s.Opener == nil || s.Config == nil {
		panic("ioctxtest: a Subject needs an Opener and a Config")
	}
	var all []conformance.Check
	for _, c := range checks {
		all = append(all, conformance.Check{Name: c.name, Run: func(t testing.TB) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			t.Cleanup(cancel)
			c.run(&run{TB: t, Subject: s, ctx: ctx, config: s.Config(t)})
		}})
	}
	return all
}

// run is one check in progress.
type run struct {
	testing.TB
	Subject
	ctx     context.Context
	config  map[string]string
	planner ioctx.Planner
}

// open opens the run's planner and closes it with the test.
func (r *run) open() {
	r.Helper()
	p, err := r.Opener.Open(r.ctx, r.config)
	if err != nil {
		r.Fatalf("Open: %v", err)
	}
	if p == nil {
		r.Fatal("Open returned neither a planner nor an error")
	}
	r.planner = p
	r.Cleanup(func() {
		if err := p.Close(); err != nil {
			r.Errorf("Close: %v", err)
		}
	})
}

// plan asks, and holds the answer against the contract.
func (r *run) plan(s ioctx.Situation) ioctx.Plan {
	r.Helper()
	p, err := r.planner.Plan(r.ctx, s)
	r.hold(s, p, err)
	return p
}

// hold fails the check if p is no answer to s.
func (r *run) hold(s ioctx.Situation, p ioctx.Plan, err error) {
	r.Helper()
	if err != nil {
		r.Fatalf("a plan for %+v: %v", s, err)
	}
	if err := p.Validate(); err != nil {
		r.Fatalf("a plan for %+v: %v", s, err)
	}
	if in := s.InForce.MaxResponseIU; in != 0 && p.MaxResponseIU > in {
		r.Errorf("MaxResponseIU grows from %d to %d while the target runs", in, p.MaxResponseIU)
	}
}

// within runs f and fails the check if it does not return.
func (r *run) within(what string, f func()) {
	r.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		r.Fatalf("%s does not return", what)
	}
}
