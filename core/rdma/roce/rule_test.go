package roce

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestRulesSelectInterfacesAndAddresses(t *testing.T) {
	// The interfaces of a host, with "down" where the link is.
	host := []string{
		"lo 127.0.0.1 ::1", "eth0 10.0.0.1 10.1.0.1 2001:db8::1", "eth1 10.0.0.2", "ib0 192.0.2.7", "bare", "eth2 down 10.9.0.1",
	}
	for _, c := range []struct{ rules, listen, want string }{
		{"", "", "eth0=10.0.0.1,10.1.0.1,2001:db8::1 eth1=10.0.0.2 ib0=192.0.2.7"},
		{"all", "", "eth0=10.0.0.1,10.1.0.1,2001:db8::1 eth1=10.0.0.2 ib0=192.0.2.7"},
		{"eth1", "", "eth1=10.0.0.2"},
		{"eth2 bare", "", "bare= eth2=10.9.0.1"},
		{"eth*", "", "eth0=10.0.0.1,10.1.0.1,2001:db8::1 eth1=10.0.0.2 eth2=10.9.0.1"},
		{"eth[01]", "", "eth0=10.0.0.1,10.1.0.1,2001:db8::1 eth1=10.0.0.2"},
		{"10.0.0.2", "", "eth1=10.0.0.2"},
		{"10.0.0.0/16", "", "eth0=10.0.0.1 eth1=10.0.0.2"},
		{"2001:db8::/32 ib0", "", "eth0=2001:db8::1 ib0=192.0.2.7"},
		{"127.0.0.1", "", "lo=127.0.0.1"},
		{"10.9.0.0/24", "", "eth2=10.9.0.1"},
		{"!eth0", "", "eth1=10.0.0.2 ib0=192.0.2.7"},
		{"!10.0.0.0/8", "", "eth0=2001:db8::1 ib0=192.0.2.7"},
		{"eth* !eth0", "", "eth1=10.0.0.2 eth2=10.9.0.1"},
		{"!eth0 eth*", "", "eth1=10.0.0.2 eth2=10.9.0.1"},
		{"eth* !10.0.0.0/24", "", "eth0=10.1.0.1,2001:db8::1 eth1= eth2=10.9.0.1"},
		{"all !eth* !192.0.2.7", "", ""},
		{"10.0.0.2 !eth1", "", ""},
		{"", "10.0.0.1 10.0.0.2", "eth0=10.0.0.1 eth1=10.0.0.2"},
		{"", "127.0.0.1", "lo=127.0.0.1"},
		{"eth1", "10.0.0.1", "eth1="},
		{"!eth0", "10.0.0.1 10.0.0.2", "eth1=10.0.0.2"},
		{"10.1.0.0/16", "10.1.0.1 10.0.0.2", "eth0=10.1.0.1"},
	} {
		cfg := Config{Interfaces: strings.Fields(c.rules)}
		for _, a := range strings.Fields(c.listen) {
			cfg.Addrs = append(cfg.Addrs, netip.MustParseAddr(a))
		}
		cfg = cfg.withDefaults()
		var got []string
		for _, line := range host {
			f := strings.Fields(line)
			n := nic{name: f[0], loopback: f[0] == "lo", up: !slices.Contains(f, "down")}
			var addrs []string
			for _, a := range f[1:] {
				if a != "down" {
					n.add(netip.MustParseAddr(a), &cfg)
				}
			}
			for _, a := range n.addrs {
				addrs = append(addrs, a.String())
			}
			if cfg.wants(&n) {
				got = append(got, n.name+"="+strings.Join(addrs, ","))
			}
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%q, listen %q:\n%s, want\n%s", c.rules, c.listen, s, c.want)
		}
	}
}
