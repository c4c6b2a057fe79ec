package roce

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/madmux"
	"github.com/gosrpt/gosrpt/core/rdma/roce/cm"
	"github.com/gosrpt/gosrpt/core/rdma/roce/rc"
	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// maxMembers is how many CQs a device can have: the low byte of a queue pair number names one.
const maxMembers = 255

// Device is a network interface. It opens its sockets when the first completion queue or listener is
// made.
type Device struct {
	prov    *Provider
	cfg     *Config
	name    string
	index   int
	attr    rdma.DeviceAttr
	log     hclog.Logger
	numbers numbers
	regions regions
	errFull error
	mads    *madmux.Mux
	shut    atomic.Bool
	// gids is the port's GID table as it was last read.
	gids atomic.Pointer[[]ib.GID]

	mu        sync.Mutex
	opened    bool
	closed    bool
	mtu       int // of the interface, as it was last read
	endpoints []*endpoint
	retired   []*endpoint         // those of addresses that are gone, while a queue still has a socket
	unusable  map[netip.Addr]bool // those that cannot be bound
	members   [maxMembers]*cq
	old       map[string]uint64 // counters of CQs that are closed

	lmu       sync.Mutex // after endpoint.mu
	listeners []*listener
}

func newDevice(p *Provider, n *nic) *Device {
	d := &Device{
		prov: p, cfg: &p.cfg, name: n.name, index: n.index, log: p.cfg.Log.Named(n.name), numbers: newNumbers(),
		old: make(map[string]uint64), unusable: make(map[netip.Addr]bool),
		attr: rdma.DeviceAttr{
			NodeGUID: n.guid(), MaxSGE: maxSGE, MaxQPWork: maxWork, MaxReads: int(p.cfg.MaxReads), MaxMessage: rc.MaxWorkLength,
		},
	}
	d.errFull = d.fail("post", rdma.ErrFull)
	d.mads = madmux.New(d.name, uint32(random64()), d.sendMAD)
	return d
}

// Name is the interface's.
func (d *Device) Name() string { return d.name }

// Attr returns the limits and the identity, which is made of the MAC address.
func (d *Device) Attr() rdma.DeviceAttr { return d.attr }

func (d *Device) isClosed() bool { return d.shut.Load() }

// Ports lists the one port there is, and follows the interface's addresses. Those of an open device are the ones that it can use.
func (d *Device) Ports() ([]rdma.Port, error) {
	if d.isClosed() {
		return nil, d.fail("ports", rdma.ErrClosed)
	}
	n, err := d.look()
	if err != nil {
		return nil, d.fail("ports", err)
	}
	d.refresh(&n)
	n.addrs = d.usable(n.addrs)
	gids := n.gids()
	d.gids.Store(&gids)
	p := rdma.Port{Num: 1, GUID: d.attr.NodeGUID, Active: n.up, State: n.state(), Link: ib.LinkEthernet,
		PKeys: []ib.PKey{ib.PKeyDefault}, Addrs: n.addrs}
	// The header of IPv6 is the longer one.
	v6 := slices.ContainsFunc(n.addrs, netip.Addr.Is6)
	p.MTU = wire.PathMTU(n.mtu, v6).Bytes()
	p.GIDs = gids
	return []rdma.Port{p}, nil
}

// open binds the addresses, once.
func (d *Device) open() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return rdma.ErrClosed
	case d.opened:
		return nil
	}
	n, err := d.look()
	if err != nil {
		return err
	}
	if err := d.bindNew(&n); len(d.endpoints) == 0 {
		return errors.Join(fmt.Errorf("%w: no usable address", rdma.ErrState), err)
	}
	d.opened, d.mtu = true, n.mtu
	gids := n.gids()
	d.gids.Store(&gids)
	return nil
}

// look reads the interface as it is now.
func (d *Device) look() (nic, error) {
	i, err := net.InterfaceByName(d.name)
	if err != nil {
		return nic{}, err
	}
	if i.Index != d.index {
		return nic{}, fmt.Errorf("%w: %s is another interface now", rdma.ErrState, d.name)
	}
	return makeNIC(i, d.cfg)
}

// inUse makes the kernel's answer that of the seam.
func inUse(err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("%w: %w", rdma.ErrInUse, err)
	}
	return err
}

// join makes c a member, with a socket at each endpoint.
func (d *Device) join(c *cq) error {
	if err := d.open(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := slices.Index(d.members[:], nil)
	if n < 0 {
		return rdma.ErrFull
	}
	for _, ep := range d.endpoints {
		fd, err := ep.member(n)
		if err != nil {
			return fmt.Errorf("address %v: %w", ep.addr, err)
		}
		if err := c.addSocket(ep, fd); err != nil {
			return err
		}
	}
	c.member = n
	d.members[n] = c
	return nil
}

// leave frees c's place. Its sockets stay: the order within a group is what steers datagrams.
func (d *Device) leave(c *cq) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.members[c.member] == c {
		d.members[c.member] = nil
		c.cnt.addTo(d.old)
	}
}

// quiesce returns when every batch that was under way has ended.
func (d *Device) quiesce() {
	d.mu.Lock()
	members := d.members
	d.mu.Unlock()
	for _, c := range members {
		if c != nil {
			c.epoch.wait()
		}
	}
}

// addListener registers a listener at the connection managers.
func (d *Device) addListener(l *listener) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return rdma.ErrClosed
	}
	if a := l.svc.Addr.Addr(); a.IsValid() && !slices.ContainsFunc(d.endpoints, func(ep *endpoint) bool { return l.matches(ep.addr) }) {
		return fmt.Errorf("%w: %s does not have the address %v", rdma.ErrInvalid, d.name, a)
	}
	if err := d.enlist(l); err != nil {
		return err
	}
	for _, ep := range d.endpoints {
		if l.matches(ep.addr) {
			ep.listen(l.svc.Addr.Port())
		}
	}
	return nil
}

func (d *Device) enlist(l *listener) error {
	d.lmu.Lock()
	defer d.lmu.Unlock()
	for _, o := range d.listeners {
		if o.svc.Addr.Port() == l.svc.Addr.Port() && o.overlaps(l) {
			return rdma.ErrInUse
		}
	}
	d.listeners = append(d.listeners, l)
	return nil
}

func (l *listener) overlaps(o *listener) bool {
	a, b := l.svc.Addr.Addr(), o.svc.Addr.Addr()
	return !a.IsValid() || !b.IsValid() || a.Unmap() == b.Unmap()
}

func (d *Device) removeListener(l *listener) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lmu.Lock()
	d.listeners = slices.DeleteFunc(d.listeners, func(o *listener) bool { return o == l })
	d.lmu.Unlock()
	for _, ep := range d.endpoints {
		if l.matches(ep.addr) {
			ep.unlisten(l.svc.Addr.Port())
		}
	}
}

// find finds who listens to a port at an address. lmu is held.
func (d *Device) find(a netip.Addr, port uint16) *listener {
	for _, l := range d.listeners {
		if l.svc.Addr.Port() == port && l.matches(a) {
			return l
		}
	}
	return nil
}

func (ep *endpoint) listen(port uint16) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	_ = ep.cm.Listen(cm.ServiceID(port)) // listening already is as good
}

func (ep *endpoint) unlisten(port uint16) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.cm.Unlisten(cm.ServiceID(port))
}

// Stats returns the counters of all queues and addresses.
func (d *Device) Stats() map[string]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := make(map[string]uint64)
	for k, v := range d.old {
		m[k] += v
	}
	for _, c := range d.members {
		if c != nil {
			c.cnt.addTo(m)
		}
	}
	for _, ep := range d.endpoints {
		ep.addTo(m)
	}
	return m
}

func (ep *endpoint) addTo(m map[string]uint64) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	addCM(m, ep.cm.Stats())
	m["gsi_received"] += ep.counts.received
	m["gsi_bad_packets"] += ep.counts.badPacket
	m["gsi_bad_icrc"] += ep.counts.badICRC
	m["gsi_send_errors"] += ep.counts.sendErrors
	m["mads_in"] += ep.counts.madsIn
	m["mads_out"] += ep.counts.madsOut
	m["mads_lost"] += ep.counts.madsLost
}

// Close closes the device. Peers of connections are told.
func (d *Device) Close() error {
	d.shut.Store(true)
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	endpoints, retired := d.endpoints, d.retired
	d.retired = nil
	d.mu.Unlock()
	d.lmu.Lock()
	listeners := slices.Clone(d.listeners)
	d.lmu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	d.mads.Close()
	for _, ep := range endpoints {
		ep.disconnectAll()
		ep.close()
	}
	d.quiesce()
	for _, ep := range append(retired, endpoints...) {
		ep.closeMembers()
	}
	d.prov.forget(d)
	return nil
}
