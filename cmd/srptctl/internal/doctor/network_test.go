package doctor

import (
	"net/netip"
	"os"
	"strings"
	"testing"
)

func TestAddressesAndLinks(t *testing.T) {
	for _, c := range []struct {
		name          string
		change        func(f *fake)
		address, link []string
	}{
		{"good", func(*fake) {}, []string{"ok 10.0.0.2: on eth0"}, []string{"ok eth0: up, with 10.0.0.2, fe80::2"}},
		{"nobody has it", func(f *fake) { f.cfg.Listen[0] = netip.MustParseAddr("fe80::9%eth0") },
			[]string{"problem fe80::9%eth0: no interface has the address: nobody can log in there until one does -> ip address add fe80::9/PREFIX dev INTERFACE, or change listen"}, nil},
		{"on another link", func(f *fake) { f.cfg.Listen[0] = netip.MustParseAddr("fe80::2%eth1") },
			[]string{"problem fe80::2%eth1: no interface has the address: nobody can log in there until one does -> ip address add fe80::2/PREFIX dev INTERFACE, or change listen"}, nil},
		{"another loopback address", func(f *fake) { f.cfg.Listen[0] = netip.MustParseAddr("127.3.4.5") },
			[]string{"ok 127.3.4.5: on lo"}, []string{"ok lo: up, with 127.0.0.1, ::1"}},
		{"duplicate", func(f *fake) { f.links[1].Addrs[0].Duplicate = true },
			[]string{"problem 10.0.0.2: eth0 has it, and so has another host on the link -> remove it from the other host, or choose another one"},
			[]string{"ok eth0: up, with 10.0.0.2, fe80::2"}},
		{"tentative", func(f *fake) { f.links[1].Addrs[0].Tentative = true },
			[]string{"warning 10.0.0.2: eth0 has just got it: whether another host has it too is still being found out"}, []string{"ok eth0: up, with 10.0.0.2, fe80::2"}},
		{"down", func(f *fake) { f.links[1].Up = false }, []string{"ok 10.0.0.2: on eth0"}, []string{"problem eth0: it is down -> ip link set dev eth0 up"}},
		{"no carrier", func(f *fake) { f.links[1].Carrier = false }, []string{"ok 10.0.0.2: on eth0"},
			[]string{"problem eth0: it has no carrier -> look at the cable, and at the switch's port"}},
		{"parent down", func(f *fake) {
			f.links[1].Parent, f.links[1].Kind = "eth9", "vlan"
			f.links = append(f.links, Link{Name: "eth9", MTU: 9000})
		}, []string{"ok 10.0.0.2: on eth0"}, []string{"problem eth0: eth9, which carries it, is down -> ip link set dev eth9 up"}},
		{"all, one down", func(f *fake) {
			f.cfg.Listen = nil
			f.links = append(f.links, Link{Name: "eth1", MTU: 1500, Addrs: addrsOf("10.1.0.1/24")},
				Link{Name: "br0", Kind: "bridge", MTU: 1500, Up: true, Addrs: addrsOf("10.2.0.1/24")}, Link{Name: "eth2", Up: true})
		}, nil, []string{"ok eth0: up, with 10.0.0.2, fe80::2", "warning eth1: it is down -> ip link set dev eth1 up", "ok br0: a bridge with nothing on it; it is served as soon as there is"}},
		{"all, none there", func(f *fake) { f.cfg.Listen = nil; f.links = f.links[:1] },
			[]string{"warning interfaces: none but loopback has an address: srptd starts and serves the first one that gets one -> ip address add ADDRESS/PREFIX dev INTERFACE, or for loopback listen: [127.0.0.1]"}, nil},
		{"not to be read", func(f *fake) { f.Links = func() ([]Link, error) { return nil, errBoom }; f.cfg.Listen = nil },
			[]string{"not checked interfaces: the kernel does not list them: boom",
				"warning interfaces: none but loopback has an address: srptd starts and serves the first one that gets one -> ip address add ADDRESS/PREFIX dev INTERFACE, or for loopback listen: [127.0.0.1]"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := healthy(t)
			c.change(f)
			f.check("address", c.address...)
			f.check("link", c.link...)
		})
	}
}

func TestMTUThatLosesPacketsIsAProblemAndASmallOneIsToldWhatItCosts(t *testing.T) {
	const more = "ip link set dev eth0 mtu 4200"
	for _, c := range []struct {
		mtu    int
		change func(f *fake)
		want   []string
	}{
		{9000, nil, []string{"ok eth0: 9000 bytes carry a path MTU of 4096"}},
		{4200, nil, []string{"ok eth0: 4200 bytes carry a path MTU of 4096"}},
		{1500, nil, []string{"ok eth0: 1500 bytes carry a path MTU of 1024 of the 4096 that there can be -> " + more + ", if the switch and the initiators have as much"}},
		{1000, nil, []string{"warning eth0: 1000 bytes carry a path MTU of 512: many small packets -> ip link set dev eth0 mtu 1500"}},
		{200, nil, []string{"problem eth0: 200 bytes are too few for RoCE, which needs room for blocks of 256 -> " + more}},
		{-1, nil, []string{"problem eth0: -1 bytes are too few for RoCE, which needs room for blocks of 256 -> " + more}},
		{9000, func(f *fake) {
			f.links[1].Parent = "eth9"
			f.links = append(f.links, Link{Name: "eth9", MTU: 1500, Up: true})
		}, []string{"ok eth0: 9000 bytes carry a path MTU of 4096",
			"problem eth0: eth9, which carries it, takes 1500 bytes and not 9000: longer packets are lost -> ip link set dev eth9 mtu 9000"}},
		{9000, func(f *fake) {
			f.links = append(f.links, Link{Name: "p1", MTU: 9000, Master: "eth0"}, Link{Name: "p2", MTU: 1500, Master: "eth0"}, Link{Name: "p3", MTU: 1500, Master: "eth0"})
		}, []string{"ok eth0: 9000 bytes carry a path MTU of 4096",
			"problem eth0: its parts p2, p3 take less than its 9000 bytes: longer packets are lost -> ip link set dev p2 mtu 9000"}},
	} {
		f := healthy(t)
		f.links[1].MTU = c.mtu
		if c.change != nil {
			c.change(f)
		}
		f.check("mtu", c.want...)
	}
}

func TestWhoHasThePortIsNamed(t *testing.T) {
	const ours, all, loopback = "0200000A:12B7", "00000000:12B7", "0100007F:12B7"
	for _, c := range []struct {
		name   string
		change func(f *fake)
		want   []string
	}{
		{"nobody", func(*fake) {}, []string{"ok UDP: nobody uses it"}},
		{"another port", func(f *fake) { f.put("/proc/net/udp", udpHeader+udp("0200000A:12B8", 7)) }, []string{"ok UDP: nobody uses it"}},
		{"another address", func(f *fake) { f.put("/proc/net/udp", udpHeader+udp(loopback, 7)) }, []string{"ok UDP: nobody uses it"}},
		{"no loopback by default", func(f *fake) { f.cfg.Listen = nil; f.put("/proc/net/udp", udpHeader+udp(loopback, 7)) }, []string{"ok UDP: nobody uses it"}},
		{"the daemon, with a group of sockets", func(f *fake) {
			f.runs(33, 7, 8)
			f.put("/proc/net/udp", udpHeader+udp(ours, 7)+udp(ours, 8))
		}, []string{"ok 10.0.0.2: srptd (pid 33) has it"}},
		{"another daemon", func(f *fake) {
			f.runs(33)
			f.process(44, "srptd", 7)
			f.put("/proc/net/udp", udpHeader+udp(ours, 7))
		}, []string{"problem 10.0.0.2: another srptd (pid 44) has it -> end it: kill 44; or give the two different addresses: listen"}},
		{"somebody", func(f *fake) {
			f.process(44, "\x1b[31mevil\n", 7)
			f.put("/proc/net/udp", udpHeader+udp(all, 7))
		}, []string{"problem 0.0.0.0: ?[31mevil (pid 44) has it -> end it: kill 44; or give srptd other addresses: listen"}},
		{"somebody, over IPv6", func(f *fake) {
			f.process(44, "other", 7)
			f.put("/proc/net/udp6", udpHeader+udp("00000000000000000000000000000000:12B7", 7))
		}, []string{"problem ::: other (pid 44) has it -> end it: kill 44; or give srptd other addresses: listen"}},
		{"the kernel", func(f *fake) { f.put("/proc/net/udp", udpHeader+udp(all, 7)) },
			[]string{"problem 0.0.0.0: no process has it, so the kernel does: rdma_rxe is loaded -> modprobe -r rdma_rxe, or run srptd in a network namespace of its own"}},
		{"rxe", func(f *fake) { f.put("/sys/class/infiniband/rxe0/parent", "eth0\n") },
			[]string{"ok UDP: nobody uses it", "problem rxe0: rdma_rxe, the kernel's own RoCE, is on eth0 and owns UDP port 4791 -> rdma link delete rxe0; modprobe -r rdma_rxe"}},
		{"not to be seen", func(f *fake) { f.UID = 1000; f.put("/proc/net/udp", udpHeader+udp(ours, 7)) },
			[]string{"problem 10.0.0.2: somebody has it; who is not to be seen without root -> sudo ss -ulpn sport = 4791"}},
		{"perhaps the daemon", func(f *fake) { f.UID = 1000; f.process(33, "srptd"); f.put("/proc/net/udp", udpHeader+udp(ours, 7)) },
			[]string{"not checked 10.0.0.2: somebody has it; whether that is srptd (pid 33) is not to be seen without root"}},
		{"lines that are none", func(f *fake) {
			f.put("/proc/net/udp", udpHeader+"1: zz:12B7 a b c d e f g h i\n1: 01:12B7 a b c d e f g 1 i\n1:\n: : : : : : : : : : :\n1: 0200000A:123456 a b c d e f g 1 i\n")
		}, []string{"ok UDP: nobody uses it"}},
		{"many sockets", func(f *fake) {
			f.put("/proc/net/udp", udpHeader+strings.Repeat(udp(loopback, 9), 20000)+udp(all, 7))
			f.process(44, "other", 7)
		},
			[]string{"problem 0.0.0.0: other (pid 44) has it -> end it: kill 44; or give srptd other addresses: listen"}},
		{"a table without end", func(f *fake) { f.must(os.Truncate(f.Root+"/proc/net/udp", maxTable+1)) },
			[]string{"not checked UDP: /proc/net/udp is longer than 67108864 bytes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := healthy(t)
			c.change(f)
			f.check("port 4791", c.want...)
		})
	}
}
