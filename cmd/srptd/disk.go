package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/lu"
	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/store"
	"github.com/gosrpt/gosrpt/core/target"
	"github.com/gosrpt/gosrpt/sdk/host"
)

const (
	// retryOpen is the pause between attempts to open a LUN that could not be opened.
	retryOpen = 5 * time.Second
	// retryQueue is the first pause between attempts to replace a queue; it doubles up to retryOpen.
	retryQueue = 50 * time.Millisecond
	// queueEntries is the depth of a LUN's queue to its plugin.
	queueEntries = 256
)

// disk is one configured LUN with its plugin process.
type disk struct {
	cfg    config.LUN
	log    hclog.Logger
	d      *daemon
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu    sync.Mutex // guards what follows
	state string
	parts *parts // nil while it is not open
}

// parts are what an open disk is made of, in the order of making.
type parts struct {
	mem    *host.Arena
	arena  *ioctx.Arena
	plugin *pluginhost.Plugin
	store  *pluginhost.Store
	queue  *host.Queue
	guard  *store.Guard
	device *lu.Device
}

// makeDisks makes the disks and opens none.
func (d *daemon) makeDisks() {
	for _, c := range d.cfg.LUNs {
		k := &disk{cfg: c, d: d, log: d.log.Named("lun").With("lun", c.LUN, "name", c.Name), state: "opening"}
		k.ctx, k.cancel = context.WithCancel(context.Background())
		d.disks = append(d.disks, k)
	}
}

// openDisks opens every LUN, all at once, and returns when each has been tried. A LUN that cannot be
// opened is tried again in the background and disturbs nobody.
func (d *daemon) openDisks(ctx context.Context) error {
	var first sync.WaitGroup
	for _, k := range d.disks {
		first.Add(1)
		k.work.Go(func() { k.keepOpening(first.Done) })
	}
	tried := make(chan struct{})
	go func() {
		first.Wait()
		close(tried)
	}()
	select {
	case <-tried:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keepOpening tries until the disk is open or closed; tried is called after the first attempt.
func (k *disk) keepOpening(tried func()) {
	for n := 0; ; n++ {
		err := k.open()
		if n == 0 {
			tried()
		}
		if err == nil || k.ctx.Err() != nil {
			return
		}
		k.setState("not open: " + err.Error())
		k.log.Error("cannot be opened, is tried again", "in", retryOpen, "error", err)
		select {
		case <-k.ctx.Done():
			return
		case <-time.After(retryOpen):
		}
	}
}

func (k *disk) open() error {
	ctx, cancel := context.WithTimeout(k.ctx, k.d.cfg.Plugin.StartTimeout)
	defer cancel()
	p := &parts{}
	if err := k.build(ctx, p); err != nil {
		return errors.Join(err, p.close(context.WithoutCancel(ctx)))
	}
	k.mu.Lock()
	k.parts, k.state = p, "ready"
	k.mu.Unlock()
	info := p.device.Info()
	k.log.Info("ready", "blocks", info.Blocks, "block_size", info.BlockSize, "serial", k.serial())
	if info.Notice != "" {
		k.log.Warn(info.Notice)
	}
	return nil
}

func (k *disk) build(ctx context.Context, p *parts) (err error) {
	c := k.d.cfg
	if p.mem, err = host.NewArena(int(k.cfg.Arena)); err != nil {
		return err
	}
	p.plugin, err = pluginhost.Start(ctx, pluginhost.Config{
		Name: k.cfg.Name, Arena: p.mem, Ready: c.Plugin.StartTimeout, Log: k.log.Named("plugin"),
		BackoffMin: k.d.pause, BackoffMax: k.d.pause,
		Resolve: func() (string, error) { return pluginhost.Find(c.PluginDirs, k.cfg.Plugin) },
	})
	if err != nil {
		return err
	}
	if p.store, err = p.plugin.Open(ctx, k.cfg.Config); err != nil {
		return err
	}
	if p.queue, err = p.store.NewQueue(ctx, k.queueOptions()); err != nil {
		return err
	}
	p.guard, err = store.Open(p.queue, store.Config{
		Name: k.cfg.Name, Arena: p.mem.Bytes(), Depth: queueEntries, ReadOnly: k.cfg.ReadOnly,
		Deadline: c.Plugin.CallTimeout, Patience: c.Plugin.RestartWait, OnFault: func(err error) { k.fault(p, err) },
	})
	if err != nil {
		return err
	}
	p.device, err = lu.NewDevice(lu.Config{
		Name: k.cfg.Name, Identity: k.identity(), MaxTransfer: uint32(c.Session.MaxTransfer), Inventory: k.d.target.Inventory(),
	}, p.guard.Info())
	if err != nil {
		return err
	}
	if p.arena, err = ioctx.NewArena(ioctx.ArenaConfig{Name: k.cfg.Name, Memory: p.mem.Bytes(), Fence: p.mem}); err != nil {
		return err
	}
	return k.d.target.AddUnit(ctx, target.Unit{LUN: k.cfg.LUN, Unit: p.device.Unit(p.guard), Arena: p.arena})
}

func (k *disk) queueOptions() host.QueueOptions {
	return host.QueueOptions{Entries: queueEntries, Hold: k.d.cfg.Plugin.RestartWait, EdgeTriggered: true}
}

// close ends the disk. The target has let go of it.
func (k *disk) close(ctx context.Context) error {
	k.cancel()
	k.work.Wait()
	k.mu.Lock()
	p := k.parts
	k.parts, k.state = nil, "closed"
	k.mu.Unlock()
	if p == nil {
		return nil
	}
	if err := p.close(ctx); err != nil {
		return fmt.Errorf("LUN %d (%s): %w", k.cfg.LUN, k.cfg.Name, err)
	}
	return nil
}

// close frees what there is, last made first. Memory that something still uses stays.
func (p *parts) close(ctx context.Context) error {
	var errs []error
	if p.guard != nil {
		p.guard.Close(time.Now())
	}
	if p.store != nil {
		errs = append(errs, p.store.Close(ctx))
	}
	if p.plugin != nil {
		p.plugin.Close()
	}
	if p.arena != nil {
		if err := p.arena.Close(); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	if p.mem != nil {
		errs = append(errs, p.mem.Close())
	}
	return errors.Join(errs...)
}

func (k *disk) setState(s string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state = s
}

// identity is what initiators know the disk by. It follows from the configuration alone, so that neither another HCA nor
// another store changes it.
func (k *disk) identity() scsi.Identity {
	i := missingIdentity()
	i.Serial = k.serial()
	i.NAA = scsi.LocalNAA(hex64(k.d.cfg.Target.IOCGUID) + "/" + i.Serial)
	return i
}

func (k *disk) serial() string {
	if k.cfg.Serial != "" {
		return k.cfg.Serial
	}
	sum := sha256.Sum256([]byte(hex64(k.d.cfg.Target.IOCGUID) + "/" + k.cfg.Name))
	return hex.EncodeToString(sum[:8])
}

// missingIdentity is what LUNs without a logical unit report.
func missingIdentity() scsi.Identity {
	return scsi.Identity{Vendor: "GOSRPT", Product: "SRP DISK", Revision: "0001"}
}
