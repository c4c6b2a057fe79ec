package target

import (
	"context"
	"net/netip"

	"github.com/gosrpt/gosrpt/core/conn"
	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// Listening is where initiators may log in.
type Listening struct {
	// Service is the address and RDMA/CM port, of which a link-local address carries its zone, or the service id and the port's GID.
	rdma.Service
	// Device is the RDMA device that has the address or the GID.
	Device string
	// PKeys are the partitions of the port that has the GID.
	PKeys []ib.PKey
}

// Listening lists where initiators may log in, as it is now: addresses, then service ids.
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
					if svc.ID == 0 && (!want.IsValid() || want.IsUnspecified() || a == want || a.WithZone("") == want) {
						list = append(list, Listening{Service: rdma.Service{Addr: netip.AddrPortFrom(a, svc.Addr.Port())}, Device: dev.Name()})
					}
				}
			}
		}
		list = append(list, t.listeningByID(dev, ports)...)
	}
	return list
}

// listeningByID lists the service ids that are listened to at the ports of a device.
func (t *Target) listeningByID(dev rdma.Device, ports []rdma.Port) []Listening {
	t.state.Lock()
	defer t.state.Unlock()
	var list []Listening
	for _, l := range t.listeners {
		for i := range ports {
			if l.dev == dev && l.svc.ID != 0 && mainGID(&ports[i]) == l.Service().GID {
				list = append(list, Listening{Service: l.Service(), Device: dev.Name(), PKeys: ports[i].PKeys})
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
