package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gosrpt/gosrpt/core/config"
)

func report(t *testing.T, f *fake) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, Run(t.Context(), f.Host)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHealthyHostHasNoProblem(t *testing.T) {
	f := healthy(t)
	out := report(t, f)
	golden(t, "healthy.txt", out)
	if !strings.HasSuffix(out, "\n0 problems, 0 warnings, 16 ok, 0 not checked\n") {
		t.Error("it has")
	}
}

// sick is a host on which nothing is right.
func sick(t *testing.T) *fake {
	f := healthy(t)
	f.put("/proc/sys/kernel/osrelease", "5.10.0-28-amd64")
	f.cfg.Listen = append(f.cfg.Listen, netip.MustParseAddr("10.9.9.9"))
	f.remove("/usr/lib/gosrpt/plugins/backstore-file")
	f.links[1].MTU, f.links[1].Carrier = 1500, false
	f.put("/proc/net/udp", udpHeader+udp("00000000:12B7", 7))
	f.put("/sys/class/infiniband/rxe0/parent", "eth0")
	f.put("/sys/class/infiniband/rxe0/ports/1/link_layer", "Ethernet")
	f.put("/sys/module/ib_srpt/refcnt", "0")
	f.put("/proc/sys/net/core/rmem_max", "212992")
	f.UID = 1000
	return f
}

func TestSickHostIsToldWhatMendsIt(t *testing.T) {
	golden(t, "sick.txt", report(t, sick(t)))
}

func TestFindingsAreToBeHadAsJSON(t *testing.T) {
	b, err := json.Marshal(Run(t.Context(), healthy(t).Host)[0])
	if want := `{"level":"ok","check":"build","subject":"srptctl","what":"v1, go1.26, providers: roce; without verbs"}`; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}

func TestProgramsSayWhatTheyWereBuiltWith(t *testing.T) {
	f := healthy(t)
	f.Build.Verbs = true
	f.runs(12)
	f.BuildOf = func(path string) (Build, error) {
		if path != "/proc/12/exe" {
			return Build{}, errBoom
		}
		return Build{Go: "go1.27", Verbs: true}, nil
	}
	f.check("build", "ok srptctl: v1, go1.26, providers: roce, verbs", "ok srptd (pid 12): go1.27, providers: roce, verbs")
	f.UID = 1000
	f.BuildOf = func(string) (Build, error) { return Build{}, fs.ErrPermission }
	f.check("build", "ok srptctl: v1, go1.26, providers: roce, verbs", "not checked srptd (pid 12): cannot be read without root: permission denied")
	f = healthy(t)
	f.Executable = func() string { return "" }
	f.check("build", "ok srptctl: v1, go1.26, providers: roce; without verbs", "not checked srptd: it is not in the PATH, nor beside srptctl")
}

func TestOldKernelIsToldWhatItLacks(t *testing.T) {
	for release, want := range map[string][]string{
		"6.9.0":        {"ok Linux 6.9.0: it has all that is used"},
		"6.12-rc1":     {"ok Linux 6.12-rc1: it has all that is used"},
		"6.8.12-4-pve": {"warning Linux 6.8.12-4-pve: what a plugin has started may outlive a killed srptd (PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9) -> use a newer kernel"},
		"":             {`not checked Linux: its version "" cannot be read`},
		"x.y":          {`not checked Linux: its version "x.y" cannot be read`},
	} {
		f := healthy(t)
		f.put("/proc/sys/kernel/osrelease", release)
		f.check("kernel", want...)
	}
	f := healthy(t)
	f.put("/proc/sys/kernel/osrelease", "4.4.0")
	if got := Run(t.Context(), f.Host); Count(got, Problem) != 1 || Count(got, Warning) != 4 {
		t.Errorf("%v", got)
	}
	f = healthy(t)
	f.put("/proc/sys/kernel/io_uring_disabled", "2")
	f.put("/sys/kernel/security/lsm", "lockdown,capability,yama")
	f.check("kernel", "ok Linux 6.12.0-1-amd64: it has all that is used",
		"warning io_uring: it is switched off (2): backstore-file works without, slower -> sysctl -w kernel.io_uring_disabled=0",
		"warning Landlock: it is not among the security modules in force (lockdown,capability,yama): plugins are not kept to their files -> add landlock to the lsm= list of the kernel's command line")
	f.put("/proc/sys/kernel/io_uring_disabled", "0")
	f.put("/sys/kernel/security/lsm", "lockdown,landlock")
	f.check("kernel", "ok Linux 6.12.0-1-amd64: it has all that is used")
}

func TestEveryFaultOfTheConfigurationIsToldAndTheRestStillLookedAt(t *testing.T) {
	f := healthy(t)
	f.Config = func() (*config.Config, error) {
		return nil, &config.Error{File: "/x.yaml", Problems: []config.Problem{{Where: "port (line 3)", What: "is 0"}, {Where: "luns[0]", What: "has no\nname\x1b"}}}
	}
	f.check("configuration", "problem /x.yaml: port (line 3): is 0", "problem /x.yaml: luns[0]: has no; name?")
	f.check("plugins", "not checked executables: there is no valid configuration that names any")
	f.check("link", "ok eth0: up, with 10.0.0.2, fe80::2")
	f.check("buffers", "not checked sockets: there is no valid configuration that says how large they are to be")
	f.check("control", "not checked socket: without a configuration it is not known where it is; --socket names it")
	f.Config = func() (*config.Config, error) { return nil, errBoom }
	f.ConfigFile = "/y.yaml"
	f.check("configuration", "problem /y.yaml: boom")
	f = healthy(t)
	f.cfg.File, f.cfg.LUNs = "", nil
	f.check("configuration", "ok /etc/gosrpt/srptd.yaml: there is none; the defaults and the environment hold",
		"warning luns: there is none: initiators log in and see no disk")
}

func TestControlSocketTellsWhoAnswers(t *testing.T) {
	const at = " /run/gosrpt/srptd.sock: "
	for _, c := range []struct {
		name   string
		change func(f *fake)
		want   []string
	}{
		{"nobody", func(*fake) {}, []string{"ok" + at + "no srptd runs"}},
		{"a daemon", func(f *fake) { f.runs(9) }, []string{"ok" + at + "srptd v1 answers, up 1m30s"}},
		{"one of another version", func(f *fake) { f.runs(9); f.Build.Version = "v2" }, []string{"ok" + at + "srptd v1 answers, up 1m30s",
			"warning" + at + "srptctl is v2, srptd is v1 -> install both from one build, and restart srptd"}},
		{"one elsewhere", func(f *fake) { f.process(9, "srptd") },
			[]string{"warning" + at + "srptd runs (pid 9), and its control socket is not here -> name the socket with --socket, or the configuration with --config"}},
		{"a stale socket", func(f *fake) { f.fails(syscall.ECONNREFUSED) }, []string{"ok" + at + "no srptd runs; an earlier one has left its socket, which the next one replaces"}},
		{"a plain user", func(f *fake) { f.fails(syscall.EACCES); f.UID = 1000 }, []string{"not checked" + at + "cannot be used without root"}},
		{"one that hangs", func(f *fake) { f.process(9, "srptd"); f.fails(context.DeadlineExceeded) },
			[]string{"problem" + at + "srptd does not answer: context deadline exceeded -> look at srptd's log; srptctl status"}},
		{"another socket", func(f *fake) { f.Socket = "/tmp/s" }, []string{"ok /tmp/s: no srptd runs"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := healthy(t)
			c.change(f)
			f.check("control", c.want...)
		})
	}
}

func (f *fake) fails(err error) {
	f.Ask = func(context.Context, string) (Daemon, error) { return Daemon{}, err }
}

func TestPluginsThatAreMissingAreToldWithWhomTheyKeepWaiting(t *testing.T) {
	f := healthy(t)
	f.cfg.Auth.Plugin = "auth"
	f.cfg.LUNs = append(f.cfg.LUNs, config.LUN{LUN: 1, Name: "disk1", Plugin: "mydisk"})
	f.put("/usr/lib/gosrpt/plugins/mydisk", "")
	f.check("plugins",
		"problem auth: every login waits for it: no executable auth or gosrpt-auth in /usr/lib/gosrpt/plugins: plugin not found -> install it, or name its directory: plugin_dir",
		"ok backstore-file: /usr/lib/gosrpt/plugins/backstore-file",
		"problem mydisk: LUN 1 (disk1) waits for it: /usr/lib/gosrpt/plugins/mydisk is not executable: chmod +x it; "+
			"no executable mydisk or gosrpt-mydisk in /usr/lib/gosrpt/plugins: plugin not found -> install it, or name its directory: plugin_dir")
}

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

func TestBuffersCountUnlessTheDaemonMayExceedThem(t *testing.T) {
	f := healthy(t)
	f.put("/proc/sys/net/core/rmem_max", "212992")
	f.check("buffers", "ok net.core.rmem_max: 208 KiB are less than the 32 MiB that are asked for, and srptd may exceed them (CAP_NET_ADMIN)",
		"ok net.core.wmem_max: 4.0 MiB of the 4.0 MiB that are asked for")
	small := "warning net.core.rmem_max: 208 KiB are granted of the 32 MiB that are asked for: a burst of initiators' packets is lost and sent again -> sysctl -w net.core.rmem_max=33554432"
	f.UID = 1000
	f.check("buffers", small, "ok net.core.wmem_max: 4.0 MiB of the 4.0 MiB that are asked for")
	f.UID = 0
	f.runs(9) // which has no privilege, although we have
	f.check("buffers", small, "ok net.core.wmem_max: 4.0 MiB of the 4.0 MiB that are asked for")
	f.put("/proc/9/status", "CapEff:\t0000000000001000\n")
	f.put("/proc/sys/net/core/wmem_max", "zero")
	f.check("buffers", "ok net.core.rmem_max: 208 KiB are less than the 32 MiB that are asked for, and srptd may exceed them (CAP_NET_ADMIN)",
		`not checked net.core.wmem_max: cannot be read: strconv.ParseUint: parsing "zero": invalid syntax`)
	f.remove("/proc/sys/net/core")
	f.check("buffers", "not checked net.core.rmem_max: not to be seen in this network namespace", "not checked net.core.wmem_max: not to be seen in this network namespace")
}

func TestMemlockIsHeldAgainstWhatIsLocked(t *testing.T) {
	f := healthy(t)
	f.runs(9)
	f.check("memlock", "ok roce: nothing is locked by this provider, whatever the limit is")
	f.cfg.Provider = "verbs" // 64 MiB for the target, 64 MiB for disk0
	short := "8.0 MiB may be locked, and the configuration locks 128 MiB -> "
	daemon := "problem srptd (pid 9): " + short + "prlimit --pid 9 --memlock=unlimited, or LimitMEMLOCK=infinity in its unit"
	f.check("memlock", daemon)
	const etc, unit = "/etc/systemd/system/srptd.service", "LimitMEMLOCK=infinity in its [Service], systemctl daemon-reload, and a restart"
	f.put(etc, "[Service]\nExecStart=/usr/sbin/srptd\n")
	f.check("memlock", "warning "+etc+": the unit sets no limit, so that systemd's holds, of 8 MiB -> LimitMEMLOCK=infinity in its [Service]", daemon)
	f.put(etc, "[Service]\nLimitMEMLOCK=8M:infinity\n")
	f.check("memlock", "problem "+etc+": "+short+unit, daemon)
	f.put(etc+".d/limit.conf", "[Service]\nLimitMEMLOCK = 1\nLimitMEMLOCK=infinity\n")
	f.put("/proc/9/limits", "Max locked memory         unlimited            unlimited            bytes\n")
	f.check("memlock", "ok "+etc+".d/limit.conf: no limit", "ok srptd (pid 9): no limit")
	f.put(etc+".d/limit.conf", "LimitMEMLOCK=99999999999999T")
	f.put("/proc/9/limits", "Max open files 1 2 files\n")
	f.check("memlock", "warning "+etc+".d/limit.conf: LimitMEMLOCK=99999999999999T is not understood -> LimitMEMLOCK=infinity",
		"not checked srptd (pid 9): cannot be read: /proc/9/limits does not tell the limit of locked memory")
	f = healthy(t)
	f.cfg.Provider, f.UID, f.cfg.LUNs[0].Arena = "verbs", 1000, 1<<20
	f.check("memlock", "problem this shell: 8.0 MiB may be locked, and the configuration locks 65 MiB -> ulimit -l unlimited, as root, or a line in /etc/security/limits.d")
	f.Memlock = func() (uint64, error) { return 65 << 20, nil }
	f.check("memlock", "ok this shell: 65 MiB of the 65 MiB that the configuration locks")
}

func TestKernelTargetThatTakesWhatIsOursIsNamed(t *testing.T) {
	f := healthy(t)
	f.check("kernel target", "ok ib_srpt: not loaded")
	const mend = " -> modprobe -r ib_srpt; echo blacklist ib_srpt > /etc/modprobe.d/gosrpt.conf"
	f.put("/sys/module/ib_srpt/refcnt", "0")
	f.check("kernel target", "warning ib_srpt: it is loaded, and answers discovery (Device Management) on every InfiniBand port in srptd's place"+mend)
	f.put("/sys/class/infiniband/mlx5_0/node_guid", "")
	f.check("kernel target", "problem ib_srpt: it is loaded, and answers discovery (Device Management) on every InfiniBand port in srptd's place"+mend)
	f.put("/sys/kernel/config/target/srpt/discovery_auth/x", "")
	f.put("/sys/kernel/config/target/srpt/0xfe800000/y", "")
	f.check("kernel target", "problem LIO: the kernel's target serves SRP at 0xfe800000 -> targetcli clearconfig confirm=True, or take /srpt out of it; then modprobe -r ib_srpt")
}

// mlx5 is an adapter with a port.
func (f *fake) mlx5(link, state, mask string) {
	const dir = "/sys/class/infiniband/mlx5_0/ports/1/"
	f.put(dir+"link_layer", link+"\n")
	f.put(dir+"state", state+"\n")
	f.put(dir+"cap_mask", mask+"\n")
}

func TestAdaptersWantTheirDeviceFilesAndASubnetManager(t *testing.T) {
	const without = "ok adapters: they are used through their network interfaces: this build has no verbs provider"
	f := healthy(t)
	f.check("rdma", "ok adapters: there is none; the roce provider needs none")
	f.mlx5("Ethernet", "1: DOWN", "0x00010000")
	f.check("rdma", without, "warning mlx5_0: the kernel has made no device file for it: ib_uverbs is not loaded -> modprobe ib_uverbs",
		"warning rdma_cm: /dev/infiniband/rdma_cm is missing -> modprobe rdma_ucm")
	f.Build.Verbs, f.cfg.Provider = true, "verbs"
	f.mlx5("InfiniBand", "2: INIT", "0x2651e848")
	f.put("/sys/class/infiniband_verbs/uverbs3/ibdev", "mlx5_0")
	f.put("/sys/class/infiniband_verbs/uverbs0/ibdev", "other")
	f.put("/sys/class/infiniband_verbs/abi_version", "6")
	f.put("/dev/infiniband/uverbs3", "")
	f.put("/dev/infiniband/rdma_cm", "")
	const bit = "warning mlx5_0 port 1: initiators' srp_daemon does not look here: only the kernel can set a port's IsDeviceManagementSupported bit, " +
		"and no program -> give initiators the lines of srptctl connect-info, or of srptctl discover"
	f.check("rdma", "ok mlx5_0: /dev/infiniband/uverbs3 can be used",
		"problem mlx5_0: the kernel has made no device file for it: ib_umad is not loaded -> modprobe ib_umad",
		"problem mlx5_0 port 1: it is INIT: no subnet manager has brought it up -> start a subnet manager, on a switch or here: systemctl start opensm",
		bit, "ok rdma_cm: /dev/infiniband/rdma_cm can be used")
	f.put("/sys/class/infiniband_mad/umad0/ibdev", "mlx5_0")
	f.mlx5("InfiniBand", "1: DOWN", "0x026d1e848")
	f.check("rdma", "ok mlx5_0: /dev/infiniband/uverbs3 can be used",
		"problem mlx5_0: /dev/infiniband/umad0 is missing -> modprobe ib_umad",
		"problem mlx5_0 port 1: it is DOWN -> look at the cable, and at the switch's port",
		bit, "ok rdma_cm: /dev/infiniband/rdma_cm can be used")
	f.put("/dev/infiniband/umad0", "")
	f.mlx5("InfiniBand", "4: ACTIVE", "0x00080000")
	f.check("rdma", "ok mlx5_0: /dev/infiniband/uverbs3 can be used", "ok mlx5_0: /dev/infiniband/umad0 can be used",
		"ok mlx5_0 port 1: active", "ok rdma_cm: /dev/infiniband/rdma_cm can be used")
	f.remove("/sys/class/infiniband/mlx5_0/ports/1/state")
	f.put("/sys/class/infiniband/mlx5_0/ports/1/cap_mask", "what")
	f.check("rdma", "ok mlx5_0: /dev/infiniband/uverbs3 can be used", "ok mlx5_0: /dev/infiniband/umad0 can be used",
		"not checked mlx5_0 port 1: its state cannot be read: open "+f.Root+"/sys/class/infiniband/mlx5_0/ports/1/state: no such file or directory",
		"ok rdma_cm: /dev/infiniband/rdma_cm can be used")
}

func TestWhatOthersWriteStaysOneLineOfText(t *testing.T) {
	if got := printable("a\nb\x1b[2J\u202e\xff" + strings.Repeat("x", 2*maxText)); strings.ContainsAny(got, "\n\x1b\u202e") || len(got) > maxText+3 {
		t.Errorf("%q", got)
	}
}

func TestNothingIsReadWithoutBound(t *testing.T) {
	f := healthy(t)
	f.put("/sys/big", strings.Repeat("x", maxFile+1))
	if _, err := f.read("/sys/big"); err == nil {
		t.Error("a file without end was read")
	}
	if err := syscall.Mkfifo(f.Root+"/sys/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := f.read("/sys/pipe"); s != "" && err == nil {
		t.Error(s)
	}
	out, err := output(t.Context(), "head", "-c", fmt.Sprint(maxToolOut+1), "/dev/zero")
	if err == nil {
		t.Errorf("a tool's %d bytes were read", len(out))
	}
	if _, err := output(t.Context(), "no-such-tool"); err == nil {
		t.Error("a tool that there is not was run")
	}
}

func TestThisHostCanBeExamined(t *testing.T) {
	h := Local("test")
	h.Config = func() (*config.Config, error) { return config.Load("/dev/null", nil) }
	h.Ask = func(context.Context, string) (Daemon, error) { return Daemon{}, fs.ErrNotExist }
	found := Run(t.Context(), h)
	if len(found) < 10 {
		t.Errorf("%v", found)
	}
	list, err := links()
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	n, err := memlock()
	if err != nil || n == 0 {
		t.Error(n, err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := buildOf(exe); err != nil || !strings.HasPrefix(b.Go, "go") {
		t.Error(b, err)
	}
	if _, err := buildOf("/dev/null"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
