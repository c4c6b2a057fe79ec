//go:build verbs

package verbs

// #include "shim.h"
import "C"

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// Private data sizes of the connection manager (IBTA vol 1, 12.6, annex A11).
const (
	privateIP     = 56
	privateReply  = 196
	privateReject = 148
)

// rnrTimer is the code of the time that a peer waits after it found no receive posted: 0.16 ms. With credits it never happens.
const rnrTimer = 8

// scope is the number of an interface, by name or number; 0 if there is none.
func scope(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	n, _ := strconv.ParseUint(zone, 10, 32)
	return uint32(n)
}

// Connect sends a request.
func (q *qp) Connect(p rdma.ConnectParams) error {
	peer := p.Remote.String()
	switch {
	case q.state == closed:
		return failed("connect", peer, rdma.ErrClosed)
	case q.state != idle, q.c.qp == nil:
		return failed("connect", peer, rdma.ErrState)
	case len(p.Private) > privateIP, p.Remote.ID != 0, !p.Remote.Addr.IsValid(), p.Remote.Addr.Port() == 0, p.Local.IsValid() && !q.dev.hasAddr(p.Local):
		return failed("connect", peer, rdma.ErrInvalid)
	}
	local, err := q.source(p)
	if err == nil {
		err = q.resolve(netip.AddrPortFrom(local, 0), p)
	}
	if err != nil {
		return failed("connect", peer, err)
	}
	q.dev.counts.connects.Add(1)
	return nil
}

// source chooses an address of the device for the connection.
func (q *qp) source(p rdma.ConnectParams) (netip.Addr, error) {
	remote := p.Remote.Addr.Addr().Unmap()
	if p.Local.IsValid() {
		return p.Local, nil
	}
	for _, a := range q.dev.addrs() {
		if a.Is4() == remote.Is4() && a.IsLinkLocalUnicast() == remote.IsLinkLocalUnicast() {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%w: %s has no address that reaches it", rdma.ErrInvalid, q.dev.name)
}

func (q *qp) resolve(local netip.AddrPort, p rdma.ConnectParams) error {
	m, err := q.dev.prov.manager()
	if err != nil {
		return err
	}
	patience := p.Timeout
	if patience <= 0 {
		patience = q.dev.cfg.ConnectTimeout
	}
	id, err := m.create(q, 0)
	if err != nil {
		return err
	}
	from, to := sockaddr(local), sockaddr(p.Remote.Addr)
	q.id, q.private = id, bytes.Clone(p.Private)
	q.info.Local, q.info.Remote, q.info.IPAddressed = local, p.Remote.Addr, true
	q.state = resolving
	q.setDeadline(time.Now().Add(patience))
	q.step(resolving, func() error {
		return call("resolve address", C.gv_cm_resolve(id.ptr, &from, &to, milliseconds(patience)))
	})
	return nil
}

func milliseconds(d time.Duration) C.int { return C.int(min(max(d/time.Millisecond, 1), 1<<30)) }

// handle passes an event on to the owner.
func (q *qp) handle(ev *cmEvent) { q.cq.post(note{kind: noteEvent, qp: q, ev: ev}) }

// event is what the connection manager says, to the owner.
func (q *qp) event(ev *cmEvent) {
	if q.id == nil {
		return // it has been left
	}
	switch ev.kind {
	case C.RDMA_CM_EVENT_ADDR_RESOLVED:
		q.step(resolving, q.addressResolved)
	case C.RDMA_CM_EVENT_ROUTE_RESOLVED:
		q.step(resolving, q.request)
	case C.RDMA_CM_EVENT_CONNECT_RESPONSE:
		q.step(connecting, func() error { return q.replied(ev) })
	case eventEstablished:
		switch q.state {
		case accepted:
			q.established(nil)
		case connecting: // iWARP has no reply of its own, and the device has made the queue pair ready
			q.info.RemoteQPN, q.info.Reads = ev.qpn, int(q.dev.reads.agree(ev.reads).made)
			q.established(ev.data)
		}
	case C.RDMA_CM_EVENT_REJECTED:
		q.rejected(ev)
	case C.RDMA_CM_EVENT_DISCONNECTED:
		q.depart(withResponse)
		q.end(rdma.EventDisconnected, 0, nil)
	case C.RDMA_CM_EVENT_DEVICE_REMOVAL:
		q.depart(silently)
		q.vanish()
		q.end(rdma.EventDisconnected, 0, nil)
		q.dev.die()
	case C.RDMA_CM_EVENT_ADDR_ERROR, C.RDMA_CM_EVENT_ROUTE_ERROR, C.RDMA_CM_EVENT_CONNECT_ERROR, C.RDMA_CM_EVENT_UNREACHABLE:
		q.breakDown()
	}
}

// step takes an active connection a step further, or ends it.
func (q *qp) step(from state, f func() error) {
	if q.state != from {
		return
	}
	if err := f(); err != nil {
		q.dev.log.Debug("connection failed", "peer", q.info.Remote, "error", err)
		q.breakDown()
	}
}

func (q *qp) addressResolved() error {
	if device, _ := q.id.pathOf(); device != q.dev.name {
		return fmt.Errorf("the way goes through the device %q, not %s", device, q.dev.name)
	}
	return call("resolve route", C.gv_cm_route(q.id.ptr, milliseconds(time.Until(q.deadline))))
}

func (q *qp) request() error {
	var c C.struct_gv_conn
	if err := call("prepare queue pair", C.gv_cm_init(q.id.ptr, q.c, &c)); err != nil {
		return err
	}
	q.learn(&c)
	q.state = connecting
	data, n := privateData(q.private)
	err := call("connect", C.gv_cm_connect(q.id.ptr, q.c, q.dev.reads.c(), data, n))
	if q.dev.iwarp && errors.Is(err, unix.ECONNREFUSED) { // by TCP, for nobody listens
		q.depart(silently)
		q.end(rdma.EventRejected, rdma.RejectInvalidService, nil)
		return nil
	}
	return err
}

func (q *qp) replied(ev *cmEvent) error {
	var c C.struct_gv_conn
	agreed := q.dev.reads.agree(ev.reads)
	if err := q.ready(agreed, &c); err != nil {
		return err
	}
	if err := call("confirm", C.gv_cm_establish(q.id.ptr)); err != nil {
		return err
	}
	q.info.RemoteQPN, q.info.Reads = ev.qpn, int(agreed.made)
	q.established(ev.data)
	return nil
}

// ready takes the queue pair to the state in which it sends, and notes what the path is.
func (q *qp) ready(agreed reads, c *C.struct_gv_conn) error {
	q.take()
	if err := call("make queue pair ready", C.gv_cm_ready(q.id.ptr, q.c, agreed.c(), rnrTimer, c)); err != nil {
		return err
	}
	q.info.PathMTU = int(c.mtu)
	if c.has_gid != 0 {
		q.info.RemoteGID = gidOf(c.dgid)
		if g, err := q.dev.gid(q.info.Port, int(c.sgid_index)); err == nil {
			q.info.LocalGID = g
		}
	}
	return nil
}

// learn notes what is known once the path is.
func (q *qp) learn(c *C.struct_gv_conn) {
	_, info := q.id.pathOf()
	info.PKey = uint16(q.partition(c))
	q.info = info
}

// staysIn checks that the partition of the connection is still the one that it was admitted to: tables change.
func (q *qp) staysIn(c *C.struct_gv_conn) error {
	if q.dev.iwarp {
		return nil
	}
	got := q.partition(c)
	if err := samePartition(ib.PKey(q.info.PKey), ib.PKey(got)); err != nil {
		return err
	}
	q.info.PKey = got
	return nil
}

func (q *qp) partition(c *C.struct_gv_conn) uint16 {
	k, err := q.dev.pkey(max(int(c.port), 1), int(c.pkey_index))
	if err != nil {
		return 0
	}
	return uint16(k)
}

func (q *qp) established(data []byte) {
	q.state = connected
	q.setDeadline(time.Time{})
	q.dev.counts.established.Add(1)
	q.cq.emit(q, rdma.Completion{Op: rdma.OpEvent, Event: rdma.EventEstablished, Data: data})
}

func (q *qp) rejected(ev *cmEvent) {
	q.depart(silently)
	if q.state != connecting {
		q.end(rdma.EventFailed, 0, nil)
		return
	}
	q.end(rdma.EventRejected, reasonOf(ev.status), ev.data)
}

// reasonOf is the reason of a rejection. iWARP knows none; the status is an error number there.
func reasonOf(status int) rdma.RejectReason {
	if status > 0 {
		return rdma.RejectReason(status)
	}
	return rdma.RejectConsumer
}

// boolean is one of C.
func boolean(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// communicates: the peer has sent, so it has got our reply, whatever became of its confirmation.
func (q *qp) communicates() {
	if q.state == accepted && q.id != nil {
		_ = q.id.m.commEst(q.id) // the event follows; what has come to nothing meanwhile ends by another
	}
}

// release hands over the sends that were held until the peer had sent.
func (q *qp) release() {
	if q.c.hold != 0 {
		q.c.hold = 0
		q.cq.touch(q)
	}
}

// Accept answers a request.
func (q *qp) Accept(req rdma.ConnRequest, private []byte) error {
	r, ok := req.(*request)
	switch {
	case q.state == closed:
		return failed("accept", q.String(), rdma.ErrClosed)
	case q.state != idle, q.c.qp == nil:
		return failed("accept", q.String(), rdma.ErrState)
	case !ok || r.dev != q.dev || len(private) > privateReply:
		return failed("accept", q.String(), rdma.ErrInvalid)
	}
	if err := r.answer(); err != nil {
		return failed("accept", r.String(), err)
	}
	if err := q.accept(r, private); err != nil {
		q.id = nil
		q.dev.retire(r.id, silently)
		return failed("accept", r.String(), err)
	}
	q.state = accepted
	q.setDeadline(time.Now().Add(q.dev.cfg.ConnectTimeout))
	q.dev.counts.accepts.Add(1)
	return nil
}

func (q *qp) accept(r *request, private []byte) error {
	var c C.struct_gv_conn
	q.id = r.id
	if err := call("prepare queue pair", C.gv_cm_init(q.id.ptr, q.c, &c)); err != nil {
		return gone(err)
	}
	q.info = r.info
	if err := q.staysIn(&c); err != nil {
		return err
	}
	if err := q.ready(r.reads, &c); err != nil {
		return gone(err)
	}
	q.id.sendTo(q)
	q.cq.Flush() // receives are there before the peer sends, which on iWARP does not try again
	q.c.hold = boolean(q.dev.iwarp)
	data, n := privateData(private)
	return gone(call("accept", C.gv_cm_accept(q.id.ptr, q.c, r.reads.c(), data, n)))
}

// gone: what the connection manager refuses to go on with has been given up by the peer.
func gone(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", rdma.ErrGone, err)
}

// Disconnect ends the connection.
func (q *qp) Disconnect() error {
	switch q.state {
	case closed:
		return failed("disconnect", q.String(), rdma.ErrClosed)
	case idle:
		return failed("disconnect", q.String(), rdma.ErrState)
	case ending, ended:
		return nil
	}
	q.leave()
	q.end(rdma.EventDisconnected, 0, nil)
	return nil
}

// leave parts with the peer, if there is one.
func (q *qp) leave() {
	if q.state == connected || q.state == accepted {
		q.depart(withRequest)
	} else {
		q.depart(silently)
	}
}

// depart gives the id up.
func (q *qp) depart(how parting) {
	if q.id != nil {
		q.dev.retire(q.id, how)
		q.id = nil
	}
}
