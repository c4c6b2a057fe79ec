package roce

import (
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma/roce/rc"
	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// Limits of a send batch and of a segmented send.
const (
	txPackets   = 256
	txMessages  = 64
	txVecs      = 4 * txPackets
	gsoSegments = 64
	gsoBytes    = 65000 // below the longest UDP payload of both IP versions
	inlineLimit = 128
	headSize    = wire.BTHSize + wire.RETHSize + inlineLimit + 8
	// turn is how many packets one QP sends before the next has its turn, and quota how many leave
	// before the owner is heard again.
	turn  = 64
	quota = 1024
)

// txPacket is where a packet lies in the batch.
type txPacket struct {
	vec, vecs int
	size      int
}

// txMessage is a datagram or a run of segments.
type txMessage struct {
	q      *qp
	packet int // first
	n      int
	size   int // of each segment but the last
	bytes  int
	open   bool // may grow
}

// transmitter collects the packets of a batch. Payload stays where it is; a packet is a head, pieces of
// payload, and a tail with padding and ICRC. Short packets are copied into their head.
type transmitter struct {
	gso     bool
	sock    *socket
	npkt    int
	nvec    int
	nmsg    int
	packets [txPackets]txPacket
	meta    [txMessages]txMessage
	heads   [txPackets][headSize]byte
	tails   [txPackets][8]byte
	vecs    [txVecs]unix.Iovec
	msgs    [txMessages]unix.Mmsghdr
	control [txMessages][cmsgSpace2]byte
	parts   [rcMaxParts][]byte
}

// rcMaxParts: head, pieces, padding.
const rcMaxParts = maxSGE + 3

// full tells whether there may be no room for another packet.
func (t *transmitter) full() bool {
	return t.npkt == txPackets || t.nmsg == txMessages || t.nvec+rcMaxParts > txVecs
}

// add appends a packet of q. There must be room.
func (t *transmitter) add(q *qp, p *rc.Packet) {
	i := t.npkt
	t.npkt++
	head := q.head(t.heads[i][:0], p)
	n := p.PayloadLen()
	size := len(head) + n + wire.PadLen(n) + wire.ICRCSize
	msg := t.place(q, size)
	id := uint16(msg.n - 1)
	pk := &t.packets[i]
	*pk = txPacket{vec: t.nvec, size: size}
	if n <= inlineLimit {
		head = p.AppendPayload(head)
		head = wire.AppendPad(head, n)
		head = q.txFlow.Seal(head, 0, id)
		t.vec(head)
	} else {
		t.gather(i, q, head, p, id)
	}
	pk.vecs = t.nvec - pk.vec
}

// gather adds a packet whose payload stays in place.
func (t *transmitter) gather(i int, q *qp, head []byte, p *rc.Packet, id uint16) {
	n := p.PayloadLen()
	tail := wire.AppendPad(t.tails[i][:0], n)
	parts := append(t.parts[:0], head, p.Payload)
	left := p.MoreLen
	for _, s := range p.More {
		if left <= 0 {
			break
		}
		s = s[:min(len(s), left)]
		parts = append(parts, s)
		left -= len(s)
	}
	sum := q.txFlow.SumVec(append(parts, tail), id)
	for _, b := range parts {
		t.vec(b)
	}
	t.vec(wire.AppendICRC(tail, sum))
}

func (t *transmitter) vec(b []byte) {
	v := &t.vecs[t.nvec]
	t.nvec++
	v.Base = &b[0]
	v.SetLen(len(b))
}

// place finds the message for a packet of q: the last one if it can grow by it, or a new one.
func (t *transmitter) place(q *qp, size int) *txMessage {
	if t.nmsg > 0 {
		m := &t.meta[t.nmsg-1]
		if t.gso && m.open && m.q == q && size <= m.size && m.n < gsoSegments && m.bytes+size <= gsoBytes {
			m.n++
			m.bytes += size
			m.open = size == m.size
			return m
		}
	}
	m := &t.meta[t.nmsg]
	t.nmsg++
	*m = txMessage{q: q, packet: t.npkt - 1, n: 1, size: size, bytes: size, open: true}
	return m
}

// head builds the headers of a packet.
func (q *qp) head(b []byte, p *rc.Packet) []byte {
	op := wire.Opcode(p.Op)
	b = wire.Header{
		Opcode: op, Solicited: p.Solicited, AckReq: p.AckReq, Pad: wire.PadLen(p.PayloadLen()),
		MigReq: true, PKey: ib.PKeyDefault, DestQP: q.remote, PSN: p.PSN,
	}.Append(b)
	switch {
	case op.HasRETH():
		b = wire.AppendRETH(b, p.VA, p.RKey, p.DMALen)
	case op.HasAETH():
		b = wire.AppendAETH(b, wire.Syndrome(p.Syndrome), p.MSN)
	}
	return b
}

// transmit sends what the active queue pairs have to send, up to the quota.
func (c *cq) transmit() {
	c.wakeStarved()
	for left := quota; len(c.active) > 0 && left > 0; {
		list := c.active
		c.active, c.spare = c.spare[:0], list
		for _, q := range list {
			q.active = false
			if !q.closed {
				left -= c.pull(q)
			}
		}
	}
	c.flushBatch()
}

// pull takes one turn's packets of q, and returns how many there were.
func (c *cq) pull(q *qp) int {
	n := 0
	for ; n < turn; n++ {
		if c.tx.full() || c.tx.sock != q.sock {
			c.flushBatch()
			c.tx.sock = q.sock
		}
		if !q.m.Next(c.now, &c.out) {
			break
		}
		c.tx.add(q, &c.out)
	}
	if n == turn {
		c.activate(q)
	}
	c.settle(q)
	return n
}

// flushBatch sends the batch.
func (c *cq) flushBatch() {
	t := &c.tx
	t.finish()
	for sent := 0; sent < t.nmsg; {
		n, errno := sendmmsg(t.sock.fd, t.msgs[sent:t.nmsg])
		c.cnt.add(cntSendCalls, 1)
		if errno == 0 {
			c.countSent(sent, sent+n)
			sent += n
			continue
		}
		sent = c.sendFailed(sent, errno)
	}
	t.npkt, t.nvec, t.nmsg = 0, 0, 0
}

// finish fills the kernel's structures.
func (t *transmitter) finish() {
	for i := range t.meta[:t.nmsg] {
		m := &t.meta[i]
		first, last := &t.packets[m.packet], &t.packets[m.packet+m.n-1]
		h := &t.msgs[i].Hdr
		h.Name = &m.q.to.b[0]
		h.Namelen = m.q.to.n
		h.Iov = &t.vecs[first.vec]
		h.SetIovlen(last.vec + last.vecs - first.vec)
		h.Control = nil
		h.SetControllen(0)
		if m.n > 1 {
			segmentControl(&t.control[i], m.size)
			h.Control = &t.control[i][0]
			h.SetControllen(cmsgSpace2)
		}
	}
}

func (c *cq) countSent(from, to int) {
	for _, m := range c.tx.meta[from:to] {
		c.cnt.add(cntSentDatagrams, 1)
		c.cnt.add(cntSentPackets, m.n)
		c.cnt.add(cntSentBytes, m.bytes)
	}
}

// sendFailed handles the error of message i and returns where to go on.
func (c *cq) sendFailed(i int, errno unix.Errno) int {
	t := &c.tx
	switch {
	case errno == unix.EINTR:
		return i
	case errno == unix.EAGAIN || errno == unix.ENOBUFS:
		for _, m := range t.meta[i:t.nmsg] {
			c.cnt.add(cntNoRoom, m.n)
			m.q.m.Unsent(c.now)
			c.settle(m.q)
		}
		return t.nmsg
	case t.meta[i].n > 1 && (errno == unix.EINVAL || errno == unix.EIO || errno == unix.EOPNOTSUPP):
		c.resendSingly(i)
	case errno == unix.EMSGSIZE:
		c.cnt.add(cntTooLong, t.meta[i].n)
	default:
		c.cnt.add(cntSendErrors, t.meta[i].n)
	}
	return i + 1
}

// resendSingly sends the segments of message i one by one, each with the ICRC for identification 0. If
// that works the kernel cannot segment for this interface, and is not asked to again.
func (c *cq) resendSingly(i int) {
	t := &c.tx
	m := t.meta[i]
	var one [1]unix.Mmsghdr
	sent := 0
	for k := range m.n {
		pk := &t.packets[m.packet+k]
		t.reseal(m.q, m.packet+k)
		one[0] = t.msgs[i]
		h := &one[0].Hdr
		h.Control = nil
		h.SetControllen(0)
		h.Iov = &t.vecs[pk.vec]
		h.SetIovlen(pk.vecs)
		if _, errno := sendmmsg(t.sock.fd, one[:]); errno != 0 {
			c.cnt.add(cntSendErrors, 1)
			continue
		}
		sent++
		c.cnt.add(cntSentDatagrams, 1)
		c.cnt.add(cntSentPackets, 1)
		c.cnt.add(cntSentBytes, pk.size)
	}
	t.gso = sent == 0 // if none could be sent, segmentation was not what the kernel disliked
}
