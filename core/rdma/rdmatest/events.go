package rdmatest

import (
	"net/netip"
	"slices"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// Watch begins to keep asynchronous events.
func (p *Provider) Watch() (rdma.Watch, error) { return p.events.Watch() }

// Watches is how many watches are open.
func (p *Provider) Watches() int { return p.events.Count() }

// event tells of something that happened to the device.
func (d *Device) event(k rdma.AsyncKind) {
	d.prov.events.Post(rdma.AsyncEvent{Kind: k, Device: d.cfg.Name})
}

// Event tells of something that is said to have happened to a port, or to the device if port is 0, true or not.
func (d *Device) Event(k rdma.AsyncKind, port int) {
	d.prov.events.Post(rdma.AsyncEvent{Kind: k, Device: d.cfg.Name, Port: port})
}

// Change changes what a subnet manager, or the operator of an Ethernet port, gives to the port, and tells of each change.
func (d *Device) Change(f func(*PortConfig)) {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	c := PortConfig{d.cfg.Addrs, d.cfg.LID, d.cfg.SMLID, d.cfg.PKeys, d.cfg.MTU}
	old := c
	c.Addrs, c.PKeys = slices.Clone(c.Addrs), slices.Clone(c.PKeys)
	f(&c)
	d.cfg.Addrs, d.cfg.LID, d.cfg.SMLID, d.cfg.PKeys, d.cfg.MTU = c.Addrs, c.LID, c.SMLID, c.PKeys, c.MTU
	for _, change := range []struct {
		kind rdma.AsyncKind
		is   bool
	}{
		{rdma.AsyncGIDChange, !slices.Equal(old.Addrs, c.Addrs)}, {rdma.AsyncLIDChange, old.LID != c.LID},
		{rdma.AsyncSMChange, old.SMLID != c.SMLID}, {rdma.AsyncPKeyChange, !slices.Equal(old.PKeys, c.PKeys)},
		{rdma.AsyncPortChange, old.MTU != c.MTU},
	} {
		if change.is {
			d.Event(change.kind, 1)
		}
	}
}

// PortConfig is what can change of a port.
type PortConfig struct {
	Addrs      []netip.Addr
	LID, SMLID ib.LID
	PKeys      []ib.PKey
	MTU        int
}
