package mad

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

// What the agent does with a datagram, first row that fits (answer.go); testdata/*.txt has a transcript of each.
//
//	length            base version  class  method       class version  attribute            outcome
//	< 256, > 256      any           any    any          any            any                  dropped: short, long
//	256               not 1         any    any          any            any                  dropped: base_version
//	256               1             not 06 any          any            any                  dropped: class
//	256               1             06     80..FF       any            any                  dropped: response
//	256               1             06     05, 07       any            any                  dropped: one_way
//	256               1             06     others       not 1          any                  0004
//	256               1             06     02           1              any                  000C
//	256               1             06     not 01, 02   1              any                  0008
//	256               1             06     01           1              0001, 0010           0000
//	256               1             06     01           1              0011, 0012           by slot and range
//	256               1             06     01           1              others               000C

func testController(n int, services int) Controller {
	c := Controller{GUID: ib.GUID(0x0200000000000000 + n), Protocol: SRP, SendDepth: 64, ReadDepth: 4, SendSize: 8260,
		TransferSize: 1 << 20, Operations: SRPOperations, ID: fmt.Sprintf("controller %d", n)}
	for i := range services {
		c.Services = append(c.Services, SRPService(uint64(n)<<32|uint64(i), uint64(i)))
	}
	return c
}

func mustAgent(t testing.TB, cfg Config, controllers ...Controller) *Agent {
	t.Helper()
	a, err := New(cfg, controllers)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustUpdate(t testing.TB, a *Agent, controllers ...Controller) *Agent {
	t.Helper()
	next, err := a.Update(controllers)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// ask sends a query and returns its data and status.
func ask(t testing.TB, a *Agent, q Query) ([]byte, ib.Status) {
	t.Helper()
	b, drop := a.Answer(nil, q.Append(nil, 7))
	if drop != DropNone || len(b) != ib.MADSize {
		t.Fatalf("%v: %d bytes, dropped: %v", q, len(b), drop)
	}
	return b[HeaderSize:], ib.MAD(b).Status()
}

func TestEverySlotOfEverySizeOfUnitIsAnsweredByItsState(t *testing.T) {
	for _, slots := range []int{1, 2, 16, 255} {
		a := mustAgent(t, Config{Slots: slots}, testController(1, 1))
		if slots > 2 {
			a = mustUpdate(t, a, testController(1, 1), testController(2, 0), testController(3, 1))
			a = mustUpdate(t, a, testController(1, 1), testController(3, 1))
		}
		for _, slot := range append(upTo(300), 0xFFFF, 0x10000, 0x10001, 0xFFFFFFFF) {
			want := ib.StatusOK
			switch {
			case slot == 0 || uint64(slot) > uint64(slots):
				want = ib.StatusBadAttrValue
			case slot != 1 && slot != 3:
				want = StatusNoIOC
			}
			data, got := ask(t, a, Query{AttrIOControllerProfile, slot})
			if got != want {
				t.Errorf("slot %#x of %d: profile %04x, want %04x", slot, slots, got, want)
			}
			if p, _ := ParseProfile(data); got == ib.StatusOK && p.GUID() != testController(int(slot), 0).GUID {
				t.Errorf("slot %d: GUID %v", slot, p.GUID())
			}
			if _, got := ask(t, a, Query{AttrServiceEntries, slot << 16}); slot < 0x10000 && got != want {
				t.Errorf("slot %#x of %d: services %04x, want %04x", slot, slots, got, want)
			}
		}
	}
}

func upTo(n uint32) (all []uint32) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func TestEveryRangeOfServicesIsAnsweredInFullOrRefused(t *testing.T) {
	edges := []uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 127, 128, 252, 253, 254, 255}
	for _, n := range []int{0, 1, 2, 3, 4, 5, 6, 255} {
		c := testController(1, n)
		a := mustAgent(t, Config{}, c)
		for _, first := range edges {
			for _, last := range edges {
				data, status := ask(t, a, GetServices(1, first, last))
				want := ib.StatusOK
				if n == 0 {
					want = StatusNoServices
				} else if first > last || int(last) >= n || last-first > 3 {
					want = ib.StatusBadAttrValue
				}
				if status != want {
					t.Fatalf("%d..%d of %d: status %04x, want %04x", first, last, n, status, want)
				}
				if status == ib.StatusOK {
					checkServices(t, data, c.Services[first:last+1])
				}
			}
		}
	}
}

func checkServices(t *testing.T, data []byte, want []Service) {
	t.Helper()
	e, err := ParseServiceEntries(data, ServicesPerQuery)
	if err != nil {
		t.Fatal(err)
	}
	for i := range e.Len() {
		s := Service{}
		if i < len(want) {
			s = want[i]
		}
		if e.At(i) != s {
			t.Errorf("entry %d of %d: %+v, want %+v", i, len(want), e.At(i), s)
		}
	}
}

func TestEveryMethodHasOneOutcome(t *testing.T) {
	a := mustAgent(t, Config{}, testController(1, 1))
	for m := range 256 {
		request := GetIOUnitInfo().Append(nil, 1)
		request[3] = byte(m)
		b, drop := a.Answer(nil, request)
		wantDrop, want := DropNone, ib.StatusBadMethod
		switch {
		case m >= 0x80:
			wantDrop = DropResponse
		case m == 5 || m == 7:
			wantDrop = DropOneWay
		case m == 1:
			want = ib.StatusOK
		case m == 2:
			want = ib.StatusBadMethodAttr
		}
		if drop != wantDrop || (len(b) > 0) != (wantDrop == DropNone) {
			t.Errorf("method %02x: %d bytes, dropped: %v", m, len(b), drop)
		} else if len(b) > 0 && ib.MAD(b).Status() != want {
			t.Errorf("method %02x: status %04x, want %04x", m, ib.MAD(b).Status(), want)
		}
	}
}

func TestAnAnswerIsNeverAnswered(t *testing.T) {
	a := mustAgent(t, Config{}, testController(1, 1))
	for _, q := range []Query{GetClassPortInfo(), GetIOUnitInfo(), GetProfile(1), GetProfile(2), {Attr: 0xFF}} {
		b, _ := a.Answer(nil, q.Append(nil, 1))
		if again, drop := a.Answer(nil, b); drop != DropResponse || len(again) != 0 {
			t.Errorf("%v: the answer was answered, or dropped for %v", q, drop)
		}
	}
}

func TestChangeIDMovesWithEveryChangeAndOnlyThen(t *testing.T) {
	c := testController(1, 2)
	for name, change := range map[string]func(*Controller){
		"vendor":           func(c *Controller) { c.Vendor++ },
		"device":           func(c *Controller) { c.Device++ },
		"device version":   func(c *Controller) { c.DeviceVersion++ },
		"subsystem vendor": func(c *Controller) { c.SubsystemVendor++ },
		"subsystem":        func(c *Controller) { c.Subsystem++ },
		"class":            func(c *Controller) { c.Protocol.Class++ },
		"subclass":         func(c *Controller) { c.Protocol.Subclass++ },
		"protocol":         func(c *Controller) { c.Protocol.Protocol++ },
		"version":          func(c *Controller) { c.Protocol.Version++ },
		"send depth":       func(c *Controller) { c.SendDepth++ },
		"read depth":       func(c *Controller) { c.ReadDepth++ },
		"send size":        func(c *Controller) { c.SendSize++ },
		"transfer size":    func(c *Controller) { c.TransferSize++ },
		"operations":       func(c *Controller) { c.Operations |= OpAtomicTo },
		"identification":   func(c *Controller) { c.ID += "x" },
		"service name":     func(c *Controller) { c.Services[0].Name += ":x" },
		"service id":       func(c *Controller) { c.Services[1].ID++ },
		"service order":    func(c *Controller) { c.Services[0], c.Services[1] = c.Services[1], c.Services[0] },
		"services":         func(c *Controller) { c.Services = c.Services[:1] },
		"GUID":             func(c *Controller) { c.GUID++ },
	} {
		a := mustAgent(t, Config{ChangeID: 9}, c)
		if same := mustUpdate(t, a, testController(1, 2)); same != a {
			t.Fatal("an equal table made another agent")
		}
		other := testController(1, 2)
		change(&other)
		b := mustUpdate(t, a, other)
		if b.ChangeID() != 10 || a.ChangeID() != 9 {
			t.Errorf("another %s: change id %d, and %d of the old agent", name, b.ChangeID(), a.ChangeID())
		}
		if back := mustUpdate(t, b, c); back.ChangeID() != 11 {
			t.Errorf("%s changed back: change id %d", name, back.ChangeID())
		}
	}
	a := mustAgent(t, Config{ChangeID: 0xFFFF})
	if b := mustUpdate(t, a, c); b.ChangeID() != 0 {
		t.Errorf("change id %d after FFFFh", b.ChangeID())
	}
}

func TestControllersKeepTheirSlots(t *testing.T) {
	one, two, three, four := testController(1, 1), testController(2, 1), testController(3, 1), testController(4, 1)
	a := mustAgent(t, Config{Slots: 3}, one, two, three)
	b := mustUpdate(t, a, three, one)
	c := mustUpdate(t, b, four, three)
	d := mustUpdate(t, c, two, three, four)
	for i, x := range []struct {
		a     *Agent
		slots [4]int
	}{{a, [4]int{1, 2, 3, 0}}, {b, [4]int{1, 0, 3, 0}}, {c, [4]int{0, 0, 3, 1}}, {d, [4]int{0, 2, 3, 1}}} {
		got := [4]int{x.a.Slot(one.GUID), x.a.Slot(two.GUID), x.a.Slot(three.GUID), x.a.Slot(four.GUID)}
		if got != x.slots {
			t.Errorf("table %d: controllers in slots %v, want %v", i, got, x.slots)
		}
	}
}

func TestAnAgentDoesNotChange(t *testing.T) {
	c := testController(1, 1)
	a := mustAgent(t, Config{}, c)
	before, _ := a.Answer(nil, GetServices(1, 0, 0).Append(nil, 1))
	c.Services[0].ID = 99
	mustUpdate(t, a)
	if after, _ := a.Answer(nil, GetServices(1, 0, 0).Append(nil, 1)); string(after) != string(before) {
		t.Errorf("answers %x, before %x", after, before)
	}
}

func TestBadTablesAreRefusedAndSayWhy(t *testing.T) {
	for _, c := range []struct {
		why   string
		spoil func(*Controller)
	}{
		{"no GUID", func(c *Controller) { c.GUID = 0 }},
		{"24 bits", func(c *Controller) { c.Vendor = 1 << 24 }},
		{"24 bits", func(c *Controller) { c.SubsystemVendor = 1 << 24 }},
		{"protocol", func(c *Controller) { c.Protocol = Protocol{} }},
		{"operations", func(c *Controller) { c.Operations = 0 }},
		{"nobody can use", func(c *Controller) { c.SendDepth = 0 }},
		{"nobody can use", func(c *Controller) { c.SendSize = 0 }},
		{"identification", func(c *Controller) { c.ID = strings.Repeat("x", 64) }},
		{"identification", func(c *Controller) { c.ID = "a\x1b[2J" }},
		{"identification", func(c *Controller) { c.ID = "\xff" }},
		{"256 services", func(c *Controller) { c.Services = testController(1, 256).Services }},
		{"service \"\"", func(c *Controller) { c.Services[0].Name = "" }},
		{"39 printable", func(c *Controller) { c.Services[0].Name = strings.Repeat("x", 40) }},
		{"39 printable", func(c *Controller) { c.Services[0].Name = "é" }},
		{"39 printable", func(c *Controller) { c.Services[0].Name = "a\nb" }},
		{"two services", func(c *Controller) { c.Services = append(c.Services, c.Services[0]) }},
		{"twice", func(c *Controller) { c.GUID = testController(2, 0).GUID }},
	} {
		bad := testController(1, 1)
		c.spoil(&bad)
		a := mustAgent(t, Config{}, testController(2, 1))
		next, err := a.Update([]Controller{testController(2, 1), bad})
		if next != nil || !errors.Is(err, ErrTable) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", c.why, err)
		}
		if _, err := New(Config{}, []Controller{testController(2, 1), bad}); !errors.Is(err, ErrTable) {
			t.Errorf("%s: a new agent took it: %v", c.why, err)
		}
	}
	full := mustAgent(t, Config{Slots: 1}, testController(1, 0))
	if _, err := full.Update([]Controller{testController(1, 0), testController(2, 0)}); !errors.Is(err, ErrTable) {
		t.Errorf("two controllers in one slot: %v", err)
	}
	for _, cfg := range []Config{{Slots: -1}, {Slots: 256}, {ResponseTime: 32}} {
		if _, err := New(cfg, nil); !errors.Is(err, ErrTable) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

func TestTheLargestTableFits(t *testing.T) {
	var all []Controller
	for n := 1; n <= MaxSlots; n++ {
		all = append(all, testController(n, 1))
	}
	a := mustAgent(t, Config{Slots: MaxSlots}, all...)
	data, _ := ask(t, a, GetIOUnitInfo())
	u, err := ParseIOUnitInfo(data)
	if err != nil || u.Slots() != MaxSlots {
		t.Fatalf("%d slots, %v", u.Slots(), err)
	}
	for n := 1; n <= MaxSlots; n++ {
		if !u.Present(n) || a.Slot(all[n-1].GUID) != n {
			t.Errorf("slot %d: present %v", n, u.Present(n))
		}
	}
	if u.Present(0) || u.Present(256) || data[131] != 0x10 {
		t.Errorf("slots that do not exist: % x", data[130:132])
	}
}

func TestAnswersAreAppendedWithoutAllocation(t *testing.T) {
	a := mustAgent(t, Config{}, testController(1, 6))
	requests := [][]byte{GetClassPortInfo().Append(nil, 1), GetIOUnitInfo().Append(nil, 1), GetProfile(1).Append(nil, 1),
		GetServices(1, 2, 5).Append(nil, 1), GetProfile(9).Append(nil, 1), Query{Attr: 9}.Append(nil, 1), {1, 6}}
	room := make([]byte, 3, 3+ib.MADSize)
	if n := testing.AllocsPerRun(100, func() {
		for _, r := range requests {
			a.Answer(room, r)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	b, _ := a.Answer([]byte{1, 2, 3}, requests[0])
	if len(b) != 3+ib.MADSize || string(b[:3]) != "\x01\x02\x03" || b[3] != ib.MADBaseVersion {
		t.Errorf("%d bytes: % x", len(b), b[:8])
	}
	if b, drop := a.Answer([]byte{1, 2, 3}, nil); drop != DropShort || string(b) != "\x01\x02\x03" {
		t.Errorf("no answer appended % x", b)
	}
}

func TestDropReasonsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for d := range DropReasons + 1 {
		if d.String() == "" || seen[d.String()] {
			t.Errorf("reason %d is called %q", d, d)
		}
		seen[d.String()] = true
	}
}
