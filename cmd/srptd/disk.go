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
	"github.com/gosrpt/gosrpt/core/lu"
	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/store"
	"github.com/gosrpt/gosrpt/core/target"
	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

const (
	// opening and closed are the states of a disk before the first attempt to open it, and at its end.
	opening = "opening"
	closed  = "closed"
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
	// shared is the process that it shares with others; nil if it has one of its own.
	shared *sharedProcess

	mu    sync.Mutex // guards what follows
	state string
	since time.Time // since when
	parts *parts    // nil while it is not open
	// health is what the store last said of itself; good if it cannot tell.
	health backstore.Health
}

// parts are what an open disk is made of, in the order of making.
type parts struct {
	*process
	store  *pluginhost.Store
	queue  *host.Queue
	guard  *store.Guard
	device *lu.Device
	// blocks is the size that the store has told since it was opened, 0 if none. It belongs to the reactor's goroutine.
	blocks uint64
}

// makeDisks makes the disks and opens none.
func (d *daemon) makeDisks() {
	for _, c := range d.cfg.LUNs {
		k := &disk{cfg: c, d: d, log: d.log.Named("lun").With("lun", c.LUN, "name", c.Name), state: opening, since: time.Now()}
		k.ctx, k.cancel = context.WithCancel(context.Background())
		if c.Process == config.ProcessShared {
			k.shared = d.share(k)
		}
		d.disks = append(d.disks, k)
	}
}

// openDisks opens every LUN, all at once, and returns when each has been tried. A LUN that cannot be
// opened is tried again in the background and disturbs nobody.
func (d *daemon) openDisks(ctx context.Context) error {
	var first sync.WaitGroup
	for _, k := range d.disks {
		first.Add(1)
		k.work.Go(func() { persist(k.ctx, k.open, first.Done, k.failed) })
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

func (k *disk) failed(err error) {
	k.setState("not open: " + err.Error())
	k.log.Error("cannot be opened, is tried again", "in", retryOpen, "error", err)
}

func (k *disk) open() error {
	ctx, cancel := context.WithTimeout(k.ctx, k.d.cfg.Plugin.StartTimeout)
	defer cancel()
	p := &parts{}
	if err := k.build(ctx, p); err != nil {
		return errors.Join(err, k.free(context.WithoutCancel(ctx), p))
	}
	k.mu.Lock()
	k.parts, k.state, k.since = p, "ready", time.Now()
	k.mu.Unlock()
	info := p.device.Info()
	k.log.Info("ready", "blocks", info.Blocks, "block_size", info.BlockSize, "serial", k.serial())
	if info.Notice != "" {
		k.log.Warn(info.Notice)
	}
	k.follow(p)
	return nil
}

func (k *disk) build(ctx context.Context, p *parts) (err error) {
	c := k.d.cfg
	if p.process, err = k.process(ctx); err != nil {
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
		Name: k.cfg.Name, Identity: k.identity(), MaxTransfer: uint32(k.d.maxTransfer), Inventory: k.d.target.Inventory(),
	}, p.guard.Info())
	if err != nil {
		return err
	}
	return k.d.target.AddUnit(ctx, target.Unit{LUN: k.cfg.LUN, Unit: p.device.Unit(p.guard), Arena: p.arena})
}

// process is the disk's own, or the one that it shares.
func (k *disk) process(ctx context.Context) (*process, error) {
	if k.shared != nil {
		return k.shared.acquire(ctx, k.d)
	}
	return k.d.startProcess(ctx, k.cfg.Name, []*disk{k}, k.log.Named("plugin"))
}

// minArena is the least memory of a plugin process.
const minArena = 1 << 20

// arenaSize is that of the LUN's configuration, else the plan's, but enough for two of the longest transfers.
func (k *disk) arenaSize() uint64 {
	if k.cfg.Arena != 0 {
		return k.cfg.Arena
	}
	return max(k.d.target.Plan().ArenaSize, 2*k.d.maxTransfer, minArena)
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
	k.parts, k.state, k.since = nil, closed, time.Now()
	k.mu.Unlock()
	if p == nil {
		return nil
	}
	if err := k.free(ctx, p); err != nil {
		return fmt.Errorf("LUN %d (%s): %w", k.cfg.LUN, k.cfg.Name, err)
	}
	return nil
}

// free frees what there is, last made first.
func (k *disk) free(ctx context.Context, p *parts) error {
	var errs []error
	if p.guard != nil {
		p.guard.Close(time.Now())
	}
	if p.store != nil {
		errs = append(errs, p.store.Close(ctx))
	}
	switch {
	case p.process == nil:
	case k.shared != nil:
		errs = append(errs, k.shared.release())
	default:
		errs = append(errs, p.process.close())
	}
	return errors.Join(errs...)
}

func (k *disk) setState(s string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state, k.since = s, time.Now()
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
