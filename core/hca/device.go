package hca

import (
	"context"
	"sync"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// device is one HCA of the table.
type device struct {
	table *Table
	dev   rdma.Device
	// tried is closed when the user has been asked once.
	tried  chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	kick   chan struct{}

	mu       sync.Mutex
	ports    []*port
	attached bool
	problem  string // why it is not attached
	reason   string // why it ends
}

// begin makes a device and its goroutines.
func (t *Table) begin(dev rdma.Device) *device {
	d := &device{table: t, dev: dev, tried: make(chan struct{}), kick: make(chan struct{}, 1)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	t.work.Go(d.run)
	return d
}

// end makes the device's goroutine leave.
func (d *device) end(why string) {
	d.mu.Lock()
	d.reason = why
	d.mu.Unlock()
	d.cancel()
}

// run serves the device until end.
func (d *device) run() {
	var ports sync.WaitGroup
	d.open(&ports)
	d.serve()
	ports.Wait()
	d.mu.Lock()
	attached, reason := d.attached, d.reason
	d.attached = false
	d.mu.Unlock()
	if attached {
		d.table.cfg.User.Detach(d.dev, reason)
	}
	if err := d.dev.Close(); err != nil {
		d.table.log.Warn("closing a device", "device", d.dev.Name(), "error", err)
	}
	d.table.log.Info("device is not served any more", "device", d.dev.Name(), "reason", reason)
	d.table.ended(d)
}

// open makes the ports. A device whose ports cannot be listed is tried again.
func (d *device) open(wg *sync.WaitGroup) {
	for told := false; d.ctx.Err() == nil; told = true {
		list, err := d.dev.Ports()
		if err == nil {
			d.makePorts(list, wg)
			return
		}
		if !told {
			d.table.log.Warn("the ports of a device cannot be read, trying again", "device", d.dev.Name(), "error", err)
		}
		d.fail("its ports cannot be read: " + err.Error())
		d.pause()
	}
}

func (d *device) makePorts(list []rdma.Port, wg *sync.WaitGroup) {
	ports := make([]*port, len(list))
	for i := range list {
		ports[i] = newPort(d, list[i].Num)
	}
	d.mu.Lock()
	d.ports = ports
	d.mu.Unlock()
	for _, p := range ports {
		p.refresh()
		wg.Go(p.run)
	}
}

func (d *device) portList() []*port {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ports
}

// port returns nil if there is none of that number.
func (d *device) port(num int) *port {
	for _, p := range d.portList() {
		if p.num == num {
			return p
		}
	}
	return nil
}

// serve attaches the device, again and again if need be, and passes on what changes.
func (d *device) serve() {
	defer d.triedOnce()
	for d.ctx.Err() == nil {
		if d.attach() {
			d.triedOnce()
			d.passOn()
			return
		}
		d.triedOnce()
		d.pause()
	}
}

func (d *device) triedOnce() {
	select {
	case <-d.tried:
	default:
		close(d.tried)
	}
}

func (d *device) attach() bool {
	u := d.table.cfg.User
	if u == nil {
		return true
	}
	err := u.Attach(d.ctx, d.dev)
	if err != nil {
		if d.fail(err.Error()) && d.ctx.Err() == nil {
			d.table.log.Warn("a device cannot be served yet, trying again", "device", d.dev.Name(), "error", err)
		}
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.attached, d.problem = true, ""
	d.table.log.Info("device is served", "device", d.dev.Name(), "node_guid", d.dev.Attr().NodeGUID, "ports", len(d.ports))
	return true
}

// fail notes why the device is not served, and tells whether that is news.
func (d *device) fail(why string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	news := d.problem != why
	d.problem = why
	return news
}

// passOn tells the user of every port that has changed.
func (d *device) passOn() {
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-d.kick:
		}
		for _, p := range d.portList() {
			if now, changed := p.changed(); changed && d.table.cfg.User != nil {
				d.table.cfg.User.Changed(d.ctx, d.dev, now)
			}
		}
	}
}

// pause waits for another attempt: the retry time, or until a port has changed.
func (d *device) pause() {
	timer := time.NewTimer(d.table.cfg.Retry)
	defer timer.Stop()
	select {
	case <-d.ctx.Done():
	case <-d.kick:
	case <-timer.C:
	}
}

func (d *device) wake() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}
