package roce

import (
	"bytes"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma/roce/rc"
	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// fakeQP is a queue pair for building packets only.
func fakeQP(peer string) *qp {
	q := &qp{}
	ep := &endpoint{addr: netip.MustParseAddr("10.0.0.1")}
	ep.gid = gidOf(ep.addr)
	q.setPeer(&socket{ep: ep}, netip.MustParseAddr(peer), 0x123456)
	return q
}

// onWire is packet i of a batch as it leaves.
func (t *transmitter) onWire(i int) wire.Packet {
	pk := t.packets[i]
	var b []byte
	for _, v := range t.vecs[pk.vec : pk.vec+pk.vecs] {
		b = append(b, bytesAt(v)...)
	}
	return wire.Packet(b)
}

func data(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

func TestRunsOfSegmentsObeyTheKernelsRules(t *testing.T) {
	type out struct {
		q    int
		p    rc.Packet
		want int // message it must go into
	}
	full := rc.Packet{Op: rc.OpWriteMiddle, Payload: data(1024)}
	first := rc.Packet{Op: rc.OpWriteFirst, Payload: data(1024), VA: 1, RKey: 2, DMALen: 4000}
	last := rc.Packet{Op: rc.OpWriteLast, Payload: data(333)}
	ack := rc.Packet{Op: rc.OpAck, Syndrome: 0x1F}
	send := rc.Packet{Op: rc.OpSendOnly, Payload: data(36)}
	for _, tc := range []struct {
		name string
		gso  bool
		in   []out
	}{
		{"a long WRITE and its SEND", true, []out{{0, ack, 0}, {0, first, 1}, {0, full, 1}, {0, full, 2}, {0, full, 2}, {0, last, 2}, {0, send, 3}}},
		{"two queue pairs never share a run", true, []out{{0, full, 0}, {1, full, 1}, {0, full, 2}}},
		{"without segmentation", false, []out{{0, full, 0}, {0, full, 1}, {0, last, 2}}},
		{"after a shorter one the run ends", true, []out{{0, full, 0}, {0, last, 0}, {0, last, 1}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			qps := []*qp{fakeQP("10.0.0.2"), fakeQP("10.0.0.3")}
			tx := &transmitter{gso: tc.gso}
			for i := range tc.in {
				tx.add(qps[tc.in[i].q], &tc.in[i].p)
			}
			tx.finish()
			id := 0
			for i, o := range tc.in {
				m := messageOf(tx, i)
				if m != o.want {
					t.Errorf("packet %d is in message %d, want %d", i, m, o.want)
				}
				id = i - tx.meta[m].packet
				flow := qps[o.q].txFlow
				got, ok := flow.Verify(tx.onWire(i))
				if !ok || int(got) != id {
					t.Errorf("packet %d: ICRC %v for identification %d, want %d", i, ok, got, id)
				}
				if !bytes.Equal(tx.onWire(i).Payload(), o.p.Payload) {
					t.Errorf("packet %d: payload differs", i)
				}
			}
			checkMessages(t, tx)
		})
	}
}

func messageOf(tx *transmitter, packet int) int {
	for m := range tx.nmsg {
		if k := packet - tx.meta[m].packet; k >= 0 && k < tx.meta[m].n {
			return m
		}
	}
	return -1
}

// checkMessages checks the kernel's structures: a control message exactly for runs, and vectors that
// hold all bytes.
func checkMessages(t *testing.T, tx *transmitter) {
	t.Helper()
	for i, m := range tx.meta[:tx.nmsg] {
		h := &tx.msgs[i].Hdr
		if (h.Controllen != 0) != (m.n > 1) {
			t.Errorf("message %d of %d packets has %d bytes of control data", i, m.n, h.Controllen)
		}
		total := 0
		first := tx.packets[m.packet].vec
		for _, v := range tx.vecs[first : first+int(h.Iovlen)] {
			total += int(v.Len)
		}
		if total != m.bytes || h.Iov != &tx.vecs[first] {
			t.Errorf("message %d has %d bytes, want %d", i, total, m.bytes)
		}
		for k := range m.n - 1 {
			if tx.packets[m.packet+k].size != m.size {
				t.Errorf("message %d: segment %d is of another size", i, k)
			}
		}
	}
}

func TestARunHasAtMostTheSegmentsAndBytesThatTheKernelTakes(t *testing.T) {
	for _, n := range []int{16, 1024, 4096} {
		tx := &transmitter{gso: true}
		q := fakeQP("10.0.0.2")
		for !tx.full() {
			tx.add(q, &rc.Packet{Op: rc.OpWriteMiddle, Payload: data(n)})
		}
		for _, m := range tx.meta[:tx.nmsg] {
			if m.n > 64 || m.bytes > 65507 {
				t.Errorf("payload %d: %d segments of %d bytes together", n, m.n, m.bytes)
			}
		}
	}
}

func TestPayloadInPiecesIsSentWhereItLies(t *testing.T) {
	tx := &transmitter{}
	q := fakeQP("10.0.0.2")
	whole := data(1001)
	var segs [][]byte
	for i := range maxSGE {
		segs = append(segs, whole[i*60:min((i+1)*60, 1001)])
	}
	segs[maxSGE-1] = whole[(maxSGE-1)*60:]
	tx.add(q, &rc.Packet{Op: rc.OpWriteOnly, Payload: segs[0], More: segs[1:], MoreLen: 1001 - 60, DMALen: 1001})
	p := tx.onWire(0)
	if _, ok := q.txFlow.Verify(p); !ok || !bytes.Equal(p.Payload(), whole) || len(p)%4 != 0 {
		t.Errorf("packet of %d bytes, ICRC %v", len(p), ok)
	}
	if tx.vecs[1].Base != &whole[0] {
		t.Error("the payload was copied")
	}
}

func TestResealMakesSegmentsIntoDatagramsOfTheirOwn(t *testing.T) {
	tx := &transmitter{gso: true}
	q := fakeQP("10.0.0.2")
	for range 3 {
		tx.add(q, &rc.Packet{Op: rc.OpWriteMiddle, Payload: data(1024)})
		tx.add(q, &rc.Packet{Op: rc.OpSendOnly, Payload: data(5)})
	}
	for i := range tx.npkt {
		tx.reseal(q, i)
		if id, ok := q.txFlow.Verify(tx.onWire(i)); !ok || id != 0 {
			t.Errorf("packet %d: ICRC %v, identification %d", i, ok, id)
		}
	}
}

// TestRefusedSegmentationFallsBackToSingleDatagrams sends a run from a socket that the kernel
// refuses segmentation for: one without UDP checksums.
func TestRefusedSegmentationFallsBackToSingleDatagrams(t *testing.T) {
	p := newPair(t, func(c *Config) {
		c.onSocket = func(fd int) {
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1); err != nil {
				t.Error(err)
			}
		}
	})
	p.transfers(t, 5, 100_000)
	p.la.Stop()
	if p.la.CQ().(*cq).tx.gso {
		t.Error("segmentation is still on")
	}
	if s := p.devA.Stats(); s["rc_retransmits"]+s["tx_errors"] != 0 {
		t.Errorf("the fallback lost packets: %v", s)
	}
}

func TestDecodeIsTheInverseOfHead(t *testing.T) {
	q := fakeQP("10.0.0.2")
	for _, want := range []rc.Packet{
		{Op: rc.OpSendOnly, AckReq: true, Solicited: true, PSN: 0xABCDEF, Payload: data(5)},
		{Op: rc.OpWriteFirst, PSN: 1, VA: 1 << 60, RKey: 77, DMALen: 1 << 20, Payload: data(256)},
		{Op: rc.OpReadRequest, VA: 3, RKey: 4, DMALen: 5, PSN: 9},
		{Op: rc.OpReadLast, Syndrome: 0x1F, MSN: 0x123456, Payload: data(7)},
		{Op: rc.OpAck, Syndrome: 0x62, MSN: 1, PSN: ib.PSNMask},
	} {
		tx := &transmitter{}
		tx.add(q, &want)
		p, err := wire.Parse(tx.onWire(0))
		if err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		var got rc.Packet
		decode(&got, p)
		if got.Op != want.Op || got.AckReq != want.AckReq || got.Solicited != want.Solicited || got.PSN != want.PSN ||
			got.VA != want.VA || got.RKey != want.RKey || got.DMALen != want.DMALen || got.Syndrome != want.Syndrome ||
			got.MSN != want.MSN || !bytes.Equal(got.Payload, want.Payload) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}
