//go:build verbs

package verbs

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// routed is an address with a value of its own in each field.
var routed = rdma.MADAddr{LID: 0x0102, PathBits: 3, SL: 4, QPN: 0x050607, PKeyIndex: 0x0809, HasGRH: true, GRH: rdma.MADRoute{
	GID: ib.GID{0xFE, 0x80, 15: 0x0A}, GIDIndex: 0x0B, HopLimit: 0x0C, TrafficClass: 0x0D, FlowLabel: 0xE0F10}}

// routedHeader is its header on a little-endian host.
const routedHeader = "11000000" + "00000000" + "d0070000" + "04000000" + "00000000" + // agent, status, timeout, retries, length
	"00050607" + "80010000" + "0102" + "04" + "03" + "01" + "0b" + "0c" + "0d" + "fe80000000000000000000000000000a" + "000e0f10" + "0908" + "000000000000"

func TestHeaderHasTheKernelsLayout(t *testing.T) {
	if bigEndian() {
		t.Skip("the header is in the host's byte order, and this host's is not that of the example")
	}
	got := appendUMAD(nil, 0x11, 2000, 4, routed, []byte{0xAA, 0xBB})
	if s := hex.EncodeToString(got); s != routedHeader+"aabb" {
		t.Errorf("header\n%s, want\n%saabb", s, routedHeader)
	}
}

func bigEndian() bool {
	b := appendUMAD(nil, 1, 0, 0, rdma.MADAddr{}, nil)
	return b[0] == 0
}

func TestAddressOfARequestIsThatOfItsAnswer(t *testing.T) {
	local := rdma.MADAddr{LID: 7, PathBits: 1, SL: 2, QPN: 1, PKeyIndex: 5}
	for _, a := range []rdma.MADAddr{routed, local, {LID: 0xFFFF}, {HasGRH: true, QPN: ib.QPNMask}} {
		m, ok := parseUMAD(appendUMAD(nil, 1, 0, 0, a, []byte("datagram")))
		if !ok || m.from() != a || string(m.mad()) != "datagram" || m.status() != 0 {
			t.Errorf("%+v became %+v", a, m.from())
		}
	}
}

func TestAddressesThatNoPacketCanCarryAreNotReachable(t *testing.T) {
	for name, change := range map[string]func(*rdma.MADAddr){
		"queue pair of 25 bits":  func(a *rdma.MADAddr) { a.QPN = 1 << 24 },
		"service level 16":       func(a *rdma.MADAddr) { a.SL = 16 },
		"path bits 128":          func(a *rdma.MADAddr) { a.PathBits = 128 },
		"flow label of 21 bits":  func(a *rdma.MADAddr) { a.GRH.FlowLabel = 1 << 20 },
		"neither a GRH nor LID":  func(a *rdma.MADAddr) { a.HasGRH, a.LID = false, 0 },
		"LID 0 without a header": func(a *rdma.MADAddr) { *a = rdma.MADAddr{QPN: 1} },
	} {
		a := routed
		if change(&a); umadReachable(a) || !umadReachable(routed) {
			t.Errorf("%s: %+v is reachable", name, a)
		}
	}
}

// FuzzUMADHeader: whatever comes from the descriptor, its address is one that could be sent to, or has no destination; and it is not
// changed by being sent.
func FuzzUMADHeader(f *testing.F) {
	header, _ := hex.DecodeString(routedHeader)
	f.Add(header)
	f.Add(append(header, make([]byte, ib.MADSize)...))
	f.Add(header[:umadHeader-1])
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xFF}, umadHeader+4))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := parseUMAD(b)
		if ok != (len(b) >= umadHeader) {
			t.Fatalf("%d bytes: %v", len(b), ok)
		}
		if !ok {
			return
		}
		a := m.from()
		if a.QPN > ib.QPNMask || a.GRH.FlowLabel > flowLabelMask || !a.HasGRH && a.GRH != (rdma.MADRoute{}) {
			t.Errorf("address %+v", a)
		}
		again, _ := parseUMAD(appendUMAD(nil, 1, 0, 0, a, m.mad()))
		if again.from() != a || !bytes.Equal(again.mad(), m.mad()) {
			t.Errorf("%+v became %+v", a, again.from())
		}
	})
}
