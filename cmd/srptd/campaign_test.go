package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

// The campaigns run the daemon's disks, with real plugin processes, behind a target in this process, over a fabric in memory:
// nothing but the plugins costs time, so that they can die thousands of times. Each has a short form, and a long one that an
// environment variable asks for. GOSRPT_SOAK_LOG=info shows what is logged.

// campaign is a target with disks and an initiator that has logged in.
type campaign struct {
	d        *daemon
	provider *rdmatest.Provider
	peer     *rdmatest.Device
	session  *initiator.Session
	dir      string // of plugins and images
	// wild is a LUN whose plugin may be dead at the end, and so does not close its store.
	wild *disk
}

// newCampaign starts a disk of 16 MiB for each plugin, as LUN 0 and on.
func newCampaign(t *testing.T, adjust func(*config.Config), plugins ...string) *campaign {
	t.Helper()
	c := &campaign{dir: t.TempDir()}
	cfg := campaignConfig(c.dir)
	for n, name := range plugins {
		c.install(t, name, "backstore-file")
		cfg.LUNs = append(cfg.LUNs, config.LUN{LUN: uint16(n), Name: fmt.Sprint("disk", n), Plugin: name, Arena: 16 << 20,
			Config: map[string]string{"path": filepath.Join(c.dir, fmt.Sprint(n, ".img")), "size": "16MiB"}})
	}
	if adjust != nil {
		adjust(cfg)
	}
	c.start(t, cfg)
	c.login(t, len(plugins))
	return c
}

// campaignConfig waits longer than a busy machine needs for a restart.
func campaignConfig(dir string) *config.Config {
	return &config.Config{
		Port: testPort, Target: config.Target{IDExt: testIDExt, IOCGUID: testIOCGUID},
		Login:   config.Login{MaxChannels: 8, TotalChannels: 64, QueueDepth: 64, Immediate: true},
		Session: config.Session{DeadPeer: 30 * time.Second, MaxTransfer: 1 << 20},
		Plugin:  config.Plugin{StartTimeout: patience, CallTimeout: patience, RestartWait: patience}, PluginDirs: []string{dir},
	}
}

// install puts an executable into the plugin directory, in place of what has the name.
func (c *campaign) install(t testing.TB, name, exe string) {
	t.Helper()
	b, err := os.ReadFile(executable(t, exe))
	if err != nil {
		t.Fatal(err)
	}
	tmp := filepath.Join(c.dir, "new")
	if err := errors.Join(os.WriteFile(tmp, b, 0o755), os.Rename(tmp, filepath.Join(c.dir, name))); err != nil {
		t.Fatal(err)
	}
}

func (c *campaign) start(t *testing.T, cfg *config.Config) {
	t.Helper()
	provider, dev, peer := rdmatest.Pair()
	c.provider, c.peer = provider, peer
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.LevelFromString(cmp.Or(os.Getenv("GOSRPT_SOAK_LOG"), "off"))})
	c.d = &daemon{cfg: cfg, log: log, begin: time.Now(), devices: []rdma.Device{dev}, pause: time.Millisecond}
	if err := c.d.makeTarget(soon(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.stop(t) })
	c.d.makeDisks()
	if err := errors.Join(c.d.openDisks(soon(t)), c.d.target.Start(soon(t))); err != nil {
		t.Fatal(err)
	}
	for _, k := range c.d.disks {
		if k.parts == nil {
			t.Fatalf("%s: %s", k.cfg.Name, k.state)
		}
	}
}

func (c *campaign) stop(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	errs := []error{c.d.target.Shutdown(ctx)}
	for _, k := range c.d.disks {
		if err := k.close(ctx); k != c.wild {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(append(errs, c.provider.Close())...); err != nil {
		t.Error(err)
	}
}

func (c *campaign) login(t *testing.T, luns int) {
	t.Helper()
	ports, err := c.d.devices[0].Ports()
	if err != nil {
		t.Fatal(err)
	}
	c.session, err = initiator.Dial(soon(t), initiator.Config{
		Device: c.peer, Remote: netip.AddrPortFrom(ports[0].Addrs[0], testPort), Initiator: newInitiator(), Target: targetID(),
		QueueDepth: 60, Channels: 2, Immediate: true, Timeout: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.session.Close() })
	for n := range luns {
		if err := c.session.TestUnitReady(soon(t), lunOf(uint32(n))); err != nil {
			t.Fatal(err)
		}
	}
}

// load is verified I/O on a LUN.
func (c *campaign) load(t *testing.T, lun uint32, depth int) *load {
	t.Helper()
	l := newLoad(t, c.session, lun, depth)
	l.limit = 64 << 10
	return l
}

func (c *campaign) plugin(lun int) *pluginhost.Plugin { return c.d.disks[lun].parts.plugin }

// clean wants every buffer of the arenas back, and nothing of a disk to have failed.
func (c *campaign) clean(t *testing.T) {
	t.Helper()
	eventually(t, "every buffer is back", func() bool {
		st, err := c.d.target.Stats(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range st.Arenas {
			if a.Faults != 0 {
				t.Fatalf("%+v", a)
			}
			if a.Held != 0 || a.Quarantined != 0 || a.Free != a.Size {
				return false
			}
		}
		return true
	})
}

// times is how often a campaign does what it does: short, or what an environment variable says.
func times(t *testing.T, variable string, short int) int {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return short
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: it must be a number, of at least 1", variable, s)
	}
	return n
}
