package ib

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"testing"
)

func TestGUIDForms(t *testing.T) {
	for _, c := range []struct {
		text string
		want GUID
		ok   bool
	}{
		{"0002c90300a1b2c3", 0x0002C90300A1B2C3, true},
		{"0x0002C90300A1B2C3", 0x0002C90300A1B2C3, true},
		{"0002:c903:00a1:b2c3", 0x0002C90300A1B2C3, true},
		{"", 0, false}, {"0x", 0, false}, {"2c90300a1b2c3", 0, false}, {"0002c90300a1b2c3f", 0, false},
		{"0002c90300a1b2cg", 0, false}, {"+002c90300a1b2c3", 0, false}, {"0002:c903:00a1-b2c3", 0, false},
		{"0x02:c903:00a1:b2c3", 0, false}, {"00_2c90300a1b2c3", 0, false},
	} {
		got, err := ParseGUID(c.text)
		if got != c.want || (err == nil) != c.ok || err != nil && !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %v, %v", c.text, got, err)
		}
	}
	if s := GUID(0x2C903).String(); s != "000000000002c903" {
		t.Errorf("String = %q", s)
	}
	if g := EUI64([6]byte{0x52, 0x54, 0, 0x12, 0x34, 0x56}); g != 0x505400FFFE123456 {
		t.Errorf("EUI64 = %v", g)
	}
}

func TestGIDForms(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"fe80::1", "fe800000000000000000000000000001"},
		{"::", "00000000000000000000000000000000"},
		{"::1", "00000000000000000000000000000001"},
		{"1::", "00010000000000000000000000000000"},
		{"fe80:0000:0000:0000:0002:c903:00a1:b2c3", "fe800000000000000002c90300a1b2c3"},
		{"FE800000000000000002C90300A1B2C3", "fe800000000000000002c90300a1b2c3"},
		{"::ffff:10.77.0.1", "00000000000000000000ffff0a4d0001"},
		{"::ffff:0a4d:1", "00000000000000000000ffff0a4d0001"},
		{"10.77.0.1", "00000000000000000000ffff0a4d0001"},
		{"1:2:3:4:5:6:1.2.3.4", "00010002000300040005000601020304"},
		{"1:2:3:4:5:6:7::", "00010002000300040005000600070000"},
		{"::2:3:4:5:6:7:8", "00000002000300040005000600070008"},
	} {
		g, err := ParseGID(c.text)
		if err != nil || g.Hex() != c.want {
			t.Errorf("%q: %s, %v; want %s", c.text, g.Hex(), err, c.want)
		}
		if back, err := ParseGID(g.String()); err != nil || back != g {
			t.Errorf("%q: %q does not parse back: %v", c.text, g, err)
		}
	}
	for _, text := range []string{"", ":", ":::", "1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "1:2:3:4:5:6:7:8::",
		"::1:2:3:4:5:6:7:8", "12345::", "g::", "fe80::1%eth0", "1.2.3", "1.2.3.256", "01.2.3.4", "1.2.3.4::", "::1.2.3.4:5",
		"1:2:3:4:5:6:7:1.2.3.4", "fe80000000000000000002c90300a1b", ":1::", "1::2:", "+1::"} {
		if g, err := ParseGID(text); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %v, %v", text, g, err)
		}
	}
}

func TestGIDParts(t *testing.T) {
	g := MakeGID(LinkLocalPrefix, 0x0002C90300A1B2C3)
	if g.Prefix() != LinkLocalPrefix || g.GUID() != 0x0002C90300A1B2C3 || g.Is4() || g.IsZero() {
		t.Errorf("%v", g)
	}
	m := GIDFromIPv4([4]byte{10, 77, 0, 1})
	if a, ok := m.IPv4(); !ok || a != [4]byte{10, 77, 0, 1} {
		t.Errorf("IPv4 = %v, %v", a, ok)
	}
	if _, ok := g.IPv4(); ok || !(GID{}).IsZero() {
		t.Error("a link-local GID is an IPv4 address")
	}
}

func FuzzGID(f *testing.F) {
	f.Add("fe80::1")
	f.Add("::ffff:10.77.0.1")
	f.Add("fe800000000000000002c90300a1b2c3")
	f.Fuzz(func(t *testing.T, s string) {
		g, err := ParseGID(s)
		if err != nil {
			return
		}
		for _, text := range []string{g.String(), g.Hex()} {
			if back, err := ParseGID(text); err != nil || back != g {
				t.Fatalf("%q -> %q -> %v, %v", s, text, back, err)
			}
		}
	})
}

func TestPKeysMatchWithinAPartition(t *testing.T) {
	for _, c := range []struct {
		a, b PKey
		want bool
	}{{0xFFFF, 0xFFFF, true}, {0xFFFF, 0x7FFF, true}, {0x7FFF, 0x7FFF, false}, {0xFFFF, 0x1234, false}, {0x8000, 0x8000, false}, {0x9234, 0x1234, true}} {
		if c.a.Matches(c.b) != c.want || c.b.Matches(c.a) != c.want {
			t.Errorf("%#x and %#x: %v", c.a, c.b, !c.want)
		}
	}
}

func TestPSNOrderIsModulo24Bits(t *testing.T) {
	for _, c := range []struct {
		p, q PSN
		d    int
	}{{5, 3, 2}, {3, 5, -2}, {0, 0xFFFFFF, 1}, {0xFFFFFF, 0, -1}, {0x800000, 0, -1 << 23}, {0x7FFFFF, 0, 1<<23 - 1}} {
		if got := c.p.Sub(c.q); got != c.d {
			t.Errorf("%#x - %#x = %d, want %d", c.p, c.q, got, c.d)
		}
		if c.q.Add(c.d) != c.p || c.p.Before(c.q) != (c.d < 0) || c.p.After(c.q) != (c.d > 0) {
			t.Errorf("%#x and %#x: order and sum disagree", c.p, c.q)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 10000 {
		p, n := PSN(r.Uint32())&PSNMask, r.IntN(1<<23)
		if q := p.Add(n); q > PSNMask || q.Sub(p) != n || q.Add(-n) != p || !q.In(p, n+1) || q.In(p, n) || p.Add(-1).In(p, 1<<23) {
			t.Fatalf("%#x + %d = %#x", p, n, q)
		}
	}
}

func TestMTUCodes(t *testing.T) {
	for code, n := range map[MTU]int{MTU256: 256, MTU512: 512, MTU1024: 1024, MTU2048: 2048, MTU4096: 4096} {
		if code.Bytes() != n || !code.Valid() {
			t.Errorf("%d: %d bytes, want %d", code, code.Bytes(), n)
		}
		if m, err := ParseMTU(n); err != nil || m != code {
			t.Errorf("ParseMTU(%d) = %v, %v", n, m, err)
		}
	}
	for _, n := range []int{-1, 0, 1, 255, 1500, 8192} {
		if _, err := ParseMTU(n); !errors.Is(err, ErrRange) {
			t.Errorf("ParseMTU(%d): %v", n, err)
		}
	}
	for n, want := range map[int]MTU{-5: 0, 255: 0, 256: MTU256, 1023: MTU512, 1448: MTU1024, 65536: MTU4096} {
		if got := LargestMTU(n); got != want {
			t.Errorf("LargestMTU(%d) = %v", n, got)
		}
	}
	if MTU(0).Bytes() != 0 || MTU(6).Valid() || MTU(6).String() != "MTU code 6" || MTU1024.String() != "1024 bytes" {
		t.Error("codes outside 1..5 count as MTUs")
	}
}

func TestMADHeader(t *testing.T) {
	h := MADHeader{MADBaseVersion, ClassDeviceMgmt, 1, MethodGet, StatusBadMethodAttr, 0x0102030405060708, 0x1234, 0x89ABCDEF}
	b := h.Append([]byte{0xEE})[1:]
	want := "01060101000c000001020304050607081234000089abcdef"
	if hex.EncodeToString(b) != want {
		t.Fatalf("%x, want %s", b, want)
	}
	m, err := ParseMAD(append(b, 0xDD))
	if err != nil || m.Header() != h || !bytes.Equal(m.Data(), []byte{0xDD}) {
		t.Errorf("%+v, %v", m.Header(), err)
	}
	m.SetMethod(MethodGetResp)
	m.SetStatus(StatusBusy)
	if !m.Method().IsResponse() || m.Status() != StatusBusy || MethodGet.IsResponse() {
		t.Error("setters do not set")
	}
	if _, err := ParseMAD(b[:23]); !errors.Is(err, ErrShort) {
		t.Errorf("23 bytes: %v", err)
	}
}

func TestSmallWords(t *testing.T) {
	if !LID(1).IsUnicast() || LID(0).IsUnicast() || LID(0xC000).IsUnicast() || LIDPermissive.IsUnicast() {
		t.Error("unicast LIDs are 1..0xBFFF")
	}
	for l, want := range map[LinkLayer]string{LinkInfiniBand: "InfiniBand", LinkEthernet: "Ethernet", LinkUnspecified: "unspecified", 9: "unspecified"} {
		if l.String() != want {
			t.Errorf("%d: %q", l, l)
		}
	}
}
