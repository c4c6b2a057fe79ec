package nexus

import (
	"slices"
	"testing"

	"github.com/gosrpt/gosrpt/core/scsi"
)

func drain(a *Attentions) []scsi.SenseCode {
	var got []scsi.SenseCode
	for a.Pending() {
		c, ok := a.Take()
		if !ok {
			break
		}
		got = append(got, c)
	}
	return got
}

func TestAttentionsAreBoundedAndCoalesced(t *testing.T) {
	const (
		powerOn  = scsi.PowerOn
		reset    = scsi.DeviceReset
		loss     = scsi.NexusLossOccurred
		mode     = scsi.ModeParametersChanged
		capacity = scsi.CapacityChanged
		luns     = scsi.ReportedLUNsChanged
		inquiry  = scsi.InquiryDataChanged
	)
	type codes = []scsi.SenseCode
	tests := []struct {
		name   string
		raised codes
		want   codes
	}{
		{"none", nil, nil},
		{"first in, first out", codes{mode, capacity}, codes{mode, capacity}},
		{"twice is once", codes{luns, luns, capacity, luns}, codes{luns, capacity}},
		{"resets come first", codes{mode, reset}, codes{reset, mode}},
		{"power on beats reset", codes{reset, powerOn}, codes{powerOn}},
		{"reset does not beat power on", codes{powerOn, reset, loss}, codes{powerOn}},
		{"reset beats nexus loss", codes{mode, loss, reset}, codes{reset, mode}},
		{"full: the oldest goes", codes{mode, capacity, luns, inquiry}, codes{capacity, luns, inquiry}},
		{"full: the reset stays", codes{powerOn, mode, capacity, luns}, codes{powerOn, capacity, luns}},
		{"full: a reset makes room", codes{mode, capacity, luns, reset}, codes{reset, capacity, luns}},
		{"full: a better reset takes the place", codes{loss, mode, capacity, powerOn}, codes{powerOn, mode, capacity}},
	}
	for _, tt := range tests {
		var a Attentions
		for _, c := range tt.raised {
			a.Raise(c)
		}
		if got := drain(&a); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
		if _, ok := a.Take(); ok {
			t.Errorf("%s: more than was pending", tt.name)
		}
	}
}

func TestAUnitFirstReportsPowerOn(t *testing.T) {
	a := NewAttentions()
	a.Raise(scsi.ReportedLUNsChanged)
	if got := drain(&a); !slices.Equal(got, []scsi.SenseCode{scsi.PowerOn, scsi.ReportedLUNsChanged}) {
		t.Errorf("got %v", got)
	}
	a.Raise(scsi.CapacityChanged)
	if c, ok := a.Take(); !ok || c != scsi.CapacityChanged {
		t.Errorf("got %v, %v", c, ok)
	}
}

func TestAttentionsAllocateNothing(t *testing.T) {
	var a Attentions
	n := testing.AllocsPerRun(100, func() {
		a.Raise(scsi.CapacityChanged)
		a.Raise(scsi.PowerOn)
		a.Take()
		a.Take()
	})
	if n != 0 || a.Pending() {
		t.Errorf("%v allocations", n)
	}
}
