package target

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// TestTaskAttributesOrderTheCommandsOfAUnit over the wire (SAM-5 8.6), with the store holding everything: an ordered command waits
// for the older ones and holds the newer ones up, a head of queue command passes, ACA is refused as there is no ACA condition.
func TestTaskAttributesOrderTheCommandsOfAUnit(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	s := g.ready()
	g.hold()
	mem, err := s.Register(make([]byte, 4096))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string, 8)
	submit := func(name string, attr srp.TaskAttr) {
		t.Helper()
		c := &initiator.Command{Attr: attr, CDB: initiator.Read16(0, 8), In: scattered(mem, 8, 4096)}
		c.Done = func(c *initiator.Command) {
			if err := c.Result.Check(); err != nil {
				name += ": " + err.Error()
			}
			done <- name
		}
		if _, err := s.Submit(c); err != nil {
			t.Fatal(err)
		}
		if err := s.TestUnitReady(t.Context(), srp.LUN{1: 9}); err == nil { // it came in before this one
			t.Fatal("there is no such LUN")
		}
	}
	submit("simple", srp.AttrSimple)
	submit("ordered", srp.AttrOrdered)
	submit("behind it", srp.AttrSimple)
	g.inStore(1)
	submit("head of queue", srp.AttrHeadOfQueue)
	g.inStore(2)
	submit("ACA", srp.AttrACA)
	g.release()
	var got []string
	for range 5 {
		got = append(got, <-done)
	}
	place := func(name string) int {
		i := slices.Index(got, name)
		if i < 0 {
			t.Errorf("%s is missing: %v", name, got)
		}
		return i
	}
	older, ordered, newer := place("simple"), place("ordered"), place("behind it")
	if older > ordered || ordered > newer {
		t.Errorf("out of order: %v", got)
	}
	place("head of queue")
	place("ACA: SCSI status 02h, sense 5/49/00")
}

// TestLUNFieldsOfEveryForm: peripheral and flat addressing name the units; all other forms, and those with a second level, name none.
func TestLUNFieldsOfEveryForm(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	g.addDisk(3)
	g.addDisk(300)
	s := g.ready()
	for _, lun := range []srp.LUN{{1: 3}, {0x41, 0x2c}} {
		if err := tur(t, s, lun); sense(err) != [3]byte{6, 0x29, 0} {
			t.Fatalf("%v: %v", lun, err)
		}
	}
	for _, c := range []struct {
		name string
		lun  srp.LUN
		ok   bool
	}{
		{"peripheral", srp.LUN{0, 3}, true},
		{"peripheral, 0", srp.LUN{0, 0}, true},
		{"flat below 256", srp.LUN{0x40, 3}, true},
		{"flat", srp.LUN{0x41, 0x2c}, true},
		{"peripheral, not there", srp.LUN{0, 4}, false},
		{"peripheral, bus 1", srp.LUN{1, 3}, false},
		{"flat, not there", srp.LUN{0x41, 0x2d}, false},
		{"logical unit addressing", srp.LUN{0x80, 3}, false},
		{"extended flat", srp.LUN{0xd2, 0, 0, 3}, false},
		{"long extended flat", srp.LUN{0xe2, 0, 0, 0, 0, 3}, false},
		{"well known, not there", srp.LUN{0xc1, 2}, false},
		{"not specified", srp.LUN{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, false},
		{"second level", srp.LUN{0, 3, 0, 1}, false},
		{"fourth level", srp.LUN{0, 3, 7: 1}, false},
	} {
		err := tur(t, s, c.lun)
		if c.ok != (err == nil) || !c.ok && sense(err) != [3]byte{5, 0x25, 0} {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestResetThatTheStoreHoldsUpFailsInTime: the store does not give the buffers back, so the unit is not quiet, and the initiator is
// told so in the end. When they come back nothing is answered twice, and every credit is there.
func TestResetThatTheStoreHoldsUpFailsInTime(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, func(g *rig) { g.cfg.Timing.Task = 100 * time.Millisecond })
	s := g.ready()
	g.hold()
	begin(t, s, 5)
	g.inStore(5)
	for _, f := range []srp.TaskFunction{srp.FuncLUNReset, srp.FuncClearTaskSet, srp.FuncAbortTaskSet} {
		var e *initiator.TaskError
		if err := s.Manage(t.Context(), f, srp.LUN{}); !errors.As(err, &e) || e.Code != srp.RspFailed {
			t.Errorf("%v: %v", f, err)
		}
	}
	g.release()
	g.waitFor("the unit is quiet", func() bool {
		n := 0
		for _, s := range g.target.sessions {
			for _, l := range s.links {
				n += int(l.ch.Stats().Active)
			}
		}
		return n == 0
	})
	if err := s.ResetLUN(t.Context(), srp.LUN{}); err != nil {
		t.Errorf("a quiet unit: %v", err)
	}
	g.do(func() {
		for _, s := range g.target.sessions {
			st := s.links[0].ch.Stats()
			if st.Window != 16 || st.Protocol.Overdue != 3 {
				t.Errorf("%+v", st)
			}
		}
	})
}
