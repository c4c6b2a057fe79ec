package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// ServedDevices lists the devices that are served.
func (t *Target) ServedDevices() []rdma.Device { return t.deviceList() }

func (t *Target) deviceList() []rdma.Device {
	t.state.Lock()
	defer t.state.Unlock()
	return slices.Clone(t.devices)
}

// AddDevice serves a device from now on: its completion queue, the memory of every store, and, once the target is started, the services
// whose address it has. An error leaves nothing of the target on the device. It does nothing for a device that is served already.
func (t *Target) AddDevice(ctx context.Context, dev rdma.Device) error {
	t.state.Lock()
	known, stopped := slices.Contains(t.devices, dev), t.stopped
	if !known && !stopped {
		t.devices = append(t.devices, dev) // so that units that come meanwhile are registered too
	}
	t.state.Unlock()
	switch {
	case known:
		return nil
	case stopped:
		return fmt.Errorf("target %s: device %s: %w", t.cfg.Name, dev.Name(), errStopped)
	}
	var err error
	if e := t.reactor.Call(ctx, func() { err = t.openDevice(dev) }); e != nil {
		err = e
	}
	if err == nil {
		err = t.ListenAgain(dev)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("target %s: device %s: %w", t.cfg.Name, dev.Name(), err), t.RemoveDevice(ctx, dev))
	}
	return nil
}

// openDevice runs in the reactor's goroutine.
func (t *Target) openDevice(dev rdma.Device) error {
	if err := t.reactor.AddDevice(dev); err != nil {
		return err
	}
	var errs []error
	t.eachArena(func(a *ioctx.Arena) { errs = append(errs, a.Register(dev)) })
	return errors.Join(errs...)
}

// eachArena calls f for every arena once, or more often.
func (t *Target) eachArena(f func(*ioctx.Arena)) {
	f(t.small)
	t.luns.each(func(m *mapped) { f(m.arena) })
}

// ListenAgain brings the listeners of a device in step with its addresses and GIDs, which have changed: it ends those whose address is gone, so that
// their services wait for it, and listens on those services that have an address of the device and are not listened on there yet. It does
// nothing for a device that is not served, and before Start.
func (t *Target) ListenAgain(dev rdma.Device) error {
	t.state.Lock()
	defer t.state.Unlock()
	if t.stopped || !t.started || !slices.Contains(t.devices, dev) {
		return nil
	}
	return errors.Join(t.unlistenGone(dev), t.listen(dev))
}

// RemoveDevice ends all that the target does on a device, at once: listeners, channels, and access to memory. Nothing
// of the target uses the device when it returns nil. It does nothing for a device that is not served.
func (t *Target) RemoveDevice(ctx context.Context, dev rdma.Device) error {
	t.state.Lock()
	known := slices.Contains(t.devices, dev)
	t.devices = slices.DeleteFunc(slices.Clone(t.devices), func(d rdma.Device) bool { return d == dev })
	var errs []error
	t.listeners = slices.DeleteFunc(t.listeners, func(l listening) bool {
		if l.dev == dev {
			errs = append(errs, l.Close())
		}
		return l.dev == dev
	})
	t.deaf = slices.DeleteFunc(t.deaf, func(d deaf) bool { return d.dev == dev })
	stopped := t.stopped
	t.state.Unlock()
	if !known || stopped {
		return errors.Join(errs...) // Shutdown has freed, or frees, what there is
	}
	err := t.reactor.Call(ctx, func() {
		errs = append(errs, t.reactor.RemoveDevice(dev))
		t.eachArena(func(a *ioctx.Arena) { errs = append(errs, a.Unregister(dev)) })
	})
	return errors.Join(append(errs, err, t.forgetPool(ctx, dev))...)
}

// Devices makes the target the user of a table of HCAs, which calls Attach, Changed and Detach.
func (t *Target) Devices() *DeviceUser { return &DeviceUser{t} }

// DeviceUser is a Target that serves devices as they come and go.
type DeviceUser struct{ t *Target }

// Attach is AddDevice.
func (u *DeviceUser) Attach(ctx context.Context, dev rdma.Device) error {
	return u.t.AddDevice(ctx, dev)
}

// Changed listens on what the device has got since.
func (u *DeviceUser) Changed(_ context.Context, dev rdma.Device, p rdma.Port) {
	if err := u.t.ListenAgain(dev); err != nil {
		u.t.log.Warn("cannot listen on all addresses", "device", dev.Name(), "port", p.Num, "error", err)
	}
}

// detachTime bounds the end of a device's channels.
const detachTime = 10 * time.Second

// Detach is RemoveDevice.
func (u *DeviceUser) Detach(dev rdma.Device, reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), detachTime)
	defer cancel()
	if err := u.t.RemoveDevice(ctx, dev); err != nil {
		u.t.log.Error("a device is not let go of in order", "device", dev.Name(), "reason", reason, "error", err)
	}
}
