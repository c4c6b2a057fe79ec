package ioctxwire

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gosrpt/gosrpt/sdk/ioctx"
	ioctxpb "github.com/gosrpt/gosrpt/sdk/proto/ioctx/v1"
)

func plan() ioctx.Plan {
	return ioctx.Plan{Credits: 128, Unsolicited: 4, Responses: 192, SendWork: 512, MaxRequestIU: 8276, MaxResponseIU: 500,
		MaxImmediateOffset: 512, MaxTransfer: 1 << 20, ArenaSize: 64 << 20, MaxWait: 10 * time.Second,
		SharedReceives: 1000}
}

func travel[M proto.Message](t *testing.T, m, to M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err == nil {
		err = proto.Unmarshal(b, to)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestSituationArrivesAsItWasSent(t *testing.T) {
	other := plan()
	other.Credits = 7
	for _, s := range []ioctx.Situation{
		{Default: plan()},
		{Default: plan(), InForce: other, Devices: []ioctx.Device{{Name: "eth0", MaxQueueDepth: 100, MTU: 4096}, {}}, Units: []ioctx.Unit{{LUN: 3, Name: "d", MaxTransfer: 5, OptimalTransfer: 6}, {}},
			Channels: 8, ChannelsPerNexus: 2, Memory: 1 << 40},
	} {
		if got, err := Situation(travel(t, SituationMessage(s), &ioctxpb.Situation{})); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%+v, %v, want %+v", got, err, s)
		}
	}
}

func TestPressureArrivesAsItWasSent(t *testing.T) {
	p := ioctx.Pressure{Waited: 1, TimedOut: 2, Refused: 3, Channels: 4, Arena: 5, ArenaFree: 6}
	if got := Pressure(travel(t, PressureMessage(p), &ioctxpb.Pressure{})); got != p {
		t.Errorf("%+v", got)
	}
}

// TestPlannerOfBeforeSharedReceivesLeavesThemAsTheyAre: what it answers does not name them.
func TestPlannerOfBeforeSharedReceivesLeavesThemAsTheyAre(t *testing.T) {
	old := Numbers(plan())
	old.SharedReceives = nil
	want := plan()
	want.SharedReceives = 77
	if got, err := Answer(travel(t, old, &ioctxpb.Numbers{}), ioctx.Situation{Default: want}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	none := plan()
	none.SharedReceives = 0
	if got, err := Answer(travel(t, Numbers(none), &ioctxpb.Numbers{}), ioctx.Situation{Default: want}); err != nil || got != none {
		t.Errorf("a planner that says 0: %+v, %v", got, err)
	}
	// A host of before asks without it.
	asked := SituationMessage(ioctx.Situation{Default: plan()})
	asked.Default.SharedReceives = nil
	if got, err := Situation(travel(t, asked, &ioctxpb.Situation{})); err != nil || got.Default != none {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Answer(nil, ioctx.Situation{}); err == nil {
		t.Error("no answer is a plan")
	}
}

func TestPlanThatIsNotInOrderIsNone(t *testing.T) {
	for name, change := range map[string]func(*ioctxpb.Numbers){
		"no credits": func(m *ioctxpb.Numbers) { m.Credits = 0 },
		"huge":       func(m *ioctxpb.Numbers) { m.Responses = 1<<32 - 1 },
		"for ever":   func(m *ioctxpb.Numbers) { m.MaxWaitNs = 1<<64 - 1 },
		"odd arena":  func(m *ioctxpb.Numbers) { m.ArenaSize++ },
	} {
		m := Numbers(plan())
		change(m)
		if p, err := Plan(m); err == nil || p != (ioctx.Plan{}) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if _, err := Plan(nil); err == nil {
		t.Error("no plan at all")
	}
	if _, err := Plan(Numbers(ioctx.Plan{Credits: -1, MaxWait: -1})); err == nil {
		t.Error("negative numbers")
	}
}

func TestSituationThatCannotBeIsRefused(t *testing.T) {
	for name, change := range map[string]func(*ioctxpb.Situation){
		"no default": func(m *ioctxpb.Situation) { m.Default = nil },
		"in force":   func(m *ioctxpb.Situation) { m.InForce = &ioctxpb.Numbers{} },
		"LUN":        func(m *ioctxpb.Situation) { m.Units = []*ioctxpb.Unit{{Lun: 1 << 16}} },
	} {
		m := SituationMessage(ioctx.Situation{Default: plan()})
		change(m)
		if s, err := Situation(m); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if _, err := Situation(nil); err == nil {
		t.Error("no situation at all")
	}
}

func TestFailureCarriesTheCode(t *testing.T) {
	if m := Failure(nil); m != nil {
		t.Errorf("%v", m)
	}
	if m := Failure(errors.New("broke")); m.Code != 1 || m.Text != "broke" {
		t.Errorf("%v", m)
	}
	if m := Failure(errors.New("\xff")); m.Text != "?" {
		t.Errorf("%q cannot travel", m.Text)
	}
}
