package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/admin"
	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/conn"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/roce"
	"github.com/gosrpt/gosrpt/core/srp"
	"github.com/gosrpt/gosrpt/core/target"
)

// stopTime bounds the orderly end: initiators are told to go and their commands finish.
const stopTime = 20 * time.Second

// daemon is everything that runs.
type daemon struct {
	cfg      *config.Config
	log      hclog.Logger
	begin    time.Time
	provider rdma.Provider
	devices  []rdma.Device
	target   *target.Target
	disks    []*disk
	admin    *admin.Server
	// listening tells that logins are taken.
	listening atomic.Bool
	// pause, if not 0, is that before each restart of a plugin, in place of one that grows.
	pause time.Duration
}

// start brings everything up. If ctx ends before that is done, it ends what there is in order and returns neither a daemon nor,
// unless that fails, an error.
func start(ctx context.Context, cfg *config.Config, log hclog.Logger) (*daemon, error) {
	d := &daemon{cfg: cfg, log: log, begin: time.Now(), provider: newProvider(cfg, log)}
	if err := d.bringUp(ctx); err != nil {
		asked := ctx.Err() != nil
		stopErr := d.stop()
		if asked {
			return nil, stopErr
		}
		return nil, errors.Join(err, stopErr)
	}
	log.Info("ready", "id_ext", hex64(cfg.Target.IDExt), "ioc_guid", hex64(cfg.Target.IOCGUID), "luns", len(d.disks))
	// Without systemd there is nobody to tell, which is no error.
	_, _ = sd.SdNotify(false, sd.SdNotifyReady)
	return d, nil
}

// bringUp claims addresses and control socket before it waits for anything, so that a second daemon is told at once, and the
// operator sees what a slow start waits for.
func (d *daemon) bringUp(ctx context.Context) (err error) {
	if d.devices, err = d.provider.Devices(ctx); err != nil {
		return fmt.Errorf("RDMA devices: %w", err)
	}
	if len(d.devices) == 0 {
		return fmt.Errorf("no network interface to serve: none is up, or none has an address of listen %v", d.cfg.Listen)
	}
	if d.target, err = target.New(d.targetConfig(), d.log); err != nil {
		return err
	}
	d.makeDisks()
	if d.admin, err = admin.Serve(admin.Config{Socket: d.cfg.Admin.Socket, Metrics: d.cfg.Admin.Metrics}, source{d}, d.log); err != nil {
		return err
	}
	if err := d.openDisks(ctx); err != nil {
		return err
	}
	if err := d.target.Start(ctx); err != nil {
		return err
	}
	d.listening.Store(true)
	return nil
}

// newProvider makes the provider that the configuration names; config knows no other than roce.
func newProvider(cfg *config.Config, log hclog.Logger) rdma.Provider {
	// A silent peer is asked for a sign of life after a third of the time, and has the rest for its answer.
	return roce.New(roce.Config{
		Log: log.Named("roce"), Addrs: cfg.Listen, ReceiveBuffer: int(cfg.RoCE.ReceiveBuffer),
		NoGSO: !cfg.RoCE.Segmentation, AckDelay: uint8(cfg.RoCE.TargetAckDelay), KeepAlive: cfg.Session.DeadPeer / 3,
	})
}

func (d *daemon) targetConfig() target.Config {
	c := d.cfg
	plan := ioctx.DefaultPlan()
	plan.Credits = c.Login.QueueDepth
	plan.Responses = plan.Credits + plan.Credits/2
	plan.SendWork = max(plan.SendWork, 4*plan.Credits)
	plan.MaxTransfer = max(plan.MaxTransfer, c.Session.MaxTransfer)
	timing := conn.DefaultTiming()
	timing.Probe, timing.Dead = c.Session.DeadPeer/3, c.Session.DeadPeer-c.Session.DeadPeer/3
	cfg := target.Config{
		Name: "srpt", Devices: d.devices, Services: d.services(), Identity: missingIdentity(),
		PortIDs: []srp.PortID{srp.MakePortID(c.Target.IDExt, c.Target.IOCGUID)},
		Plan:    plan, Immediate: c.Login.Immediate, Timing: timing,
		Limits: target.Limits{Channels: c.Login.TotalChannels, ChannelsPerNexus: c.Login.MaxChannels},
	}
	if len(c.Login.Initiators) > 0 {
		list, err := target.NewAllowList(c.Login.Initiators)
		if err != nil {
			d.log.Error("login.initiators cannot be used: nobody is admitted", "error", err)
			list = target.AllowList{}
		}
		cfg.Authorizer = list
	}
	return cfg
}

// services is what is listened on: the configured addresses, or all.
func (d *daemon) services() []rdma.Service {
	if len(d.cfg.Listen) == 0 {
		return []rdma.Service{{Addr: netip.AddrPortFrom(netip.Addr{}, d.cfg.Port)}}
	}
	var list []rdma.Service
	for _, a := range d.cfg.Listen {
		list = append(list, rdma.Service{Addr: netip.AddrPortFrom(a, d.cfg.Port)})
	}
	return list
}

// stop ends everything in order: initiators, then stores, then the devices.
func (d *daemon) stop() error {
	_, _ = sd.SdNotify(false, sd.SdNotifyStopping)
	d.log.Info("stopping")
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	var errs []error
	if d.target != nil {
		errs = append(errs, d.target.Shutdown(ctx))
	}
	for _, k := range d.disks {
		errs = append(errs, k.close(ctx))
	}
	if d.admin != nil {
		errs = append(errs, d.admin.Close())
	}
	err := errors.Join(append(errs, d.provider.Close())...)
	d.log.Info("stopped")
	return err
}

func hex64(n uint64) string { return fmt.Sprintf("%016x", n) }
