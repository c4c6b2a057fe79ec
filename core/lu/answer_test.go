package lu

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

func wantBytes(t *testing.T, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("\n got % x\nwant % x", got, want)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func zeros(n int) string { return strings.Repeat("00", n) }

// The answers of a disk of 2048 blocks of 512 bytes. Where the Linux kernel's target and this one have the same values,
// the bytes are the kernel's.
func TestAnswersByteForByte(t *testing.T) {
	name := scsi.LocalNAA("s-0001")
	tests := []struct {
		name, cdb, want string
	}{
		{"INQUIRY", "12 00 00 00 ff 00", `00 00 06 12 5b 00 10 02 47 4f 53 52 50 54 20 20 54 45 53 54 44 49 53 4b 20 20 20 20 20 20 20 20
			31 2e 30 20` + zeros(22) + "00 a0 09 40 04 60 04 c0" + zeros(30)},
		{"VPD 00", "12 01 00 00 ff 00", "00 00 00 07 00 80 83 86 b0 b1 b2"},
		{"VPD 80", "12 01 80 00 ff 00", "00 80 00 06 73 2d 30 30 30 31"},
		{"VPD 83", "12 01 83 00 ff 00", "00 83 00 2e 01 03 00 08" + hex.EncodeToString(name.Bytes()) +
			"02 01 00 1e 47 4f 53 52 50 54 20 20 54 45 53 54 44 49 53 4b 20 20 20 20 20 20 20 20 73 2d 30 30 30 31"},
		{"VPD 86", "12 01 86 00 ff 00", "00 86 00 3c 00 07 01" + zeros(57)},
		{"VPD B0", "12 01 b0 00 ff 00", "00 b0 00 3c 00 00 00 01 00 00 20 00 00 00 00 00" + zeros(48)},
		{"VPD B1", "12 01 b1 00 ff 00", "00 b1 00 3c" + zeros(60)},
		{"VPD B2", "12 01 b2 00 ff 00", "00 b2 00 04 00 00 00 00"},
		{"READ CAPACITY(10)", "25 00 00 00 00 00 00 00 00 00", "00 00 07 ff 00 00 02 00"},
		{"READ CAPACITY(16)", "9e 10 00 00 00 00 00 00 00 00 00 00 00 20 00 00", "00 00 00 00 00 00 07 ff 00 00 02 00" + zeros(20)},
		{"MODE SENSE(6) caching", "1a 00 08 00 ff 00", "1f 00 10 08 00 00 08 00 00 00 02 00 08 12 04" + zeros(17)},
		{"MODE SENSE(10) control", "5a 08 0a 00 00 00 00 00 ff 00", "00 12 00 10 00 00 00 00 0a 0a 02 10 00 40 00 00 ff ff 00 00"},
		{"REQUEST SENSE", "03 00 00 00 ff 00", "70 00 00 00 00 00 00 0a" + zeros(10)},
		{"REQUEST SENSE, descriptors", "03 01 00 00 ff 00", "72 00 00 00 00 00 00 00"},
		{"REPORT LUNS", "a0 00 00 00 00 00 00 00 01 00 00 00", "00 00 00 00 00 00 00 00"},
	}
	r := diskRig(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantBytes(t, r.data(unhex(t, tt.cdb), 1024), unhex(t, tt.want))
		})
	}
}

func TestPortNamesFollowThePort(t *testing.T) {
	r := diskRig(t)
	for rel := range uint16(3) {
		c := r.make(scsi.AppendInquiryVPD(nil, scsi.VPDIdentification, 512), nil, 512)
		c.Port = &scsi.TargetPort{RelativeID: rel + 1, Group: 7}
		r.u.Start(&c.Task)
		want := scsi.AppendVPDIdentification(nil, 0, &r.dev.cfg.Identity, c.Port)
		wantBytes(t, c.in, want)
	}
}

func TestInquiryRefusals(t *testing.T) {
	r := diskRig(t)
	r.wantField(r.run([]byte{0x12, 0, 0x80, 0, 255, 0}, nil, 255), 2, scsi.NoBit)
	r.wantField(r.run([]byte{0x12, 2, 0, 0, 255, 0}, nil, 255), 1, 1)
	listed := r.data(scsi.AppendInquiryVPD(nil, 0, 255), 255)[4:]
	for page := range 256 {
		c := r.run(scsi.AppendInquiryVPD(nil, uint8(page), 255), nil, 255)
		if !bytes.Contains(listed, []byte{byte(page)}) {
			r.wantField(c, 2, scsi.NoBit)
			continue
		}
		r.wantGood(c)
		if int(c.in[1]) != page || len(c.in) < 5 {
			t.Errorf("page %02x: % x", page, c.in)
		}
	}
}

// answers are commands with an allocation length, as functions of it.
var answers = map[string]func(alloc uint32) []byte{
	"INQUIRY":           func(n uint32) []byte { return scsi.AppendInquiry(nil, uint16(n)) },
	"VPD 00":            func(n uint32) []byte { return scsi.AppendInquiryVPD(nil, 0x00, uint16(n)) },
	"VPD 80":            func(n uint32) []byte { return scsi.AppendInquiryVPD(nil, 0x80, uint16(n)) },
	"VPD 83":            func(n uint32) []byte { return scsi.AppendInquiryVPD(nil, 0x83, uint16(n)) },
	"VPD B0":            func(n uint32) []byte { return scsi.AppendInquiryVPD(nil, 0xB0, uint16(n)) },
	"MODE SENSE(6)":     func(n uint32) []byte { return scsi.AppendModeSense6(nil, 0x3F, 0, uint8(min(n, 255))) },
	"MODE SENSE(10)":    func(n uint32) []byte { return []byte{0x5A, 0, 0x3F, 0xFF, 0, 0, 0, byte(n >> 8), byte(n), 0} },
	"READ CAPACITY(16)": func(n uint32) []byte { return scsi.AppendReadCapacity16(nil, n) },
	"REPORT LUNS":       func(n uint32) []byte { return scsi.AppendReportLUNs(nil, 2, n) },
	"OPERATIONS":        func(n uint32) []byte { return scsi.AppendReportOperations(nil, 0x80, 0, 0, n) },
	"ONE OPERATION":     func(n uint32) []byte { return scsi.AppendReportOperations(nil, 1, scsi.OpRead10, 0, n) },
	"REQUEST SENSE":     func(n uint32) []byte { return scsi.AppendRequestSense(nil, uint8(min(n, 255))) },
}

// Whatever the allocation length and the initiator's buffer, the data is a prefix of the whole answer, and the
// residual can be told from Wanted, InUsed and InLen.
func TestShortAnswersArePrefixes(t *testing.T) {
	cfg := testConfig()
	cfg.Inventory = luns{0, scsi.EncodeLUN(300)}
	r := greeted(t, cfg, testInfo())
	sizes := []uint64{0, 1, 2, 3, 4, 7, 8, 11, 12, 15, 16, 17, 36, 96, 255}
	for name, build := range answers {
		whole := r.data(build(8192), 8192)
		if len(whole) == 0 {
			t.Fatalf("%s: no data", name)
		}
		for _, alloc := range sizes {
			for _, buf := range sizes {
				c := r.run(build(uint32(alloc)), nil, buf)
				r.wantGood(c)
				want := min(alloc, uint64(len(whole)))
				if c.Wanted != want || c.InUsed != min(want, buf) || !bytes.Equal(c.in, whole[:c.InUsed]) {
					t.Fatalf("%s: alloc %d, buffer %d: wanted %d, used %d, % x", name, alloc, buf, c.Wanted, c.InUsed, c.in)
				}
				if c.asked > buf || c.forData {
					t.Fatalf("%s: asked for %d with a buffer of %d", name, c.asked, buf)
				}
			}
		}
	}
}

func TestReadCapacity10NeedsNoAllocationLength(t *testing.T) {
	r := diskRig(t)
	c := r.run(scsi.AppendReadCapacity10(nil), nil, 4)
	if c.InUsed != 4 || c.Wanted != 8 {
		t.Errorf("used %d of %d", c.InUsed, c.Wanted)
	}
}

func TestLargeAndPhysicalGeometry(t *testing.T) {
	info := backstore.Info{BlockSize: 512, PhysicalBlockSize: 4096, Blocks: testBlocks, OptimalTransfer: 1<<20 + 512, MaxTransfer: 2 << 20}
	r := greeted(t, testConfig(), info)
	wantBytes(t, r.data(scsi.AppendInquiryVPD(nil, 0xB0, 64), 64),
		unhex(t, "00 b0 00 3c 00 00 00 08 00 00 10 00 00 00 08 00"+zeros(48)))
	rc, err := scsi.ParseCapacity16(r.data(scsi.AppendReadCapacity16(nil, 32), 32))
	if err != nil || rc.PhysicalBlockSize != 4096 {
		t.Errorf("%+v, %v", rc, err)
	}
	huge := info
	huge.Blocks = 1 << 40
	if err := r.dev.Update(huge); err != nil {
		t.Fatal(err)
	}
	r.wantSense(r.run(scsi.AppendTestUnitReady(nil), nil, 0), scsi.CapacityChanged)
	wantBytes(t, r.data(scsi.AppendReadCapacity10(nil), 8), unhex(t, "ff ff ff ff 00 00 02 00"))
}

func TestModeSenseTellsWhatTheStoreIs(t *testing.T) {
	for _, wce := range []bool{false, true} {
		for _, ro := range []bool{false, true} {
			info := testInfo()
			info.WriteCache, info.ReadOnly = wce, ro
			r := greeted(t, testConfig(), info)
			got := r.data(scsi.AppendModeSense6(nil, scsi.PageCaching, 0, 255), 255)
			if got[2]&0x80 != 0 != ro || got[14]&4 != 0 != wce || got[2]&0x10 == 0 {
				t.Errorf("write cache %v, read only %v: % x", wce, ro, got)
			}
		}
	}
	r := diskRig(t)
	c := r.make(scsi.AppendModeSense6(nil, scsi.PageAll, 0, 255), nil, 255)
	c.ReadOnly = true
	r.u.Start(&c.Task)
	if c.in[2] != 0x90 {
		t.Errorf("nexus that may not write: % x", c.in)
	}
}

func TestModeSenseRefusals(t *testing.T) {
	r := diskRig(t)
	r.wantField(r.run([]byte{0x1A, 0, 0x02, 0, 255, 0}, nil, 255), 2, 5)
	r.wantField(r.run([]byte{0x1A, 0, 0x0A, 5, 255, 0}, nil, 255), 3, scsi.NoBit)
	r.wantSense(r.run([]byte{0x1A, 0, 0xC8, 0, 255, 0}, nil, 255), scsi.SavingNotSupported)
}

// luns lists the same for every nexus.
type luns []uint64

func (l luns) AppendLUNs(dst []uint64, _ NexusID) []uint64 { return append(dst, l...) }

func TestReportLUNsBySelectReport(t *testing.T) {
	cfg := testConfig()
	cfg.Inventory = luns{scsi.EncodeLUN(100), scsi.EncodeLUN(101), scsi.EncodeLUN(300)}
	r := greeted(t, cfg, testInfo())
	list := "00 64" + zeros(6) + "00 65" + zeros(6) + "41 2c" + zeros(6)
	known := "c1 01" + zeros(6)
	for report := range 256 {
		c := r.run(scsi.AppendReportLUNs(nil, uint8(report), 512), nil, 512)
		switch report {
		case 0:
			wantBytes(t, c.in, unhex(t, "00 00 00 18 00 00 00 00"+list))
		case 1:
			wantBytes(t, c.in, unhex(t, "00 00 00 08 00 00 00 00"+known))
		case 2:
			wantBytes(t, c.in, unhex(t, "00 00 00 20 00 00 00 00"+list+known))
		default:
			r.wantField(c, 2, scsi.NoBit)
		}
	}
}

func TestTestUnitReadyTellsWhetherThereIsABackend(t *testing.T) {
	r := diskRig(t)
	r.wantGood(r.run(scsi.AppendTestUnitReady(nil), nil, 0))
	r.g.Detach(epoch)
	r.wantSense(r.run(scsi.AppendTestUnitReady(nil), nil, 0), scsi.BecomingReady)
	if err := r.g.Attach(r.b); err != nil {
		t.Fatal(err)
	}
	r.wantGood(r.run(scsi.AppendTestUnitReady(nil), nil, 0))
}

func TestNewDeviceRefusesAWrongConfiguration(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Config, *backstore.Info)
		part   string
	}{
		{"serial", func(c *Config, _ *backstore.Info) { c.Identity.Serial = "" }, "serial"},
		{"transfer too long", func(c *Config, _ *backstore.Info) { c.MaxTransfer = MaxMaxTransfer + 1 }, "max transfer"},
		{"transfer below a block", func(c *Config, _ *backstore.Info) { c.MaxTransfer = 511 }, "max transfer"},
		{"nexuses", func(c *Config, _ *backstore.Info) { c.MaxNexuses = -1 }, "nexuses"},
		{"no store", func(_ *Config, i *backstore.Info) { *i = backstore.Info{} }, "store"},
	}
	for _, tt := range tests {
		cfg, info := testConfig(), testInfo()
		tt.change(&cfg, &info)
		_, err := NewDevice(cfg, info)
		if err == nil || !strings.Contains(err.Error(), tt.part) || !strings.Contains(err.Error(), "disk0") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	cfg := testConfig()
	cfg.MaxTransfer = MaxMaxTransfer
	info := testInfo()
	info.PhysicalBlockSize, info.MaxTransfer = 1<<31, math.MaxUint32&^511
	if _, err := NewDevice(cfg, info); err != nil {
		t.Errorf("the greatest values: %v", err)
	}
}

func TestUpdateKeepsTheBlockSize(t *testing.T) {
	r := diskRig(t)
	info := testInfo()
	info.BlockSize = 4096
	if err := r.dev.Update(info); err == nil || !strings.Contains(err.Error(), "4096") {
		t.Errorf("%v", err)
	}
	if got := r.dev.Info().BlockSize; got != 512 {
		t.Error(fmt.Sprint("block size became ", got))
	}
}

func TestMaxTransferCoversTheLongestAnswer(t *testing.T) {
	cfg := testConfig()
	cfg.MaxTransfer = 512
	all := make(luns, scsi.MaxLUN+1)
	cfg.Inventory = all
	r := greeted(t, cfg, testInfo())
	c := r.run(scsi.AppendReportLUNs(nil, scsi.ReportAll, 1<<20), nil, 1<<20)
	if c.asked != uint64(r.dev.MaxTransfer()) {
		t.Errorf("a list of all LUNs needs %d bytes, MaxTransfer is %d", c.asked, r.dev.MaxTransfer())
	}
	cfg.MaxTransfer = 1 << 20
	if got := greeted(t, cfg, testInfo()).dev.MaxTransfer(); got != 1<<20 {
		t.Errorf("%d", got)
	}
}
