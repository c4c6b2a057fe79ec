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
		t.log.Info("listening", "service", l.Service().Addr)
		t.working.Go(func() { t.accept(l) })
	}
	return nil
}

// listen listens on svc on the devices that have its address.
func (t *Target) listen(svc rdma.Service) error {
	found := false
	for _, dev := range t.cfg.Devices {
		has, err := hasAddr(dev, svc.Addr.Addr())
		if err != nil {
			return fmt.Errorf("target %s: ports of %s: %w", t.cfg.Name, dev.Name(), err)
		}
		if !has {
			continue
		}
		l, err := dev.Listen(svc)
		if err != nil {
			return fmt.Errorf("target %s: listen on %v of %s: %w", t.cfg.Name, svc.Addr, dev.Name(), err)
		}
		found = true
		t.listeners = append(t.listeners, l)
	}
	if !found {
		return fmt.Errorf("target %s: %w: no RDMA device has the address %v", t.cfg.Name, ErrConfig, svc.Addr.Addr())
	}
	return nil
}

// hasAddr tells whether an address is one of dev's; an invalid one is everybody's.
func hasAddr(dev rdma.Device, a netip.Addr) (bool, error) {
	if !a.IsValid() || a.IsUnspecified() {
		return true, nil
	}
	ports, err := dev.Ports()
	if err != nil {
		return false, err
	}
	for _, p := range ports {
		for _, b := range p.Addrs {
			if b == a || a.Zone() == "" && b.WithZone("") == a {
				return true, nil
			}
		}
	}
	return false, nil
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
// its own, of which there are at most Limits.Logins.
func (t *Target) accept(l rdma.Listener) {
	for {
		req, err := l.Accept(t.ctx)
		if err != nil {
			if t.ctx.Err() == nil && !errors.Is(err, rdma.ErrClosed) {
				t.log.Error("no more logins are taken: the listener failed", "service", l.Service().Addr, "error", err)
			}
			return
		}
		select {
		case t.logins <- struct{}{}:
			t.working.Go(func() {
				defer func() { <-t.logins }()
				t.login(req)
			})
		default:
			r, _ := parseLogin(req)
			t.refuse(req, &r, refusal{srp.RejResources, errTooManyLogins})
		}
	}
}
