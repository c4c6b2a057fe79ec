//go:build verbs

package verbs

// #cgo LDFLAGS: -lrdmacm -libverbs
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// maxSGE bounds the lists that are taken, and so the rings.
const maxSGE = 32

// Device is an open adapter.
type Device struct {
	prov  *Provider
	cfg   *Config
	name  string
	index uint32
	log   hclog.Logger
	attr  rdma.DeviceAttr
	ports int
	// iwarp tells that the sink of an RDMA READ needs the right of remote writing.
	iwarp   bool
	reads   reads // the most of a queue pair
	maxCQ   int
	vectors int
	// sharedWork and sharedSGE are the most receives of a shared queue and the longest list of one, 0 if the device has no shared queues.
	sharedWork, sharedSGE int
	ctx                   *C.struct_ibv_context
	cover                 *C.struct_ibv_cq // see coverKey
	pd                    *C.struct_ibv_pd
	async                 *reader
	counts                counters
	// shut tells that the device is closed, gone that the hardware is gone or of no use.
	shut, gone atomic.Bool
	// quit is closed when the device is closed; farewells are the goroutines that end connections.
	quit      chan struct{}
	farewells sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	cqs       map[uint64]*cq  // by handle
	qps       map[uint64]*qp  // by handle
	srqs      map[uint64]*srq // by handle
	regions   map[*region]struct{}
	listeners map[*listener]struct{}
	requests  map[*request]struct{}
	mads      map[*deviceMADs]struct{}
	conflicts map[int]conflict // by port
}

// counters are those of the device, all of the control path.
type counters struct {
	connects, accepts, rejects, established, disconnects, failures, requestsLost, partitionRefused atomic.Uint64
	postErrors, unflushed, narrowed, asyncEvents, madsLost, receivesLost                           atomic.Uint64
}

func openDevice(p *Provider, a adapter) (*Device, error) {
	d := &Device{
		prov: p, cfg: &p.cfg, name: a.name, index: a.index, iwarp: a.iwarp, log: p.cfg.Log.Named(a.name), quit: make(chan struct{}),
		cqs: make(map[uint64]*cq), qps: make(map[uint64]*qp), srqs: make(map[uint64]*srq), regions: make(map[*region]struct{}),
		listeners: make(map[*listener]struct{}), requests: make(map[*request]struct{}),
		mads: make(map[*deviceMADs]struct{}), conflicts: make(map[int]conflict),
	}
	var err error
	if d.ctx, err = openContext(a); err != nil {
		return nil, err
	}
	if err = d.learn(a.guid); err == nil {
		if d.pd = C.ibv_alloc_pd(d.ctx); d.pd == nil {
			err = errors.New("no protection domain")
		}
	}
	if err == nil {
		d.async, err = newReader(int(d.ctx.async_fd), d.nextAsync)
	}
	if err != nil {
		d.free()
		return nil, err
	}
	return d, nil
}

// learn reads the attributes.
func (d *Device) learn(guid ib.GUID) error {
	var a C.struct_ibv_device_attr
	if err := call("query device", C.ibv_query_device(d.ctx, &a)); err != nil {
		return err
	}
	port, err := d.portAttr(1)
	if err != nil {
		return err
	}
	sge := min(int(a.max_sge), maxSGE)
	if a.max_sge_rd > 0 {
		sge = min(sge, int(a.max_sge_rd))
	}
	// On iWARP a message that finds no receive does not wait, as a shared queue promises: it ends the connection.
	if !d.iwarp && a.max_srq > 0 && a.max_srq_wr > 0 && a.max_srq_sge > 0 {
		d.sharedWork, d.sharedSGE = min(int(a.max_srq_wr), maxShared), min(sge, int(a.max_srq_sge))
	}
	d.ports, d.maxCQ, d.vectors = int(a.phys_port_cnt), int(a.max_cqe), max(int(d.ctx.num_comp_vectors), 1)
	d.reads = readsOf(int(a.max_qp_init_rd_atom), int(a.max_qp_rd_atom), d.cfg.MaxReads)
	d.attr = rdma.DeviceAttr{
		NodeGUID: guid, MaxSGE: sge, MaxQPWork: int(a.max_qp_wr), MaxReads: int(min(d.reads.made, d.reads.served)), MaxMessage: uint32(port.max_msg_sz),
		IWARP: d.iwarp,
	}
	return d.coverKey(a.vendor_id)
}

func (d *Device) portAttr(num int) (a C.struct_ibv_port_attr, err error) {
	return a, call(fmt.Sprintf("query port %d", num), C.gv_port(d.ctx, C.int(num), &a))
}

// Name is the device's.
func (d *Device) Name() string { return d.name }

// Attr returns the limits and the identity.
func (d *Device) Attr() rdma.DeviceAttr { return d.attr }

// limits is what the attributes tell of for one queue pair.
func (d *Device) limits() room {
	return room{sends: uint32(d.attr.MaxQPWork), recvs: uint32(d.attr.MaxQPWork), elements: uint32(d.attr.MaxSGE)}
}

// Ports lists the ports.
func (d *Device) Ports() ([]rdma.Port, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, d.fail("ports", rdma.ErrClosed)
	}
	var list []rdma.Port
	for num := 1; num <= d.ports; num++ {
		p, err := d.port(num)
		if err != nil {
			return nil, d.fail("ports", err)
		}
		list = append(list, p)
	}
	return list, nil
}

func (d *Device) port(num int) (rdma.Port, error) {
	a, err := d.portAttr(num)
	if err != nil {
		return rdma.Port{}, err
	}
	p := rdma.Port{
		Num: num, State: portState(a.state), Link: ib.LinkLayer(a.link_layer), LID: ib.LID(a.lid), SMLID: ib.LID(a.sm_lid), LMC: uint8(a.lmc),
		MTU: ib.MTU(a.active_mtu).Bytes(), GUID: d.attr.NodeGUID,
	}
	if p.Link == ib.LinkUnspecified && !d.iwarp {
		p.Link = ib.LinkInfiniBand
	}
	p.Active = p.State == ib.PortActive
	for i := range int(a.pkey_tbl_len) {
		k, err := d.pkey(num, i)
		if err != nil {
			return p, err
		}
		p.PKeys = append(p.PKeys, k)
	}
	p.PKeys = trimTable(p.PKeys)
	if p.GIDs, p.Addrs, err = d.addresses(num, int(a.gid_tbl_len)); err != nil {
		return p, err
	}
	if len(p.GIDs) > 0 && p.GIDs[0].GUID() != 0 {
		p.GUID = p.GIDs[0].GUID()
	}
	return p, nil
}

// addresses are the GIDs of a port, and the IP addresses of its network interfaces.
func (d *Device) addresses(port, size int) (table []ib.GID, addrs []netip.Addr, err error) {
	table, numbers, err := d.gids(port, size)
	if err != nil {
		return nil, nil, err
	}
	for _, i := range interfacesOf(table, numbers) {
		addrs = append(addrs, interfaceAddrs(i)...)
	}
	return table, addrs, nil
}

// portState: one that is active with its link in trouble for a moment is still active.
func portState(s uint32) ib.PortState {
	const deferred = 5
	if s == deferred {
		return ib.PortActive
	}
	return ib.PortState(s)
}

// addrs are the IP addresses of all ports.
func (d *Device) addrs() (list []netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	for num := 1; num <= d.ports; num++ {
		a, err := d.portAttr(num)
		if err != nil {
			continue
		}
		if _, addrs, err := d.addresses(num, int(a.gid_tbl_len)); err == nil {
			list = append(list, addrs...)
		}
	}
	return list
}

func (d *Device) hasAddr(a netip.Addr) bool {
	return slices.ContainsFunc(d.addrs(), func(h netip.Addr) bool { return sameAddr(a, h) })
}

// Stats returns our counters, and the driver's with the prefix hw_.
func (d *Device) Stats() map[string]uint64 {
	c := &d.counts
	m := map[string]uint64{
		"connects": c.connects.Load(), "accepts": c.accepts.Load(), "rejects": c.rejects.Load(), "established": c.established.Load(),
		"disconnects": c.disconnects.Load(), "connection_failures": c.failures.Load(), "requests_lost": c.requestsLost.Load(),
		"partitions_refused": c.partitionRefused.Load(), "post_errors": c.postErrors.Load(), "queue_pairs_not_flushed": c.unflushed.Load(),
		"queue_pairs_narrowed": c.narrowed.Load(), "async_events": c.asyncEvents.Load(), "datagrams_lost": c.madsLost.Load(),
		"shared_receives_lost": c.receivesLost.Load(),
	}
	hardwareCounters(d.name, m)
	return m
}

// die notes that the hardware is gone: every queue pair ends.
func (d *Device) die() {
	if d.gone.Swap(true) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.cqs {
		c.post(note{kind: noteGone})
	}
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
	listeners, requests, cqs := maps.Clone(d.listeners), maps.Clone(d.requests), maps.Clone(d.cqs)
	d.mu.Unlock()
	for l := range listeners {
		l.Close()
	}
	for r := range requests {
		r.drop()
	}
	errs := d.closeMADs()
	for _, c := range cqs {
		errs = append(errs, c.shutdown())
	}
	close(d.quit)
	d.farewells.Wait()
	d.mu.Lock()
	regions := maps.Clone(d.regions)
	d.mu.Unlock()
	for r := range regions {
		errs = append(errs, r.release())
	}
	d.async.close()
	errs = append(errs, d.free())
	d.prov.forget(d)
	if d.gone.Load() {
		d.prov.forgetGone()
	}
	if err := errors.Join(errs...); err != nil {
		return d.fail("close", err)
	}
	return nil
}

// abandon closes a device that nobody has seen.
func (d *Device) abandon() {
	d.shut.Store(true)
	d.async.close()
	_ = d.free() // nothing depends on it
}

// free gives up what openDevice made.
func (d *Device) free() error {
	var errs []error
	if d.pd != nil {
		errs = append(errs, call("deallocate protection domain", C.ibv_dealloc_pd(d.pd)))
	}
	if d.cover != nil {
		errs = append(errs, call("destroy completion queue", C.ibv_destroy_cq(d.cover)))
	}
	if C.ibv_close_device(d.ctx) != 0 {
		errs = append(errs, errors.New("close device"))
	}
	d.pd, d.cover, d.ctx = nil, nil, nil
	return errors.Join(errs...)
}

// zone names the interface of a scope.
func zone(scope uint32) string {
	i, err := net.InterfaceByIndex(int(scope))
	if err != nil {
		return fmt.Sprint(scope)
	}
	return i.Name
}
