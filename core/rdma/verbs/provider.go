//go:build verbs

package verbs

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/async"
)

// Provider finds the devices of libibverbs.
type Provider struct {
	cfg    Config
	events async.Hub
	// handles counts what C is given in place of pointers.
	handles atomic.Uint64

	mu      sync.Mutex
	closed  bool
	devices map[string]*Device
	refused map[string]uint32 // devices that could not be opened, and which of that name: the log has been told
	watcher *watcher

	cmMu sync.Mutex
	cm   *manager // nil before it is needed, and after Close
	done bool
}

// New makes a provider. It touches nothing before Devices.
func New(cfg Config) *Provider {
	cfg = cfg.withDefaults()
	return &Provider{cfg: cfg, events: async.Hub{Name: cfg.Name}, devices: make(map[string]*Device), refused: make(map[string]uint32)}
}

// Name is the configured name.
func (p *Provider) Name() string { return p.cfg.Name }

func (p *Provider) handle() uint64 { return p.handles.Add(1) }

// Devices lists the devices that the configuration wants and that are there. A device is listed as itself until it is closed or
// gone, whatever else becomes of it.
func (p *Provider) Devices(ctx context.Context) ([]rdma.Device, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, failed("devices", p.cfg.Name, rdma.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return nil, failed("devices", p.cfg.Name, err)
	}
	list, err := adapters()
	if err != nil {
		return nil, failed("devices", p.cfg.Name, err)
	}
	var out []rdma.Device
	for _, a := range list {
		d := p.devices[a.name]
		if d == nil || d.index != a.index {
			if d = p.open(a); d == nil {
				continue
			}
		}
		out = append(out, d)
	}
	return out, nil
}

// open opens a device if it is wanted. One that cannot be opened is as good as not there; the log is told once.
func (p *Provider) open(a adapter) *Device {
	if !p.cfg.names(a.name) {
		return nil
	}
	d, err := openDevice(p, a)
	if err != nil {
		if p.refused[a.name] != a.index {
			p.cfg.Log.Warn("cannot open an RDMA device", "device", a.name, "error", err)
		}
		p.refused[a.name] = a.index
		return nil
	}
	delete(p.refused, a.name)
	if !p.cfg.wants(d) {
		d.abandon()
		return nil
	}
	p.devices[a.name] = d
	return d
}

// serves tells whether Devices would list a device.
func (p *Provider) serves(a adapter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.devices[a.name]
	return d != nil && d.index == a.index || p.would(a)
}

// would tells whether a device that is not open would be opened.
func (p *Provider) would(a adapter) bool {
	if !p.cfg.names(a.name) || len(p.cfg.Addrs) == 0 {
		return p.cfg.names(a.name)
	}
	d, err := openDevice(p, a)
	if err != nil {
		return false
	}
	defer d.abandon()
	return p.cfg.wants(d)
}

// lost tells an open device that it is gone.
func (p *Provider) lost(name string, index uint32) {
	p.mu.Lock()
	d := p.devices[name]
	p.mu.Unlock()
	if d != nil && d.index == index {
		d.die()
	}
}

// forget drops a closed device, so that the next Devices opens it anew.
func (p *Provider) forget(d *Device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.devices[d.name] == d {
		delete(p.devices, d.name)
	}
}

// manager opens the connection manager, once.
func (p *Provider) manager() (*manager, error) {
	p.cmMu.Lock()
	defer p.cmMu.Unlock()
	if p.done {
		return nil, rdma.ErrClosed
	}
	if p.cm == nil {
		m, err := openManager(p)
		if err != nil {
			return nil, err
		}
		p.cm = m
	}
	return p.cm, nil
}

// Close closes every device.
func (p *Provider) Close() error {
	p.mu.Lock()
	p.closed = true
	var open []*Device
	for _, d := range p.devices {
		open = append(open, d)
	}
	w := p.watcher
	p.mu.Unlock()
	p.events.Close()
	if w != nil {
		w.close()
	}
	for _, d := range open {
		d.Close()
	}
	p.cmMu.Lock()
	m := p.cm
	p.cm, p.done = nil, true
	p.cmMu.Unlock()
	if m != nil {
		m.close()
	}
	return nil
}
