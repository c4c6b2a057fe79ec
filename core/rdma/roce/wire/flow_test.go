package wire

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

var (
	gid4a = ib.GIDFromIPv4([4]byte{10, 77, 0, 1})
	gid4b = ib.GIDFromIPv4([4]byte{10, 77, 0, 2})
	gid6a = ib.GID{0: 0xFD, 1: 0x77, 15: 1}
	gid6b = ib.GID{0: 0xFD, 1: 0x77, 15: 2}
)

// referenceICRC is written from annex A17 alone: it assembles the whole masked packet and divides
// bit by bit. It shares nothing with the code under test.
func referenceICRC(src, dst ib.GID, sport, dport, id uint16, body []byte) uint32 {
	udp := len(body) + 4 + 8
	m := slices.Repeat([]byte{0xFF}, 8)
	if src.Is4() {
		ip := make([]byte, 20)
		ip[0], ip[1], ip[6], ip[8], ip[9] = 0x45, 0xFF, 0x40, 0xFF, 17
		binary.BigEndian.PutUint16(ip[2:], uint16(20+udp))
		binary.BigEndian.PutUint16(ip[4:], id)
		ip[10], ip[11] = 0xFF, 0xFF
		copy(ip[12:], src[12:])
		copy(ip[16:], dst[12:])
		m = append(m, ip...)
	} else {
		ip := make([]byte, 40)
		copy(ip, []byte{0x6F, 0xFF, 0xFF, 0xFF})
		binary.BigEndian.PutUint16(ip[4:], uint16(udp))
		ip[6], ip[7] = 17, 0xFF
		copy(ip[8:], src[:])
		copy(ip[24:], dst[:])
		m = append(m, ip...)
	}
	u := make([]byte, 8)
	binary.BigEndian.PutUint16(u[0:], sport)
	binary.BigEndian.PutUint16(u[2:], dport)
	binary.BigEndian.PutUint16(u[4:], uint16(udp))
	u[6], u[7] = 0xFF, 0xFF
	m = append(append(m, u...), body...)
	m[len(m)-len(body)+4] = 0xFF
	reg := ^uint32(0)
	for _, b := range m {
		reg ^= uint32(b)
		for range 8 {
			low := reg & 1
			reg >>= 1
			if low != 0 {
				reg ^= 0xEDB88320
			}
		}
	}
	return ^reg
}

func mustHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Frames that hardware sent, from the IP header on. The first is a congestion notification captured
// at a ConnectX-4 Lx; the second is an unreliable-connection SEND between two ports of a ConnectX.
// Both are published in the tests of the scapy project.
var captured = []struct {
	name, frame string
	id          uint16
}{
	{"congestion notification", "45c2003c718c400040119161" + "0a001101" + "0a001201" + "000012b700280000" +
		"8100ffff4000011800000000" + "00000000000000000000000000000000" + "82fd002a", 0x718C},
	{"UC send only", "4501004004784000" + "4011b4d5" + "c0a80007" + "c0a80007" + "c00012b7002caca2" +
		"2460ffff000000d300cf1710" + "4630818be28935d90e9a95505401be885e500000" + "78f353f3", 1144},
}

func TestHardwareCapturesVerify(t *testing.T) {
	for _, c := range captured {
		b := mustHex(t, c.frame)
		if n := int(binary.BigEndian.Uint16(b[2:])); n != len(b) {
			t.Fatalf("%s: frame has %d bytes, its IP header says %d", c.name, len(b), n)
		}
		src, dst := ib.GIDFromIPv4([4]byte(b[12:])), ib.GIDFromIPv4([4]byte(b[16:]))
		f := NewFlow(src, dst, binary.BigEndian.Uint16(b[20:]), binary.BigEndian.Uint16(b[22:]))
		p := Packet(b[28:])
		if id, ok := f.Verify(p); !ok || id != c.id {
			t.Errorf("%s: Verify = %#x, %v; want %#x, true", c.name, id, ok, c.id)
		}
		if got := f.Sum(p[:len(p)-4], c.id); got != p.ICRC() {
			t.Errorf("%s: Sum = %08x, the frame has %08x", c.name, got, p.ICRC())
		}
	}
	if _, err := Parse(mustHex(t, captured[0].frame)[28:]); err != nil {
		t.Errorf("congestion notification: %v", err)
	}
}

// golden freezes the ICRC of packets built here, next to the reference's word on them.
var golden = []struct {
	name     string
	src, dst ib.GID
	sport    uint16
	id       uint16
	body     string
	icrc     string // as on the wire
}{
	{"ack, IPv4, id 0", gid4b, gid4a, 4791, 0, "1100ffff000000110000002a" + "1f000001", "be42f6ba"},
	{"ack, IPv4, id 3 in a segmented send", gid4b, gid4a, 4791, 3, "1100ffff000000110000002a" + "1f000001", "455e6d69"},
	{"ack, IPv6", gid6b, gid6a, 4791, 0, "1100ffff000000110000002a" + "1f000001", "07a68304"},
	{"padded send, congestion bit set on the way", gid4a, gid4b, 61108, 0xBEEF, "0410ffff8000001280000007" + "01020300", "77287e8e"},
}

func TestGoldenICRC(t *testing.T) {
	for _, c := range golden {
		body := mustHex(t, c.body)
		want := referenceICRC(c.src, c.dst, c.sport, UDPPort, c.id, body)
		f := NewFlow(c.src, c.dst, c.sport, UDPPort)
		p := f.Seal(slices.Clone(body), 0, c.id)
		if got := hex.EncodeToString(p[len(p)-4:]); got != c.icrc || Packet(p).ICRC() != want {
			t.Errorf("%s: ICRC %s, reference %08x, frozen %s", c.name, got, want, c.icrc)
		}
	}
}

func randomBody(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestSumAgreesWithReferenceForEveryLength(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := BTHSize; n <= MaxPacket-ICRCSize; n += 1 + r.IntN(97) {
		body := randomBody(r, n)
		id, sport := uint16(r.Uint32()), uint16(r.Uint32())
		for _, ends := range [][2]ib.GID{{gid4a, gid4b}, {gid6a, gid6b}} {
			f := NewFlow(ends[0], ends[1], sport, UDPPort)
			want := referenceICRC(ends[0], ends[1], sport, UDPPort, id, body)
			before := slices.Clone(body)
			if got := f.Sum(body, id); got != want {
				t.Fatalf("%d bytes, id %#x: %08x, want %08x", n, id, got, want)
			}
			cut := BTHSize + r.IntN(n-BTHSize+1)
			if got := f.SumVec([][]byte{body[:cut], body[cut:]}, id); got != want {
				t.Fatalf("%d bytes in pieces at %d: %08x, want %08x", n, cut, got, want)
			}
			if !slices.Equal(body, before) {
				t.Fatal("the packet was changed")
			}
		}
	}
}

func TestVerifyFindsTheIdentification(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	f := NewFlow(gid4a, gid4b, 61108, UDPPort)
	for range 3000 {
		id := uint16(r.Uint32())
		p := f.Seal(randomBody(r, BTHSize+4*r.IntN(1030)), 0, id)
		if got, ok := f.Verify(p); !ok || got != id {
			t.Fatalf("%d bytes: Verify = %#x, %v; want %#x, true", len(p), got, ok, id)
		}
	}
	p := f.Seal(randomBody(r, 16), 0, 0)
	for id := range 1 << 16 {
		f.Put(p, uint16(id))
		if got, ok := f.Verify(p); !ok || got != uint16(id) {
			t.Fatalf("Verify = %#x, %v; want %#x, true", got, ok, id)
		}
	}
}

func TestSingleBitErrorsAreRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, ends := range [][2]ib.GID{{gid4a, gid4b}, {gid6a, gid6b}} {
		f := NewFlow(ends[0], ends[1], 50000, UDPPort)
		for _, n := range []int{16, 280, 1040, 4112} {
			p := f.Seal(randomBody(r, n), 0, 0x1234)
			for bit := range len(p) * 8 {
				if bit/8 == 4 {
					continue // the byte that routers may change
				}
				p[bit/8] ^= 1 << (bit % 8)
				if _, ok := f.Verify(p); ok {
					t.Fatalf("%d bytes: error in bit %d accepted", n, bit)
				}
				p[bit/8] ^= 1 << (bit % 8)
			}
		}
	}
}

func TestRandomDamageIsRefusedAsOftenAsThePromiseSays(t *testing.T) {
	const tries = 200_000
	r := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct {
		f    Flow
		most int
	}{{NewFlow(gid4a, gid4b, 50000, UDPPort), tries >> 13}, {NewFlow(gid6a, gid6b, 50000, UDPPort), 0}} {
		good := c.f.Seal(randomBody(r, 60), 0, 77)
		p, accepted := slices.Clone(good), 0
		for range tries {
			copy(p, good)
			for range 1 + r.IntN(8) {
				p[12+r.IntN(len(p)-12)] ^= byte(1 + r.IntN(255))
			}
			if _, ok := c.f.Verify(p); ok && !slices.Equal(p, good) {
				accepted++
			}
		}
		if accepted > c.most {
			t.Errorf("%d of %d damaged packets accepted, at most %d expected", accepted, tries, c.most)
		}
	}
}

func TestWrongEndpointsAreRefused(t *testing.T) {
	body := make([]byte, 64)
	for _, c := range []struct{ right, wrong Flow }{
		{NewFlow(gid6a, gid6b, 1, 2), NewFlow(gid6a, gid6a, 1, 2)},
		{NewFlow(gid6a, gid6b, 1, 2), NewFlow(gid6a, gid6b, 3, 2)},
		{NewFlow(gid4a, gid4b, 1, 2), NewFlow(gid6a, gid6b, 1, 2)},
		{NewFlow(gid4a, gid4b, 1, 2), NewFlow(gid4b, gid4b, 1, 2)},
	} {
		p := c.right.Seal(slices.Clone(body), 0, 0)
		if _, ok := c.wrong.Verify(p); ok {
			t.Errorf("%+v accepted by %+v", c.right, c.wrong)
		}
	}
}

func TestVerifyRefusesWhatExceedsAnyPacket(t *testing.T) {
	f := NewFlow(gid4a, gid4b, 1, UDPPort)
	p := f.Seal(make([]byte, 2*MaxPacket), 0, 5)
	if _, ok := f.Verify(p); ok {
		t.Error("accepted")
	}
}

func TestUndoIsTheInverseOfZeroBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, k := range []int{0, 1, 2, 24, 40, 1000, MaxPacket + afterID} {
		reg := r.Uint32()
		if got := mul(zeroBytes(reg, k), tables.undo[k]); got != reg {
			t.Errorf("%d bytes: %08x came back as %08x", k, reg, got)
		}
	}
}

func TestChecksumsDoNotAllocate(t *testing.T) {
	f := NewFlow(gid4a, gid4b, 50000, UDPPort)
	p := f.Seal(make([]byte, 1040), 0, 9)
	if n := testing.AllocsPerRun(100, func() {
		g := NewFlow(gid4a, gid4b, 50000, UDPPort)
		if _, ok := g.Verify(p); !ok {
			t.Fatal("refused")
		}
		g.Put(p, 9)
		if _, err := Parse(p); err == ErrLong {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzICRC(f *testing.F) {
	f.Add([]byte("a packet of some length"), uint16(4791), uint16(0), false)
	f.Fuzz(func(t *testing.T, body []byte, sport, id uint16, v6 bool) {
		if len(body) < BTHSize || len(body) > MaxPacket-ICRCSize {
			return
		}
		src, dst, want := gid4a, gid4b, id
		if v6 {
			src, dst, want = gid6a, gid6b, 0
		}
		flow := NewFlow(src, dst, sport, UDPPort)
		p := flow.Seal(body, 0, id)
		if sum := referenceICRC(src, dst, sport, UDPPort, id, body); sum != Packet(p).ICRC() {
			t.Fatalf("ICRC %08x, reference %08x", Packet(p).ICRC(), sum)
		}
		if got, ok := flow.Verify(p); !ok || got != want {
			t.Fatalf("Verify = %#x, %v; want %#x", got, ok, want)
		}
		p[len(p)-1] ^= 0x80
		if _, ok := flow.Verify(p); ok {
			t.Fatal("damaged packet accepted")
		}
	})
}

func BenchmarkSum(b *testing.B) { benchSizes(b, func(f Flow, p Packet) { f.Put(p, 1) }) }

func BenchmarkVerify(b *testing.B) {
	benchSizes(b, func(f Flow, p Packet) {
		if _, ok := f.Verify(p); !ok {
			b.Fatal("refused")
		}
	})
}

func BenchmarkCRCAlone(b *testing.B) {
	benchSizes(b, func(_ Flow, p Packet) { _ = crc32.ChecksumIEEE(p) })
}

func BenchmarkNewFlow(b *testing.B) {
	for b.Loop() {
		NewFlow(gid4a, gid4b, 50000, UDPPort)
	}
}

func benchSizes(b *testing.B, do func(Flow, Packet)) {
	for _, c := range []struct {
		name string
		n    int
	}{{"ack", 16}, {"1024", 1036}, {"4096", 4108}} {
		b.Run(c.name, func(b *testing.B) {
			f := NewFlow(gid4a, gid4b, 50000, UDPPort)
			p := f.Seal(make([]byte, c.n), 0, 0x4321)
			b.ReportAllocs()
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				do(f, p)
			}
		})
	}
}
