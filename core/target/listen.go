package target

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// listening is a listener of a service on a device.
type listening struct {
	rdma.Listener
	svc rdma.Service // as configured
	dev rdma.Device
}

// Start listens on every service that a device has the address of; the others wait for one. ctx bounds the call only. It is called
// once. An error, which names the service, leaves nothing listening.
func (t *Target) Start(ctx context.Context) error {
	t.state.Lock()
	defer t.state.Unlock()
	if t.stopped {
		return fmt.Errorf("target %s: start: %w", t.cfg.Name, errStopped)
	}
	t.started = true
	for _, dev := range t.devices {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, t.unlisten())
		}
		if err := t.listen(dev); err != nil {
			return errors.Join(err, t.unlisten())
		}
	}
	for _, svc := range t.waiting() {
		t.log.Warn("no RDMA device has the address yet: logins to it wait for one", "service", svc.String())
	}
	return nil
}

// listen listens on a device on those services that have an address of it and are not listened on there yet. The lock is held.
func (t *Target) listen(dev rdma.Device) error {
	var errs []error
	for _, svc := range t.cfg.Services {
		switch {
		case svc.ID != 0:
			errs = append(errs, t.listenByID(dev, svc))
		case !slices.ContainsFunc(t.listeners, func(l listening) bool { return l.dev == dev && l.svc == svc }):
			errs = append(errs, t.listenOn(dev, svc))
		}
	}
	return errors.Join(errs...)
}

func (t *Target) listenOn(dev rdma.Device, svc rdma.Service) error {
	a, has, err := addrOf(dev, svc.Addr.Addr())
	if err != nil {
		return fmt.Errorf("target %s: ports of %s: %w", t.cfg.Name, dev.Name(), err)
	}
	if !has {
		return nil
	}
	l, err := dev.Listen(rdma.Service{Addr: netip.AddrPortFrom(a, svc.Addr.Port())})
	if err != nil {
		return fmt.Errorf("target %s: listen on %s of %s: %w", t.cfg.Name, svc, dev.Name(), err)
	}
	t.begin(l, svc, dev)
	return nil
}

// begin takes logins from a listener. The lock is held.
func (t *Target) begin(l rdma.Listener, svc rdma.Service, dev rdma.Device) {
	t.listeners = append(t.listeners, listening{l, svc, dev})
	t.log.Info("listening", "service", l.Service().String(), "device", dev.Name())
	t.working.Go(func() { t.accept(l) })
}

// unlistenGone ends the listeners of a device whose address, or GID, it does not have any more. The lock is held.
func (t *Target) unlistenGone(dev rdma.Device) error {
	var errs []error
	t.listeners = slices.DeleteFunc(t.listeners, func(l listening) bool {
		if l.dev != dev {
			return false
		}
		has, err := l.standing()
		if has || err != nil {
			errs = append(errs, err)
			return false
		}
		t.log.Warn("the address is gone: logins to it wait for its return", "service", l.Service().String(), "device", dev.Name())
		errs = append(errs, l.Close())
		return true
	})
	return errors.Join(errs...)
}

// standing tells whether the device still has what is listened on.
func (l *listening) standing() (bool, error) {
	if l.svc.ID != 0 {
		return hasGID(l.dev, l.Service().GID)
	}
	_, has, err := addrOf(l.dev, l.svc.Addr.Addr())
	return has, err
}

// waiting lists the services that have an address and are not listened on anywhere. The lock is held.
func (t *Target) waiting() []rdma.Service {
	var list []rdma.Service
	for _, svc := range t.cfg.Services {
		if svc.ID == 0 && !slices.ContainsFunc(t.listeners, func(l listening) bool { return l.svc == svc }) {
			list = append(list, svc)
		}
	}
	return list
}

// Waiting lists the services for whose address no device has appeared yet.
func (t *Target) Waiting() []rdma.Service {
	t.state.Lock()
	defer t.state.Unlock()
	return t.waiting()
}

// addrOf finds an address among dev's, and returns it as the device has it, with its zone. An invalid
// address is every device's.
func addrOf(dev rdma.Device, a netip.Addr) (netip.Addr, bool, error) {
	if !a.IsValid() || a.IsUnspecified() {
		return netip.Addr{}, true, nil
	}
	ports, err := dev.Ports()
	if err != nil {
		return netip.Addr{}, false, err
	}
	for _, p := range ports {
		for _, b := range p.Addrs {
			if b == a || a.Zone() == "" && b.WithZone("") == a {
				return b, true, nil
			}
		}
	}
	return netip.Addr{}, false, nil
}

func (t *Target) unlisten() error {
	var errs []error
	for _, l := range t.listeners {
		errs = append(errs, l.Close())
	}
	t.listeners = nil
	return errors.Join(errs...)
}

// accept takes the requests of one listener until it is closed. Each is examined in a goroutine of
// its own, of which there are at most Limits.Logins; while all are busy the next request waits, and those after it
// wait in the listener's backlog, so that a burst from one host gets no other host refused.
func (t *Target) accept(l rdma.Listener) {
	for {
		req, err := l.Accept(t.ctx)
		if err != nil {
			if t.ctx.Err() == nil && !errors.Is(err, rdma.ErrClosed) {
				t.log.Error("no more logins are taken: the listener failed", "service", l.Service().String(), "error", err)
			}
			return
		}
		select {
		case t.logins <- struct{}{}:
			t.working.Go(func() {
				defer func() { <-t.logins }()
				t.login(req)
			})
		case <-t.ctx.Done():
			r, _ := parseLogin(req)
			t.refuse(req, &r, refusal{srp.RejResources, errStopped})
			return
		}
	}
}
