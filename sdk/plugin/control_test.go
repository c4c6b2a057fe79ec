package plugin

import (
	"context"
	"errors"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/auth"
	authpb "github.com/gosrpt/gosrpt/sdk/proto/auth/v1"
	ioctxpb "github.com/gosrpt/gosrpt/sdk/proto/ioctx/v1"
)

// The states of opened:
//
//	state      event         then
//	not open   open          opening; open if it succeeds, not open if it fails
//	not open   enter, end    refused; ended
//	opening    open, enter   refused
//	opening    end           ended when the opening has; what it opened is closed
//	open       open          refused
//	open       enter         a call, which end cancels and waits for
//	open       end           closed; ended
//	ended      any           refused; a second end does nothing

// closer counts how often it is closed.
type closer struct{ closed int }

func (c *closer) Close() error {
	c.closed++
	return nil
}

func TestOpeningThatFailsMayBeTriedAgain(t *testing.T) {
	o, bad := newOpened[*closer](), errors.New("bad")
	if err := o.open(func() (*closer, error) { return nil, bad }); !errors.Is(err, bad) {
		t.Fatal(err)
	}
	if _, _, _, err := o.enter(t.Context()); !errors.Is(err, errOrder) {
		t.Errorf("entered what is not open: %v", err)
	}
	c := &closer{}
	if err := o.open(func() (*closer, error) { return c, nil }); err != nil {
		t.Fatal(err)
	}
	if err := o.open(func() (*closer, error) { return nil, nil }); !errors.Is(err, errOrder) {
		t.Errorf("opened twice: %v", err)
	}
	o.end()
	o.end()
	if c.closed != 1 {
		t.Errorf("closed %d times", c.closed)
	}
	if err := o.open(func() (*closer, error) { return c, nil }); !errors.Is(err, errEnded) {
		t.Errorf("opened after the end: %v", err)
	}
	if _, _, _, err := o.enter(t.Context()); !errors.Is(err, errEnded) {
		t.Errorf("entered after the end: %v", err)
	}
}

func TestNothingElseGoesOnWhileItOpens(t *testing.T) {
	o := newOpened[*closer]()
	err := o.open(func() (*closer, error) {
		if err := o.open(nil); !errors.Is(err, errOrder) {
			t.Errorf("opened while it opens: %v", err)
		}
		if _, _, _, err := o.enter(t.Context()); !errors.Is(err, errOrder) {
			t.Errorf("entered while it opens: %v", err)
		}
		return &closer{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEndWaitsForTheOpeningAndForCalls(t *testing.T) {
	o, c := newOpened[*closer](), &closer{}
	begun, ended := make(chan struct{}), make(chan struct{})
	result := make(chan error, 1)
	go func() {
		result <- o.open(func() (*closer, error) {
			close(begun)
			<-o.ctx.Done()
			return c, nil
		})
	}()
	<-begun
	o.end()
	if err := <-result; !errors.Is(err, errEnded) || c.closed != 1 {
		t.Errorf("%v, closed %d times", err, c.closed)
	}

	o, c = newOpened[*closer](), &closer{}
	if err := o.open(func() (*closer, error) { return c, nil }); err != nil {
		t.Fatal(err)
	}
	ctx, got, leave, err := o.enter(t.Context())
	if err != nil || got != c {
		t.Fatal(err)
	}
	go func() {
		o.end()
		close(ended)
	}()
	<-ctx.Done()
	select {
	case <-ended:
		t.Error("the end does not wait for the call")
	default:
	}
	leave()
	<-ended
	if c.closed != 1 {
		t.Errorf("closed %d times", c.closed)
	}
}

func TestFeedKeepsOrderAndNeverBlocks(t *testing.T) {
	f := newFeed(-1)
	f.put(1)
	f.put(2)
	if got, err := f.take(t.Context()); err != nil || len(got) != 2 || got[0] != 1 || got[1] != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	for n := range maxPending + 3 {
		f.put(n)
	}
	got, err := f.take(t.Context())
	if err != nil || len(got) != 3 || got[0] != -1 || got[1] != maxPending+1 || got[2] != maxPending+2 {
		t.Errorf("%v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := f.take(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", got, err)
	}
}

type nothing struct{}

func (nothing) Open(context.Context, map[string]string) (auth.Authorizer, error) { return nil, nil }

func TestQuestionsOutOfOrderAreRefused(t *testing.T) {
	a := newAuthServer(nothing{})
	login := &authpb.Login{Initiator: make([]byte, 16), Target: make([]byte, 16), SourceGid: make([]byte, 16)}
	for name, l := range map[string]*authpb.Login{"before it is open": login, "no login": nil} {
		r, err := a.Decide(t.Context(), &authpb.DecideRequest{Login: l})
		if err != nil || r.Error.GetCode() != uint32(auth.CodeInvalid) || r.Decision != nil {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if r, err := a.Open(t.Context(), &authpb.OpenRequest{}); err != nil || r.Error.GetCode() != uint32(auth.CodeInternal) {
		t.Errorf("neither an authoriser nor an error: %v, %v", r, err)
	}
	p := newIOCtxServer(nil)
	r, err := p.Plan(t.Context(), &ioctxpb.PlanRequest{})
	if err != nil || r.Error.GetCode() != 5 || r.Plan != nil {
		t.Errorf("no situation: %v, %v", r, err)
	}
}
