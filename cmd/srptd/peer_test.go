package main

import (
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma/roce/cm"
	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
	"github.com/gosrpt/gosrpt/core/srp"
)

// peer makes its packets by hand: a socket at an address of its own, without any of the machinery that keeps an
// initiator honest.
type peer struct {
	t    testing.TB
	conn *net.UDPConn
	addr netip.Addr
	to   netip.AddrPort
	out  wire.Flow
	psn  ib.PSN
}

func newPeer(t testing.TB, s *site) *peer {
	t.Helper()
	return newPeerAt(t, s, loopback(), wire.UDPPort)
}

func newPeerAt(t testing.TB, s *site, addr netip.Addr, port uint16) *peer {
	t.Helper()
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p := &peer{t: t, conn: conn, addr: addr, to: netip.AddrPortFrom(s.addr, wire.UDPPort)}
	local := uint16(conn.LocalAddr().(*net.UDPAddr).Port)
	p.out = wire.NewFlow(gid(addr), gid(s.addr), local, wire.UDPPort)
	return p
}

func gid(a netip.Addr) ib.GID { return ib.GIDFromIPv4(a.As4()) }

// raw sends bytes.
func (p *peer) raw(b []byte) {
	p.t.Helper()
	if _, err := p.conn.WriteToUDPAddrPort(b, p.to); err != nil {
		p.t.Fatal(err)
	}
}

// packet sends a packet with a right ICRC.
func (p *peer) packet(h wire.Header, rest ...[]byte) {
	p.t.Helper()
	p.raw(p.out.Seal(assemble(h, rest...), 0, 0))
}

// assemble is a packet without its ICRC.
func assemble(h wire.Header, rest ...[]byte) []byte {
	b := h.Append(nil)
	for _, r := range rest {
		b = append(b, r...)
	}
	return b
}

// mad sends a management datagram to QP 1.
func (p *peer) mad(mad []byte) {
	p.t.Helper()
	p.psn = p.psn.Add(1)
	p.packet(gsiHeader(p.psn), wire.AppendDETH(nil, ib.QKeyGSI, ib.QPGeneralServices), mad)
}

func gsiHeader(psn ib.PSN) wire.Header {
	return wire.Header{Opcode: wire.UDSendOnly, PKey: ib.PKeyDefault, DestQP: ib.QPGeneralServices, PSN: psn}
}

var lastCommID atomic.Uint32

// firstCommID is above the ids of messages that tests make up, whose answers would be taken for those to a peer's own.
const firstCommID = 1 << 16

// request is a REQ of the peer's with new ids. private is what follows the IP header.
func (p *peer) request(private []byte) *cm.REQFields {
	id := firstCommID + lastCommID.Add(1)
	from, to := gid(p.addr), gid(p.to.Addr())
	return &cm.REQFields{
		LocalCommID: id, ServiceID: cm.ServiceID(testPort), CAGUID: 1, LocalQPN: ib.QPN(id + 16),
		ResponderResources: 4, InitiatorDepth: 4, RemoteResponseTimeout: 20, LocalResponseTimeout: 20, RetryCount: 7, RNRRetryCount: 7,
		PKey: ib.PKeyDefault, PathMTU: ib.MTU1024, MaxCMRetries: 15, LocalGID: from, RemoteGID: to, HopLimit: 64, AckTimeout: 8,
		Private: append(cm.IPHeader{Port: 50000, Src: from, Dst: to}.Append(nil), private...),
	}
}

// send sends a REQ.
func (p *peer) send(r *cm.REQFields) {
	p.t.Helper()
	mad, err := r.Append(nil, uint64(r.LocalCommID))
	if err != nil {
		p.t.Fatal(err)
	}
	p.mad(mad)
}

// receive waits for the next message of the connection manager.
func (p *peer) receive() cm.Message {
	p.t.Helper()
	b := make([]byte, 8192)
	for {
		if err := p.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			p.t.Fatal(err)
		}
		n, err := p.conn.Read(b)
		if err != nil {
			p.t.Fatalf("no answer: %v", err)
		}
		packet, err := wire.Parse(b[:n])
		if err != nil {
			p.t.Fatalf("the daemon sent %x: %v", b[:n], err)
		}
		if packet.Opcode() != wire.UDSendOnly {
			continue // a packet of a connection
		}
		m, err := cm.ParseMessage(packet.Payload())
		if err != nil {
			p.t.Fatalf("the daemon sent %x: %v", b[:n], err)
		}
		return m
	}
}

// connect sends a REQ and returns the answer to it.
func (p *peer) connect(r *cm.REQFields) cm.Message {
	p.t.Helper()
	p.send(r)
	for {
		m := p.receive()
		switch {
		case m.Attr() == cm.AttrREP && m.REP().RemoteCommID() == r.LocalCommID,
			m.Attr() == cm.AttrREJ && m.REJ().RemoteCommID() == r.LocalCommID:
			return m
		}
	}
}

// loginRequest is a login that is in order.
func loginRequest() srp.LoginReq {
	return srp.LoginReq{
		Tag: 0x1122334455667788, MaxITIU: 2116, Formats: srp.FormatsDirect | srp.FormatsIndirect,
		Initiator: newInitiator(), Target: targetID(),
	}
}

// login logs in by hand and completes the handshake. It returns the reply.
func (p *peer) login(r *srp.LoginReq) cm.REP {
	p.t.Helper()
	m := p.connect(p.request(r.AppendRDMA(nil)))
	if m.Attr() != cm.AttrREP {
		p.t.Fatalf("the login was answered with %v, %v", m.Attr(), describe(m))
	}
	p.mad(cm.AppendRTU(nil, m.TID(), m.REP().RemoteCommID(), m.REP().LocalCommID()))
	return m.REP()
}

// leave disconnects what login has made.
func (p *peer) leave(r cm.REP) {
	p.t.Helper()
	p.mad(cm.AppendDREQ(nil, 1, r.RemoteCommID(), r.LocalCommID(), r.LocalQPN()))
}

// describe tells what a message says about a login.
func describe(m cm.Message) string {
	if m.Attr() != cm.AttrREJ {
		return m.Attr().String()
	}
	s := fmt.Sprintf("REJ %v", m.REJ().Reason())
	if rej, err := srp.ParseLoginRej(m.REJ().Private()); err == nil {
		s += fmt.Sprintf(" with SRP_LOGIN_REJ %v, tag %v, formats %#x", rej.Reason, rej.Tag, rej.Formats)
	}
	return s
}
