package roce

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func cmsg(level, kind uint32, data ...byte) []byte {
	b := binary.NativeEndian.AppendUint64(nil, uint64(cmsgHeader+len(data)))
	b = binary.NativeEndian.AppendUint32(b, level)
	b = binary.NativeEndian.AppendUint32(b, kind)
	b = append(b, data...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

func native32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func TestParseControlReadsSegmentsAndDrops(t *testing.T) {
	gro := cmsg(unix.SOL_UDP, unix.UDP_GRO, native32(4128)...)
	drops := cmsg(unix.SOL_SOCKET, unix.SO_RXQ_OVFL, native32(7)...)
	both := append(append([]byte(nil), gro...), drops...)
	for _, tc := range []struct {
		name string
		in   []byte
		want received
	}{
		{"nothing", nil, received{}},
		{"segments", gro, received{segment: 4128}},
		{"drops", drops, received{dropped: 7, counted: true}},
		{"both", both, received{segment: 4128, dropped: 7, counted: true}},
		{"another message first", append(cmsg(1, 99, 1, 2, 3), gro...), received{segment: 4128}},
		{"cut off", both[:len(both)-7], received{segment: 4128}},
		{"length beyond the end", cmsg(17, 104, 1, 2, 3, 4)[:19], received{}},
		{"length 0", make([]byte, 40), received{}},
		{"too short for its kind", cmsg(unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1), received{}},
	} {
		if got := parseControl(tc.in); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func FuzzParseControl(f *testing.F) {
	f.Add(cmsg(unix.SOL_UDP, unix.UDP_GRO, native32(4128)...))
	f.Add(cmsg(unix.SOL_SOCKET, unix.SO_RXQ_OVFL, native32(7)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r := parseControl(b); r.segment < 0 || r.segment > 0xFFFF {
			t.Errorf("%+v", r)
		}
	})
}

func TestSocketAddressesAreTheKernels(t *testing.T) {
	for _, tc := range []struct {
		addr string
		zone uint32
		v6   bool
	}{{"10.1.2.3", 0, false}, {"fd00::5", 0, true}, {"fe80::5", 9, true}} {
		a := netip.MustParseAddr(tc.addr)
		s := newSockaddr(a, tc.zone)
		ip, port := addressOf(&s.b, tc.v6)
		if ip != a.As16() || port != 4791 {
			t.Errorf("%s: %v port %d", tc.addr, ip, port)
		}
		if tc.v6 && binary.NativeEndian.Uint32(s.b[24:]) != tc.zone {
			t.Errorf("%s: zone %d", tc.addr, s.b[24:])
		}
	}
}

func TestTruesizeIsNotBelowWhatTheKernelCounts(t *testing.T) {
	// Packets of 4112 bytes were measured to take about 8.2 KiB.
	for _, tc := range []struct{ n, least, most int }{{256, 512, 1536}, {1024, 2048, 2560}, {4096, 8200, 8704}} {
		if got := truesize(tc.n); got < tc.least || got > tc.most {
			t.Errorf("truesize(%d) = %d, want %d..%d", tc.n, got, tc.least, tc.most)
		}
	}
}
