package target

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// judge is an Authorizer that asks a function.
type judge func(ctx context.Context, l Login) (Grant, error)

func (j judge) Authorize(ctx context.Context, l Login) (Grant, error) { return j(ctx, l) }

func TestAuthorizerDecides(t *testing.T) {
	leaktest.Check(t)
	answer := make(chan error, 1)
	grant := Grant{}
	g := newRig(t, func(g *rig) {
		g.cfg.Authorizer = judge(func(_ context.Context, l Login) (Grant, error) {
			if l.Initiator != initiatorID || l.Target != targetID || !l.Info.Remote.IsValid() {
				t.Errorf("asked about %+v", l)
			}
			return grant, <-answer
		})
	})
	k := g.knocker(g.peer)
	r := request()
	for _, c := range []struct {
		err    error
		reason srp.RejReason
	}{{fmt.Errorf("not on a Monday: %w", ErrDenied), srp.RejNexus}, {errors.New("plugin is dead"), srp.RejNoReason}} {
		answer <- c.err
		if rej := k.refused(r.AppendRDMA(nil)); rej.Reason != c.reason {
			t.Errorf("%v: %v", c.err, rej.Reason)
		}
		g.waitLog(c.err.Error())
	}
	grant.ReadOnly = true
	answer <- nil
	s := g.ready()
	if err := s.Write(t.Context(), srp.LUN{}, 0, 1, make([]byte, 512)); sense(err) != [3]byte{7, 0x27, 0} {
		t.Errorf("a read-only initiator wrote: %v", err)
	}
	s.Close()
	g.empty()
}

func TestAllowListKnowsEverySpelling(t *testing.T) {
	id := srp.MakePortID(0x0011223344556677, 0x0002c90300a1b2c3)
	login := func(ip string) Login {
		return Login{Initiator: id, Info: rdma.ConnInfo{Remote: netip.AddrPortFrom(netip.MustParseAddr(ip), 1)}}
	}
	for _, c := range []struct {
		name string
		ok   bool
	}{
		{"0x00112233445566770002c90300a1b2c3", true},
		{"00112233445566770002C90300A1B2C3", true},
		{"0011:2233:4455:6677:0002:c903:00a1:b2c3", false}, // eight groups are an IPv6 address
		{"0002:c903:00a1:b2c3", true},
		{"0002c90300a1b2c3", true},
		{" 10.0.0.7 ", true},
		{"::ffff:10.0.0.7", true},
		{"10.0.0.8", false},
		{"0002:c903:00a1:b2c4", false},
	} {
		list, err := NewAllowList([]string{c.name})
		if err != nil {
			t.Errorf("%q: %v", c.name, err)
			continue
		}
		if _, err := list.Authorize(t.Context(), login("10.0.0.7")); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrDenied) {
			t.Errorf("%q: %v", c.name, err)
		}
	}
	list, err := NewAllowList([]string{"fe80::1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := list.Authorize(t.Context(), login("fe80::1%eth0")); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "host1", "0x12", "0002:c903", "10.0.0.0/8"} {
		if _, err := NewAllowList([]string{bad}); !errors.Is(err, ErrConfig) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
