package authtest

import (
	"context"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/auth"
	"github.com/gosrpt/gosrpt/sdk/conformance"
)

// patience bounds each check; an authoriser that hangs fails.
const patience = 30 * time.Second

// Subject is what is tested.
type Subject struct {
	// Opener opens the authorisers.
	Opener auth.Opener
	// Config returns a configuration in which Allowed and Denied hold. Each check asks for one.
	Config func(t testing.TB) map[string]string
	// Allowed is a login that is permitted.
	Allowed auth.Login
	// Denied is a login that is refused; nil if none is.
	Denied *auth.Login
	// Revoke makes a change after which Allowed is refused, and whoever watches is told. config is what Config returned. Nil
	// if that cannot be done.
	Revoke func(t testing.TB, config map[string]string)
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
		panic("authtest: a Subject needs an Opener and a Config")
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
	ctx    context.Context
	config map[string]string
	auth   auth.Authorizer
}

// open opens the run's authoriser and closes it with the test.
func (r *run) open() {
	r.Helper()
	a, err := r.Opener.Open(r.ctx, r.config)
	if err != nil {
		r.Fatalf("Open: %v", err)
	}
	if a == nil {
		r.Fatal("Open returned neither an authoriser nor an error")
	}
	r.auth = a
	r.Cleanup(func() {
		if err := a.Close(); err != nil {
			r.Errorf("Close: %v", err)
		}
	})
}

// decide asks, and holds the answer against the contract. It fails the check without one.
func (r *run) decide(l auth.Login) auth.Decision {
	r.Helper()
	d, err := r.auth.Decide(r.ctx, l)
	if err != nil {
		r.Fatalf("Decide %v: %v", l.Names(), err)
	}
	if err := d.Validate(); err != nil {
		r.Fatalf("Decide %v: %v", l.Names(), err)
	}
	return d
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
