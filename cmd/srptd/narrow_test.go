package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

// narrow is a device that can do little.
type narrow struct {
	rdma.Device
	cqDepth, qpWork int
}

func (n narrow) Attr() rdma.DeviceAttr {
	a := n.Device.Attr()
	a.MaxQPWork = min(a.MaxQPWork, n.qpWork)
	return a
}

func (n narrow) NewCQ(cfg rdma.CQConfig) (rdma.CQ, error) {
	if cfg.Depth > n.cqDepth {
		return nil, errors.New("the completion queue is too deep")
	}
	return n.Device.NewCQ(cfg)
}

func TestPlanThatADeviceCannotServeGivesWayToTheConfigurations(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load("/dev/null", nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.PluginDirs = []string{filepath.Dir(executable(t, "ioctx"))}
	cfg.IOCtx = config.IOCtx{Plugin: "ioctx", Config: map[string]string{"credits": "1000"}}
	for name, c := range map[string]struct {
		dev  narrow
		want int
		log  string
	}{
		"one that can":            {narrow{cqDepth: 1 << 30, qpWork: 8192}, 1000, ""},
		"shallow receive queues":  {narrow{cqDepth: 1 << 30, qpWork: 1000}, 128, "takes 1000"},
		"small completion queues": {narrow{cqDepth: 1 << 20, qpWork: 8192}, 128, "too deep"},
	} {
		provider, dev, _ := rdmatest.Pair()
		defer provider.Close()
		c.dev.Device = dev
		out := &output{}
		d := &daemon{cfg: cfg, log: hclog.New(&hclog.LoggerOptions{Output: out}), devices: []rdma.Device{c.dev}}
		d.makeControls()
		defer d.closeControls()
		if err := errors.Join(d.startControls(soon(t)), d.makeTarget(soon(t))); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := d.target.Plan().Credits; got != c.want {
			t.Errorf("%s: %d credits, want %d", name, got, c.want)
		}
		if !strings.Contains(out.String(), c.log) {
			t.Errorf("%s: the log does not say %q:\n%s", name, c.log, out)
		}
		if err := d.target.Shutdown(soon(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
