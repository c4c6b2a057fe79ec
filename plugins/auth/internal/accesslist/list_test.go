package accesslist

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/gosrpt/gosrpt/sdk/auth"
)

// login is the one of case B01: what the log of a target prints of it must be usable as a rule.
var login = auth.Login{
	Initiator:  auth.ID{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 2, 0xc9, 3, 0, 0xaa, 0xbb, 0xcc},
	SourceGID:  auth.ID{0: 0xfe, 1: 0x80, 9: 2, 10: 0xc9, 11: 3, 13: 0xaa, 14: 0xbb, 15: 0xcc},
	SourceAddr: netip.MustParseAddr("fe80::2:c903:aa:bbcc"),
}

var stranger = auth.Login{Initiator: auth.ID{15: 1}, SourceGID: auth.ID{15: 2}, SourceAddr: netip.MustParseAddr("10.9.9.9")}

func listOf(t testing.TB, text string) *list {
	t.Helper()
	l, err := parse([]byte(text))
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return l
}

const luns01 = "luns: [{lun: 0, name: a}, {lun: 1, name: b, read_only: true}]"

func TestEverySpellingOfANameIsTheSameHost(t *testing.T) {
	rules := []string{
		"port_id:11223344556677880002c90300aabbcc", "port_id:0x11223344556677880002c90300aabbcc",
		"port_id:0X11223344556677880002C90300AABBCC", "port_id:0x1122:3344:5566:7788:0002:c903:00aa:bbcc",
		"port_id:1122:3344:5566:7788:0002:C903:00AA:BBCC", "PORT_ID: 11223344556677880002c90300aabbcc",
		"port_id: 0x11223344556677880002c90300aabbcc",
		"gid:0xfe800000000000000002c90300aabbcc", "gid:FE80:0000:0000:0000:0002:C903:00AA:BBCC",
		"gid:fe80000000000000" + "0002c90300aabbcc", "gid:fe80::2:c903:aa:bbcc", "gid: fe80::2:c903:aa:bbcc",
		"address:fe80::2:c903:aa:bbcc", "address:FE80::0002:C903:00AA:BBCC", "address:fe80::/64", "address: fe80::/10",
	}
	rules = append(rules, login.Names()...)
	want := listOf(t, "hosts: [{name: h, initiators: ['"+rules[0]+"'], "+luns01+"}]").decide(&login)
	want.Reason = ""
	for _, rule := range rules {
		for _, quote := range []string{"", "'"} {
			l := listOf(t, "hosts:\n- name: h\n  "+luns01+"\n  initiators:\n  - "+quote+rule+quote+"\n")
			got := l.decide(&login)
			if !got.Allow || !strings.HasPrefix(got.Reason, "host h by ") {
				t.Errorf("%s: %+v", rule, got)
			}
			if got.Reason = ""; !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, want %+v", rule, got, want)
			}
			if d := l.decide(&stranger); d.Allow {
				t.Errorf("%s lets a stranger in", rule)
			}
		}
	}
}

func TestDigitsThatAreANumberToYAMLStayDigits(t *testing.T) {
	for _, id := range []string{"00112233445566770011223344556677", "12345678901234567890123456789012", "123456789012345678901234567890e5"} {
		want, err := auth.ParseID(id)
		if err != nil {
			t.Fatal(err)
		}
		l := listOf(t, "hosts: [{name: h, luns: all, initiators: [{port_id: "+id+"}]}]")
		if got := l.Hosts[0].Initiators[0].id; got != want {
			t.Errorf("%s reads as %v", id, got)
		}
	}
}

func TestAddressIsTheSameInIPv4AndMapped(t *testing.T) {
	for _, rule := range []string{"address:10.1.2.3", "address:::ffff:10.1.2.3", "address:10.1.2.0/24", "address:0.0.0.0/0"} {
		l := listOf(t, "hosts: [{name: h, luns: all, initiators: ['"+rule+"']}]")
		for _, a := range []string{"10.1.2.3", "::ffff:10.1.2.3"} {
			if d := l.decide(&auth.Login{SourceAddr: netip.MustParseAddr(a)}); !d.Allow {
				t.Errorf("%s does not name %s: %s", rule, a, d.Reason)
			}
		}
		if d := l.decide(&auth.Login{SourceAddr: netip.MustParseAddr("fe80::1")}); d.Allow {
			t.Errorf("%s names fe80::1", rule)
		}
		if d := l.decide(&auth.Login{}); d.Allow {
			t.Errorf("%s names a login without an address", rule)
		}
	}
}

func TestRefusalPrintsWhatWouldMatch(t *testing.T) {
	l := listOf(t, "hosts: []")
	d := l.decide(&login)
	if d.Allow || d.Validate() != nil {
		t.Fatalf("%+v", d)
	}
	for _, name := range login.Names() {
		if !strings.Contains(d.Reason, name) {
			t.Errorf("%q does not tell of %s", d.Reason, name)
		}
		if !listOf(t, "hosts: [{name: h, luns: all, initiators: ['"+name+"']}]").decide(&login).Allow {
			t.Errorf("%s does not match", name)
		}
	}
}

func TestFirstHostOfTheFileDecidesAndKindsAreIndependent(t *testing.T) {
	text := `
hosts:
- {name: one, initiators: ["gid:fe80::2:c903:aa:bbcc"], luns: [{lun: 5, name: a}], read_only: true, channels: 3, queue_depth: 9}
- {name: two, initiators: ["port_id:11223344556677880002c90300aabbcc", "address:10.0.0.0/8"], luns: all}
`
	l := listOf(t, text)
	want := auth.Decision{Allow: true, Reason: "host one by gid:fe80:0000:0000:0000:0002:c903:00aa:bbcc", ReadOnly: true,
		LUNs: []auth.LUN{{LUN: 5, Name: "a"}}, Quota: auth.Quota{Channels: 3, QueueDepth: 9}}
	if d := l.decide(&login); !reflect.DeepEqual(d, want) {
		t.Errorf("%+v", d)
	}
	elsewhere := login
	elsewhere.SourceGID = auth.ID{}
	if d := l.decide(&elsewhere); d.Reason != "host two by port_id:0x11223344556677880002c90300aabbcc" || !d.AllLUNs {
		t.Errorf("%+v", d)
	}
	if d := l.decide(&stranger); !d.Allow || d.Reason != "host two by address:10.0.0.0/8" {
		t.Errorf("%+v", d)
	}
}

func TestListWithAMistakeIsRefusedByItsName(t *testing.T) {
	host := func(s string) string { return "hosts: [{name: h, " + s + "}]" }
	for text, want := range map[string]string{
		"":                "no list of hosts",
		"host: []":        "host",
		"hosts: []\nx: 1": "x",
		"hosts: [":        "yaml",
		"hosts: [{name: h, initiators: ['port_id:11223344556677880002c90300aabbc'], luns: all}]": "31 hexadecimal digits",
		host("luns: all"): "no initiators",
		host("initiators: ['11223344556677880002c90300aabbcc'], luns: all"):                                                      "of which kind",
		host("initiators: ['guid:0002c90300aabbcc'], luns: all"):                                                                 `no kind "guid"`,
		host("initiators: ['gid:10.0.0.1'], luns: all"):                                                                          "gid:10.0.0.1",
		host("initiators: ['address:host1'], luns: all"):                                                                         "host1",
		host("initiators: ['address:10.0.0.1/8'], luns: all"):                                                                    "10.0.0.0/8 is meant",
		host("initiators: ['address:::ffff:10.0.0.0/104'], luns: all"):                                                           "with IPv4 addresses",
		host("initiators: [[a]], luns: all"):                                                                                     "one name",
		host("initiators: ['address:1.1.1.1'], luns: some"):                                                                      "nor the word all",
		host("initiators: ['address:1.1.1.1'], luns: [{lun: 0, name: a}, {lun: 0, name: b}]"):                                    "LUN 0 is listed twice",
		host("initiators: ['address:1.1.1.1'], luns: [{lun: 0, name: a}, {lun: 1, name: a}]"):                                    `"a" is listed twice`,
		host("initiators: ['address:1.1.1.1'], luns: [{name: a}]"):                                                               "no lun",
		host("initiators: ['address:1.1.1.1'], luns: [{lun: 1}]"):                                                                "no name",
		host("initiators: ['address:1.1.1.1'], luns: [{lun: 16384, name: a}]"):                                                   "at most 16383",
		host("initiators: ['address:1.1.1.1'], luns: [{lun: 70000, name: a}]"):                                                   "70000",
		host("initiators: ['address:1.1.1.1'], luns: [{lun: 1, name: a, readonly: true}]"):                                       "readonly",
		host("initiators: ['address:1.1.1.1'], luns: all, channels: -1"):                                                         "quota",
		host("initiators: ['address:1.1.1.1'], luns: all, queue_depth: 1"):                                                       "quota",
		host("initiators: ['address:1.1.1.1', 'address:::ffff:1.1.1.1'], luns: all"):                                             "listed for host",
		host("initiators: ['address:1.1.1.1'], luns: all, colour: red"):                                                          "colour",
		"hosts: [{initiators: ['address:1.1.1.1'], luns: all}]":                                                                  "host 1 has no name",
		"hosts: [{name: \"a\\nb\", initiators: ['address:1.1.1.1'], luns: all}]":                                                 "control characters",
		"hosts: [{name: " + strings.Repeat("x", 256) + ", initiators: ['address:1.1.1.1']}]":                                     "256 bytes",
		host("initiators: ['address:1.1.1.1'], luns: all") + "\n---\nhosts: []":                                                  "more than one document",
		"hosts: [{name: a, initiators: ['address:1.1.1.1']}, {name: a, initiators: ['address:1.1.1.2']}]":                        `host "a" is listed twice`,
		"hosts: [{name: a, initiators: ['gid:fe80::1']}, {name: b, initiators: ['gid:0xFE80" + strings.Repeat("0", 27) + "1']}]": `for host "a" and again for host "b"`,
	} {
		if l, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", text, l, err, want)
		}
	}
}

func TestEveryMistakeIsTold(t *testing.T) {
	_, err := parse([]byte("hosts: [{name: a}, {initiators: []}, {name: a, initiators: ['address:1.1.1.1'], channels: -1}]"))
	for _, want := range []string{`host "a": it has no initiators`, "host 2 has no name", `host "a" is listed twice`, "quota"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell of %q", err, want)
		}
	}
}

func TestListWrittenOutReadsTheSame(t *testing.T) {
	l := listOf(t, `
hosts:
- {name: one, initiators: ["gid:fe80::2:c903:aa:bbcc", {port_id: 00112233445566770011223344556677}, "address:10.0.0.0/8"], luns: [{lun: 5, name: a}, {lun: 6, name: b, read_only: true}], read_only: true}
- {name: two, initiators: ["address:::1"], luns: all, channels: 2, queue_depth: 3}
- {name: three, initiators: ["address:::2"]}
`)
	text, err := yaml.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	again := listOf(t, string(text))
	if again.sum, l.sum = "", ""; fmt.Sprintf("%#v", deref(again)) != fmt.Sprintf("%#v", deref(l)) {
		t.Errorf("%s\n%#v\n%#v", text, deref(l), deref(again))
	}
}

// deref is what a list decides, to compare.
func deref(l *list) (all []any) {
	for i := range l.Hosts {
		all = append(all, l.Hosts[i].Name, l.Hosts[i].decision(), l.Hosts[i].Initiators)
	}
	return all
}

func FuzzParse(f *testing.F) {
	f.Add("hosts: [{name: h, initiators: ['address:10.0.0.0/8', {gid: fe80::1}], luns: [{lun: 0, name: a}]}]")
	f.Add("hosts:\n- &a {name: h, initiators: [port_id:0x11223344556677880002c90300aabbcc], luns: all}\n")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parse([]byte(text))
		if err != nil {
			return
		}
		for _, login := range []auth.Login{login, stranger, {}} {
			if d := l.decide(&login); d.Validate() != nil || !d.Allow && d.Reason == "" {
				t.Errorf("%q decides %+v", text, d)
			}
		}
	})
}
