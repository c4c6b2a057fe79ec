package rdma

import (
	"net/netip"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

func TestServiceIDIsOfTheRangeThatAProcessMayListenTo(t *testing.T) {
	if got := ServiceID(5555); got != 0x00000000013F15B3 {
		t.Errorf("%#x", got)
	}
	for id, want := range map[uint64]bool{
		0x013F0001: true, 0x013FFFFF: true, 0x013F0000: false, 0x01400000: false, 0x013E0001: false, 0x010615B3: false, 0: false,
		0x01_013F0001: false, 0x02000000013F0001: false, 1<<64 - 1: false,
	} {
		if IsServiceID(id) != want {
			t.Errorf("%#x: %v", id, !want)
		}
	}
}

func TestServicesAreWrittenAsTheOperatorDoes(t *testing.T) {
	g := ib.GID{0: 0xFE, 1: 0x80, 15: 2}
	for want, s := range map[string]Service{
		"*:5555":          {Addr: netip.AddrPortFrom(netip.Addr{}, 5555)},
		"10.0.0.2:5555":   {Addr: netip.MustParseAddrPort("10.0.0.2:5555")},
		"[fe80::1%ib0]:1": {Addr: netip.MustParseAddrPort("[fe80::1%ib0]:1")},
		"service id 00000000013f15b3 at " + g.String(): {ID: ServiceID(5555), GID: g},
		"service id 00000000013f15b3":                  {ID: ServiceID(5555)},
	} {
		if s.String() != want {
			t.Errorf("%q, want %q", s, want)
		}
	}
}

func TestEndsWithoutAddressesAreNamedByTheirGIDs(t *testing.T) {
	local, remote := ib.GID{15: 1}, ib.GID{15: 2}
	i := ConnInfo{LocalGID: local, RemoteGID: remote}
	if i.LocalName() != local.String() || i.RemoteName() != remote.String() {
		t.Errorf("%s, %s", i.LocalName(), i.RemoteName())
	}
	i.Local, i.Remote = netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("[fd00::2]:2")
	if i.LocalName() != "10.0.0.1:1" || i.RemoteName() != "[fd00::2]:2" {
		t.Errorf("%s, %s", i.LocalName(), i.RemoteName())
	}
}
