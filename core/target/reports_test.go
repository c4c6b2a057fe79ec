package target

import (
	"fmt"
	"testing"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// TestChangesAreReportedToThoseWhoAsked: SRP_AER_REQ for a changed list of LUNs and for another size, once a nexus. Whoever did not
// ask learns of both by unit attentions only, as does whoever asked.
func TestChangesAreReportedToThoseWhoAsked(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	events := make(chan string, 100)
	asked := g.ready(func(c *initiator.Config) {
		c.Channels, c.Reports = 4, true
		c.Event = func(l srp.LUN, sense []byte) { events <- fmt.Sprintf("%s %x", l, sense) }
	})
	quiet := g.ready(func(c *initiator.Config) {
		c.Initiator = srp.MakePortID(7, 7)
		c.Event = func(srp.LUN, []byte) { t.Error("a report that nobody asked for") }
	})
	want := func(event string) {
		t.Helper()
		if got := <-events; got != event {
			t.Errorf("reported %s, want %s", got, event)
		}
	}
	const changed, larger = "700006000000000a000000003f0e00000000", "700006000000000a000000002a0900000000"
	disk, info := g.disk, g.guard.Info()
	g.addDisk(3)
	want("0000000000000000 " + changed)
	if err := g.target.RemoveUnit(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	want("0000000000000000 " + changed)
	info.Blocks /= 2
	g.do(func() {
		if err := disk.Update(info); err != nil {
			t.Error(err)
		}
		g.target.CapacityChanged(disk)
	})
	want("0000000000000000 " + larger)
	for _, s := range []*initiator.Session{asked, quiet} {
		for _, code := range [][3]byte{{6, 0x3f, 0x0e}, {6, 0x2a, 0x09}} {
			if err := tur(t, s, srp.LUN{}); sense(err) != code {
				t.Errorf("%v, want %x", err, code)
			}
		}
		if err := tur(t, s, srp.LUN{}); err != nil {
			t.Error(err)
		}
		if err := s.Logout(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(events) != 0 {
		t.Errorf("one more report: %s", <-events)
	}
	g.disk = disk
	g.empty()
}
