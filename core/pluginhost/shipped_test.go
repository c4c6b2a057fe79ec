package pluginhost_test

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/sdk/auth"
	"github.com/gosrpt/gosrpt/sdk/ioctx"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

// shipped builds the plugins of the tree.
func shipped(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir, "github.com/gosrpt/gosrpt/plugins/auth", "github.com/gosrpt/gosrpt/plugins/ioctx")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shipManifest(t, dir, "auth")
	shipManifest(t, dir, "ioctx")
	return dir
}

func TestShippedAuthPluginFollowsItsList(t *testing.T) {
	dir := shipped(t)
	list := filepath.Join(dir, "list.yaml")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(list+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(list+".new", list); err != nil {
			t.Fatal(err)
		}
	}
	web := auth.Login{Initiator: auth.ID{0x11, 15: 0xcc}, SourceAddr: netip.MustParseAddr("10.0.0.7")}
	db := auth.Login{Initiator: auth.ID{0x22, 15: 0xcc}, SourceAddr: netip.MustParseAddr("10.0.0.8")}
	const both = "hosts:\n- {name: web, initiators: ['address:10.0.0.7'], luns: [{lun: 1, name: disk0, read_only: true}]}\n"
	put(both + "- {name: db, initiators: ['address:10.0.0.8'], luns: all}\n")
	f := startAuth(t, func(c *pluginhost.AuthConfig) {
		c.Path, c.Args, c.Config = filepath.Join(dir, "auth"), nil, map[string]string{"list": list}
	})
	if s := f.Status(); !strings.Contains(s.Notice, "2 hosts") {
		t.Errorf("status %+v", s)
	}
	if d, ok := f.Description(); !ok || d.Name != "accesslist" || len(d.Settings) != 1 {
		t.Errorf("%v, %+v", ok, d)
	}
	decide := func(l auth.Login) auth.Decision {
		t.Helper()
		d, err := f.Decide(soon(t), l)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := decide(web); !d.Allow || len(d.LUNs) != 1 || !d.LUNs[0].ReadOnly || d.Reason != "host web by address:10.0.0.7" {
		t.Errorf("%+v", d)
	}
	if d := decide(db); !d.AllLUNs {
		t.Errorf("%+v", d)
	}
	if d := decide(auth.Login{Initiator: auth.ID{0x33}}); d.Allow || !strings.Contains(d.Reason, "port_id:0x33") {
		t.Errorf("%+v", d)
	}
	began := time.Now()
	put(both)
	if c := <-f.changes; !c.Revoke || len(c.Initiators) != 1 || c.Initiators[0] != db.Initiator {
		t.Errorf("%+v", c)
	}
	if c := <-f.changes; c.Revoke || len(c.Initiators) != 0 {
		t.Errorf("%+v", c)
	}
	t.Logf("the revocation took %v", time.Since(began))
	if d := decide(db); d.Allow || !decide(web).Allow {
		t.Errorf("%+v", d)
	}
	// With a mistake the list before stays, after a restart there is none.
	put("hosts: nobody")
	if err := syscall.Kill(f.Status().PID, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if d := decide(web); !d.Allow {
		t.Errorf("%+v", d)
	}
	kill(t, f.Status().PID)
	for !strings.Contains(f.until(t, pluginhost.StateDown).LastError, "list.yaml") {
	}
	if d, err := f.Decide(soon(t), web); err == nil || d.Allow {
		t.Errorf("%+v, %v", d, err)
	}
	put(both)
	f.until(t, pluginhost.StateRunning)
	if c := <-f.changes; len(c.Initiators) != 0 || !decide(web).Allow {
		t.Errorf("%+v", c)
	}
}

func TestShippedIOCtxPluginPlansWhatItIsTold(t *testing.T) {
	path := filepath.Join(shipped(t), "ioctx")
	cfg := pluginhost.IOCtxConfig{ControlConfig: controlConfig(make(states, 64))}
	cfg.Path, cfg.Config = path, map[string]string{"credits": "32", "max_wait": "2s"}
	p, err := pluginhost.StartIOCtx(soon(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if d, ok := p.Description(); !ok || d.Name != "static" || len(d.Settings) != 12 {
		t.Errorf("%v, %+v", ok, d)
	}
	s := ioctx.Situation{Default: ioctx.Plan{Credits: 128, Unsolicited: 4, Responses: 192, SendWork: 512, MaxRequestIU: 8276,
		MaxResponseIU: 512, MaxTransfer: 1 << 20, ArenaSize: 64 << 20, MaxWait: time.Second}}
	want := s.Default
	want.Credits, want.Responses, want.MaxWait = 32, 48, 2*time.Second
	if plan, err := p.Plan(soon(t), s); err != nil || plan != want {
		t.Errorf("%+v, %v", plan, err)
	}
	cfg.Config = map[string]string{"credit": "32"}
	_, err = pluginhost.StartIOCtx(soon(t), cfg)
	var e *schema.Error
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "credit: no such setting") {
		t.Errorf("%v", err)
	}
}
