package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gosrpt/gosrpt/cmd/internal/built"
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
	if want := `{"level":"ok","check":"build","subject":"srptctl","what":"v1, go1.26, RDMA providers: roce (built without verbs)"}`; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}

func TestProgramsSayWhatTheyWereBuiltWith(t *testing.T) {
	f := healthy(t)
	f.Build.Verbs = true
	f.runs(12)
	f.BuildOf = func(path string) (built.Info, error) {
		if path != "/proc/12/exe" {
			return built.Info{}, errBoom
		}
		return built.Info{Go: "go1.27", Verbs: true}, nil
	}
	f.check("build", "ok srptctl: v1, go1.26, RDMA providers: roce, verbs", "ok srptd (pid 12): go1.27, RDMA providers: roce, verbs")
	f.UID = 1000
	f.BuildOf = func(string) (built.Info, error) { return built.Info{}, fs.ErrPermission }
	f.check("build", "ok srptctl: v1, go1.26, RDMA providers: roce, verbs", "not checked srptd (pid 12): cannot be read without root: permission denied")
	f = healthy(t)
	f.Executable = func() string { return "" }
	f.check("build", "ok srptctl: v1, go1.26, RDMA providers: roce (built without verbs)", "not checked srptd: it is not in the PATH, nor beside srptctl")
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

// mlx5 is an adapter with a port.
func TestWhatOthersWriteStaysOneLineOfText(t *testing.T) {
	if got := printable("a\nb\x1b[2J\u202e\xff" + strings.Repeat("x", 2*maxText)); strings.ContainsAny(got, "\n\x1b\u202e") || len(got) > maxText+3 {
		t.Errorf("%q", got)
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
	if b, err := built.Of(exe); err != nil || !strings.HasPrefix(b.Go, "go") {
		t.Error(b, err)
	}
	if _, err := built.Of("/dev/null"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
