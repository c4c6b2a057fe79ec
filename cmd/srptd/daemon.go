package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/admin"
	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/conn"
	"github.com/gosrpt/gosrpt/core/hca"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/rdma"
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
	// devices are those that were there at the start; table knows those of now.
	devices []rdma.Device
	table   *hca.Table
	agent   madAgent // this and ibAgent belong to bringUp, and then to the planner
	ibAgent madAgent
	// auth and planner are the plugins of the control plane, nil if none is configured.
	auth    *authorizer
	planner *planner
	// maxTransfer is the longest transfer that initiators are told of, in bytes.
	maxTransfer uint64
	target      *target.Target
	disks       []*disk
	shared      []*sharedProcess // those of the disks
	admin       *admin.Server
	// made tells that target and disks are there, to those who look from outside.
	made atomic.Bool
	// listening tells that logins are taken.
	listening atomic.Bool
	// pause, if not 0, is that before each restart of a plugin, in place of one that grows.
	pause time.Duration
}

// start brings everything up. If ctx ends before that is done, it ends what there is in order and returns neither a daemon nor,
// unless that fails, an error.
func start(ctx context.Context, cfg *config.Config, log hclog.Logger) (*daemon, error) {
	provider, err := newProvider(cfg, log)
	if err != nil {
		return nil, err
	}
	return startOn(ctx, cfg, log, provider)
}

// startOn is start on the devices of a provider, which it closes in the end.
func startOn(ctx context.Context, cfg *config.Config, log hclog.Logger, provider rdma.Provider) (*daemon, error) {
	d := &daemon{cfg: cfg, log: log, begin: time.Now(), provider: provider}
	d.makeControls()
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
	if err := d.claim(); err != nil {
		return err
	}
	if d.admin, err = admin.Serve(admin.Config{Socket: d.cfg.Admin.Socket, Metrics: d.cfg.Admin.Metrics}, source{d}, d.log); err != nil {
		return err
	}
	if err := d.startControls(ctx); err != nil {
		return err
	}
	if err := d.makeTarget(ctx); err != nil {
		return err
	}
	if err := d.followDevices(ctx); err != nil {
		return err
	}
	d.makeDisks()
	d.made.Store(true)
	if err := d.openDisks(ctx); err != nil {
		return err
	}
	if d.planner != nil {
		d.planner.work.Go(d.planner.follow)
	}
	if err := d.target.Start(ctx); err != nil {
		return err
	}
	d.listening.Store(true)
	return nil
}

// claim takes the devices' addresses, which is what the first completion queue does. A device that has no address yet is left to the
// table of HCAs, which waits for one.
func (d *daemon) claim() error {
	var ready []rdma.Device
	for _, dev := range d.devices {
		cq, err := dev.NewCQ(rdma.CQConfig{Depth: 1})
		if err == nil {
			err = cq.Close()
		}
		switch {
		case err == nil:
			ready = append(ready, dev)
		case !errors.Is(err, rdma.ErrState) || errors.Is(err, rdma.ErrInUse):
			return fmt.Errorf("RDMA device %s: %w", dev.Name(), err)
		}
	}
	d.devices = ready
	return nil
}

// makeControls makes the plugins of the control plane that are configured.
func (d *daemon) makeControls() {
	if d.cfg.Auth.Plugin != "" {
		d.auth = newAuthorizer(d)
	}
	if d.cfg.IOCtx.Plugin != "" {
		d.planner = newPlanner(d, ownPlan(d.cfg))
	}
}

// startControls starts them, both at once, and returns when each has been tried.
func (d *daemon) startControls(ctx context.Context) error {
	var first sync.WaitGroup
	if d.auth != nil {
		first.Go(func() { d.auth.start(ctx) })
	}
	if d.planner != nil {
		first.Go(func() { d.planner.start(ctx) })
	}
	first.Wait()
	return ctx.Err()
}

// makeTarget makes the target with the plan that there is to begin with. Devices that cannot serve a planner's plan are
// tried with that of the configuration.
func (d *daemon) makeTarget(ctx context.Context) (err error) {
	own := ownPlan(d.cfg)
	plan := own
	if d.planner != nil {
		plan = d.planner.first(ctx)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.target, err = target.New(d.targetConfig(plan), d.log); err != nil && plan != own {
		d.planner.keep(fmt.Errorf("%w: %w", errUnfit, err))
		plan = own
		d.target, err = target.New(d.targetConfig(plan), d.log)
	}
	if err != nil {
		return err
	}
	// Block sizes are at most a page.
	d.maxTransfer = min(d.cfg.Session.MaxTransfer, plan.MaxTransfer) &^ (ioctx.PageSize - 1)
	if d.auth != nil {
		d.auth.target.Store(d.target)
	}
	return nil
}

// ownPlan is the plan of the configuration.
func ownPlan(c *config.Config) ioctx.Plan {
	plan := ioctx.DefaultPlan()
	plan.Credits = c.Login.QueueDepth
	plan.Responses = plan.Credits + plan.Credits/2
	plan.SendWork = max(plan.SendWork, 4*plan.Credits)
	plan.SharedReceives = c.Login.SharedReceives
	plan.MaxTransfer = max(plan.MaxTransfer, c.Session.MaxTransfer)
	return plan
}

func (d *daemon) targetConfig(plan ioctx.Plan) target.Config {
	c := d.cfg
	timing := conn.DefaultTiming()
	timing.Probe, timing.Dead = c.Session.DeadPeer/3, c.Session.DeadPeer-c.Session.DeadPeer/3
	timing.Task = c.Plugin.CallTimeout + 30*time.Second
	cfg := target.Config{
		Name: "srpt", Devices: d.devices, Services: d.services(), Identity: missingIdentity(),
		PortIDs: []srp.PortID{srp.MakePortID(c.Target.IDExt, c.Target.IOCGUID)},
		Plan:    plan, Immediate: c.Login.Immediate, Timing: timing,
		Limits: target.Limits{
			Channels: c.Login.TotalChannels, ChannelsPerPort: c.Login.PortChannels, ChannelsPerNexus: c.Login.MaxChannels,
			Reserve: c.Login.Reserve, LoginTime: config.LoginTime,
		},
	}
	if cfg.Limits.Reserve == 0 {
		cfg.Limits.Reserve = -1 // none, where 0 means the default
	}
	switch {
	case d.auth != nil:
		cfg.Authorizer = target.PluginAuthorizer{Decider: d.auth}
	case len(c.Login.Initiators) > 0:
		list, err := target.NewAllowList(c.Login.Initiators)
		if err != nil {
			d.log.Error("login.initiators cannot be used: nobody is admitted", "error", err)
			list = target.AllowList{}
		}
		cfg.Authorizer = list
	}
	return cfg
}

// services is what is listened on: the configured addresses, or all, and the service id.
func (d *daemon) services() []rdma.Service {
	addrs := d.cfg.Listen
	if len(addrs) == 0 {
		addrs = []netip.Addr{{}}
	}
	var list []rdma.Service
	for _, a := range addrs {
		list = append(list, rdma.Service{Addr: netip.AddrPortFrom(a, d.cfg.Port)})
	}
	if d.byServiceID() {
		list = append(list, rdma.Service{ID: rdma.ServiceID(d.cfg.Port)})
	}
	return list
}

// stop ends everything in order: initiators, then stores, then the plugins of the control plane, then the devices.
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
	d.closeControls()
	if d.table != nil {
		d.table.Close()
	}
	if d.admin != nil {
		errs = append(errs, d.admin.Close())
	}
	err := errors.Join(append(errs, d.provider.Close())...)
	d.log.Info("stopped")
	return err
}

func (d *daemon) closeControls() {
	var closed sync.WaitGroup
	if d.auth != nil {
		closed.Go(d.auth.close)
	}
	if d.planner != nil {
		closed.Go(d.planner.close)
	}
	closed.Wait()
}

func hex64(n uint64) string { return fmt.Sprintf("%016x", n) }

// served are the devices of now.
func (d *daemon) served() []rdma.Device {
	if d.target == nil {
		return d.devices
	}
	return d.target.ServedDevices()
}
