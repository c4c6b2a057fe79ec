package authtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/auth"
	"github.com/gosrpt/gosrpt/sdk/auth/authtest"
)

var friend, stranger = auth.ID{15: 1}, auth.ID{15: 2}

// single permits one initiator, unless its list is empty.
type single struct {
	luns   []auth.LUN
	mu     sync.Mutex
	closed bool // to everybody
	notify func(auth.Change)
}

func (s *single) Decide(_ context.Context, l auth.Login) (auth.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.Initiator != friend || s.closed {
		return auth.Decision{Reason: "not a friend"}, nil
	}
	return auth.Decision{Allow: true, LUNs: append([]auth.LUN(nil), s.luns...)}, nil
}

func (s *single) Watch(notify func(auth.Change)) { s.notify = notify }

func (s *single) Notice() string { return "one friend" }

func (s *single) Close() error { return nil }

func (s *single) revoke() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	if s.notify != nil {
		s.notify(auth.Change{Initiators: []auth.ID{friend}, Revoke: true, Reason: "no friend any more"})
	}
}

// opener opens singles, wrapped.
type opener struct {
	wrap func(*single) auth.Authorizer
	last *single
}

func (o *opener) Open(_ context.Context, config map[string]string) (auth.Authorizer, error) {
	for k := range config {
		return nil, fmt.Errorf("there is no key %q", k)
	}
	o.last = &single{luns: []auth.LUN{{LUN: 0, Name: "a"}}}
	return o.wrap(o.last), nil
}

func subject(wrap func(*single) auth.Authorizer) authtest.Subject {
	o := &opener{wrap: wrap}
	return authtest.Subject{
		Opener:  o,
		Config:  func(testing.TB) map[string]string { return nil },
		Allowed: auth.Login{Initiator: friend},
		Denied:  &auth.Login{Initiator: stranger},
		Revoke:  func(testing.TB, map[string]string) { o.last.revoke() },
	}
}

func TestReferencePasses(t *testing.T) {
	authtest.Test(t, subject(func(s *single) auth.Authorizer { return s }))
}

// TestMinimumPasses: an authoriser without any optional power, and a subject without any optional field.
func TestMinimumPasses(t *testing.T) {
	s := subject(func(s *single) auth.Authorizer { return struct{ auth.Authorizer }{s} })
	s.Denied, s.Revoke = nil, nil
	authtest.Test(t, s)
}

// broken are authorisers with one fault, and the check that must find it.
var broken = map[string]struct {
	wrap func(*single) auth.Authorizer
	find string
}{
	"open to all":   {func(s *single) auth.Authorizer { return openToAll{s} }, "who_is_not_permitted"},
	"closed to all": {func(s *single) auth.Authorizer { return closedToAll{s} }, "who_is_permitted"},
	"silent":        {func(s *single) auth.Authorizer { return silent{s} }, "who_is_not_permitted"},
	"moody":         {func(s *single) auth.Authorizer { return &moody{single: s} }, "the_same_question"},
	"shared":        {func(s *single) auth.Authorizer { return shared{s} }, "an_answer_belongs"},
	"twice":         {func(s *single) auth.Authorizer { return twice{s} }, "who_is_permitted"},
	"picky":         {func(s *single) auth.Authorizer { return picky{s} }, "any_login"},
	"late":          {func(s *single) auth.Authorizer { return late{s} }, "a_revocation"},
	"loud":          {func(s *single) auth.Authorizer { return loud{s} }, "the_notice"},
}

type openToAll struct{ *single }

func (openToAll) Decide(context.Context, auth.Login) (auth.Decision, error) {
	return auth.Decision{Allow: true, AllLUNs: true}, nil
}

type closedToAll struct{ *single }

func (closedToAll) Decide(context.Context, auth.Login) (auth.Decision, error) {
	return auth.Decision{Reason: "no"}, nil
}

type silent struct{ *single }

func (s silent) Decide(ctx context.Context, l auth.Login) (auth.Decision, error) {
	d, err := s.single.Decide(ctx, l)
	d.Reason = ""
	return d, err
}

type moody struct {
	*single
	mu sync.Mutex
	n  int
}

func (s *moody) Decide(ctx context.Context, l auth.Login) (auth.Decision, error) {
	d, err := s.single.Decide(ctx, l)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	d.ReadOnly = s.n%2 == 0
	return d, err
}

type shared struct{ *single }

func (s shared) Decide(ctx context.Context, l auth.Login) (auth.Decision, error) {
	d, err := s.single.Decide(ctx, l)
	if d.Allow {
		d.LUNs = s.luns
	}
	return d, err
}

type twice struct{ *single }

func (s twice) Decide(ctx context.Context, l auth.Login) (auth.Decision, error) {
	d, err := s.single.Decide(ctx, l)
	d.LUNs = append(d.LUNs, d.LUNs...)
	return d, err
}

type picky struct{ *single }

func (s picky) Decide(ctx context.Context, l auth.Login) (auth.Decision, error) {
	if l.Initiator != friend && l.Initiator != stranger {
		return auth.Decision{}, errors.New("I do not know what to say")
	}
	return s.single.Decide(ctx, l)
}

// late tells of a change that is not in force.
type late struct{ *single }

func (s late) Decide(ctx context.Context, l auth.Login) (auth.Decision, error) {
	s.mu.Lock()
	s.closed = false
	s.mu.Unlock()
	return s.single.Decide(ctx, l)
}

type loud struct{ *single }

func (loud) Notice() string { return "one\ntwo" }

// TestKitFindsBrokenAuthorisers runs the kit on each in a process of its own, where it must fail.
func TestKitFindsBrokenAuthorisers(t *testing.T) {
	if name := os.Getenv("AUTHTEST_BROKEN"); name != "" {
		authtest.Test(t, subject(broken[name].wrap))
		return
	}
	for name, b := range broken {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestKitFindsBrokenAuthorisers$")
			cmd.Env = append(os.Environ(), "AUTHTEST_BROKEN="+name)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("the kit passes an authoriser that is %s", name)
			}
			if !strings.Contains(string(out), "FAIL: TestKitFindsBrokenAuthorisers/"+b.find) {
				t.Errorf("the check %q did not find it:\n%s", b.find, out)
			}
		})
	}
}
