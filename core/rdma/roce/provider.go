package roce

import (
	"context"
	"sync"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/async"
)

// Provider finds network interfaces and makes devices of them.
type Provider struct {
	cfg    Config
	events async.Hub

	mu      sync.Mutex
	closed  bool
	devices map[string]*Device
	watcher *watcher
}

// New makes a provider. It touches nothing before Devices.
func New(cfg Config) *Provider {
	cfg = cfg.withDefaults()
	return &Provider{cfg: cfg, events: async.Hub{Name: cfg.Name}, devices: make(map[string]*Device)}
}

// Name is the configured name.
func (p *Provider) Name() string { return p.cfg.Name }

// Devices lists the interfaces that the configuration wants and that are there. A device is
// listed as itself until it is closed or its interface is gone, whatever else becomes of it.
func (p *Provider) Devices(ctx context.Context) ([]rdma.Device, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, failed("devices", p.cfg.Name, rdma.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return nil, failed("devices", p.cfg.Name, err)
	}
	list, err := nics(&p.cfg)
	if err != nil {
		return nil, failed("devices", p.cfg.Name, err)
	}
	var out []rdma.Device
	for i := range list {
		n := &list[i]
		d := p.devices[n.name]
		switch {
		case d != nil && d.index == n.index:
		case p.cfg.wants(n):
			d = newDevice(p, n)
			p.devices[n.name] = d
		default:
			continue
		}
		out = append(out, d)
	}
	return out, nil
}

// serves tells whether Devices would list an interface.
func (p *Provider) serves(n *nic) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.devices[n.name]
	return d != nil && d.index == n.index || p.cfg.wants(n)
}

// forget drops a closed device, so that the next Devices makes it anew.
func (p *Provider) forget(d *Device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.devices[d.name] == d {
		delete(p.devices, d.name)
	}
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
	return nil
}
