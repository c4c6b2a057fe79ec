package roce

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/rdma/roce/cm"
	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
)

// stranger is a plain UDP socket that sends to 127.0.0.2:4791 from an address of its choice.
type stranger struct {
	t    *testing.T
	conn *net.UDPConn
	flow wire.Flow
}

func newStranger(t *testing.T, from string) *stranger {
	t.Helper()
	src := netip.MustParseAddr(from)
	dst := netip.MustParseAddr("127.0.0.2")
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(src, 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	port := uint16(conn.LocalAddr().(*net.UDPAddr).Port)
	return &stranger{t: t, conn: conn, flow: wire.NewFlow(gidOf(src), gidOf(dst), port, wire.UDPPort)}
}

func (s *stranger) send(b []byte) {
	s.t.Helper()
	if _, err := s.conn.WriteToUDPAddrPort(b, netip.MustParseAddrPort("127.0.0.2:4791")); err != nil {
		s.t.Fatal(err)
	}
}

// rcPacket is a valid SEND ONLY but for what the caller changes.
func (s *stranger) rcPacket(qpn uint32, pkey ib.PKey, psn ib.PSN) []byte {
	b := wire.Header{Opcode: wire.SendOnly, PKey: pkey, DestQP: ib.QPN(qpn), PSN: psn, AckReq: true}.Append(nil)
	b = append(b, "data"...)
	return s.flow.Seal(b, 0, 0)
}

// waitStat waits until a counter has grown by n.
func waitStat(t *testing.T, d rdma.Device, name string, before map[string]uint64, n uint64) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for d.Stats()[name] < before[name]+n {
		if time.Now().After(deadline) {
			t.Fatalf("%s is %d, want %d more than %d", name, d.Stats()[name], n, before[name])
		}
		time.Sleep(time.Millisecond)
	}
}

func TestHostilePacketsAreDroppedAndCounted(t *testing.T) {
	leaktest.Check(t)
	p := newPair(t)
	other, peer := newStranger(t, "127.0.0.9"), newStranger(t, "127.0.0.1")
	num := p.b.QP.Num()
	// A QP number that steers to the same socket and that nobody has.
	unknown := num ^ 0x100
	bad := func(b []byte) []byte { b[len(b)-1] ^= 0x80; return b }
	for _, tc := range []struct {
		stat string
		from *stranger
		pkt  []byte
	}{
		{"rx_unknown_qp", other, other.rcPacket(unknown, 0xFFFF, 1)},
		{"rx_wrong_peer", other, other.rcPacket(num, 0xFFFF, 1)},
		{"rx_bad_pkey", peer, peer.rcPacket(num, 0x1234, 1)},
		{"rx_bad_icrc", peer, bad(peer.rcPacket(num, 0xFFFF, 1))},
		{"rx_bad_short", peer, wire.Header{Opcode: wire.Acknowledge, DestQP: ib.QPN(num)}.Append(nil)[:9]},
		{"rx_bad_opcode", peer, peer.flow.Seal(wire.Header{Opcode: 0xF0, DestQP: ib.QPN(num)}.Append(nil), 0, 0)},
		{"rx_bad_align", peer, peer.flow.Seal(append(wire.Header{Opcode: wire.SendOnly, DestQP: ib.QPN(num)}.Append(nil), 1), 0, 0)},
		{"gsi_bad_packets", other, other.rcPacket(1, 0xFFFF, 1)},
		{"gsi_bad_packets", other, []byte{1, 2, 3}},
		{"gsi_bad_icrc", other, bad(gsiPacket(other, make([]byte, ib.MADSize)))},
		{"cm_malformed", other, gsiPacket(other, []byte{1, byte(ib.ClassComm), 9, 9})},
		{"cm_malformed", other, gsiPacket(other, nil)},
		{"mads_lost", other, gsiPacket(other, make([]byte, ib.MADSize))},
		{"mads_lost", other, gsiPacket(other, []byte{1, byte(ib.ClassDeviceMgmt), 1, 0})},
		{"mads_lost", other, gsiPacket(other, make([]byte, 4096))},
	} {
		before := p.devB.Stats()
		tc.from.send(tc.pkt)
		waitStat(t, p.devB, tc.stat, before, 1)
	}
	p.transfers(t, 3, 10_000)
}

func gsiPacket(s *stranger, mad []byte) []byte {
	b := wire.Header{Opcode: wire.UDSendOnly, PKey: ib.PKeyDefault, DestQP: ib.QPGeneralServices}.Append(nil)
	b = wire.AppendDETH(b, ib.QKeyGSI, ib.QPGeneralServices)
	return s.flow.Seal(append(b, mad...), 0, 0)
}

// TestAFloodOfRequestsIsBounded: requests from one address, each from another QP, that nobody accepts.
func TestAFloodOfRequestsIsBounded(t *testing.T) {
	leaktest.Check(t)
	_, dev := loopback(t, "127.0.0.2", func(c *Config) { c.Backlog = 10 })
	rdmatest.NewLoop(t, dev, rdma.CQConfig{})
	l, err := dev.Listen(rdma.Service{Addr: netip.MustParseAddrPort("127.0.0.2:7200")})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newStranger(t, "127.0.0.9")
	private := cm.IPHeader{Port: 1}.Append(nil)
	for i := range uint32(200) {
		req := cm.REQFields{LocalCommID: 1000 + i, ServiceID: cm.ServiceID(7200), LocalQPN: ib.QPN(100 + i), PathMTU: ib.MTU1024,
			PKey: ib.PKeyDefault, LocalResponseTimeout: 20, AckTimeout: 19, MaxCMRetries: 15, Private: private}
		mad, err := req.Append(nil, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		s.send(gsiPacket(s, mad))
	}
	waitStat(t, dev, "cm_received", nil, 200)
	d := dev.(*Device)
	ep := d.endpoints[0]
	ep.mu.Lock()
	n := len(ep.conns)
	ep.mu.Unlock()
	if n > 10 {
		t.Errorf("%d requests are kept, want no more than the backlog of 10", n)
	}
	if _, err := l.Accept(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestADeadPeerEndsTheConnectionInTime: no goodbye, just silence.
func TestADeadPeerEndsTheConnectionInTime(t *testing.T) {
	leaktest.Check(t)
	p := newPair(t, func(c *Config) {
		c.KeepAlive, c.MinTimeout, c.MaxTimeout, c.RetryLimit = 100*time.Millisecond, 20*time.Millisecond, 40*time.Millisecond, 3
	})
	p.a.Receive(rdma.Work{ID: 1, Op: rdma.OpRecv})
	p.lb.Stop() // the peer no longer answers
	if c := p.a.Done(rdma.OpRecv, rdma.StatusFlushed); c.ID != 1 {
		t.Errorf("%+v", c)
	}
	p.a.Event(rdma.EventDisconnected)
	if s := p.devA.Stats(); s["rc_keepalives"] == 0 || s["rc_timeouts"] < 3 {
		t.Errorf("keep-alives and timeouts: %v", s)
	}
}

// FuzzPacket gives a queue pair datagrams as the kernel would.
func FuzzPacket(f *testing.F) {
	inNamespace(f)
	d := newDriver(f)
	c := d.cqB.(*cq)
	q := d.qpB.(*qp)
	flow := wire.NewFlow(gidOf(netip.MustParseAddr("127.0.0.1")), gidOf(netip.MustParseAddr("127.0.0.2")), wire.UDPPort, wire.UDPPort)
	head := wire.Header{Opcode: wire.SendOnly, PKey: ib.PKeyDefault, DestQP: q.num, PSN: q.recvPSN}.Append(nil)
	f.Add(head)
	f.Add(append(head, 1, 2, 3, 4))
	f.Add(wire.AppendRETH(wire.Header{Opcode: wire.ReadRequest, PKey: ib.PKeyDefault, DestQP: q.num}.Append(nil), 1, 2, 3))
	f.Add(wire.AppendAETH(wire.Header{Opcode: wire.Acknowledge, PKey: ib.PKeyDefault, DestQP: q.num}.Append(nil), 0x60, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append([]byte(nil), b...)
		c.packet(c.socks[0], gidOf(netip.MustParseAddr("127.0.0.1")), wire.UDPPort, append([]byte(nil), b...))
		if len(b) >= wire.BTHSize {
			c.packet(c.socks[0], gidOf(netip.MustParseAddr("127.0.0.1")), wire.UDPPort, flow.Seal(b, 0, 0))
		}
		d.cqB.Poll(d.comp[:])
		d.cqA.Poll(d.comp[:])
	})
}
