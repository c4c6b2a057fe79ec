package mad

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

// The discovery's states, and what Answer does in each.
//
//	state        good data                                   bad data, or error
//	askUnit      askProfile of the first occupied slot,      finished, Result has the error
//	             finished if there is none
//	askProfile   askServices, next slot if there are none    next slot, Found has the error
//	askServices  askServices of the rest, else next slot     next slot, Found has the error
//	finished     nothing                                     nothing

// walk runs a discovery against an agent and lists its queries. fail may replace an answer.
func walk(t *testing.T, a *Agent, fail func(Query) error) (Unit, []string, error) {
	t.Helper()
	var d Discovery
	var asked []string
	for q, more := d.Next(); more; q, more = d.Next() {
		if again, _ := d.Next(); again != q {
			t.Fatalf("%v became %v unasked", q, again)
		}
		asked = append(asked, strings.TrimPrefix(q.String(), "Get "))
		if err := fail(q); err != nil {
			d.Answer(nil, err)
			continue
		}
		tid := uint32(len(asked))
		b, drop := a.Answer(nil, q.Append(nil, tid))
		if drop != DropNone {
			t.Fatalf("%v: dropped, %v", q, drop)
		}
		d.Answer(q.Parse(b, tid))
	}
	d.Answer(nil, errors.New("late"))
	u, err := d.Result()
	return u, asked, err
}

func nothingFails(Query) error { return nil }

func TestDiscoveryFindsEverythingBehindAPort(t *testing.T) {
	one, two, three := testController(1, 6), testController(2, 0), testController(3, 4)
	a := mustUpdate(t, mustAgent(t, Config{Slots: 5, ChangeID: 6}, one, testController(9, 1), two), one, two)
	a = mustUpdate(t, a, one, two, three)
	u, asked, err := walk(t, a, nothingFails)
	want := Unit{ChangeID: 8, Slots: 5, Found: []Found{{1, one, nil}, {2, three, nil}, {3, two, nil}}}
	if err != nil || !reflect.DeepEqual(u, want) {
		t.Errorf("%v\n got %+v\nwant %+v", err, u, want)
	}
	if got, want := strings.Join(asked, "; "), "IOUnitInfo; IOControllerProfile of slot 1; ServiceEntries 0 to 3 of slot 1; "+
		"ServiceEntries 4 to 5 of slot 1; IOControllerProfile of slot 2; ServiceEntries 0 to 3 of slot 2; IOControllerProfile of slot 3"; got != want {
		t.Errorf("asked %s\nwant  %s", got, want)
	}
}

func TestDiscoveryOfTheLargestControllerEnds(t *testing.T) {
	c := testController(1, MaxServices)
	u, asked, err := walk(t, mustAgent(t, Config{}, c), nothingFails)
	if err != nil || len(u.Found) != 1 || !reflect.DeepEqual(u.Found[0].Controller, c) || len(asked) != 1+65 {
		t.Errorf("%d found with %d queries, %v", len(u.Found), len(asked), err)
	}
}

func TestDiscoveryOfAnEmptyUnit(t *testing.T) {
	u, asked, err := walk(t, mustAgent(t, Config{}), nothingFails)
	if err != nil || u.Slots != DefaultSlots || u.Found != nil || len(asked) != 1 {
		t.Errorf("%+v, %v, %v", u, err, asked)
	}
}

func TestDiscoveryGoesOnAfterAFailure(t *testing.T) {
	lost := errors.New("no answer in 15 s")
	one, two := testController(1, 5), testController(2, 1)
	a := mustAgent(t, Config{}, one, two)
	for _, c := range []struct {
		at    Query
		first Controller
		asked int
	}{
		{GetProfile(1), Controller{}, 4},
		{GetServices(1, 0, 3), Controller{}, 5},
		{GetServices(1, 4, 4), Controller{}, 6},
	} {
		u, asked, err := walk(t, a, func(q Query) error {
			if q == c.at {
				return lost
			}
			return nil
		})
		if err != nil || len(u.Found) != 2 || len(asked) != c.asked {
			t.Fatalf("%v lost: %+v, %v, %v", c.at, u, err, asked)
		}
		if f := u.Found[0]; !errors.Is(f.Err, lost) || f.Slot != 1 {
			t.Errorf("%v lost: %+v", c.at, f)
		}
		if f := u.Found[1]; f.Err != nil || !reflect.DeepEqual(f.Controller, two) {
			t.Errorf("%v lost: the other controller is %+v", c.at, f)
		}
	}
	if u, asked, err := walk(t, a, func(Query) error { return lost }); !errors.Is(err, lost) || len(u.Found) != 0 || len(asked) != 1 {
		t.Errorf("no unit: %+v, %v, %v", u, err, asked)
	}
}

func TestDiscoveryRefusesAttributesThatEndEarly(t *testing.T) {
	var d Discovery
	d.Answer(make([]byte, IOUnitInfoSize-1), nil)
	if _, err := d.Result(); !errors.Is(err, ErrShort) {
		t.Errorf("unit: %v", err)
	}
	unit := make([]byte, IOUnitInfoSize)
	unit[2], unit[4] = 2, 0x11
	profile := make([]byte, ProfileSize)
	profile[54] = 1
	d = Discovery{}
	d.Answer(unit, nil)
	d.Answer(profile[:ProfileSize-1], nil)
	d.Answer(profile, nil)
	unit[4] = 0
	d.Answer(make([]byte, ServiceSize-1), nil)
	u, err := d.Result()
	if _, more := d.Next(); more || err != nil || len(u.Found) != 2 || !errors.Is(u.Found[0].Err, ErrShort) || !errors.Is(u.Found[1].Err, ErrShort) {
		t.Errorf("%+v, %v", u, err)
	}
}

// TestDiscoveryOfTheKernelsAgent walks what Linux was recorded to answer.
func TestDiscoveryOfTheKernelsAgent(t *testing.T) {
	recorded := map[Query][]byte{}
	for _, x := range readTranscript(t, "testdata/linux.txt") {
		if m := ib.MAD(x.request); m.Method() == ib.MethodGet && m.ClassVersion() == 1 && x.linux.bytes != nil {
			recorded[Query{m.AttrID(), m.AttrMod()}] = x.linux.bytes
		}
	}
	var d Discovery
	for q, more := d.Next(); more; q, more = d.Next() {
		b := recorded[q]
		if b == nil {
			t.Fatalf("%v was not recorded", q)
		}
		d.Answer(q.Parse(b, uint32(ib.MAD(b).TID())))
	}
	u, err := d.Result()
	if err != nil || len(u.Found) != 1 || u.Found[0].Err != nil {
		t.Fatalf("%+v, %v", u, err)
	}
	c := u.Found[0].Controller
	gid := ib.MakeGID(ib.LinkLocalPrefix, c.GUID)
	line, ok := c.AddTarget(c.Services[0], gid, ib.PKeyDefault)
	if want := "id_ext=505400fffe123456,ioc_guid=505400fffe123456,dgid=fe80000000000000505400fffe123456,pkey=ffff,service_id=505400fffe123456,cmd_sg_entries=255"; !ok || line != want {
		t.Errorf("%q, %v", line, ok)
	}
}

func TestDiscoveryOfAHostileAgentEnds(t *testing.T) {
	unit, profile := make([]byte, IOUnitInfoSize), make([]byte, ProfileSize)
	for i := range unit {
		unit[i] = 0x11
	}
	unit[2], profile[54] = MaxSlots, MaxServices
	answers := map[uint16][]byte{AttrIOUnitInfo: unit, AttrIOControllerProfile: profile, AttrServiceEntries: make([]byte, DataSize)}
	var d Discovery
	asked := 0
	for q, more := d.Next(); more; q, more = d.Next() {
		asked++
		d.Answer(answers[q.Attr], nil)
	}
	if asked != 16576 {
		t.Errorf("over after %d queries", asked)
	}
}
