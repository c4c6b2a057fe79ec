package roce

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// followEvery is the pause before another look at a device that is unsettled.
func (c *Config) followEvery() time.Duration { return min(c.AddressGrace/4, 500*time.Millisecond) }

// refresh follows the interface: it binds the addresses that are new, gives up those that have been missing for AddressGrace, and ends
// the connections whose packets do not fit any more. It tells whether the usable addresses may have changed.
func (d *Device) refresh(n *nic) bool {
	d.mu.Lock()
	if !d.opened || d.closed {
		d.mu.Unlock()
		return false
	}
	gone := d.takeGone(n.addrs, time.Now())
	before := len(d.endpoints)
	_ = d.bindNew(n) // it has been logged
	changed := len(gone) > 0 || len(d.endpoints) != before
	if n.mtu < d.mtu {
		d.tellMembers(notice{kind: noticeMTU, mtu: n.mtu})
	}
	d.mtu = n.mtu
	d.mu.Unlock()
	for _, ep := range gone {
		ep.giveUp()
	}
	return changed
}

// takeGone takes the endpoints off the device whose address has been missing for too long. The lock is held.
func (d *Device) takeGone(addrs []netip.Addr, now time.Time) (gone []*endpoint) {
	for _, ep := range slices.Clone(d.endpoints) {
		switch {
		case slices.Contains(addrs, ep.addr):
			ep.missing = time.Time{}
		case ep.missing.IsZero():
			ep.missing = now
		case now.Sub(ep.missing) >= d.cfg.AddressGrace:
			d.retire(ep)
			gone = append(gone, ep)
		}
	}
	for a := range d.unusable {
		if !slices.Contains(addrs, a) {
			delete(d.unusable, a)
		}
	}
	return gone
}

// retire takes an endpoint off the device and tells the queues, the last of which frees its sockets. The lock is held.
func (d *Device) retire(ep *endpoint) {
	d.endpoints = slices.DeleteFunc(slices.Clone(d.endpoints), func(o *endpoint) bool { return o == ep })
	d.retired = append(d.retired, ep)
	ep.users = d.tellMembers(notice{kind: noticeGone, ep: ep})
	ep.addTo(d.old)
	if ep.users == 0 {
		d.free(ep)
	}
}

// tellMembers tells every queue, and returns how many there are. The lock is held.
func (d *Device) tellMembers(n notice) (told int) {
	for _, c := range d.members {
		if c != nil {
			c.post(n)
			told++
		}
	}
	return told
}

// release notes that a queue does not use a retired endpoint any more.
func (d *Device) release(ep *endpoint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ep.users--; ep.users == 0 {
		d.free(ep)
	}
}

// free closes the sockets of a retired endpoint, unless Close does. The lock is held.
func (d *Device) free(ep *endpoint) {
	if i := slices.Index(d.retired, ep); i >= 0 {
		d.retired = slices.Delete(d.retired, i, i+1)
		ep.closeMembers()
	}
}

// giveUp ends a retired endpoint. Peers are told, as far as that is possible without the address.
func (ep *endpoint) giveUp() {
	ep.dev.log.Warn("an address is gone: its connections end", "address", ep.addr, "connections", ep.connections())
	ep.disconnectAll()
	ep.close()
	ep.mu.Lock()
	defer ep.mu.Unlock()
	for _, c := range ep.conns {
		if c.req != nil {
			c.req.withdraw()
		}
		if c.q == nil {
			ep.dev.numbers.give(c.number)
		}
	}
	clear(ep.conns)
}

func (ep *endpoint) connections() int {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return len(ep.conns)
}

// leave ends the connection of a queue pair that is closed, and frees its number once nothing can be meant for it any more.
func (ep *endpoint) leave(q *qp) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.closed {
		ep.dev.numbers.give(q.num)
		return
	}
	if c := ep.conns[q.handle]; c != nil {
		c.q = nil
	}
	ep.hangUp(q.handle)
}

// usable keeps the addresses that a device can use, which for one that is not open yet may be all.
func (d *Device) usable(addrs []netip.Addr) []netip.Addr {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.opened {
		return addrs
	}
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool {
		return !slices.ContainsFunc(d.endpoints, func(ep *endpoint) bool { return ep.addr == a })
	})
}

// follow looks at the interface, and tells whether the usable addresses may have changed.
func (d *Device) follow() bool {
	n, err := d.look()
	return err == nil && d.refresh(&n)
}

// unsettled tells whether something about the addresses has to be looked at again without an event.
func (d *Device) unsettled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened && !d.closed && (len(d.unusable) > 0 ||
		slices.ContainsFunc(d.endpoints, func(ep *endpoint) bool { return !ep.missing.IsZero() }))
}

// bindNew makes endpoints of the addresses that have none. The lock is held.
func (d *Device) bindNew(n *nic) error {
	var errs []error
	for _, a := range n.addrs {
		if slices.ContainsFunc(d.endpoints, func(ep *endpoint) bool { return ep.addr == a }) {
			continue
		}
		err := d.bind(a, n.index)
		if err != nil {
			err = fmt.Errorf("address %v: %w", a, inUse(err))
			errs = append(errs, err)
		}
		if err != nil && !d.unusable[a] {
			d.log.Warn("cannot use an address, trying again", "address", a, "error", err)
		}
		if delete(d.unusable, a); err != nil {
			d.unusable[a] = true
		}
	}
	return errors.Join(errs...)
}

// bind makes an endpoint and gives the CQs and listeners that there are their parts of it.
func (d *Device) bind(a netip.Addr, index int) error {
	ep, err := openEndpoint(d, a, index)
	if err != nil {
		return err
	}
	for n, c := range d.members {
		if c == nil {
			continue
		}
		fd, err := ep.member(n)
		if err != nil {
			ep.close()
			ep.closeMembers()
			return err
		}
		c.post(notice{kind: noticeSocket, ep: ep, fd: fd})
	}
	d.lmu.Lock()
	listeners := slices.Clone(d.listeners)
	d.lmu.Unlock()
	for _, l := range listeners {
		if l.matches(a) {
			ep.listen(l.svc.Addr.Port())
		}
	}
	d.endpoints = append(d.endpoints, ep)
	return nil
}

// lose ends the connections of an address that is gone, and frees what the queue has of it. It is called by the queue's owner.
func (c *cq) lose(ep *endpoint) {
	cause := fmt.Errorf("%w: %s does not have the address %v any more", rdma.ErrLost, c.dev.name, ep.addr)
	for i, s := range c.socks {
		if s == nil || s.ep != ep {
			continue
		}
		for _, q := range c.qps {
			if q.sock == s {
				q.loseTo(cause)
				c.settle(q)
			}
		}
		c.unwatch(s.fd)
		s.fd = -1
		c.socks[i] = nil
	}
	c.dev.release(ep)
}

// shrink ends the connections whose packets an interface of that MTU does not carry.
func (c *cq) shrink(mtu int) {
	for _, q := range c.qps {
		if q.sock == nil || q.state == ended {
			continue
		}
		if most := wire.PathMTU(mtu, q.sock.ep.v6).Bytes(); q.info.PathMTU > most {
			q.loseTo(fmt.Errorf("%w: the MTU of %s is %d bytes now, too few for its path MTU of %d", rdma.ErrLost, c.dev.name, mtu, q.info.PathMTU))
			c.goodbye = append(c.goodbye, q)
			c.settle(q)
		}
	}
}

// loseTo ends a connection for a reason of this side.
func (q *qp) loseTo(cause error) {
	ev := rdma.Completion{Event: rdma.EventDisconnected, Cause: cause}
	if q.state == connecting || q.state == accepted {
		ev.Event = rdma.EventFailed
	}
	q.finish(ev)
}
