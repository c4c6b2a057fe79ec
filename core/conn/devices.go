package conn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// AddDevice makes a completion queue on a device. It does nothing if there is one.
func (r *Reactor) AddDevice(dev rdma.Device) error {
	if slices.ContainsFunc(r.queues, func(q queue) bool { return q.dev == dev }) {
		return nil
	}
	cq, err := dev.NewCQ(rdma.CQConfig{Depth: r.cfg.QueueDepth, Wake: r.Wake, Index: r.cfg.Index, Count: r.cfg.Count})
	if err == nil {
		r.queues = append(r.queues, queue{dev: dev, cq: cq})
		err = errors.Join(r.watch(cq.FD(), byLevel), r.tables.register(dev))
	}
	if err != nil {
		return fmt.Errorf("conn: reactor %s on device %s: %w", r.cfg.Name, dev.Name(), err)
	}
	return nil
}

// RemoveDevice ends the channels of a device at once and frees its completion queue. Nothing of the reactor uses the device when it
// returns. It does nothing if there is no queue on it.
func (r *Reactor) RemoveDevice(dev rdma.Device) error {
	i := slices.IndexFunc(r.queues, func(q queue) bool { return q.dev == dev })
	if i < 0 {
		return nil
	}
	r.clients.each(func(c client) {
		if c.device() == dev {
			c.kill()
		}
	})
	cq := r.queues[i].cq
	if fd := cq.FD(); fd >= 0 {
		r.park.unwatch(fd)
	}
	err := r.queues[i].close()
	r.queues = slices.Delete(r.queues, i, i+1)
	return errors.Join(err, r.tables.unregister(dev))
}
