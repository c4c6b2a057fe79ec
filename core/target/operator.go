package target

import (
	"context"
	"net/netip"

	"github.com/gosrpt/gosrpt/core/conn"
)

// Listening is an address that initiators may log in to.
type Listening struct {
	// Addr is the address and RDMA/CM port; a link-local address carries its zone.
	Addr netip.AddrPort
	// Device is the RDMA device that has the address.
	Device string
}

// Listening lists the addresses that initiators may log in to, as they are now.
func (t *Target) Listening() []Listening {
	var list []Listening
	for _, dev := range t.deviceList() {
		ports, err := dev.Ports()
		if err != nil {
			continue // the device is going away; the next call tells
		}
		for _, p := range ports {
			for _, a := range p.Addrs {
				for _, svc := range t.cfg.Services {
					want := svc.Addr.Addr()
					if !want.IsValid() || want.IsUnspecified() || a == want || a.WithZone("") == want {
						list = append(list, Listening{netip.AddrPortFrom(a, svc.Addr.Port()), dev.Name()})
					}
				}
			}
		}
	}
	return list
}

// Unwatch makes the reactor let go of a source, such as a unit's guard whose backend is to be replaced: nothing is
// called when it returns nil. Watch undoes it.
func (t *Target) Unwatch(ctx context.Context, s conn.Source) error {
	return t.reactor.Call(ctx, func() { t.reactor.RemoveSource(s) })
}

// Watch makes the reactor poll a source again.
func (t *Target) Watch(ctx context.Context, s conn.Source) error {
	var err error
	if e := t.reactor.Call(ctx, func() { err = t.reactor.AddSource(s) }); e != nil {
		return e
	}
	return err
}
