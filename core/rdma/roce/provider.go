package roce

import (
	"context"
	"sync"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// Provider finds network interfaces and makes devices of them.
type Provider struct {
	cfg Config

	mu      sync.Mutex
	closed  bool
	devices map[string]*Device
}

// New makes a provider. It touches nothing before Devices.
func New(cfg Config) *Provider {
	return &Provider{cfg: cfg.withDefaults(), devices: make(map[string]*Device)}
}

// Name is the configured name.
func (p *Provider) Name() string { return p.cfg.Name }

// Devices lists the interfaces that the configuration wants and that are there. An open device is
// listed as itself.
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
		d := p.devices[list[i].name]
		if d == nil || d.index != list[i].index {
			d = newDevice(p, &list[i])
			p.devices[list[i].name] = d
		}
		out = append(out, d)
	}
	return out, nil
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
	p.mu.Unlock()
	for _, d := range open {
		d.Close()
	}
	return nil
}
