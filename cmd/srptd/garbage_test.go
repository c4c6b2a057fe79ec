package main

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma/roce/cm"
	"github.com/gosrpt/gosrpt/core/rdma/roce/wire"
	"github.com/gosrpt/gosrpt/core/srp"
)

// victim is a daemon with a verified session that must not notice what a hostile peer does.
type victim struct {
	*site
	d    *srptd
	load *load
	end  func()
}

func newVictim(t *testing.T) *victim {
	t.Helper()
	v := &victim{site: newSite(t, quietLUN()...)}
	v.d = v.start(t)
	v.load = newLoad(t, dial(t, v.site, 0), 0, 8)
	v.end = v.load.background(t)
	return v
}

// unharmed ends the load and looks at the daemon.
func (v *victim) unharmed(t *testing.T) {
	t.Helper()
	v.end()
	if v.load.requests == 0 {
		t.Error("the other session has made no request")
	}
	v.load.verifyAll(t)
	eventually(t, "only the honest session is there", func() bool { return len(v.sessions(t)) == 1 })
}

// grown waits until each counter has grown by at least n since before, as they are published a little late.
func (s *site) grown(t *testing.T, before map[string]uint64, n uint64, names ...string) {
	t.Helper()
	for _, name := range names {
		eventually(t, "counter "+name+" grows", func() bool { return s.counter(t, name) >= before[name]+n })
	}
}

// counters is a snapshot of the device's.
func (s *site) counters(t *testing.T) map[string]uint64 {
	t.Helper()
	return s.status(t).Devices[0].Counters
}

func TestGarbageIsCountedAndHarmsNobody(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	p := newPeer(t, v.site)
	r := loginRequest()
	live := p.login(&r)
	before := v.counters(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range requests(500, 5000) {
		b := make([]byte, rng.IntN(2000))
		for j := range b {
			b[j] = byte(rng.Uint32())
		}
		if len(b) >= wire.BTHSize { // some for QP 1, some for a connected queue pair, some of an opcode that there is
			h := wire.Header{Opcode: wire.Opcode(b[0]), PKey: ib.PKeyDefault, DestQP: ib.QPN(rng.Uint32()), PSN: ib.PSN(rng.Uint32())}
			switch i % 4 {
			case 0:
				h.Opcode, h.DestQP = wire.UDSendOnly, ib.QPGeneralServices
			case 1:
				h.DestQP = live.LocalQPN()
			case 2:
				h.DestQP = live.LocalQPN()
				h.Opcode = []wire.Opcode{wire.SendOnly, wire.WriteOnly, wire.ReadRequest, wire.Acknowledge}[rng.IntN(4)]
			}
			copy(b, h.Append(nil))
		}
		p.raw(b)
		if i%64 == 0 {
			time.Sleep(time.Millisecond) // so that the kernel drops few: it is the daemon that is to see them
		}
	}
	v.grown(t, before, 1, "gsi_bad_packets", "rx_bad_opcode", "rx_bad_align")
	p.leave(live)
	p.honest()
	v.unharmed(t)
}

// honest shows that the peer can still log in.
func (p *peer) honest() {
	p.t.Helper()
	r := loginRequest()
	p.leave(p.login(&r))
}

func TestEveryManagementPacketThatIsWrongIsDroppedAndCounted(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	p := newPeer(t, v.site)
	r := loginRequest()
	mad, err := p.request(r.AppendRDMA(nil)).Append(nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	deth := wire.AppendDETH(nil, ib.QKeyGSI, ib.QPGeneralServices)
	whole := p.out.Seal(assemble(gsiHeader(1), deth, mad), 0, 0)
	changedMAD := func(at int, to byte) []byte {
		b := bytes.Clone(mad)
		b[at] = to
		return b
	}
	const each = 3
	for name, row := range map[string]struct {
		counter string
		send    func()
	}{
		"bad ICRC": {"gsi_bad_icrc", func() {
			b := bytes.Clone(whole)
			b[100] ^= 1
			p.raw(b)
		}},
		"truncated":      {"gsi_bad_icrc", func() { p.raw(whole[:len(whole)-4]) }},
		"cut off":        {"gsi_bad_packets", func() { p.raw(whole[:len(whole)-3]) }},
		"only its head":  {"gsi_bad_packets", func() { p.raw(whole[:16]) }},
		"another Q_Key":  {"gsi_bad_packets", func() { p.packet(gsiHeader(1), wire.AppendDETH(nil, 0x1234, 1), mad) }},
		"another P_Key":  {"gsi_bad_packets", func() { h := gsiHeader(1); h.PKey = 0x8001; p.packet(h, deth, mad) }},
		"an RC opcode":   {"gsi_bad_packets", func() { h := gsiHeader(1); h.Opcode = wire.SendOnly; p.packet(h, mad) }},
		"MAD too long":   {"gsi_bad_packets", func() { p.packet(gsiHeader(1), deth, mad, make([]byte, 4)) }},
		"MAD too short":  {"gsi_bad_packets", func() { p.packet(gsiHeader(1), deth, mad[:252]) }},
		"another class":  {"mads_lost", func() { p.mad(changedMAD(1, 0x03)) }},
		"class version":  {"cm_malformed", func() { p.mad(changedMAD(2, 1)) }},
		"another method": {"cm_malformed", func() { p.mad(changedMAD(3, 0x81)) }},
		"SIDR":           {"cm_unsupported", func() { p.mad(changedMAD(17, 0x17)) }},
		"unknown kind":   {"cm_unsupported", func() { p.mad(changedMAD(17, 0xFF)) }},
		"RTU of nobody":  {"cm_unmatched", func() { p.mad(cm.AppendRTU(nil, 1, 2, 3)) }},
		"DREP of nobody": {"cm_unmatched", func() { p.mad(cm.AppendDREP(nil, 1, 2, 3)) }},
		"MRA of nobody":  {"cm_unmatched", func() { p.mad(cm.AppendMRA(nil, 1, 2, 3, cm.RefusedREQ, 31)) }},
		"REP of nobody": {"cm_unmatched", func() {
			m, _ := (&cm.REPFields{LocalCommID: 2, RemoteCommID: 3, LocalQPN: 5}).Append(nil, 1)
			p.mad(m)
		}},
		"REJ of nobody": {"cm_unmatched", func() {
			m, _ := (&cm.REJFields{LocalCommID: 2, RemoteCommID: 3, Reason: 28}).Append(nil, 1)
			p.mad(m)
		}},
		"DREQ of nobody": {"cm_unmatched", func() { p.mad(cm.AppendDREQ(nil, 1, 2, 3, 4)) }},
	} {
		t.Run(name, func(t *testing.T) {
			before := v.counters(t)
			for range each {
				row.send()
			}
			v.grown(t, before, each, row.counter)
		})
	}
	if n := v.status(t).Counters["logins_accepted"]; n != 2 {
		t.Errorf("%d logins accepted, want the 2 of the honest session", n)
	}
	p.honest()
	v.unharmed(t)
}

// rcHeader is a packet to a queue pair of the daemon.
func rcHeader(op wire.Opcode, qp ib.QPN, psn ib.PSN) wire.Header {
	return wire.Header{Opcode: op, PKey: ib.PKeyDefault, DestQP: qp, PSN: psn, AckReq: true}
}

func TestWrongPacketsOfAConnectionAreCountedAndEndAtMostThatConnection(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	p, stranger := newPeer(t, v.site), newPeer(t, v.site)
	unit := (&srp.CmdFields{Tag: 1, LUN: lunOf(0), CDB: make([]byte, 6)}).Append(nil)
	for name, row := range map[string]struct {
		counter string
		send    func(qp ib.QPN, psn ib.PSN)
	}{
		"bad ICRC": {"rx_bad_icrc", func(qp ib.QPN, psn ib.PSN) {
			b := p.out.Seal(assemble(rcHeader(wire.SendOnly, qp, psn), unit), 0, 0)
			b[20] ^= 0x10
			p.raw(b)
		}},
		"another P_Key": {"rx_bad_pkey", func(qp ib.QPN, psn ib.PSN) {
			h := rcHeader(wire.SendOnly, qp, psn)
			h.PKey = 0x8001
			p.packet(h, unit)
		}},
		"unknown queue pair": {"rx_unknown_qp", func(qp ib.QPN, psn ib.PSN) { p.packet(rcHeader(wire.SendOnly, qp^0x10000, psn), unit) }},
		"from a stranger":    {"rx_wrong_peer", func(qp ib.QPN, psn ib.PSN) { stranger.packet(rcHeader(wire.SendOnly, qp, psn), unit) }},
		"truncated":          {"rx_bad_short", func(qp ib.QPN, psn ib.PSN) { p.packet(rcHeader(wire.WriteOnly, qp, psn), make([]byte, 8)) }},
		"no whole words":     {"rx_bad_align", func(qp ib.QPN, psn ib.PSN) { p.packet(rcHeader(wire.SendOnly, qp, psn), make([]byte, 47)) }},
		"first that is short": {"rc_naks_sent", func(qp ib.QPN, psn ib.PSN) {
			p.packet(rcHeader(wire.SendFirst, qp, psn), make([]byte, 100))
		}},
		"middle without a first": {"rc_naks_sent", func(qp ib.QPN, psn ib.PSN) {
			p.packet(rcHeader(wire.SendMiddle, qp, psn), make([]byte, 1024))
		}},
		"longer than the path MTU": {"rc_naks_sent", func(qp ib.QPN, psn ib.PSN) {
			p.packet(rcHeader(wire.SendOnly, qp, psn), make([]byte, 2048))
		}},
		"WRITE of 4 GiB": {"rc_naks_sent", func(qp ib.QPN, psn ib.PSN) {
			p.packet(rcHeader(wire.WriteFirst, qp, psn), wire.AppendRETH(nil, 0, 1, 1<<32-1), make([]byte, 1024))
		}},
		"WRITE to nowhere": {"rc_naks_sent", func(qp ib.QPN, psn ib.PSN) {
			p.packet(rcHeader(wire.WriteOnly, qp, psn), wire.AppendRETH(nil, 1<<64-8, 1, 16), make([]byte, 16))
		}},
		"READ of 4 GiB": {"rc_naks_sent", func(qp ib.QPN, psn ib.PSN) {
			p.packet(rcHeader(wire.ReadRequest, qp, psn), wire.AppendRETH(nil, 0, 1, 1<<32-1))
		}},
		"READ from nowhere": {"rc_naks_sent", func(qp ib.QPN, psn ib.PSN) {
			p.packet(rcHeader(wire.ReadRequest, qp, psn), wire.AppendRETH(nil, 0x1000, 0x4711, 4096))
		}},
		"atomic": {"rc_naks_sent", func(qp ib.QPN, psn ib.PSN) {
			p.packet(rcHeader(wire.FetchAdd, qp, psn), make([]byte, 28))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := loginRequest()
			rep := p.login(&r)
			before := v.counters(t)
			row.send(rep.LocalQPN(), rep.StartingPSN())
			v.grown(t, before, 1, row.counter)
			p.leave(rep)
		})
	}
	v.unharmed(t)
}
