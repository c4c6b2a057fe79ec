package mad

import (
	"errors"
	"reflect"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

func TestAProfileReadsBackAsItWasWritten(t *testing.T) {
	c := Controller{GUID: 0x0102030405060708, Vendor: 0x0A0B0C, Device: 0x0D0E0F10, DeviceVersion: 0x1112, SubsystemVendor: 0x131415,
		Subsystem: 0x16171819, Protocol: Protocol{0x1A1B, 0x1C1D, 0x1E1F, 0x2021}, SendDepth: 0x2223, ReadDepth: 0x24,
		SendSize: 0x25262728, TransferSize: 0x292A2B2C, Operations: 0x2D, ID: "größer"}
	p, err := ParseProfile(c.appendProfile(nil))
	if err != nil || len(p) != ProfileSize {
		t.Fatalf("%d bytes, %v", len(p), err)
	}
	if got := p.Controller(); !reflect.DeepEqual(got, c) {
		t.Errorf("got  %+v\nwant %+v", got, c)
	}
}

func TestAttributesThatEndEarlyAreShort(t *testing.T) {
	for _, c := range []struct {
		name  string
		size  int
		parse func([]byte) error
	}{
		{"ClassPortInfo", ClassPortInfoSize, func(b []byte) error { _, err := ParseClassPortInfo(b); return err }},
		{"IOUnitInfo", IOUnitInfoSize, func(b []byte) error { _, err := ParseIOUnitInfo(b); return err }},
		{"IOControllerProfile", ProfileSize, func(b []byte) error { _, err := ParseProfile(b); return err }},
		{"ServiceEntries", 4 * ServiceSize, func(b []byte) error { _, err := ParseServiceEntries(b, 4); return err }},
	} {
		for n := range DataSize + 1 {
			if err := c.parse(make([]byte, n)); (err == nil) != (n >= c.size) || err != nil && !errors.Is(err, ErrShort) {
				t.Errorf("%s of %d bytes: %v", c.name, n, err)
			}
		}
	}
	for _, n := range []int{-1, 5} {
		if _, err := ParseServiceEntries(make([]byte, 1000), n); err == nil {
			t.Errorf("%d entries in one answer", n)
		}
	}
}

func TestEachSlotHasItsOwnBits(t *testing.T) {
	for slot := 1; slot <= MaxSlots; slot++ {
		for _, fill := range []byte{0, 0xFF} {
			u := make(IOUnitInfo, IOUnitInfoSize)
			for i := range u {
				u[i] = fill
			}
			u[2] = MaxSlots
			u.setState(slot, slotInstalled)
			for other := 1; other <= MaxSlots; other++ {
				if u.Present(other) != (other == slot) {
					t.Fatalf("slot %d set over %02x: slot %d present %v", slot, fill, other, u.Present(other))
				}
			}
		}
	}
}

func TestClassPortInfoSaysWhatIsSpoken(t *testing.T) {
	data, _ := ask(t, mustAgent(t, Config{ResponseTime: 31}), GetClassPortInfo())
	c, err := ParseClassPortInfo(data)
	if err != nil || c.BaseVersion() != 1 || c.ClassVersion() != 1 || c.Capabilities() != 0 || c.ResponseTime() != 31 {
		t.Errorf("% x, %v", c, err)
	}
}

func TestTextOfAPeerIsFitForATerminal(t *testing.T) {
	for in, want := range map[string]string{
		"":                     "",
		"\x00after":            "",
		"gosrpt\x00\x00":       "gosrpt",
		"no end":               "no end",
		"a\x1b[2Jb\rc":         "a?[2Jb?c",
		"\xff\xfe":             "??",
		"größer":               "größer",
		"right\u202eto left":   "right?to left",
		"SRP.T10:0011\x00\x1b": "SRP.T10:0011",
	} {
		if got := text([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestServiceNamesOfSRP(t *testing.T) {
	s := SRPService(0x0002C90300A1B2C3, 5)
	if s.Name != "SRP.T10:0002c90300a1b2c3" || s.ID != 5 {
		t.Errorf("%+v", s)
	}
	for name, want := range map[string]uint64{
		s.Name: 0x0002C90300A1B2C3, "SRP.T10:0002C90300A1B2C3": 0x0002C90300A1B2C3, "SRP.T10:0000000000000001:later": 1,
		"SRP.T10:ffffffffffffffff": 1<<64 - 1,
	} {
		if got, ok := (Service{Name: name}).IDExt(); !ok || got != want {
			t.Errorf("%q: %x, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "SRP.T10:", "SRP.T10:0002c90300a1b2c", "SRP.T10:0002c90300a1b2c3f", "SRP.T10:0002c90300a1b2cg",
		"srp.t10:0002c90300a1b2c3", "0002c90300a1b2c3", "SRP.T10:+002c90300a1b2c3", "SRP.T10:0002c90300a1b_c3", "SRP.T10::0002c90300a1b2c3"} {
		if got, ok := (Service{Name: name}).IDExt(); ok {
			t.Errorf("%q: %x", name, got)
		}
	}
}

func TestStatusesHaveTheirNumbersAndTexts(t *testing.T) {
	for s, number := range map[ib.Status]uint16{ib.StatusBadVersion: 4, ib.StatusBadMethod: 8, ib.StatusBadMethodAttr: 0xC, ib.StatusBadAttrValue: 0x1C,
		StatusNoIOC: 0x100, StatusNoServices: 0x200, StatusIOCFailure: 0x8000, ib.StatusOK: 0, ib.StatusBusy: 1, ib.StatusRedirect: 2} {
		if uint16(s) != number || StatusText(s) == "unknown" {
			t.Errorf("status %04x is %04x, %q", number, uint16(s), StatusText(s))
		}
	}
	if StatusText(0x4000) != "unknown" {
		t.Errorf("%q", StatusText(0x4000))
	}
}
