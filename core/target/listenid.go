package target

import (
	"fmt"
	"slices"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// deaf is a service id that could not be listened to at a port.
type deaf struct {
	dev rdma.Device
	svc rdma.Service
	err string
}

// listenByID listens to a service id at each InfiniBand port of a device where it is not listened to yet. Initiators that have an address
// do without, so that a port where it cannot be done is told to the log, and tried again when something about it changes. The lock is held.
func (t *Target) listenByID(dev rdma.Device, svc rdma.Service) error {
	ports, err := dev.Ports()
	if err != nil {
		return fmt.Errorf("target %s: ports of %s: %w", t.cfg.Name, dev.Name(), err)
	}
	for i := range ports {
		p := &ports[i]
		at := rdma.Service{ID: svc.ID, GID: mainGID(p)}
		if at.GID.IsZero() || slices.ContainsFunc(t.listeners, func(l listening) bool { return l.dev == dev && l.Service() == at }) {
			continue
		}
		l, err := dev.Listen(at)
		t.heard(deaf{dev, at, errorText(err)}, p.Num)
		if err == nil {
			t.begin(l, svc, dev)
		}
	}
	return nil
}

// heard notes what came of listening to a service id, and tells the log of what is new and bad.
func (t *Target) heard(now deaf, port int) {
	old := ""
	t.deaf = slices.DeleteFunc(t.deaf, func(d deaf) bool {
		same := d.dev == now.dev && d.svc == now.svc
		if same {
			old = d.err
		}
		return same
	})
	if now.err == "" {
		return
	}
	t.deaf = append(t.deaf, now)
	if now.err != old {
		t.log.Warn("no logins by service id at a port, only by address: it cannot be listened to", "service", now.svc.String(),
			"device", now.dev.Name(), "port", port, "error", now.err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// mainGID is the GID by which initiators name a port of InfiniBand, zero if it is none.
func mainGID(p *rdma.Port) ib.GID {
	if p.Link != ib.LinkInfiniBand || len(p.GIDs) == 0 {
		return ib.GID{}
	}
	return p.GIDs[0]
}

// hasGID tells whether a port of the device is named by the GID.
func hasGID(dev rdma.Device, g ib.GID) (bool, error) {
	ports, err := dev.Ports()
	return slices.ContainsFunc(ports, func(p rdma.Port) bool { return mainGID(&p) == g }), err
}
