package rdmatest

import (
	"net/netip"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// Private data sizes of the connection manager (IBTA 12.6, annex A11).
const (
	privateIP     = 56
	privateNative = 92
	privateReply  = 196
	privateReject = 148
)

// patience is how long the ends of a connection attempt wait for each other.
func (d *Device) patience(asked time.Duration) time.Duration {
	if asked > 0 {
		return asked
	}
	return d.cfg.ConnectTimeout
}

// padded copies private data into a field of the connection manager's fixed size.
func padded(data []byte, size int) []byte {
	field := make([]byte, size)
	copy(field, data)
	return field
}

// Connect sends a request.
func (q *qp) Connect(p rdma.ConnectParams) error {
	f := q.dev.fabric
	f.mu.Lock()
	defer f.unlock()
	peer := p.Remote.String()
	info, size, ok := q.dev.ends(&p, q.num)
	switch {
	case q.state == closed:
		return opError("connect", peer, rdma.ErrClosed)
	case q.state != idle:
		return opError("connect", peer, rdma.ErrState)
	case len(p.Private) > size || !ok:
		return opError("connect", peer, rdma.ErrInvalid)
	}
	q.state, q.info = connecting, info
	q.dev.count.connects++
	now := time.Now()
	q.setDeadline(now.Add(q.dev.patience(p.Timeout)))
	target := f.lookupGID(p.Remote.GID)
	if p.Remote.ID == 0 {
		target = f.lookup(p.Remote.Addr.Addr())
	}
	if target == nil {
		q.end(rdma.EventFailed, 0, nil)
		return nil
	}
	q.req = &connRequest{from: q, dev: target, to: p.Remote, private: padded(p.Private, size), info: swapped(q.info, target, q.num)}
	q.req.info.Reads = reads(q.dev, target)
	f.message(q.dev, target, Requests, q.req.arrive)
	return nil
}

// ends is what there is to know of a connection before it is made, and how much private data its request has room for.
func (d *Device) ends(p *rdma.ConnectParams, num uint32) (info rdma.ConnInfo, room int, ok bool) {
	info = rdma.ConnInfo{Device: d.cfg.Name, Port: 1, PKey: uint16(d.pkey())}
	if p.Remote.ID != 0 {
		info.RemoteGID = p.Remote.GID
		if d.cfg.LID != 0 && len(d.gids()) > 0 {
			info.LocalGID = d.gids()[0]
		}
		return info, privateNative, info.LocalGID != ib.GID{} && p.Remote.Addr == netip.AddrPort{} && !p.Local.IsValid()
	}
	remote := p.Remote.Addr
	local, ok := d.source(p.Local, remote.Addr())
	if !ok || !remote.Addr().IsValid() || remote.Port() == 0 {
		return info, privateIP, false
	}
	info.IPAddressed, info.Local, info.Remote = true, netip.AddrPortFrom(local, uint16(num|0x8000)), remote
	info.LocalGID, info.RemoteGID = gidOf(local), gidOf(remote.Addr())
	return info, privateIP, true
}

// reads is how many RDMA READs a connection of two devices may have outstanding, each way.
func reads(a, b *Device) int { return min(a.cfg.MaxReads, b.cfg.MaxReads) }

// pkey is the partition of the connections that are made from here.
func (d *Device) pkey() ib.PKey {
	if len(d.cfg.PKeys) == 0 {
		return ib.PKeyDefault
	}
	return d.cfg.PKeys[0]
}

// source chooses the local address of a connection to remote.
func (d *Device) source(asked, remote netip.Addr) (netip.Addr, bool) {
	if asked.IsValid() {
		return asked, d.has(asked)
	}
	for _, a := range d.cfg.Addrs {
		if a.Is4() == remote.Unmap().Is4() {
			return a, true
		}
	}
	if len(d.cfg.Addrs) == 0 {
		return netip.Addr{}, false
	}
	return d.cfg.Addrs[0], true
}

// Accept sends the reply.
func (q *qp) Accept(req rdma.ConnRequest, private []byte) error {
	f := q.dev.fabric
	f.mu.Lock()
	defer f.unlock()
	r, ok := req.(*connRequest)
	switch {
	case q.state == closed:
		return opError("accept", q.String(), rdma.ErrClosed)
	case q.state != idle:
		return opError("accept", q.String(), rdma.ErrState)
	case !ok || r.dev != q.dev || len(private) > privateReply:
		return opError("accept", q.String(), rdma.ErrInvalid)
	}
	if err := r.answer(); err != nil {
		return opError("accept", r.info.RemoteName(), err)
	}
	active := r.from
	q.state, q.req, q.peer, q.info = accepted, r, active, r.info
	q.info.RemoteQPN, q.info.PathMTU = active.num, min(q.dev.cfg.MTU, active.dev.cfg.MTU)
	q.dev.count.accepts++
	q.setDeadline(time.Now().Add(q.dev.cfg.ConnectTimeout))
	data := padded(private, privateReply)
	f.message(q.dev, active.dev, Replies, func() { active.replied(q, data) })
	return nil
}

// replied is the arrival of the passive side's reply.
func (q *qp) replied(p *qp, data []byte) {
	if q.state != connecting || q.req != p.req {
		q.tell(p)
		return
	}
	if p.state != accepted {
		q.end(rdma.EventFailed, 0, nil)
		return
	}
	q.state, q.peer = connected, p
	q.setDeadline(time.Time{})
	q.info.RemoteQPN, q.info.PathMTU, q.info.Reads = p.num, p.info.PathMTU, p.info.Reads
	q.event(rdma.EventEstablished, 0, data)
}

// sendReady tells the passive side that the connection stands, once the active side's owner has
// learnt it.
func (q *qp) sendReady() {
	p := q.peer
	if p == nil || p.state != accepted {
		return
	}
	q.dev.fabric.message(q.dev, p.dev, Readies, func() {
		if p.state == accepted && p.peer == q {
			p.state = connected
			p.setDeadline(time.Time{})
			p.event(rdma.EventEstablished, 0, nil)
		}
	})
}

// abandon withdraws the request of a connection attempt.
func (q *qp) abandon() {
	if q.req != nil && q.req.state == waiting {
		q.req.state = gone
	}
}

// leave tells whoever is at the other end, or shall be.
func (q *qp) leave() {
	if q.state == connecting {
		q.abandon()
	}
	q.tell(q.peer)
}

// Disconnect ends the connection, or the attempt.
func (q *qp) Disconnect() error {
	q.dev.fabric.mu.Lock()
	defer q.dev.fabric.unlock()
	switch q.state {
	case closed:
		return opError("disconnect", q.String(), rdma.ErrClosed)
	case idle:
		return opError("disconnect", q.String(), rdma.ErrState)
	case ended:
		return nil
	}
	q.leave()
	q.end(rdma.EventDisconnected, 0, nil)
	return nil
}
