package roce

import (
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma/roce/rc"
	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// Receive batches. A coalesced datagram is up to 64 KiB; the kernel fills whole pages only, so the
// unused rest of a buffer costs address space, not memory.
const (
	batchSize   = 64
	bufferPlain = 4608
	bufferGRO   = 65536
	// maxBatches bounds how many batches one Poll takes from a socket.
	maxBatches = 4
)

// receiver is the room for one batch of datagrams. It is made once.
type receiver struct {
	msgs    [batchSize]unix.Mmsghdr
	iov     [batchSize]unix.Iovec
	names   [batchSize][sockaddrSize]byte
	control [batchSize][controlSpace]byte
	bufs    [batchSize][]byte
}

func newReceiver(size int) *receiver {
	r := new(receiver)
	all := make([]byte, batchSize*size)
	for i := range r.msgs {
		r.bufs[i] = all[i*size : (i+1)*size]
		r.iov[i].Base = &r.bufs[i][0]
		r.iov[i].SetLen(size)
		h := &r.msgs[i].Hdr
		h.Iov = &r.iov[i]
		h.SetIovlen(1)
		h.Name = &r.names[i][0]
		h.Control = &r.control[i][0]
	}
	r.reset(batchSize)
	return r
}

// reset makes the first n places ready again.
func (r *receiver) reset(n int) {
	for i := range r.msgs[:n] {
		h := &r.msgs[i].Hdr
		h.Namelen = sockaddrSize
		h.SetControllen(controlSpace)
		h.Flags = 0
	}
}

// socket is a CQ's socket at an endpoint.
type socket struct {
	ep     *endpoint
	fd     int
	budget *rc.Budget
	drops  uint32 // as the kernel counts them
}

// receive takes what the sockets have.
func (c *cq) receive() {
	if len(c.socks) == 1 && c.socks[0] != nil {
		c.receiveFrom(c.socks[0])
		return
	}
	n, err := unix.EpollWait(c.epoll, c.ready[:], 0)
	if err != nil {
		return // EINTR: the next Poll sees it
	}
	for i := range c.ready[:max(n, 0)] {
		if k := int(c.ready[i].Fd); k != wakeEvent {
			c.receiveFrom(c.socks[k])
		}
	}
}

func (c *cq) receiveFrom(s *socket) {
	for range maxBatches {
		n, errno := recvmmsg(s.fd, c.rx.msgs[:])
		c.cnt.add(cntReceiveCalls, 1)
		if errno != 0 {
			return // EAGAIN: empty. Others are reported again, or belong to one datagram.
		}
		for i := range n {
			c.datagram(s, i)
		}
		c.rx.reset(n)
		if n < batchSize {
			return
		}
		c.transmit() // acknowledge before taking more
	}
}

// datagram handles the i-th of a batch.
func (c *cq) datagram(s *socket, i int) {
	m := &c.rx.msgs[i]
	c.cnt.add(cntDatagrams, 1)
	ctl := parseControl(c.rx.control[i][:m.Hdr.Controllen])
	if ctl.counted && ctl.dropped != s.drops {
		c.cnt.add(cntSocketDrops, int(ctl.dropped-s.drops))
		s.drops = ctl.dropped
	}
	if m.Hdr.Flags&unix.MSG_TRUNC != 0 {
		c.cnt.add(cntTruncated, 1)
		return
	}
	b := c.rx.bufs[i][:m.Len]
	src, port := addressOf(&c.rx.names[i], s.ep.v6)
	size := len(b)
	if ctl.segment > 0 {
		size = ctl.segment
	}
	for len(b) > 0 {
		n := min(size, len(b))
		c.packet(s, src, port, b[:n])
		b = b[n:]
	}
}

// packet handles one RoCE packet.
func (c *cq) packet(s *socket, src [16]byte, port uint16, b []byte) {
	c.cnt.add(cntPackets, 1)
	c.cnt.add(cntBytes, len(b))
	p, err := wire.Parse(b)
	if err != nil {
		reason, _ := err.(wire.ParseError)
		c.cnt.add(cntParse+count(reason), 1)
		c.complain(s, src, cntParse+count(reason))
		return
	}
	h := p.BTH()
	q := c.qps[h.DestQP()]
	switch {
	case q == nil:
		c.reject(s, src, cntUnknownQP)
	case p.Opcode().Service() == wire.ServiceCNP:
		c.cnt.add(cntCongestion, 1)
	case !h.PKey().Matches(ib.PKeyDefault):
		c.reject(s, src, cntBadPKey)
	default:
		c.deliver(s, q, src, port, p)
	}
}

// deliver gives a packet to its queue pair.
func (c *cq) deliver(s *socket, q *qp, src [16]byte, port uint16, p wire.Packet) {
	if q.m.State() == rc.Idle {
		c.newsOf(q)
	}
	switch {
	case q.m.State() == rc.Idle:
		c.cnt.add(cntNotConnected, 1)
		return
	case q.sock != s || q.peer != src:
		c.reject(s, src, cntBadPeer)
		return
	}
	if q.rxPort != port {
		q.rxPort = port
		q.rxFlow = wire.NewFlow(ib.GID(src), s.ep.gid, port, wire.UDPPort)
	}
	if _, ok := q.rxFlow.Verify(p); !ok {
		c.reject(s, src, cntBadICRC)
		return
	}
	decode(&c.in, p)
	q.m.Receive(c.now, &c.in)
	if q.state == accepted {
		q.traffic()
	}
	c.activate(q)
}

// decode reads the headers of p.
func decode(in *rc.Packet, p wire.Packet) {
	h := p.BTH()
	*in = rc.Packet{
		Op: rc.Opcode(p.Opcode()), AckReq: h.AckReq(), Solicited: h.Solicited(), PSN: h.PSN(), Payload: p.Payload(),
	}
	if p.Opcode().HasRETH() {
		r := p.RETH()
		in.VA, in.RKey, in.DMALen = r.VA(), r.RKey(), r.Length()
	}
	if p.Opcode().HasAETH() {
		a := p.AETH()
		in.Syndrome, in.MSN = uint8(a.Syndrome()), a.MSN()
	}
}

// reject drops a packet, counts it and may tell the log.
func (c *cq) reject(s *socket, src [16]byte, why count) {
	c.cnt.add(why, 1)
	c.complain(s, src, why)
}

// complaint is a malformed packet for the log.
type complaint struct {
	peer ib.GID
	why  count
}

const complainEvery = 10_000_000_000

// complain hands a bad packet to the endpoint's goroutine for the log, one in ten seconds.
func (c *cq) complain(s *socket, src [16]byte, why count) {
	if c.now < c.nextComplaint {
		return
	}
	select {
	case s.ep.complaints <- complaint{ib.GID(src), why}:
		c.nextComplaint = c.now + complainEvery
		s.ep.wake()
	default:
	}
}
