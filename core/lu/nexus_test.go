package lu

import (
	"fmt"
	"sync"
	"testing"

	"github.com/gosrpt/gosrpt/core/scsi"
)

func (r *rig) runAs(n NexusID, cdb []byte, inLen uint64) *cmd {
	r.t.Helper()
	c := r.make(cdb, nil, inLen)
	c.Nexus = n
	r.u.Start(&c.Task)
	r.turn()
	if c.dones != 1 {
		r.t.Fatalf("% x: done %d times", cdb, c.dones)
	}
	return c
}

func (r *rig) drain(n NexusID) []scsi.SenseCode {
	var codes []scsi.SenseCode
	for c := r.runAs(n, scsi.AppendTestUnitReady(nil), 0); c.Status != scsi.StatusGood; c = r.runAs(n, scsi.AppendTestUnitReady(nil), 0) {
		codes = append(codes, r.sense(c).Code)
	}
	return codes
}

func (r *rig) wantDrain(n NexusID, want ...scsi.SenseCode) {
	r.t.Helper()
	if got := r.drain(n); fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Fatalf("nexus %d: %v, want %v", n, got, want)
	}
}

func TestEachNexusIsGreetedOnce(t *testing.T) {
	r := newRig(t, testConfig(), testInfo())
	for n := NexusID(1); n < 5; n++ {
		r.wantDrain(n, scsi.PowerOn)
		r.wantDrain(n)
	}
	r.u.NexusLost(2)
	r.wantDrain(1)
	r.wantDrain(2, scsi.PowerOn)
	if got := r.dev.Stats().Nexuses; got != 4 {
		t.Errorf("%d nexuses", got)
	}
}

func TestAnAttentionStopsAnyOtherCommandOnce(t *testing.T) {
	for op := range 256 {
		r := newRig(t, testConfig(), testInfo())
		cdb := make([]byte, 16)
		cdb[0] = byte(op)
		c := r.run(cdb, nil, 0)
		switch scsi.Opcode(op) {
		case scsi.OpInquiry, scsi.OpReportLUNs, scsi.OpRequestSense:
			r.wantGood(c)
			r.wantDrain(1, scsi.PowerOn)
		default:
			r.wantSense(c, scsi.PowerOn)
			r.wantDrain(1)
		}
	}
}

func TestAnExemptCommandWithABadCDBLeavesTheAttention(t *testing.T) {
	r := newRig(t, testConfig(), testInfo())
	r.wantField(r.run([]byte{0x12, 0, 1, 0, 36, 0}, nil, 36), 2, scsi.NoBit)
	r.wantField(r.run([]byte{0xA0, 0, 9, 0, 0, 0, 0, 0, 0, 36, 0, 0}, nil, 36), 2, scsi.NoBit)
	r.wantField(r.run([]byte{0x03, 0, 0, 0, 18, 4}, nil, 36), 5, 2)
	r.wantDrain(1, scsi.PowerOn)
}

func TestRequestSenseTellsTheAttentionAndClearsIt(t *testing.T) {
	r := newRig(t, testConfig(), testInfo())
	r.wantGood(r.run(scsi.AppendRequestSense(nil, 0), nil, 0))
	r.wantGood(r.run(scsi.AppendRequestSense(nil, 18), nil, 0)) // nothing told, nothing cleared
	for _, want := range []scsi.SenseCode{scsi.PowerOn, scsi.NoSense} {
		s, err := scsi.ParseSense(r.data(scsi.AppendRequestSense(nil, 252), 252))
		if err != nil || s.Code != want {
			t.Fatalf("%v, %v; want %v", s.Code, err, want)
		}
	}
	r.wantDrain(1)
	r.dev.Attend(1, AttnReset)
	s, err := scsi.ParseSense(r.data([]byte{0x03, 1, 0, 0, 252, 0}, 252))
	if err != nil || s.Code != scsi.DeviceReset {
		t.Errorf("descriptor format: %v, %v", s.Code, err)
	}
}

func TestAttentionsComeInOrderAndAreNotRepeated(t *testing.T) {
	tests := []struct {
		name string
		post Attention
		want []scsi.SenseCode
	}{
		{"none", 0, nil},
		{"power on covers the resets", AttnPowerOn | AttnReset | AttnNexusLoss, []scsi.SenseCode{scsi.PowerOn}},
		{"reset covers nexus loss", AttnReset | AttnNexusLoss, []scsi.SenseCode{scsi.DeviceReset}},
		{"nexus loss", AttnNexusLoss, []scsi.SenseCode{scsi.NexusLossOccurred}},
		{"bits that are none", ^attentions, nil},
		{"all", ^Attention(0), []scsi.SenseCode{
			scsi.PowerOn, scsi.CommandsCleared, scsi.ReportedLUNsChanged, scsi.InquiryDataChanged, scsi.CapacityChanged, scsi.ModeParametersChanged}},
	}
	for _, tt := range tests {
		r := diskRig(t)
		r.dev.Attend(1, tt.post)
		r.dev.Attend(1, tt.post)
		if got := r.drain(1); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestAttendAllLeavesOutTheCauser(t *testing.T) {
	r := newRig(t, testConfig(), testInfo())
	for n := NexusID(1); n < 4; n++ {
		r.drain(n)
	}
	r.dev.AttendAll(AttnReset, 2)
	r.wantDrain(1, scsi.DeviceReset)
	r.wantDrain(2)
	r.wantDrain(3, scsi.DeviceReset)
	r.dev.AttendAll(AttnLUNsChanged, 0)
	r.wantDrain(2, scsi.ReportedLUNsChanged)
	r.dev.Attend(99, AttnReset)
	r.wantDrain(99, scsi.PowerOn)
}

func TestReportLUNsTakesTheReasonAway(t *testing.T) {
	for report, left := range map[uint8]int{0: 0, 1: 1, 2: 0} {
		r := diskRig(t)
		r.dev.Attend(1, AttnLUNsChanged)
		r.wantGood(r.run(scsi.AppendReportLUNs(nil, report, 256), nil, 256))
		if got := r.drain(1); len(got) != left {
			t.Errorf("select report %d: %v left", report, got)
		}
	}
}

func TestChangesOfTheStoreReachEveryNexus(t *testing.T) {
	r := newRig(t, testConfig(), testInfo())
	r.drain(1)
	r.drain(2)
	info := testInfo()
	info.Blocks *= 2
	for range 2 { // the second time nothing changes
		if err := r.dev.Update(info); err != nil {
			t.Fatal(err)
		}
	}
	r.wantDrain(1, scsi.CapacityChanged)
	r.wantDrain(2, scsi.CapacityChanged)
	rc, err := scsi.ParseCapacity16(r.data(scsi.AppendReadCapacity16(nil, 32), 32))
	if err != nil || rc.Blocks != 2*testBlocks {
		t.Errorf("%+v, %v", rc, err)
	}
	info.ReadOnly = true
	if err := r.dev.Update(info); err != nil {
		t.Fatal(err)
	}
	r.wantDrain(2, scsi.ModeParametersChanged)
}

func TestOneNexusTooManyIsBusyAndKeepsNothing(t *testing.T) {
	cfg := testConfig()
	cfg.MaxNexuses = 2
	r := newRig(t, cfg, testInfo())
	r.drain(1)
	r.drain(2)
	for n := NexusID(3); n < 100; n++ {
		if c := r.runAs(n, scsi.AppendInquiry(nil, 36), 36); c.Status != scsi.StatusBusy {
			t.Fatalf("nexus %d: %v", n, c.Status)
		}
	}
	if got := r.dev.Stats().Nexuses; got != 2 {
		t.Errorf("%d nexuses", got)
	}
	r.u.NexusLost(1)
	r.wantDrain(3, scsi.PowerOn)
}

// The table is shared by reactors: no condition is lost or told twice.
func TestNexusTableUnderConcurrency(t *testing.T) {
	var table nexusTable
	table.init(64)
	var wg sync.WaitGroup
	var told [8]int
	for w := range told {
		wg.Go(func() {
			for i := range 1000 {
				n := table.get(NexusID(i % 50))
				n.post(AttnCapacityChanged)
				if n.take() == scsi.PowerOn {
					told[w]++
				}
				n.clear(AttnReset)
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range told {
		sum += n
	}
	if sum != 50 || table.count() != 50 {
		t.Errorf("power on told %d times to %d nexuses", sum, table.count())
	}
}
