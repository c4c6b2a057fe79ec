package rdmatest

import (
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/madmux"
)

// Device is an rdma.Device on a Fabric, with faults.
type Device struct {
	fabric *Fabric
	prov   *Provider
	cfg    DeviceConfig
	closed bool

	qps       []*qp
	cqs       []*cq
	listeners []*listener
	mads      *madmux.Mux
	regions   map[*region]struct{}
	byKey     map[uint32]*region
	count     counters

	linkUp, vanished bool
	held             Traffic
	steps            int
	parked           []parkedMessage
	failures         []failure
	sendLimit        int
}

// counters are the device's statistics.
type counters struct {
	sends, receives, writes, reads, bytesOut, bytesIn      uint64
	connects, accepts, rejects, disconnects, failedWork    uint64
	receiverNotReady, completionOverruns, requestsOverflow uint64
	madsIn, madsOut, madsLost                              uint64
}

var _ rdma.Device = (*Device)(nil)

func newDevice(p *Provider, cfg DeviceConfig) *Device {
	d := &Device{fabric: p.fabric, prov: p, cfg: cfg, linkUp: true, sendLimit: -1,
		regions: make(map[*region]struct{}), byKey: make(map[uint32]*region)}
	d.mads = madmux.New(cfg.Name, 0, d.sendMAD)
	return d
}

func (d *Device) has(addr netip.Addr) bool {
	return slices.Contains(d.cfg.Addrs, addr.Unmap())
}

// Name is the configured name.
func (d *Device) Name() string { return d.cfg.Name }

// Attr returns the configured limits.
func (d *Device) Attr() rdma.DeviceAttr {
	return rdma.DeviceAttr{NodeGUID: d.cfg.GUID, MaxSGE: d.cfg.MaxSGE, MaxQPWork: d.cfg.MaxQPWork,
		MaxReads: d.cfg.MaxReads, MaxMessage: d.cfg.MaxMessage, IWARP: d.cfg.IWARP}
}

// Ports lists the one port.
func (d *Device) Ports() ([]rdma.Port, error) {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	if d.closed {
		return nil, opError("list ports", d.cfg.Name, rdma.ErrClosed)
	}
	port := rdma.Port{Num: 1, GUID: d.cfg.GUID + 1, Active: d.linkUp, State: ib.PortDown, Link: ib.LinkEthernet, MTU: d.cfg.MTU,
		LID: d.cfg.LID, SMLID: d.cfg.SMLID, PKeys: slices.Clone(d.cfg.PKeys), Addrs: slices.Clone(d.cfg.Addrs)}
	if d.linkUp {
		port.State = ib.PortActive
	}
	if d.cfg.LID != 0 {
		port.Link = ib.LinkInfiniBand
	}
	port.GIDs = d.gids()
	return []rdma.Port{port}, nil
}

// gids is the port's GID table.
func (d *Device) gids() []ib.GID {
	list := slices.Clone(d.cfg.GIDs)
	for _, a := range d.cfg.Addrs {
		list = append(list, gidOf(a))
	}
	return list
}

// serves tells whether the device is on InfiniBand and has the GID.
func (d *Device) serves(g ib.GID) bool { return d.cfg.LID != 0 && slices.Contains(d.gids(), g) }

func gidOf(a netip.Addr) ib.GID { return ib.GID(a.As16()) }

// NewCQ makes a completion queue. It grows rather than lose completions; what exceeds its depth is
// counted as completion_overruns.
func (d *Device) NewCQ(cfg rdma.CQConfig) (rdma.CQ, error) {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	switch {
	case d.closed:
		return nil, opError("make completion queue", d.cfg.Name, rdma.ErrClosed)
	case cfg.Depth < 1:
		return nil, opError("make completion queue of no depth", d.cfg.Name, rdma.ErrInvalid)
	}
	c := &cq{fabric: d.fabric, dev: d, depth: cfg.Depth, wake: cfg.Wake, ring: make([]entry, cfg.Depth)}
	d.cqs = append(d.cqs, c)
	return c, nil
}

// Register makes a region of mem.
func (d *Device) Register(mem []byte, access rdma.Access) (rdma.Region, error) {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	switch {
	case d.closed:
		return nil, opError("register memory", d.cfg.Name, rdma.ErrClosed)
	case len(mem) == 0:
		return nil, opError("register no memory", d.cfg.Name, rdma.ErrInvalid)
	case !access.Valid():
		return nil, opError("register memory", d.cfg.Name, rdma.ErrInvalid)
	}
	r := &region{dev: d, mem: mem, access: access, addr: d.fabric.newVA(len(mem))}
	if access.Remote() != 0 {
		r.key = d.newKey()
		d.byKey[r.key] = r
	}
	d.regions[r] = struct{}{}
	return r, nil
}

func (d *Device) newKey() uint32 {
	for {
		key := rand.Uint32()
		if _, taken := d.byKey[key]; !taken && key != 0 {
			return key
		}
	}
}

// Stats returns the counters.
func (d *Device) Stats() map[string]uint64 {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	c := &d.count
	return map[string]uint64{
		"sends": c.sends, "receives": c.receives, "writes": c.writes, "reads": c.reads,
		"bytes_out": c.bytesOut, "bytes_in": c.bytesIn, "connects": c.connects,
		"accepts": c.accepts, "rejects": c.rejects, "disconnects": c.disconnects,
		"failed_work": c.failedWork, "receiver_not_ready": c.receiverNotReady,
		"completion_overruns": c.completionOverruns, "requests_overflowed": c.requestsOverflow,
		"mads_in": c.madsIn, "mads_out": c.madsOut, "mads_lost": c.madsLost,
	}
}

// Close closes the device and all that is made from it. Peers are told.
func (d *Device) Close() error {
	d.fabric.mu.Lock()
	defer d.fabric.unlock()
	d.close()
	return nil
}

func (d *Device) close() {
	if d.closed {
		return
	}
	for _, l := range slices.Clone(d.listeners) {
		l.close()
	}
	d.mads.Close()
	for _, q := range slices.Clone(d.qps) {
		q.close()
	}
	for r := range d.regions {
		r.close()
	}
	for _, c := range d.cqs {
		c.closed = true
	}
	d.closed, d.parked = true, nil
}
