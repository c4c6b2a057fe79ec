//go:build verbs

package verbs

import (
	"maps"

	"github.com/gosrpt/gosrpt/core/rdma"
)

var _ rdma.MADDevice = (*Device)(nil)

// deviceMADs is a MADPort that ends with its device.
type deviceMADs struct {
	rdma.MADPort
	dev *Device
}

// OpenMAD registers for a class on a port of the device; OpenUMAD tells how.
func (d *Device) OpenMAD(port int, cfg rdma.MADConfig) (rdma.MADPort, error) {
	if port < 1 || port > d.ports {
		return nil, d.fail("register for datagrams", rdma.ErrInvalid)
	}
	open, err := OpenUMAD(d.name, port, cfg)
	if err != nil {
		return nil, err
	}
	p := &deviceMADs{open, d}
	d.mu.Lock()
	closed := d.closed
	if !closed {
		d.mads[p] = struct{}{}
	}
	d.mu.Unlock()
	if closed {
		_ = open.Close() // nobody has seen it
		return nil, d.fail("register for datagrams", rdma.ErrClosed)
	}
	return p, nil
}

// Close gives the registration up.
func (p *deviceMADs) Close() error {
	p.dev.mu.Lock()
	delete(p.dev.mads, p)
	p.dev.mu.Unlock()
	return p.MADPort.Close()
}

// closeMADs closes what is open when the device ends.
func (d *Device) closeMADs() (errs []error) {
	d.mu.Lock()
	open := maps.Clone(d.mads)
	d.mu.Unlock()
	for p := range open {
		errs = append(errs, p.Close())
	}
	return errs
}
