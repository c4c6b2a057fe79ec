package auth_test

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/auth"
)

var id = auth.ID{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 2, 0xc9, 3, 0, 0xaa, 0xbb, 0xcc}

func TestEverySpellingIsTheSameID(t *testing.T) {
	for _, s := range []string{
		"11223344556677880002c90300aabbcc", "0x11223344556677880002c90300aabbcc", "0X11223344556677880002C90300AABBCC",
		"1122:3344:5566:7788:0002:c903:00aa:bbcc", "0x1122:3344:5566:7788:0002:C903:00AA:BBCC",
		" 11223344556677880002C90300AABBCC\t", id.String(), id.GID(),
	} {
		if got, err := auth.ParseID(s); err != nil || got != id {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
}

func TestMisspeltIDIsAnErrorThatQuotesIt(t *testing.T) {
	for _, s := range []string{
		"", "0x", "1122334455667788", "11223344556677880002c90300aabbc", "11223344556677880002c90300aabbccd",
		"11223344556677880002c90300aabbcg", "1122:3344:5566:7788:0002:c903:aa:bbcc", "0x0x223344556677880002c90300aabbcc",
		"1122:33445566:7788:0002:c903:00aa:bbcc", "fe80::2:c903:aa:bbcc", "1122:3344:5566:7788:0002:c903:00aa:bbcc:",
	} {
		if got, err := auth.ParseID(s); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", s)) {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("0x1122:3344:5566:7788:0002:C903:00AA:BBCC")
	f.Add("11223344556677880002c90300aabbcc")
	f.Add("fe80::1")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := auth.ParseID(s)
		if err != nil {
			return
		}
		for _, again := range []string{id.String(), id.GID()} {
			if got, err := auth.ParseID(again); err != nil || got != id {
				t.Errorf("%q reads as %v, which reads as %v, %v", s, id, got, err)
			}
		}
	})
}

func TestNamesCanBePastedIntoARule(t *testing.T) {
	l := auth.Login{Initiator: id, SourceGID: auth.ID{10: 0xff, 11: 0xff, 12: 10, 15: 7}, SourceAddr: netip.MustParseAddr("::ffff:10.0.0.7")}
	want := []string{"port_id:0x11223344556677880002c90300aabbcc", "gid:0000:0000:0000:0000:0000:ffff:0a00:0007", "address:10.0.0.7"}
	if got := l.Names(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	l.SourceAddr = netip.MustParseAddr("fe80::1%eth0")
	if got := l.Names()[2]; got != "address:fe80::1" {
		t.Errorf("%q", got)
	}
	l.SourceAddr = netip.Addr{}
	if got := l.Names(); len(got) != 2 {
		t.Errorf("without an address: %q", got)
	}
}

func TestDecisionThatBreaksTheContractIsRefused(t *testing.T) {
	a, b := auth.LUN{LUN: 0, Name: "a"}, auth.LUN{LUN: 1, Name: "b", ReadOnly: true}
	for _, c := range []struct {
		d    auth.Decision
		want string // of the error; empty: none
	}{
		{auth.Decision{}, ""},
		{auth.Decision{Reason: "unknown"}, ""},
		{auth.Decision{Allow: true}, ""},
		{auth.Decision{Allow: true, AllLUNs: true, Quota: auth.Quota{Channels: 1, QueueDepth: 2}}, ""},
		{auth.Decision{Allow: true, LUNs: []auth.LUN{a, b}}, ""},
		{auth.Decision{Allow: true, LUNs: []auth.LUN{{LUN: auth.MaxLUN, Name: "ü"}}}, ""},
		{auth.Decision{Allow: true, AllLUNs: true, LUNs: []auth.LUN{a}}, "all LUNs and lists 1"},
		{auth.Decision{Allow: true, LUNs: []auth.LUN{a, {LUN: 0, Name: "b"}}}, "LUN 0 is listed twice"},
		{auth.Decision{Allow: true, LUNs: []auth.LUN{a, {LUN: 1, Name: "a"}}}, `"a" is listed twice`},
		{auth.Decision{Allow: true, LUNs: []auth.LUN{{LUN: 7}}}, "LUN 7 has no name"},
		{auth.Decision{Allow: true, LUNs: []auth.LUN{{LUN: auth.MaxLUN + 1, Name: "x"}}}, "at most 16383"},
		{auth.Decision{Allow: true, LUNs: []auth.LUN{{Name: "x\ny"}}}, "control characters"},
		{auth.Decision{Allow: true, LUNs: []auth.LUN{{Name: strings.Repeat("x", auth.MaxName+1)}}}, "256 bytes"},
		{auth.Decision{Allow: true, Quota: auth.Quota{Channels: -1}}, "quota"},
		{auth.Decision{Allow: true, Quota: auth.Quota{QueueDepth: -2}}, "quota"},
		{auth.Decision{Allow: true, Quota: auth.Quota{QueueDepth: 1}}, "quota"},
		{auth.Decision{Reason: "no\r"}, "control characters"},
		{auth.Decision{Reason: "\xff"}, "UTF-8"},
		{auth.Decision{Reason: strings.Repeat("x", auth.MaxReason+1)}, "1025 bytes"},
	} {
		err := c.d.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.d, err, c.want)
		}
	}
}

func TestRevocationNamesWhomItMeans(t *testing.T) {
	for _, c := range []struct {
		c  auth.Change
		ok bool
	}{
		{auth.Change{}, true},
		{auth.Change{Initiators: []auth.ID{id}}, true},
		{auth.Change{Initiators: []auth.ID{id}, Revoke: true, Reason: "left"}, true},
		{auth.Change{Revoke: true}, false},
		{auth.Change{Reason: "a\nb"}, false},
	} {
		if err := c.c.Validate(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.c, err)
		}
	}
}

func TestCodeOfIsTheFirstErrorsOfTheChain(t *testing.T) {
	down := &auth.Error{Code: auth.CodeUnavailable, Err: io.ErrUnexpectedEOF}
	for _, c := range []struct {
		err  error
		want auth.Code
	}{
		{nil, auth.CodeOK}, {io.EOF, auth.CodeInternal}, {down, auth.CodeUnavailable}, {fmt.Errorf("asking: %w", down), auth.CodeUnavailable},
		{&auth.Error{Code: auth.CodeConfig, Err: down}, auth.CodeConfig},
	} {
		if got := auth.CodeOf(c.err); got != c.want {
			t.Errorf("CodeOf(%v) = %v, want %v", c.err, got, c.want)
		}
	}
	if !errors.Is(down, io.ErrUnexpectedEOF) || down.Error() != "auth: unavailable: unexpected EOF" {
		t.Errorf("%v", down)
	}
	if got := (&auth.Error{Code: auth.CodeConfig}).Error(); got != "auth: wrong configuration" {
		t.Errorf("%q", got)
	}
}

func TestEveryCodeHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for c := auth.CodeOK; c <= auth.CodeInvalid+2; c++ {
		if s := c.String(); s == "" || seen[s] {
			t.Errorf("code %d is named %q", uint16(c), s)
		} else {
			seen[s] = true
		}
	}
}
