package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/gosrpt/gosrpt/core/admin/adminpb"
)

type fixed struct{}

func (fixed) Status() *adminpb.StatusReply {
	return &adminpb.StatusReply{
		Version: "v", Sessions: 2, Luns: []*adminpb.Lun{{Lun: 3, Name: "d", State: "ready", Counters: map[string]uint64{"reads": 7}}},
		Plugins:       []*adminpb.Plugin{{Kind: "auth", Name: "auth", State: "running", Restarts: 3, OldestMs: 1500}},
		RefusedLogins: map[string]uint64{"no room": 4}, Devices: []*adminpb.Device{{Name: "eth0", Counters: map[string]uint64{"bad_icrc": 9}}},
	}
}

func (fixed) Sessions() *adminpb.SessionsReply {
	return &adminpb.SessionsReply{Sessions: []*adminpb.Session{{Id: 5}}}
}

func (fixed) Plugins() *adminpb.PluginsReply {
	return &adminpb.PluginsReply{Plugins: fixed{}.Status().Plugins}
}

func (fixed) ConnectInfo() *adminpb.ConnectInfoReply {
	return &adminpb.ConnectInfoReply{Infos: []*adminpb.ConnectInfo{{AddTarget: "x"}}}
}

func (fixed) Logout(_ context.Context, id uint64) error {
	if id != 5 {
		return ErrNoSession
	}
	return nil
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
	switch {
	case name != "d":
		return nil, ErrNoPlugin
	case path != "":
		return nil, errors.New("it does not start")
	}
	return &adminpb.UpgradePluginReply{New: &adminpb.PluginVersion{Pid: 9}}, nil
}

func serve(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Serve(cfg, fixed{}, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func client(t *testing.T, socket string) adminpb.AdminClient {
	t.Helper()
	cc, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return adminpb.NewAdminClient(cc)
}

func TestControlSocketAnswersEveryCall(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "dir", "s")
	serve(t, Config{Socket: socket})
	c, ctx := client(t, socket), t.Context()
	if s, err := c.Status(ctx, &adminpb.StatusRequest{}); err != nil || s.Sessions != 2 {
		t.Errorf("status %v, %v", s, err)
	}
	if s, err := c.Sessions(ctx, &adminpb.SessionsRequest{}); err != nil || len(s.Sessions) != 1 {
		t.Errorf("sessions %v, %v", s, err)
	}
	if s, err := c.ConnectInfo(ctx, &adminpb.ConnectInfoRequest{}); err != nil || len(s.Infos) != 1 {
		t.Errorf("connect info %v, %v", s, err)
	}
	if p, err := c.Plugins(ctx, &adminpb.PluginsRequest{}); err != nil || len(p.Plugins) != 1 {
		t.Errorf("plugins %v, %v", p, err)
	}
	if _, err := c.Logout(ctx, &adminpb.LogoutRequest{Id: 5}); err != nil {
		t.Errorf("logout: %v", err)
	}
	_, err := c.Logout(ctx, &adminpb.LogoutRequest{Id: 6})
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "session 6") {
		t.Errorf("logout of nobody: %v", err)
	}
}

func TestUpgradeSaysWhyItWasNot(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	serve(t, Config{Socket: socket})
	c, ctx := client(t, socket), t.Context()
	if r, err := c.UpgradePlugin(ctx, &adminpb.UpgradePluginRequest{Name: "d"}); err != nil || r.New.Pid != 9 {
		t.Errorf("%v, %v", r, err)
	}
	for want, q := range map[codes.Code]*adminpb.UpgradePluginRequest{
		codes.NotFound: {Name: "x"}, codes.InvalidArgument: {Name: "d", Path: "relative"}, codes.FailedPrecondition: {Name: "d", Path: "/p"},
	} {
		if _, err := c.UpgradePlugin(ctx, q); status.Code(err) != want {
			t.Errorf("%v: %v, want %v", q, err, want)
		}
	}
}

func TestSocketIsForItsOwnerAndGroupOnly(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	serve(t, Config{Socket: socket})
	st, err := os.Stat(socket)
	if err != nil || st.Mode().Perm() != 0o660 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}

func TestStaleSocketIsReplacedAndALivingOneIsNot(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	serve(t, Config{Socket: socket})
	if _, err := Serve(Config{Socket: socket}, fixed{}, hclog.NewNullLogger()); err == nil || !strings.Contains(err.Error(), "another daemon") {
		t.Errorf("second daemon on the socket: %v", err)
	}
}

func TestMetricsTellCountersByName(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	serve(t, Config{Socket: filepath.Join(t.TempDir(), "s"), Metrics: addr})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"gosrpt_sessions 2", `gosrpt_refused_logins_total{reason="no room"} 4`, `gosrpt_lun_ready{lun="3",name="d"} 1`,
		`gosrpt_lun_events_total{event="reads",lun="3",name="d"} 7`, `gosrpt_device_events_total{device="eth0",event="bad_icrc"} 9`,
		`gosrpt_plugin_running{kind="auth",name="auth"} 1`, `gosrpt_plugin_restarts_total{kind="auth",name="auth"} 3`,
		`gosrpt_plugin_oldest_request_seconds{kind="auth",name="auth"} 1.5`,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
}
