package rdmatest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/async"
)

// DeviceConfig describes a device. The zero value of each field but Name and Addrs stands for the
// default named.
type DeviceConfig struct {
	Name  string
	Addrs []netip.Addr
	// GUID is the node GUID; the port's is one more. By default it is made from the name.
	GUID ib.GUID
	// LID makes the port one of an InfiniBand subnet: datagrams reach it by LID as well as by GID, and so do connections by service id.
	LID ib.LID
	// IWARP makes it a device that says it is of iWARP: it takes no datagrams. In all else it is as it was.
	IWARP bool
	// GIDs is what the port's GID table begins with, before those that are made from the addresses.
	GIDs []ib.GID
	// SMLID is the subnet manager's.
	SMLID ib.LID
	// PKeys is the table of partition keys that datagrams are sent with, and of which the first is that of the connections made:
	// the default one.
	PKeys []ib.PKey
	// MTU is in bytes: 1024.
	MTU int
	// MaxSGE, MaxQPWork and MaxMessage are the limits in DeviceAttr: 16, 8192, 1 GiB.
	MaxSGE, MaxQPWork int
	MaxMessage        uint32
	// GrantedSGE is what a queue pair gets at most, whatever MaxSGE is: MaxSGE.
	GrantedSGE int
	// MaxReads is how many RDMA READs a connection may have outstanding, made and served: 16. NoReads makes that 0.
	MaxReads int
	NoReads  bool
	// NoSRQ makes it a device without shared receive queues; else they have up to MaxSRQWork receives, which is 65536.
	NoSRQ      bool
	MaxSRQWork int
	// ConnectTimeout is the patience of a connection attempt that names none: 1 s.
	ConnectTimeout time.Duration
	// RetryTimeout is how long work may go unanswered before StatusRetryExceeded: 500 ms.
	RetryTimeout time.Duration
	// RNRTimeout is how long a SEND waits for the peer to post a receive before
	// StatusRNRRetryExceeded. By default it waits for ever, as an RNR retry count of 7 means
	// (IBTA 9.7.5.2.8).
	RNRTimeout time.Duration
	// Backlog is how many requests a listener keeps; further ones are lost: 128.
	Backlog int
}

func (c DeviceConfig) withDefaults() DeviceConfig {
	if c.GUID == 0 {
		c.GUID = guidOf(c.Name)
	}
	c.MTU = orDefault(c.MTU, 1024)
	c.MaxSGE = orDefault(c.MaxSGE, 16)
	c.GrantedSGE = min(orDefault(c.GrantedSGE, c.MaxSGE), c.MaxSGE)
	c.MaxReads = orDefault(c.MaxReads, 16)
	if c.NoReads {
		c.MaxReads = 0
	}
	c.MaxQPWork = orDefault(c.MaxQPWork, 8192)
	c.MaxMessage = orDefault(c.MaxMessage, 1<<30)
	c.MaxSRQWork = orDefault(c.MaxSRQWork, 1<<16)
	c.ConnectTimeout = orDefault(c.ConnectTimeout, time.Second)
	c.RetryTimeout = orDefault(c.RetryTimeout, 500*time.Millisecond)
	c.Backlog = orDefault(c.Backlog, 128)
	c.Addrs = slices.Clone(c.Addrs)
	if c.PKeys = slices.Clone(c.PKeys); len(c.PKeys) == 0 {
		c.PKeys = []ib.PKey{ib.PKeyDefault}
	}
	return c
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// guidOf hashes a name (FNV-1a) into a locally administered GUID that is the same in every run.
func guidOf(name string) ib.GUID {
	h := uint64(14695981039346656037)
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return ib.GUID(h&^(0xFF<<56|0xF) | 0x02<<56)
}

// Provider is an rdma.Provider whose devices are on a Fabric.
type Provider struct {
	name   string
	fabric *Fabric
	events async.Hub
	closed bool
	// devices are the open ones, in the order they were added.
	devices []*Device
}

var _ rdma.Watcher = (*Provider)(nil)

// NewProvider makes a provider with the given devices.
func NewProvider(f *Fabric, name string, devices ...DeviceConfig) *Provider {
	p := &Provider{name: name, fabric: f, events: async.Hub{Name: name}}
	for _, cfg := range devices {
		p.Add(cfg)
	}
	return p
}

// Pair makes a fabric with two devices, "a" at 192.0.2.1 and "b" at 192.0.2.2, of one provider.
func Pair() (p *Provider, a, b *Device) {
	p = NewProvider(NewFabric(), "memory",
		DeviceConfig{Name: "a", Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
		DeviceConfig{Name: "b", Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.2")}})
	return p, p.Device("a"), p.Device("b")
}

// Add plugs a device in.
func (p *Provider) Add(cfg DeviceConfig) *Device {
	f := p.fabric
	f.mu.Lock()
	defer f.unlock()
	d := newDevice(p, cfg.withDefaults())
	p.devices = append(p.devices, d)
	f.devices = append(f.devices, d)
	d.event(rdma.AsyncDeviceAdded)
	return d
}

// Remove pulls the device out: it is closed, and no longer listed.
func (p *Provider) Remove(name string) error {
	d := p.Device(name)
	if d == nil {
		return fmt.Errorf("rdmatest: no device %q", name)
	}
	err := d.Close()
	p.fabric.mu.Lock()
	defer p.fabric.unlock()
	p.devices = slices.DeleteFunc(p.devices, func(o *Device) bool { return o == d })
	d.event(rdma.AsyncDeviceRemoved)
	return err
}

// Device returns the device of that name, or nil.
func (p *Provider) Device(name string) *Device {
	p.fabric.mu.Lock()
	defer p.fabric.unlock()
	for _, d := range p.devices {
		if d.cfg.Name == name {
			return d
		}
	}
	return nil
}

// Name is the name given to NewProvider.
func (p *Provider) Name() string { return p.name }

// Devices lists what has been added and not removed.
func (p *Provider) Devices(ctx context.Context) ([]rdma.Device, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.fabric.mu.Lock()
	defer p.fabric.unlock()
	if p.closed {
		return nil, opError("list devices", p.name, rdma.ErrClosed)
	}
	list := make([]rdma.Device, len(p.devices))
	for i, d := range p.devices {
		list[i] = d
	}
	return list, nil
}

// Close closes the devices.
func (p *Provider) Close() error {
	p.fabric.mu.Lock()
	defer p.fabric.unlock()
	p.closed = true
	p.events.Close()
	for _, d := range p.devices {
		d.close()
	}
	return nil
}
