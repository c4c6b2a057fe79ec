package mad

import (
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

func TestAddTargetNamesAnotherIOClassAndOnlySRP(t *testing.T) {
	c := testController(1, 1)
	c.Protocol.Class, c.SendSize = 0xFF00, 8276
	if line, ok := c.AddTarget(c.Services[0], ib.GID{}, 0x8001); !ok || !strings.HasSuffix(line, ",pkey=8001,service_id=0000000000000000,io_class=ff00,cmd_sg_entries=255") {
		t.Errorf("%q, %v", line, ok)
	}
	if line, ok := c.AddTarget(Service{Name: "console", ID: 1}, ib.GID{}, 0x8001); ok {
		t.Errorf("%q", line)
	}
	if line, ok := c.AddTargetAt(Service{Name: "SRP.T10:0123456789abcdef,dest=6.6.6.6", ID: 1}, "10.0.0.2:5555"); ok {
		t.Errorf("%q", line)
	}
}

// ib_srp would be refused if it asked for more than the controller accepts.
func TestAddTargetAsksForNoMoreThanTheControllerAccepts(t *testing.T) {
	const line = "id_ext=00000000000000aa,ioc_guid=00000000000000bb,dest=[fe80::2%eth0]:5555"
	for _, c := range []struct {
		sendSize uint32
		options  string
	}{
		{8276, ",cmd_sg_entries=255"},
		{8260, ",cmd_sg_entries=255"},
		{8259, ",cmd_sg_entries=255,max_it_iu_size=8259"},
		{8192, ",cmd_sg_entries=255,max_it_iu_size=8192"},
		{4164, ",cmd_sg_entries=255,max_it_iu_size=4164"},
		{4163, ",cmd_sg_entries=254,max_it_iu_size=4163"},
		{276, ",cmd_sg_entries=12,max_it_iu_size=276"},
		{100, ",cmd_sg_entries=1,max_it_iu_size=100"},
		{99, ",max_it_iu_size=99"},
		{0, ",max_it_iu_size=0"},
		{1<<32 - 1, ",cmd_sg_entries=255"},
	} {
		k := Controller{GUID: 0xBB, Protocol: SRP, SendSize: c.sendSize}
		if got, ok := k.AddTargetAt(SRPService(0xAA, 1), "[fe80::2%eth0]:5555"); !ok || got != line+c.options {
			t.Errorf("%d bytes: %q, %v", c.sendSize, got, ok)
		}
	}
}
