package main

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

func onVerbs(serviceID bool) func(*config.Config) {
	return func(c *config.Config) { c.Provider, c.Verbs.ServiceID = config.ProviderVerbs, serviceID }
}

func hex16(n uint64) string { return fmt.Sprintf("%016x", n) }

func portGID(n byte) ib.GID { return ib.GID{0: 0xFE, 1: 0x80, 15: n} }

// discovered is what ports of InfiniBand and of Ethernet tell, by the last byte of their GIDs.
func discovered(t *testing.T, d *daemon, peer *rdmatest.Device, n byte) uint64 {
	t.Helper()
	eventually(t, "discovery is answered", func() bool {
		f := source{d}.Fabric()
		return len(f.Hcas) == 2 && f.Hcas[0].Serving && f.Hcas[1].Serving && f.Hcas[0].Ports[0].Discovery && f.Hcas[1].Ports[0].Discovery
	})
	c := discover(t, peer, rdma.MADAddr{LID: ib.LID(n), QPN: ib.QPGeneralServices, HasGRH: true, GRH: rdma.MADRoute{GID: portGID(n)}})
	return c.Services[0].ID
}

// fabricOfBoth has a device of InfiniBand without an address, 1, and one of Ethernet, 2.
func fabricOfBoth(t *testing.T, serviceID bool) (*daemon, *rdmatest.Device) {
	d, ours, peer := onFabric(t, onVerbs(serviceID))
	ours.Add(rdmatest.DeviceConfig{Name: "ib", GIDs: []ib.GID{portGID(1)}, LID: 1, PKeys: []ib.PKey{0xFFFF, 0, 0x8001}})
	ours.Add(rdmatest.DeviceConfig{Name: "eth", Addrs: []netip.Addr{netip.AddrFrom16(portGID(2))}})
	return d, peer
}

// The id that discovery tells is the one that takes logins, and the line that the operator is given names it in each partition.
func TestInfiniBandPortsTellTheServiceIDThatTakesLogins(t *testing.T) {
	d, peer := fabricOfBoth(t, true)
	if id := discovered(t, d, peer, 2); id != 0x0106_0000|uint64(testPort) {
		t.Errorf("the port of Ethernet tells of %#x", id)
	}
	id := discovered(t, d, peer, 1)
	if id != 0x013F_0000|uint64(testPort) {
		t.Errorf("the port of InfiniBand tells of %#x", id)
	}
	s, err := initiator.Dial(soon(t), initiator.Config{
		Device: peer, Service: rdma.Service{ID: id, GID: portGID(1)}, Initiator: newInitiator(), Target: targetID(), QueueDepth: 8, Timeout: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list := source{d}.Sessions().Sessions
	if len(list) != 1 || list[0].Channels[0].Remote != portGID(9).String() || list[0].Channels[0].Local != portGID(1).String() {
		t.Errorf("sessions %v", list)
	}
	var lines []string
	for _, i := range (source{d}).ConnectInfo().Infos {
		if i.Address == portGID(1).String() {
			lines = append(lines, i.AddTarget[:len(i.AddTarget)-len(",cmd_sg_entries=255")])
		}
	}
	at := "id_ext=" + hex16(testIDExt) + ",ioc_guid=" + hex16(testIOCGUID) + ",dgid=fe800000000000000000000000000001,pkey="
	if want := []string{at + "ffff,service_id=" + hex16(id), at + "8001,service_id=" + hex16(id)}; !slices.Equal(lines, want) {
		t.Errorf("lines\n%q, want\n%q", lines, want)
	}
}

func TestNoLoginsByServiceIDWhereTheyAreNotWanted(t *testing.T) {
	d, peer := fabricOfBoth(t, false)
	if id := discovered(t, d, peer, 1); id != 0x0106_0000|uint64(testPort) {
		t.Errorf("the port tells of %#x", id)
	}
	_, err := initiator.Dial(soon(t), initiator.Config{
		Device: peer, Service: rdma.Service{ID: rdma.ServiceID(testPort), GID: portGID(1)}, Initiator: newInitiator(), Target: targetID(),
		QueueDepth: 8, Timeout: patience,
	})
	if err == nil {
		t.Error("a login by service id is taken")
	}
}
