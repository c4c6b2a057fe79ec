package rc

import (
	"encoding/binary"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

// FuzzMachine feeds a machine with work in both directions packets that a hostile peer made up. It
// must not panic, must touch no memory but what it was given, and must complete each work request
// at most once, in order.
//
// Input, 8 bytes a step: opcode, flags, PSN distance (2, signed), syndrome, length, VA, time. The length of the input says whether the
// peer gives credits, and whether receives are shared.
func FuzzMachine(f *testing.F) {
	step := func(op Opcode, flags byte, psn int16, syn, n, va, dt byte) []byte {
		return []byte{byte(op), flags, byte(psn >> 8), byte(psn), syn, n, va, dt}
	}
	cat := func(s ...[]byte) (out []byte) {
		for _, b := range s {
			out = append(out, b...)
		}
		return out
	}
	f.Add(cat(step(OpSendOnly, 0, 0, 0, 9, 0, 0), step(OpAck, 1, 0, 0x1F, 0, 0, 1)))
	f.Add(cat(step(OpWriteFirst, 0, 0, 0, 255, 1, 0), step(OpWriteLast, 0, 0, 0, 1, 0, 0)))
	f.Add(cat(step(OpReadRequest, 0, 0, 0, 255, 1, 0), step(OpReadRequest, 0, -4, 0, 4, 1, 0)))
	f.Add(cat(step(OpReadFirst, 1, 2, 0, 255, 0, 0), step(OpReadMiddle, 1, 4, 0, 255, 0, 200), step(OpAck, 1, 9, 0x60, 0, 0, 9)))
	f.Add(cat(step(OpAck, 1, 0, 0x22, 0, 0, 0), step(OpSendOnly, 0, 5, 0, 9, 0, 255), step(OpAck, 1, 1, 0x62, 0, 0, 0)))
	f.Add(cat(step(OpSendFirst, 0, 0, 0, 255, 0, 0), step(OpSendOnly, 0, 3, 0, 9, 0, 3), step(OpSendLast, 0, 0, 0, 9, 0, 0), []byte{0, 0}))
	f.Add(cat(step(OpSendOnly, 0, 0, 0, 9, 0, 0), step(OpSendOnly, 0, 1, 0, 9, 0, 0), step(OpSendFirst, 0, 0, 0, 255, 0, 9), []byte{0, 0, 0}))
	f.Fuzz(func(t *testing.T, in []byte) { fuzzMachine(t, in) })
}

func fuzzMachine(t *testing.T, in []byte) {
	guard := make([]byte, 3*4096)
	mem := &fabricMemory{key: tKey, base: tBase, b: guard[4096 : 2*4096 : 2*4096]}
	cfg := testConfig(mem)
	cfg.RetryLimit, cfg.KeepAlive = 2, 3000*Millisecond
	cfg.SendDepth, cfg.RecvDepth = 8, 4
	if len(in)%4 >= 2 {
		cfg.Shared = NewShared(6, 1)
	}
	m := New(cfg)
	m.Start(1, Params{MTU: tMTU, SendPSN: 0xFF_FFF0, RecvPSN: 0xFF_FFFE, ReadsOut: 2, ReadsIn: 2,
		FlowControl: len(in)%2 == 1, Budget: NewBudget(64 << 10)})
	var next [5]uint64 // ID of the next completion and of the next post
	now := int64(1)
	var out Packet
	for ; len(in) >= 8; in = in[8:] {
		fuzzPost(m, now, &next)
		for i := 0; m.Next(now, &out); i++ {
			if out.PayloadLen() > tMTU {
				t.Fatalf("payload of %d bytes", out.PayloadLen())
			}
			if i > 1<<16 {
				t.Fatal("endless output")
			}
		}
		now += int64(in[7]) * 5 * Millisecond
		if d := m.Deadline(); d != 0 && d <= now {
			m.Tick(now)
		}
		p := fuzzPacket(m, in)
		m.Receive(now, &p)
		fuzzPoll(t, m, &next)
	}
	for i, b := range guard {
		if b != 0 && (i < 4096 || i >= 2*4096) {
			t.Fatalf("byte %d outside the region was written", i)
		}
	}
	m.Fail()
	fuzzPoll(t, m, &next)
	if s := cfg.Shared; s != nil && (s.used != s.Ready() || len(s.free) != len(s.slots)-s.used) {
		t.Fatalf("shared receives were lost: %d used, %d ready, %d free", s.used, s.Ready(), len(s.free))
	}
	if m.req.used != 0 || m.resp.used != 0 {
		t.Fatalf("work was lost: %d sends, %d receives", m.req.used, m.resp.used)
	}
	if m.par.Budget.Used() != 0 || m.cfg.Pool.Lent() != 0 {
		t.Fatal("budget or pool not given back")
	}
}

func fuzzPost(m *Machine, now int64, next *[5]uint64) {
	for _, k := range []Kind{Send, Write, Read} {
		if m.PostSend(&Work{ID: next[3], Kind: k, Signaled: true, Segs: [][]byte{make([]byte, 100), make([]byte, 400)}}) {
			next[3]++
		}
	}
	switch s := m.cfg.Shared; {
	case s != nil && s.Post(next[4], [][]byte{make([]byte, 700)}):
		next[4]++
		m.RecvPosted(now)
	case m.PostRecv(next[4], [][]byte{make([]byte, 700)}):
		next[4]++
	}
}

func fuzzPacket(m *Machine, in []byte) Packet {
	base := m.resp.epsn
	if in[1]&1 != 0 {
		base = m.req.oldest()
	}
	n := int(in[5])
	if n == 255 {
		n = tMTU
	}
	p := Packet{
		Op: Opcode(in[0]), AckReq: in[1]&2 != 0, Syndrome: in[4], MSN: uint32(in[4]), RKey: tKey,
		PSN: base.Add(int(int16(binary.BigEndian.Uint16(in[2:])))) & ib.PSNMask,
		VA:  tBase + uint64(in[6])*16, DMALen: uint32(n), Payload: make([]byte, n),
	}
	for i := range p.Payload {
		p.Payload[i] = 1
	}
	if p.Op == OpWriteFirst {
		p.DMALen = tMTU + uint32(in[6])
	}
	if p.Op == OpReadRequest {
		p.DMALen, p.Payload = uint32(n)*4, nil
	}
	if in[1]&4 != 0 {
		p.DMALen = 0xFFFF_FFFF
	}
	return p
}

func fuzzPoll(t *testing.T, m *Machine, next *[5]uint64) {
	var c [3]Completion
	for n := m.Poll(c[:]); n > 0; n = m.Poll(c[:]) {
		for _, x := range c[:n] {
			i := 0
			if x.Kind == Recv {
				i = 1
			}
			if x.ID != next[i] {
				t.Fatalf("completion %+v, want ID %d", x, next[i])
			}
			next[i]++
		}
	}
}
