package config

import (
	"net/netip"
	"strings"
	"testing"
)

func TestInterfaceRulesAreCheckedWithWhatToDo(t *testing.T) {
	for _, c := range []struct {
		rules  string
		listen string
		want   string // in the problem; empty if there is to be none
	}{
		{"", "", ""},
		{"all", "", ""},
		{"eth0 ib* enp[0-9]s0 10.1.0.0/16 192.0.2.7 2001:db8::/32 fe80::1 !eth1 !10.1.9.0/24 !wl* !192.0.2.8", "", ""},
		{"!eth1", "10.0.0.1", ""},
		{"!10.0.0.0/8", "10.0.0.1", `10.0.0.1 is left out by the rule "!10.0.0.0/8"`},
		{"!10.0.0.1", "10.0.0.1", "left out"},
		{"!fe80::1", "fe80::1%eth0", "left out"},
		{"!all", "", "leaves nothing"},
		{"!", "", "in quotes"},
		{"10.0.0.300", "", "not an IP address"},
		{"10.0.0", "", "not an IP address"},
		{"2001:zz::1", "", "not an IP address"},
		{"10.0.0.0/33", "", "not a prefix"},
		{"eth/0", "", "not a prefix"},
		{"eth[0", "", "not a pattern"},
		{"fe80::1%eth0", "", "name the interface eth0"},
		{"aninterfacenamethatistoolong", "", "15 characters"},
		{"eth0 eth0", "", "twice"},
		{"eth0 !eth0", "", "cancel each other"},
	} {
		cfg := &Config{RoCE: RoCE{Interfaces: strings.Fields(c.rules)}}
		if c.listen != "" {
			cfg.Listen = []netip.Addr{netip.MustParseAddr(c.listen)}
		}
		var p problems
		cfg.validateInterfaces(&p)
		got := ""
		for _, one := range p {
			got += one.Where + ": " + one.What + "\n"
		}
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q, listen %q: %q, want %q", c.rules, c.listen, got, c.want)
		}
	}
}
