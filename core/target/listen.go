package target

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// Start listens on every service. ctx bounds the call only. It is called once. An error, which
// names the service, leaves nothing listening.
func (t *Target) Start(ctx context.Context) error {
	t.state.Lock()
	defer t.state.Unlock()
	if t.stopped {
		return fmt.Errorf("target %s: start: %w", t.cfg.Name, errStopped)
	}
	for _, svc := range t.cfg.Services {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, t.unlisten())
		}
		if err := t.listen(svc); err != nil {
			return errors.Join(err, t.unlisten())
		}
	}
	for _, l := range t.listeners {
		t.log.Info("listening", "service", serviceName(l.Service()))
		t.working.Go(func() { t.accept(l) })
	}
	return nil
}

// listen listens on svc on the devices that have its address.
func (t *Target) listen(svc rdma.Service) error {
	found := false
	for _, dev := range t.cfg.Devices {
		a, has, err := addrOf(dev, svc.Addr.Addr())
		if err != nil {
			return fmt.Errorf("target %s: ports of %s: %w", t.cfg.Name, dev.Name(), err)
		}
		if !has {
			continue
		}
		l, err := dev.Listen(rdma.Service{Addr: netip.AddrPortFrom(a, svc.Addr.Port())})
		if err != nil {
			return fmt.Errorf("target %s: listen on %s of %s: %w", t.cfg.Name, serviceName(svc), dev.Name(), err)
		}
		found = true
		t.listeners = append(t.listeners, l)
	}
	if !found {
		return fmt.Errorf("target %s: %w: no RDMA device has the address %v", t.cfg.Name, ErrConfig, svc.Addr.Addr())
	}
	return nil
}

// serviceName is how the operator writes a service.
func serviceName(s rdma.Service) string {
	if !s.Addr.Addr().IsValid() {
		return fmt.Sprintf("*:%d", s.Addr.Port())
	}
	return s.Addr.String()
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
				t.log.Error("no more logins are taken: the listener failed", "service", serviceName(l.Service()), "error", err)
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
