package nvme

import (
	"math"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

func TestInfoIsWhatTheControllerSays(t *testing.T) {
	got, err := newAnswers(loopBytes).describe(t).info(false)
	want := backstore.Info{
		BlockSize: 512, PhysicalBlockSize: 512, Blocks: loopBytes / 512, MaxTransfer: 512 << 10, OptimalTransfer: 512,
		WriteCache: true, FUA: true, Concurrency: 32, Serial: "gosrptnvme/1 eui." + qemuEUI,
	}
	if err != nil || got != want {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
}

func TestLimitsFollowTheControllersFields(t *testing.T) {
	type limits struct{ max, optimal, physical uint32 }
	performance := func(a *answers, npwg, npwa, nows, awupf uint16) {
		set16(a.ns, offNPWG, npwg)
		set16(a.ns, offNPWA, npwa)
		set16(a.ns, offNOWS, nows)
		set16(a.ctrl, offAWUPF, awupf)
	}
	tests := []struct {
		name   string
		kernel uint64
		change func(a *answers)
		want   limits
	}{
		{"neither limits the transfer", 0, func(a *answers) { a.ctrl[offMDTS] = 0 }, limits{0, 512, 512}},
		{"only the kernel", 1280 << 10, func(a *answers) { a.ctrl[offMDTS] = 0 }, limits{1280 << 10, 512, 512}},
		{"only the controller", 0, func(*answers) {}, limits{512 << 10, 512, 512}},
		{"the kernel is stricter", 128 << 10, func(*answers) {}, limits{128 << 10, 512, 512}},
		{"the controller is stricter", 1280 << 10, func(*answers) {}, limits{512 << 10, 512, 512}},
		{"the smallest limit", 1280 << 10, func(a *answers) { a.ctrl[offMDTS] = 1 }, limits{8192, 512, 512}},
		{"limits beyond 32 bits", math.MaxUint32 << 10, func(a *answers) { a.ctrl[offMDTS] = 31 }, limits{math.MaxUint32 - 511, 512, 512}},
		{"a limit beyond 64 bits", 0, func(a *answers) { a.ctrl[offMDTS] = 255 }, limits{0, 512, 512}},
		{"a limit inside a block", 5000, func(*answers) {}, limits{4608, 512, 512}},
		{"nothing preferred", 0, func(a *answers) { a.ns[offNSFEAT] = 0; performance(a, 7, 7, 63, 7) }, limits{512 << 10, 0, 512}},
		{"only a boundary", 0, func(a *answers) { a.ns[offNSFEAT] = 0; set16(a.ns, offNOIOB, 256) }, limits{512 << 10, 128 << 10, 512}},
		{"pages of 4096 bytes", 0, func(a *answers) { performance(a, 7, 7, 63, 255) }, limits{512 << 10, 32 << 10, 4096}},
		{"preferred by the second bit of 2.1", 0, func(a *answers) { a.ns[offNSFEAT] = 0x20; performance(a, 7, 7, 63, 255) }, limits{512 << 10, 32 << 10, 4096}},
		{"aligned more coarsely than long", 0, func(a *answers) { performance(a, 7, 15, 0, 255) }, limits{512 << 10, 512, 8192}},
		{"nothing is atomic", 0, func(a *answers) { performance(a, 7, 7, 0, 0) }, limits{512 << 10, 512, 512}},
		{"atomic less than preferred", 0, func(a *answers) { performance(a, 31, 31, 0, 8) }, limits{512 << 10, 512, 4096}},
		{"atomic by the namespace", 0, func(a *answers) {
			performance(a, 7, 7, 0, 0)
			a.ns[offNSFEAT] |= featAtomics
			set16(a.ns, offNAWUPF, 7)
		}, limits{512 << 10, 512, 4096}},
		{"preferred is no power of two", 0, func(a *answers) { performance(a, 2, 0, 0, 255) }, limits{512 << 10, 512, 512}},
		{"the most that can be", 0, func(a *answers) { performance(a, 65535, 65535, 65535, 65535) }, limits{512 << 10, 65536 * 512, maxRatio * 512}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAnswers(loopBytes)
			tt.change(a)
			d := a.describe(t)
			d.queue.maxTransfer = tt.kernel
			i, err := d.info(false)
			if got := (limits{i.MaxTransfer, i.OptimalTransfer, i.PhysicalBlockSize}); err != nil || got != tt.want {
				t.Errorf("%+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestFormatsThatCannotBeServedAreRefusedWithTheMend(t *testing.T) {
	tests := []struct {
		name   string
		change func(a *answers)
		want   string
	}{
		{"metadata", func(a *answers) { a.ns[offFLBAS] = 1 }, "8 bytes of metadata, which are not served; nvme format /dev/nvme0n1 --lbaf=0 gives it blocks of 512 bytes and destroys"},
		{"metadata of blocks of 4096 bytes", func(a *answers) { a.ns[offFLBAS] = 7 }, "64 bytes of metadata, which are not served; nvme format /dev/nvme0n1 --lbaf=4 gives it blocks of 4096 bytes"},
		{"the better format of two", func(a *answers) {
			a.ns[offFLBAS] = 1
			a.setFormat(0, 0, 9, 2)
			a.setFormat(5, 0, 9, 1)
		}, "--lbaf=5"},
		{"large blocks", func(a *answers) { a.setFormat(0, 0, 16, 0) }, "2^16 bytes; 512 and 4096 can be served; nvme format /dev/nvme0n1 --lbaf=4 gives it blocks of 4096 bytes"},
		{"a format that cannot be used", func(a *answers) { a.setFormat(0, 0, 0, 0) }, "2^0 bytes"},
		{"absurd blocks", func(a *answers) { a.setFormat(0, 0, 255, 0) }, "2^255 bytes"},
		{"no format is any good", func(a *answers) { a.ns[offNLBAF] = 0; a.setFormat(0, 0, 10, 0) }, "the controller has no format that can be"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAnswers(loopBytes)
			tt.change(a)
			if _, err := a.describe(t).info(false); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestSizesThatCannotBeAreRefused(t *testing.T) {
	for want, change := range map[string]func(d *description){
		"no blocks":           func(d *description) { setBlocks(d.ns, 0) },
		"more than can be":    func(d *description) { setBlocks(d.ns, math.MaxUint64) },
		"than can be":         func(d *description) { setBlocks(d.ns, math.MaxInt64/512+1) },
		"nvme ns-rescan":      func(d *description) { d.size -= 512 },
		"the kernel says 512": func(d *description) { d.size = 512 },
	} {
		d := newAnswers(loopBytes).describe(t)
		change(d)
		if _, err := d.info(false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestSurprisingFactsAreInTheNotice(t *testing.T) {
	tests := []struct {
		name     string
		change   func(d *description)
		want     []string
		readOnly bool
	}{
		{"nothing", func(*description) {}, nil, false},
		{"write protected", func(d *description) { d.ns[offNSATTR] = 1 }, []string{"read-only: the namespace is write protected"}, true},
		{"media read-only", func(d *description) { d.warnings = warnReadOnly }, []string{"all its media into read-only mode"}, true},
		{"all warnings but that", func(d *description) { d.warnings = 0xff &^ warnReadOnly },
			[]string{"degraded", "spare", "backup", "persistent", "temperature"}, false},
		{"the kernel does not flush", func(d *description) { d.queue.flushes = false }, []string{"neither flush nor FUA"}, false},
		{"there is no cache to flush", func(d *description) { d.ctrl[offVWC] = 0; d.queue.flushes = false }, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newAnswers(loopBytes).describe(t)
			tt.change(d)
			i, err := d.info(false)
			if err != nil || i.ReadOnly != tt.readOnly || strings.Contains(i.Notice, "\n") || len(tt.want) == 0 && i.Notice != "" {
				t.Errorf("%+v, %v", i, err)
			}
			for _, w := range tt.want {
				if !strings.Contains(i.Notice, w) {
					t.Errorf("%q does not say %q", i.Notice, w)
				}
			}
		})
	}
}

func TestWriteCacheIsReportedAsTheControllerDoes(t *testing.T) {
	for vwc, want := range map[byte]bool{0: false, 1: true, 6: false, 7: true} {
		a := newAnswers(loopBytes)
		a.ctrl[offVWC] = vwc
		i, err := a.describe(t).info(false)
		if err != nil || i.WriteCache != want || !i.FUA {
			t.Errorf("VWC %d: %+v, %v", vwc, i, err)
		}
	}
}
