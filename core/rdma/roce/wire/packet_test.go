package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

// knownOpcodes pairs each opcode with the bytes of its headers (IBTA table 38).
var knownOpcodes = map[Opcode]int{
	SendFirst: 12, SendMiddle: 12, SendLast: 12, SendLastImm: 16, SendOnly: 12, SendOnlyImm: 16,
	WriteFirst: 28, WriteMiddle: 12, WriteLast: 12, WriteLastImm: 16, WriteOnly: 28, WriteOnlyImm: 32,
	ReadRequest: 28, ReadResponseFirst: 16, ReadResponseMiddle: 12, ReadResponseLast: 16, ReadResponseOnly: 16,
	Acknowledge: 16, AtomicAcknowledge: 24, CompareSwap: 40, FetchAdd: 40, SendLastInv: 16, SendOnlyInv: 16,
	UDSendOnly: 20, UDSendOnlyImm: 24, Congestion: 28,
}

// build makes a packet with n bytes of payload and zero extended headers.
func build(op Opcode, n int) []byte {
	b := Header{Opcode: op, Pad: PadLen(n), PKey: ib.PKeyDefault, DestQP: 0x11, PSN: 7}.Append(nil)
	b = append(b, make([]byte, op.HeaderSize()-BTHSize)...)
	b = append(b, bytes.Repeat([]byte{0xDA}, n)...)
	b = AppendPad(b, n)
	return append(b, 0, 0, 0, 0)
}

func TestEveryOpcodeIsKnownOrRefused(t *testing.T) {
	for op := range 256 {
		o := Opcode(op)
		size, known := knownOpcodes[o]
		if o.Known() != known {
			t.Errorf("%v: known = %v", o, o.Known())
		}
		_, err := Parse(build(o, 0))
		if known && (err != nil || o.HeaderSize() != size) {
			t.Errorf("%v: headers of %d bytes, want %d; %v", o, o.HeaderSize(), size, err)
		}
		if !known && err != ErrOpcode {
			t.Errorf("%v: %v, want %v", o, err, ErrOpcode)
		}
	}
}

func TestParseRefusesWhatIsNotThere(t *testing.T) {
	change := func(b []byte, at int, v byte) []byte { b[at] = v; return b }
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"nothing", nil, ErrShort},
		{"BTH without ICRC", build(SendOnly, 0)[:15], ErrShort},
		{"BTH and ICRC, but no AETH", build(Acknowledge, 0)[:16], ErrShort},
		{"RETH cut short", build(WriteOnly, 0)[:28], ErrShort},
		{"DETH cut short", build(UDSendOnly, 0)[:20], ErrShort},
		{"odd length", build(SendOnly, 4)[:18], ErrAlign},
		{"version 1", change(build(SendOnly, 0), 1, 1), ErrVersion},
		{"padding without payload", change(build(SendOnly, 0), 1, 0x10), ErrPad},
		{"padding on an ACK", change(build(Acknowledge, 0), 1, 0x30), ErrUnexpectedPayload},
		{"ACK with payload", build(Acknowledge, 4), ErrUnexpectedPayload},
		{"READ request with payload", build(ReadRequest, 4), ErrUnexpectedPayload},
		{"CNP with payload", build(Congestion, 4), ErrUnexpectedPayload},
		{"payload above every MTU", build(SendOnly, MaxPayload+4), ErrLong},
		{"longer than any packet", build(WriteOnlyImm, MaxPayload+4), ErrLong},
		{"unknown opcode", build(0x15, 0), ErrOpcode},
		{"UC", build(0x24, 16), ErrOpcode},
	} {
		if _, err := Parse(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	for e := ErrShort; e <= NumParseErrors; e++ {
		if len(e.Error()) < 20 {
			t.Errorf("reason %d has no text: %q", e, e.Error())
		}
	}
}

func TestPayloadIsWhatTheSenderPutIn(t *testing.T) {
	for n := range 9 {
		p, err := Parse(build(WriteOnlyImm, n))
		if err != nil || !bytes.Equal(p.Payload(), bytes.Repeat([]byte{0xDA}, n)) {
			t.Errorf("%d bytes: payload %x, %v", n, p.Payload(), err)
		}
	}
	if p, err := Parse(build(WriteOnlyImm, MaxPayload)); err != nil || len(p) != MaxPacket || len(p.Payload()) != MaxPayload {
		t.Errorf("longest packet: %d bytes, %v", len(p), err)
	}
}

func TestCheckPayload(t *testing.T) {
	const mtu = ib.MTU1024
	for _, c := range []struct {
		op Opcode
		n  int
		ok bool
	}{
		{SendFirst, 1024, true}, {SendFirst, 1020, false}, {SendFirst, 0, false}, {SendFirst, 1028, false},
		{WriteFirst, 1023, false}, {WriteMiddle, 1024, true}, {WriteMiddle, 512, false},
		{SendLast, 0, false}, {SendLast, 1, true}, {SendLast, 1024, true}, {SendLast, 1025, false},
		{SendOnly, 0, true}, {SendOnly, 1024, true}, {SendOnly, 1025, false},
		{ReadResponseFirst, 1024, true}, {ReadResponseFirst, 1000, false},
		{ReadResponseMiddle, 1024, true}, {ReadResponseLast, 0, false}, {ReadResponseOnly, 0, true},
		{Acknowledge, 0, true}, {ReadRequest, 0, true},
	} {
		p, err := Parse(build(c.op, c.n))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.CheckPayload(mtu); (err == nil) != c.ok || err != nil && err != ErrPayloadSize {
			t.Errorf("%v with %d bytes: %v", c.op, c.n, err)
		}
	}
	p, _ := Parse(build(SendOnly, 4))
	if p.CheckPayload(0) == nil {
		t.Error("an invalid MTU carries a payload")
	}
}

func TestHeadersSurviveTheRoundTrip(t *testing.T) {
	h := Header{Opcode: WriteOnlyImm, Solicited: true, MigReq: true, AckReq: true, Pad: 3,
		PKey: 0x8001, DestQP: 0xABCDEF, PSN: 0xFEDCBA}
	b := AppendImmDt(AppendRETH(h.Append(nil), 0x1122334455667788, 0x99AABBCC, 5), 0xDEADBEEF)
	if got, want := hex.EncodeToString(b), "0bf0800100abcdef80fedcba"+"112233445566778899aabbcc00000005"+"deadbeef"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	p, err := Parse(append(AppendPad(append(b, 1, 2, 3, 4, 5), 5), 0, 0, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	bth := p.BTH()
	got := Header{bth.Opcode(), bth.Solicited(), bth.MigReq(), bth.AckReq(), bth.Pad(), bth.PKey(), bth.DestQP(), bth.PSN()}
	if got != h || bth.Version() != 0 || bth.FECN() || bth.BECN() {
		t.Errorf("BTH %+v, want %+v", got, h)
	}
	if r := p.RETH(); r.VA() != 0x1122334455667788 || r.RKey() != 0x99AABBCC || r.Length() != 5 {
		t.Errorf("RETH %x", []byte(r))
	}
	if p.ImmDt().Value() != 0xDEADBEEF {
		t.Errorf("immediate data %x", p.ImmDt())
	}
	bth.SetAckReq(false)
	if bth.AckReq() || bth.PSN() != h.PSN {
		t.Error("SetAckReq changed more than its bit, or less")
	}
	bth.SetAckReq(true)
	if !bth.AckReq() {
		t.Error("SetAckReq did not set its bit")
	}
}

func TestDatagramHeader(t *testing.T) {
	b := AppendDETH(Header{Opcode: UDSendOnly, PKey: ib.PKeyDefault, DestQP: 1}.Append(nil), ib.QKeyGSI, 0xFF000001)
	p, err := Parse(append(b, 0, 0, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if d := p.DETH(); d.QKey() != ib.QKeyGSI || d.SrcQP() != 1 {
		t.Errorf("DETH %x", []byte(d))
	}
}

func TestSyndromes(t *testing.T) {
	for _, c := range []struct {
		s    Syndrome
		kind AckKind
		text string
	}{
		{AckNoCredit, KindAck, "ACK"},
		{Ack(-1), KindAck, "ACK"},
		{Ack(0), KindAck, "ACK with 0 credits"},
		{Ack(100), KindAck, "ACK with 96 credits"},
		{RNR(1), KindRNR, "RNR NAK, wait 10 us"},
		{NAKSequence, KindNAK, "NAK, PSN sequence error"},
		{NAKInvalidRequest, KindNAK, "NAK, invalid request"},
		{NAKRemoteAccess, KindNAK, "NAK, remote access error"},
		{NAKRemoteOperation, KindNAK, "NAK, remote operational error"},
		{NAKInvalidRD, KindNAK, "NAK, invalid RD request"},
		{0x65, KindNAK, "reserved syndrome 0x65"},
		{0x40, KindReserved, "reserved syndrome 0x40"},
		{0x9F, KindReserved, "reserved syndrome 0x9f"},
	} {
		if c.s.Kind() != c.kind || c.s.String() != c.text {
			t.Errorf("%#02x: kind %d, %q; want %d, %q", uint8(c.s), c.s.Kind(), c.s, c.kind, c.text)
		}
	}
	b := AppendAck(nil, ib.PKeyDefault, 0x11, 0x2A, Ack(16), 0x1_000003)
	p, err := Parse(append(b, 0, 0, 0, 0))
	if err != nil || p.AETH().Syndrome() != 0x08 || p.AETH().MSN() != 3 {
		t.Errorf("ACK %x, %v", b, err)
	}
}

func TestCreditCodesRoundDown(t *testing.T) {
	prev := -1
	for code := range uint8(31) {
		n, limited := Credits(code)
		if !limited || n <= prev {
			t.Fatalf("code %d: %d after %d", code, n, prev)
		}
		if CreditCode(n) != code || n > 0 && CreditCode(n-1) != code-1 {
			t.Errorf("%d credits: codes %d and %d", n, CreditCode(n), CreditCode(n-1))
		}
		// Above 4, the table doubles every second code.
		if code >= 7 {
			if half, _ := Credits(code - 2); n != 2*half {
				t.Errorf("code %d is %d, twice code %d would be %d", code, n, code-2, 2*half)
			}
		}
		prev = n
	}
	if prev != 32768 || CreditCode(1<<20) != 30 {
		t.Errorf("largest is %d, code %d", prev, CreditCode(1<<20))
	}
	if _, limited := Credits(31); limited || CreditCode(-1) != 31 {
		t.Error("code 31 is not \"no limit\"")
	}
}

func TestRNRTimers(t *testing.T) {
	if RNRDelay(0) != 655_360_000 || RNRDelay(1) != 10_000 || RNRDelay(14) != 1_280_000 || RNRDelay(31) != 491_520_000 {
		t.Error("table 45 is not kept")
	}
	for code := uint8(1); code < 32; code++ {
		if d := RNRDelay(code); code > 1 && d <= RNRDelay(code-1) || RNRCode(d) != code || RNR(code).RNRDelay() != d {
			t.Errorf("code %d: %d ns, back to code %d", code, d, RNRCode(d))
		}
	}
	if RNRCode(0) != 1 || RNRCode(500_000_000) != 0 || RNRCode(1<<40) != 0 {
		t.Error("RNRCode does not round up")
	}
}

func TestOpcodeTraits(t *testing.T) {
	for op := range knownOpcodes {
		if op.Service() == ServiceRC && op <= SendOnlyInv {
			answer := op.IsReadResponse() || op == Acknowledge || op == AtomicAcknowledge
			if op.IsRequest() == answer {
				t.Errorf("%v: request = %v", op, op.IsRequest())
			}
		}
		if len(op.String()) < 3 || op.HasRETH() && op.HasAETH() {
			t.Errorf("%v: bad row", op)
		}
	}
	for op, want := range map[Opcode][2]bool{SendFirst: {true, false}, WriteMiddle: {false, false}, SendLastImm: {false, true}, WriteOnly: {true, true}, Acknowledge: {true, true}} {
		if op.Starts() != want[0] || op.Ends() != want[1] {
			t.Errorf("%v: starts %v, ends %v", op, op.Starts(), op.Ends())
		}
	}
	if !SendOnlyInv.IsSend() || !SendOnlyInv.HasInvalidate() || WriteFirst.IsSend() || !WriteLastImm.IsWrite() || ReadRequest.IsWrite() || !SendOnlyImm.HasImm() || !UDSendOnly.HasDETH() {
		t.Error("wrong family")
	}
}

func TestPathMTU(t *testing.T) {
	for _, c := range []struct {
		link int
		v6   bool
		want ib.MTU
	}{{1500, false, ib.MTU1024}, {1500, true, ib.MTU1024}, {4200, false, ib.MTU4096}, {4200, true, ib.MTU4096}, {9000, false, ib.MTU4096},
		{4096 + 64, false, ib.MTU4096}, {4096 + 63, false, ib.MTU2048}, {4096 + 84, true, ib.MTU4096}, {4096 + 83, true, ib.MTU2048}, {300, false, 0}, {0, false, 0}} {
		if got := PathMTU(c.link, c.v6); got != c.want {
			t.Errorf("link MTU %d, IPv6 %v: %v, want %v", c.link, c.v6, got, c.want)
		}
	}
}

func FuzzPacket(f *testing.F) {
	for op := range knownOpcodes {
		f.Add(build(op, 0))
	}
	f.Add(build(SendOnly, 5))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			var reason ParseError
			if p != nil || !errors.As(err, &reason) || reason >= NumParseErrors {
				t.Fatalf("refused with %v and %v", p, err)
			}
			return
		}
		op := p.Opcode()
		n := op.HeaderSize() + len(p.Payload()) + p.BTH().Pad() + ICRCSize
		if n != len(b) || len(p.Payload()) > MaxPayload {
			t.Fatalf("parts of %d bytes, packet of %d", n, len(b))
		}
		h := p.BTH()
		again := Header{op, h.Solicited(), h.MigReq(), h.AckReq(), h.Pad(), h.PKey(), h.DestQP(), h.PSN()}.Append(nil)
		again[4], again[8] = b[4], again[8]|b[8]&0x7F
		if !bytes.Equal(again, b[:BTHSize]) {
			t.Fatalf("BTH %x rebuilt as %x", b[:BTHSize], again)
		}
		for _, mtu := range []ib.MTU{0, ib.MTU256, ib.MTU4096} {
			_ = p.CheckPayload(mtu)
		}
		if op.HasRETH() {
			r := p.RETH()
			if !bytes.Equal(AppendRETH(nil, r.VA(), r.RKey(), r.Length()), r) {
				t.Fatal("RETH does not survive")
			}
		}
		if op.HasAETH() {
			a := p.AETH()
			if !bytes.Equal(AppendAETH(nil, a.Syndrome(), a.MSN()), a) {
				t.Fatal("AETH does not survive")
			}
			_ = a.Syndrome().String()
		}
		if op.HasDETH() {
			_, _ = p.DETH().QKey(), p.DETH().SrcQP()
		}
		if op.HasImm() || op.HasInvalidate() {
			_ = p.ImmDt().Value()
		}
	})
}

func BenchmarkParse(b *testing.B) {
	pkt := build(WriteOnly, 4096)
	b.ReportAllocs()
	for b.Loop() {
		p, err := Parse(pkt)
		if err != nil || len(p.Payload()) != 4096 {
			b.Fatal(err)
		}
	}
}
