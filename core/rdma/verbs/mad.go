//go:build verbs

package verbs

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

var _ rdma.MADDevice = (*Device)(nil)

// madBacklog is how many datagrams a port keeps for its reader.
const madBacklog = 128

// deviceMADs is a MADPort that ends with its device. It reads on behalf of a reader that is late: the kernel would keep any number of
// datagrams.
type deviceMADs struct {
	port  rdma.MADPort
	dev   *Device
	kept  chan madKept  // closed when nothing more comes
	ended chan struct{} // closed by Close
	close func() error
	err   error // why kept is closed
	work  sync.WaitGroup
}

// madKept is a datagram that waits for the reader.
type madKept struct {
	from  rdma.MADAddr
	bytes []byte
}

// OpenMAD registers for a class on a port of the device; OpenUMAD tells how. Of a device that has gone its name may be another's.
func (d *Device) OpenMAD(port int, cfg rdma.MADConfig) (rdma.MADPort, error) {
	const op = "register for datagrams"
	if port < 1 || port > d.ports {
		return nil, d.fail(op, rdma.ErrInvalid)
	}
	if d.shut.Load() || d.gone.Load() {
		return nil, d.fail(op, rdma.ErrClosed)
	}
	if d.iwarp {
		return nil, d.fail(op, rdma.ErrUnsupported)
	}
	open, err := d.register(port, cfg)
	if err != nil {
		return nil, err
	}
	p := newDeviceMADs(d, open)
	d.mu.Lock()
	closed := d.closed
	if !closed {
		d.mads[p] = struct{}{}
	}
	d.mu.Unlock()
	if closed {
		_ = p.Close() // nobody has seen it
		return nil, d.fail(op, rdma.ErrClosed)
	}
	return p, nil
}

// conflictPause is how long the kernel is not asked for a class that its own target has, unless that goes: it logs every attempt.
const conflictPause = time.Minute

// conflict is that the kernel's target has the Device Management class of a port.
type conflict struct {
	err   error
	until time.Time
}

// holds tells whether the answer is known without asking; module is there while the kernel's target is.
func (c conflict) holds(module string, now time.Time) bool {
	_, err := os.Stat(module)
	return c.err != nil && err == nil && now.Before(c.until)
}

func (d *Device) register(port int, cfg rdma.MADConfig) (rdma.MADPort, error) {
	requests := cfg.Class == ib.ClassDeviceMgmt && len(cfg.Methods) > 0
	d.mu.Lock()
	last := d.conflicts[port]
	d.mu.Unlock()
	if requests && last.holds(srptModule, time.Now()) {
		return nil, last.err
	}
	open, err := OpenUMAD(d.name, port, cfg)
	if requests && errors.Is(err, rdma.ErrInUse) {
		d.mu.Lock()
		d.conflicts[port] = conflict{err, time.Now().Add(conflictPause)}
		d.mu.Unlock()
	}
	return open, err
}

func newDeviceMADs(d *Device, open rdma.MADPort) *deviceMADs {
	p := &deviceMADs{port: open, dev: d, kept: make(chan madKept, madBacklog), ended: make(chan struct{})}
	p.close = sync.OnceValue(p.end)
	p.work.Go(p.keep)
	return p
}

// keep takes what comes until the port ends.
func (p *deviceMADs) keep() {
	defer close(p.kept)
	b := make([]byte, rdma.MADBufferSize)
	for {
		n, from, err := p.port.Receive(context.Background(), b)
		if err != nil {
			p.err = err
			return
		}
		select {
		case p.kept <- madKept{from, slices.Clone(b[:n])}:
		default:
			p.dev.counts.madsLost.Add(1)
		}
	}
}

// Receive returns the oldest datagram, or waits for one.
func (p *deviceMADs) Receive(ctx context.Context, b []byte) (int, rdma.MADAddr, error) {
	const op = "receive datagram"
	if len(b) < rdma.MADBufferSize {
		return 0, rdma.MADAddr{}, p.dev.fail(op, rdma.ErrInvalid)
	}
	select {
	case <-p.ended:
		return 0, rdma.MADAddr{}, p.dev.fail(op, rdma.ErrClosed)
	default:
	}
	select {
	case k, ok := <-p.kept:
		return p.hand(b, k, ok)
	default:
	}
	select {
	case k, ok := <-p.kept:
		return p.hand(b, k, ok)
	case <-ctx.Done():
		return 0, rdma.MADAddr{}, ctx.Err()
	}
}

func (p *deviceMADs) hand(b []byte, k madKept, ok bool) (int, rdma.MADAddr, error) {
	if !ok {
		return 0, rdma.MADAddr{}, p.err
	}
	return copy(b, k.bytes), k.from, nil
}

// Send sends a datagram.
func (p *deviceMADs) Send(to rdma.MADAddr, b []byte) error { return p.port.Send(to, b) }

// Close gives the registration up.
func (p *deviceMADs) Close() error { return p.close() }

func (p *deviceMADs) end() error {
	p.dev.mu.Lock()
	delete(p.dev.mads, p)
	p.dev.mu.Unlock()
	close(p.ended)
	err := p.port.Close()
	p.work.Wait()
	return err
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
