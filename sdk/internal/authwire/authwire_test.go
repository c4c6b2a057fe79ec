package authwire

import (
	"errors"
	"net/netip"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gosrpt/gosrpt/sdk/auth"
	authpb "github.com/gosrpt/gosrpt/sdk/proto/auth/v1"
)

var some = auth.ID{1, 2, 3, 15: 9}

// travel sends a message over the wire.
func travel[M proto.Message](t *testing.T, m, to M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err == nil {
		err = proto.Unmarshal(b, to)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestLoginArrivesAsItWasSent(t *testing.T) {
	for _, l := range []auth.Login{
		{},
		{Initiator: some, Target: auth.ID{15: 1}, SourceGID: auth.ID{0: 0xfe}, SourceAddr: netip.MustParseAddr("10.0.0.7"),
			Device: "eth0", Port: 1, PKey: 0xffff, Action: auth.ActionMulti},
		{SourceAddr: netip.MustParseAddr("fe80::1")},
	} {
		if got, err := Login(travel(t, LoginMessage(l), &authpb.Login{})); err != nil || got != l {
			t.Errorf("%+v, %v, want %+v", got, err, l)
		}
	}
	l := auth.Login{SourceAddr: netip.MustParseAddr("::ffff:10.0.0.7")}
	if got, err := Login(LoginMessage(l)); err != nil || got.SourceAddr != netip.MustParseAddr("10.0.0.7") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLoginThatCannotBeIsRefused(t *testing.T) {
	for name, change := range map[string]func(*authpb.Login){
		"short initiator": func(m *authpb.Login) { m.Initiator = m.Initiator[:15] },
		"no target":       func(m *authpb.Login) { m.Target = nil },
		"long gid":        func(m *authpb.Login) { m.SourceGid = make([]byte, 17) },
		"odd address":     func(m *authpb.Login) { m.SourceAddr = make([]byte, 5) },
		"P_Key":           func(m *authpb.Login) { m.Pkey = 1 << 16 },
		"action":          func(m *authpb.Login) { m.Action = 256 },
	} {
		m := LoginMessage(auth.Login{})
		change(m)
		if l, err := Login(m); err == nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
	if _, err := Login(nil); err == nil {
		t.Error("no login at all")
	}
}

func TestDecisionArrivesAsItWasSent(t *testing.T) {
	for _, d := range []auth.Decision{
		{},
		{Reason: "not on the list"},
		{Allow: true, AllLUNs: true, Reason: "host a"},
		{Allow: true, ReadOnly: true, LUNs: []auth.LUN{{LUN: 16383, Name: "a", ReadOnly: true}, {Name: "b"}}, Quota: auth.Quota{Channels: 8, QueueDepth: 64}},
	} {
		if got, err := Decision(travel(t, DecisionMessage(d), &authpb.Decision{})); err != nil || !reflect.DeepEqual(got, d) {
			t.Errorf("%+v, %v, want %+v", got, err, d)
		}
	}
}

func TestDecisionThatCannotBeIsNone(t *testing.T) {
	many := &authpb.Decision{Allow: true}
	for range auth.MaxLUN + 2 {
		many.Luns = append(many.Luns, nil)
	}
	for name, m := range map[string]*authpb.Decision{
		"absent":    nil,
		"twice":     {Allow: true, Luns: []*authpb.Lun{{Name: "a"}, {Name: "a", Lun: 1}}},
		"nameless":  {Allow: true, Luns: []*authpb.Lun{nil}},
		"wraps":     {Allow: true, Luns: []*authpb.Lun{{Lun: 1 << 16, Name: "a"}}},
		"both":      {Allow: true, AllLuns: true, Luns: []*authpb.Lun{{Name: "a"}}},
		"one deep":  {Allow: true, QueueDepth: 1},
		"log break": {Reason: "a\nb"},
		"too many":  many,
	} {
		if d, err := Decision(m); err == nil || d.Allow {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	if d, err := Decision(&authpb.Decision{Allow: true, Channels: 1<<32 - 1}); err != nil || d.Quota.Channels != 1<<31-1 {
		t.Errorf("a huge quota: %+v, %v", d, err)
	}
}

func TestChangeArrivesOrMakesTheHostAskAboutEverybody(t *testing.T) {
	for _, c := range []auth.Change{
		{}, {Reason: "reloaded"}, {Initiators: []auth.ID{some, {}}, Revoke: true, Reason: "left"}, {Initiators: []auth.ID{some}},
	} {
		if got, err := Change(travel(t, ChangeMessage(c), &authpb.WatchResponse{})); err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%+v, %v, want %+v", got, err, c)
		}
	}
	for _, c := range []auth.Change{
		{Revoke: true}, {Reason: "a\nb", Initiators: []auth.ID{some}}, {Initiators: make([]auth.ID, maxInitiators+1)},
	} {
		if got, err := Change(ChangeMessage(c)); err != nil || !reflect.DeepEqual(got, auth.Change{}) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for name, m := range map[string]*authpb.WatchResponse{
		"short":    {Initiators: [][]byte{some[:3]}},
		"nobody":   {Revoke: true},
		"too many": {Initiators: make([][]byte, maxInitiators+1)},
	} {
		if c, err := Change(m); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestFailureCarriesTheCode(t *testing.T) {
	if m := Failure(nil); m != nil {
		t.Errorf("%v", m)
	}
	m := Failure(&auth.Error{Code: auth.CodeConfig, Err: errors.New("no list")})
	if m.Code != 3 || m.Text != "no list" {
		t.Errorf("%v", m)
	}
	if m := Failure(errors.New("\xff")); m.Text != "?" {
		t.Errorf("%q cannot travel", m.Text)
	}
}
