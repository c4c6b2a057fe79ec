package hca

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// DefaultRetry is the pause before another attempt of what has failed.
const DefaultRetry = 2 * time.Second

// User serves the devices of a table. Its methods are called from a goroutine of the device's, never two for one device at once.
type User interface {
	// Attach begins to serve a device. After an error it is called again, at the latest after Config.Retry.
	Attach(ctx context.Context, d rdma.Device) error
	// Changed tells that something about a port of an attached device has changed, such as its addresses.
	Changed(ctx context.Context, d rdma.Device, port rdma.Port)
	// Detach ends all that uses an attached device, which is gone or to be closed, and returns when nothing does any more.
	Detach(d rdma.Device, reason string)
}

// Config is the configuration of a Table.
type Config struct {
	// Provider finds the devices. If it is an rdma.Watcher, its events keep the table; otherwise it is asked every Retry. It stays the
	// caller's.
	Provider rdma.Provider
	// Wanted tells by its name whether a device is to be served; nil means all.
	Wanted func(name string) bool
	// User serves the devices; nil if nobody does.
	User User
	// Agent answers Device Management requests at every port; nil if nobody does. IBAgent, if not nil, does so at InfiniBand ports in its
	// place, where connections go to another service id.
	Agent, IBAgent *mad.Agent
	// Retry is the pause before another attempt of what has failed: DefaultRetry.
	Retry time.Duration
	Log   hclog.Logger
}

// Table is the table. Its methods may be called from any goroutine.
type Table struct {
	cfg     Config
	log     hclog.Logger
	agent   atomic.Pointer[mad.Agent]
	ibAgent atomic.Pointer[mad.Agent]
	history history
	unknown atomic.Uint64

	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	devices []*device
	ending  []rdma.Device // those that are being closed, and still listed perhaps
	started bool
	closed  bool
}

// New makes a table that does nothing before Start.
func New(cfg Config) *Table {
	if cfg.Retry == 0 {
		cfg.Retry = DefaultRetry
	}
	if cfg.Wanted == nil {
		cfg.Wanted = func(string) bool { return true }
	}
	t := &Table{cfg: cfg, log: cfg.Log.Named("hca")}
	t.SetAgents(cfg.Agent, cfg.IBAgent)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.history.init()
	return t
}

// Start looks for devices, and follows the provider's events until Close. It returns when each device that is there has been given to
// the User once. An error means that the provider cannot be asked at all.
func (t *Table) Start(ctx context.Context) error {
	t.mu.Lock()
	bad := t.started || t.closed
	t.started = true
	t.mu.Unlock()
	if bad {
		return errors.New("hca: started twice, or closed")
	}
	watch, err := t.watch()
	if err != nil {
		return fmt.Errorf("watch the devices of %s: %w", t.cfg.Provider.Name(), err)
	}
	if err := t.scan(ctx); err != nil {
		if watch != nil {
			watch.Close()
		}
		return fmt.Errorf("devices of %s: %w", t.cfg.Provider.Name(), err)
	}
	for _, d := range t.list() {
		select {
		case <-d.tried:
		case <-ctx.Done():
		}
	}
	t.work.Go(func() { t.follow(watch) })
	return ctx.Err()
}

// watch returns nil if the provider tells of nothing.
func (t *Table) watch() (rdma.Watch, error) {
	if w, ok := t.cfg.Provider.(rdma.Watcher); ok {
		return w.Watch()
	}
	return nil, nil
}

// follow hands out events until Close.
func (t *Table) follow(w rdma.Watch) {
	if w == nil {
		t.poll()
		return
	}
	defer w.Close()
	for {
		ev, err := w.Next(t.ctx)
		if err != nil {
			if t.ctx.Err() == nil {
				t.log.Error("no more events of devices come: changes are not noticed until a restart", "error", err)
			}
			return
		}
		t.Handle(ev)
	}
}

// poll looks for devices now and then.
func (t *Table) poll() {
	tick := time.NewTicker(t.cfg.Retry)
	defer tick.Stop()
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-tick.C:
			if err := t.scan(t.ctx); err != nil && t.ctx.Err() == nil {
				t.log.Warn("cannot list devices, trying again", "error", err)
			}
		}
	}
}

// Handle takes an event as if the provider had told it. It does not wait for what follows.
func (t *Table) Handle(ev rdma.AsyncEvent) {
	switch ev.Kind {
	case rdma.AsyncDeviceAdded:
		t.rescan(ev)
		return
	case rdma.AsyncDeviceRemoved:
		t.drop(ev, "it was removed")
		return
	case rdma.AsyncDeviceFatal:
		t.drop(ev, "it has failed")
		return
	}
	d := t.find(ev.Device)
	if d == nil {
		t.ignore(ev, "no such device is served")
		return
	}
	p := d.port(ev.Port)
	if p == nil {
		t.ignore(ev, "it has no such port")
		return
	}
	p.post(ev.Kind)
}

// ignore counts an event that nothing can be done about.
func (t *Table) ignore(ev rdma.AsyncEvent, why string) {
	t.unknown.Add(1)
	t.history.add(ev, "ignored: "+why)
}

// rescan looks for devices, in a goroutine: listing them may take its time.
func (t *Table) rescan(ev rdma.AsyncEvent) {
	t.work.Go(func() {
		err := t.scan(t.ctx)
		switch {
		case t.ctx.Err() != nil:
		case err != nil:
			t.log.Warn("cannot list devices", "after", ev, "error", err)
			t.history.add(ev, "cannot list devices: "+err.Error())
		case ev.Kind == rdma.AsyncDeviceAdded && t.find(ev.Device) == nil:
			t.history.add(ev, "not served: the configuration does not name it")
		default:
			t.history.add(ev, "devices listed")
		}
	})
}

// scan brings the table in step with the provider's list.
func (t *Table) scan(ctx context.Context) error {
	list, err := t.cfg.Provider.Devices(ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	for _, d := range slices.Clone(t.devices) {
		if !slices.Contains(list, d.dev) {
			t.end(d, "it is not there any more")
		}
	}
	for _, dev := range list {
		known := slices.Contains(t.ending, dev) || slices.ContainsFunc(t.devices, func(d *device) bool { return d.dev == dev })
		if !known && t.cfg.Wanted(dev.Name()) {
			t.devices = append(t.devices, t.begin(dev))
		}
	}
	return nil
}

// ended lets the provider list a device anew that has been closed: one that had failed comes back so. Others may have been waiting for what
// it held, such as an address.
func (t *Table) ended(d *device) {
	t.mu.Lock()
	t.ending = slices.DeleteFunc(t.ending, func(o rdma.Device) bool { return o == d.dev })
	t.mu.Unlock()
	if err := t.scan(t.ctx); err != nil && t.ctx.Err() == nil {
		t.log.Warn("cannot list devices", "error", err)
	}
	for _, o := range t.list() {
		o.wake()
	}
}

// drop ends the device that an event names.
func (t *Table) drop(ev rdma.AsyncEvent, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.devices, func(d *device) bool { return d.dev.Name() == ev.Device })
	if i < 0 {
		t.history.add(ev, "nothing to do: it is not served")
		return
	}
	t.end(t.devices[i], why)
	t.history.add(ev, "its sessions and listeners end")
}

// end takes a device off the table. What is left to do is done in its goroutine. The lock is held.
func (t *Table) end(d *device, why string) {
	t.devices = slices.DeleteFunc(t.devices, func(o *device) bool { return o == d })
	t.ending = append(t.ending, d.dev)
	d.end(why)
}

func (t *Table) find(name string) *device {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.devices {
		if d.dev.Name() == name {
			return d
		}
	}
	return nil
}

func (t *Table) list() []*device {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.devices)
}

// SetAgents changes what the ports answer, from the next request on; see Config.
func (t *Table) SetAgents(a, ib *mad.Agent) {
	t.ibAgent.Store(ib)
	t.agent.Store(a)
}

// Refresh reads every port anew. It does not wait for that.
func (t *Table) Refresh() {
	for _, d := range t.list() {
		for _, p := range d.portList() {
			p.post(rdma.AsyncPortChange)
		}
	}
}

// Close ends the table: each device is detached and closed. It may be called twice.
func (t *Table) Close() {
	t.mu.Lock()
	t.closed = true
	for _, d := range slices.Clone(t.devices) {
		t.end(d, "the target ends")
	}
	t.mu.Unlock()
	t.cancel()
	t.work.Wait()
}
