package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/cmd/internal/built"
	"github.com/gosrpt/gosrpt/core/admin"
	"github.com/gosrpt/gosrpt/core/admin/adminpb"
)

// fixed is a daemon that says the same always.
type fixed struct{}

func (fixed) Status() *adminpb.StatusReply {
	return &adminpb.StatusReply{
		Version: "v1", Provider: "roce", IdExt: "0011", IocGuid: "0022", Sessions: 1,
		Listeners:  []*adminpb.Listener{{Address: "10.0.0.1:5555", Device: "eth0", State: "listening"}},
		Luns:       []*adminpb.Lun{{Lun: 3, Name: "disk3", Plugin: "backstore-file", Blocks: 2048, BlockSize: 512, State: "ready", Notice: "buffered I/O", Health: "degraded: half a mirror"}},
		Plugins:    fixed{}.Plugins().Plugins,
		Counters:   map[string]uint64{"logins_accepted": 4, "nothing": 0},
		Devices:    []*adminpb.Device{{Name: "mlx5_0", Problems: []string{"port 1 does not answer\ndiscovery"}}},
		ChannelUse: []*adminpb.ChannelUse{{InUse: 41, Limit: 256, Reserved: 32}, {Device: "eth7", Port: 2, InUse: 40, Limit: 64, Reserved: 31}},
	}
}

func (fixed) Plugins() *adminpb.PluginsReply {
	return &adminpb.PluginsReply{Plugins: []*adminpb.Plugin{
		{Kind: "auth", Name: "auth", Executable: "auth", Path: "/lib/auth", State: "running", StateSeconds: 61, Pid: 4711, Restarts: 2,
			Notice: "access list: 3 hosts", About: "gosrpt sdk", RequestsFlying: 1, OldestMs: 1500},
		{Kind: "backstore", Name: "disk3", Executable: "backstore-file", State: "down", LastError: "no such file\nnor another", RequestsWaiting: 9, StalledMs: 7000},
	}}
}

func (fixed) Sessions() *adminpb.SessionsReply {
	return &adminpb.SessionsReply{Sessions: []*adminpb.Session{{Id: 7, InitiatorPortId: "0xabc", Permission: "host web by port_id:0xabc", ReadOnly: true, QueueDepth: 33, ChannelLimit: 16,
		Luns: []*adminpb.SessionLun{{Lun: 5, Name: "disk3", ReadOnly: true}}, Channels: []*adminpb.Channel{{Qpn: 17, Remote: "10.0.0.9:4791", State: "live"}}}}}
}

func (fixed) ConnectInfo() *adminpb.ConnectInfoReply {
	return &adminpb.ConnectInfoReply{Infos: []*adminpb.ConnectInfo{{Address: "10.0.0.1:5555", AddTarget: "id_ext=0011,ioc_guid=0022,dest=10.0.0.1:5555"}}}
}

func (fixed) Logout(_ context.Context, id uint64) error {
	if id == 7 {
		return nil
	}
	return admin.ErrNoSession
}

func (fixed) Fabric() *adminpb.FabricReply {
	return &adminpb.FabricReply{IgnoredEvents: 3, Hcas: []*adminpb.Hca{{Name: "eth0", NodeGuid: "0011", Serving: true, Counters: map[string]uint64{"rx_packets": 12},
		Ports: []*adminpb.HcaPort{{Num: 1, Guid: "0012", State: "active", Link: "InfiniBand", Mtu: 4096, Lid: 7, SmLid: 1, Gids: []string{"fe80::1"},
			Addresses: []string{"10.0.0.1"}, Pkeys: []uint32{0xffff}, Discovery: true, Answered: 5}}}, {Name: "eth1", Problem: "in use"}}}
}

func (fixed) Events(ctx context.Context, after uint64, follow bool) ([]*adminpb.Event, error) {
	switch {
	case after == 0:
		return []*adminpb.Event{{Seq: 1, Device: "eth0", Port: 1, Event: "port error", Action: "cache cleared"}, {Seq: 2, Device: "eth1", Event: "device added", Action: "devices listed"}}, nil
	case after == 2 && follow:
		return []*adminpb.Event{{Seq: 3, Device: "eth2", Event: "device removed", Action: "its sessions and listeners end"}}, nil
	}
	return nil, nil
}

func (fixed) UpgradePlugin(_ context.Context, name, path string) (*adminpb.UpgradePluginReply, error) {
	if name != "disk3" {
		return nil, admin.ErrNoPlugin
	}
	return &adminpb.UpgradePluginReply{
		Old: &adminpb.PluginVersion{Path: "/lib/old", Pid: 11, About: "sdk 1"}, New: &adminpb.PluginVersion{Path: path, Pid: 12, About: "sdk 2"},
		Pauses: []*adminpb.UpgradePause{{Lun: "disk3", Microseconds: 3200, RequestsWaited: 5}},
	}, nil
}

func serveFixed(t *testing.T) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	s, err := admin.Serve(admin.Config{Socket: socket}, fixed{}, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return socket
}

// ctl runs the command and returns what it prints.
func ctl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root, out := newRoot(), &bytes.Buffer{}
	root.SetArgs(args)
	root.SetOut(out)
	err := root.Execute()
	return out.String(), err
}

func TestCommandsPrintWhatTheDaemonSays(t *testing.T) {
	socket := serveFixed(t)
	cases := map[string][]string{
		"status": {"srptd v1", "device mlx5_0     port 1 does not answer; discovery", "10.0.0.1:5555", "eth0", "disk3", "1.0 MiB", "ready", "buffered I/O", "the store is degraded: half a mirror", "logins_accepted",
			"target", "41 of 256", "32 kept for first channels", "eth7 port 2", "40 of 64", "plugin auth", "/lib/auth", "running for 1m1s", "pid 4711", "2 restarts", "access list: 3 hosts", "gosrpt sdk", "last error: no such file"},
		"sessions":                             {"0xabc", "10.0.0.9:4791", "17", "live", "host web by port_id:0xabc", "read-only", "1 of 16", "33", "5=disk3 (read-only)"},
		"plugin list":                          {"auth", "/lib/auth", "running", "4711", "1.5s", "backstore", "disk3", "down", "7s", "no such file; nor another"},
		"plugin upgrade disk3 --path /lib/new": {"/lib/old", "pid 11", "sdk 1", "/lib/new", "pid 12", "disk3", "paused for 3.2ms", "5 requests waited"},
		"fabric": {"HCA eth0", "node GUID 0011", "serving", "port 1", "InfiniBand", "active", "MTU 4096", "LID 7/0", "SM LID 1", "fe80::1", "10.0.0.1",
			"0xffff", "answered 5", "rx_packets", "HCA eth1", "not served: in use"},
		"events":          {"eth0 port 1: port error: cache cleared", "eth1: device added: devices listed"},
		"events --follow": {"eth2: device removed: its sessions and listeners end"},
		"connect-info":    {"id_ext=0011,ioc_guid=0022,dest=10.0.0.1:5555"},
	}
	for cmd, want := range cases {
		out, err := ctl(t, append([]string{"--socket", socket}, strings.Fields(cmd)...)...)
		if err != nil {
			t.Errorf("%s: %v", cmd, err)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: no %q in\n%s", cmd, w, out)
			}
		}
		if strings.Contains(out, "nothing") {
			t.Errorf("%s: shows a counter that is zero", cmd)
		}
	}
}

func TestEveryAnswerIsToBeHadAsJSON(t *testing.T) {
	socket := serveFixed(t)
	for _, cmd := range []string{"status", "sessions", "connect-info", "plugin list", "plugin upgrade disk3", "fabric"} {
		out, err := ctl(t, append([]string{"--socket", socket, "--output", "json"}, strings.Fields(cmd)...)...)
		if err != nil || !json.Valid([]byte(out)) {
			t.Errorf("%s: %v\n%s", cmd, err, out)
		}
	}
}

func TestLogoutOfNobodySaysWhereToLook(t *testing.T) {
	socket := serveFixed(t)
	if _, err := ctl(t, "--socket", socket, "logout", "7"); err != nil {
		t.Errorf("logout 7: %v", err)
	}
	_, err := ctl(t, "--socket", socket, "logout", "8")
	if err == nil || !strings.Contains(err.Error(), "srptctl sessions") {
		t.Errorf("logout 8: %v", err)
	}
}

func TestExitCodesTellUsageFromFailureFromNoDaemon(t *testing.T) {
	socket := serveFixed(t)
	nobody := filepath.Join(t.TempDir(), "none")
	cases := []struct {
		args []string
		want int
	}{
		{[]string{"--socket", socket, "connect-info"}, 0},
		{[]string{"--socket", nobody, "status"}, exitUnreachable},
		{[]string{"--socket", socket, "logout", "8"}, exitFailed},
		{[]string{"--socket", socket, "logout"}, exitUsage},
		{[]string{"--socket", socket, "logout", "x"}, exitUsage},
		{[]string{"status", "extra"}, exitUsage},
		{[]string{"plugin"}, exitUsage},
		{[]string{"plugin", "list", "extra"}, exitUsage},
		{[]string{"--socket", nobody, "plugin", "list"}, exitUnreachable},
		{[]string{"plugin", "upgrade"}, exitUsage},
		{[]string{"--socket", socket, "plugin", "upgrade", "disk4"}, exitFailed},
		{[]string{"--nonsense"}, exitUsage},
		{[]string{"--socket", socket, "--output", "xml", "status"}, exitUsage},
		{[]string{"bench", "--pattern", "sideways"}, exitUsage},
		{[]string{"bench", "--block", "0"}, exitUsage},
		{[]string{"bench", "--block", "1GiB"}, exitUsage},
		{[]string{"bench", "--depth", "0"}, exitUsage},
		{[]string{"bench", "--pattern", "write"}, exitUsage},
		{[]string{"bench", "--verify"}, exitUsage},
		{[]string{"bench", "--connect", "nowhere", "--id-ext", "1", "--ioc-guid", "1"}, exitUsage},
		{[]string{"--socket", nobody, "bench"}, exitUnreachable},
		{[]string{"bench", "--file", nobody}, exitFailed},
	}
	for _, c := range cases {
		if got := run(c.args); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.args, got, c.want)
		}
	}
}

func TestLoopbackInitiatorTakesAnotherAddressThanTheTarget(t *testing.T) {
	f := &benchFlags{connect: "127.0.0.2:5555", idExt: "1", iocGUID: "2", channels: 1, depth: 1}
	cfg, err := f.target(t.Context(), &options{output: "text"})
	if err != nil || cfg.Local == cfg.Remote.Addr() {
		t.Errorf("from %v to %v, %v", cfg.Local, cfg.Remote, err)
	}
}

func TestVersionSaysWhatTheCommandWasBuiltWith(t *testing.T) {
	want := "srptctl version " + built.Own(admin.Version).String() + "\n"
	for _, arg := range []string{"version", "--version"} {
		if out, err := ctl(t, arg); err != nil || out != want {
			t.Errorf("%s: %q, %v", arg, out, err)
		}
	}
}
