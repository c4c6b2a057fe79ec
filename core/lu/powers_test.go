package lu

import (
	"fmt"
	"testing"

	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/store/storetest"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

const (
	unmap  = backstore.PowerUnmap
	zeroes = backstore.PowerWriteZeroes
	same1  = backstore.PowerWriteSame
	caw    = backstore.PowerCompareAndWrite
)

// powered is a rig with a store that has powers, and fills the store.
func powered(t testing.TB, powers backstore.Powers, change ...func(*backstore.Info)) *rig {
	t.Helper()
	info := testInfo()
	info.Powers = powers
	for _, f := range change {
		f(&info)
	}
	r := greeted(t, testConfig(), info)
	r.fill()
	return r
}

func unmapZeroes(i *backstore.Info) { i.UnmapZeroes = true }

// asked notes what the store was asked, as operation, flags, first block and blocks.
func (r *rig) asked() *[]string {
	var log []string
	names := [...]string{1: "read", "write", "flush", "unmap", "zero", "compare", "same"}
	r.b.Plan = func(q *backstore.Request) storetest.Fault {
		n := int64(len(q.Data))
		switch q.Op {
		case backstore.OpUnmap, backstore.OpWriteZeroes, backstore.OpWriteSame:
			n = q.N
		case backstore.OpCompareAndWrite:
			n /= 2
		}
		log = append(log, fmt.Sprintf("%s/%d %d+%d", names[q.Op], q.Flags, q.Off/512, n/512))
		return storetest.Fault{}
	}
	return &log
}

func wantLog(t *testing.T, log *[]string, want ...string) {
	t.Helper()
	if fmt.Sprint(*log) != fmt.Sprint(want) {
		t.Errorf("the store was asked %v, want %v", *log, want)
	}
}

// What a disk tells of its powers, beside what every disk tells. Blocks are of 512 bytes, so 64 MiB are 20000h of them.
func TestAnswersByPowersByteForByte(t *testing.T) {
	b0 := func(compare, unmap, same string) string {
		return "00 b0 00 3c 00" + compare + "00 01 00 00 20 00 00 00 00 00 00 00 00 00" + unmap + same + zeros(20)
	}
	none := zeros(1)
	noUnmap, noSame := zeros(16), zeros(8)
	canUnmap := "00 10 00 00 00 00 01 00 00 00 00 01 80 00 00 00"
	canSame := "00 00 00 00 00 02 00 00"
	const full, thin, thinZeroes = "00 b2 00 04 00 00 00 00", "00 b2 00 04 00 e0 02 00", "00 b2 00 04 00 e4 02 00"
	tests := []struct {
		name       string
		powers     backstore.Powers
		change     func(*backstore.Info)
		b0, b2, rc string // rc: bytes 12 to 15 of READ CAPACITY(16)
	}{
		{"none", 0, unmapZeroes, b0(none, noUnmap, noSame), full, "00 00 00 00"},
		{"others", backstore.PowerResize | backstore.PowerHealth | backstore.PowerSanitize, unmapZeroes, b0(none, noUnmap, noSame), full, "00 00 00 00"},
		{"write zeroes", zeroes, nil, b0(none, noUnmap, canSame), full, "00 00 00 00"},
		{"write same", same1, nil, b0(none, noUnmap, canSame), full, "00 00 00 00"},
		{"unmap", unmap, nil, b0(none, canUnmap, canSame), thin, "00 00 80 00"},
		{"unmap, which zeroes", unmap, unmapZeroes, b0(none, canUnmap, canSame), thinZeroes, "00 00 c0 00"},
		{"unmap in units of 1 MiB", unmap, func(i *backstore.Info) { i.UnmapGranularity = 1 << 20 },
			b0(none, "00 10 00 00 00 00 01 00 00 00 08 00 80 00 00 00", canSame), thin, "00 00 80 00"},
		{"unmap in units of 2 GiB", unmap, func(i *backstore.Info) { i.UnmapGranularity = 1 << 31 },
			b0(none, "00 40 00 00 00 00 01 00 00 40 00 00 80 00 00 00", canSame), thin, "00 00 80 00"},
		{"compare and write", caw, nil, b0("01", noUnmap, noSame), full, "00 00 00 00"},
		{"compare and write of 8 blocks", caw, func(i *backstore.Info) { i.MaxCompareAndWrite = 4096 },
			b0("08", noUnmap, noSame), full, "00 00 00 00"},
		{"compare and write of more than fit", caw, func(i *backstore.Info) { i.MaxCompareAndWrite = 1 << 20 },
			b0("ff", noUnmap, noSame), full, "00 00 00 00"},
		{"all", everyPower, unmapZeroes, b0("01", canUnmap, canSame), thinZeroes, "00 00 c0 00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := powered(t, tt.powers, func(i *backstore.Info) {
				if tt.change != nil {
					tt.change(i)
				}
			})
			wantBytes(t, r.data(scsi.AppendInquiryVPD(nil, 0xB0, 255), 255), unhex(t, tt.b0))
			wantBytes(t, r.data(scsi.AppendInquiryVPD(nil, 0xB2, 255), 255), unhex(t, tt.b2))
			wantBytes(t, r.data(scsi.AppendReadCapacity16(nil, 32), 32)[12:16], unhex(t, tt.rc))
			wantBytes(t, r.data(scsi.AppendInquiryVPD(nil, 0, 255), 255), unhex(t, "00 00 00 07 00 80 83 86 b0 b1 b2"))
		})
	}
}

func TestLimitsOfBlocksOf4096(t *testing.T) {
	r := greeted(t, testConfig(), backstore.Info{BlockSize: 4096, Blocks: 64, Powers: everyPower, MaxCompareAndWrite: 65536})
	wantBytes(t, r.data(scsi.AppendInquiryVPD(nil, 0xB0, 255), 255), unhex(t, `00 b0 00 3c 00 10 00 01 00 00 04 00 00 00 00 00
		00 00 00 00 00 04 00 00 00 00 01 00 00 00 00 01 80 00 00 00 00 00 00 00 00 00 40 00`+zeros(20)))
}

// Both halves of a COMPARE AND WRITE must fit into the longest buffer there is.
func TestTheLongestTransferBoundsCompareAndWrite(t *testing.T) {
	for longest, want := range map[uint32]uint8{512: 0, 1024: 1, 4096: 4, 4 << 20: 255} {
		cfg := testConfig()
		cfg.MaxTransfer = longest
		info := testInfo()
		info.Powers, info.MaxCompareAndWrite = caw, 1<<20
		r := greeted(t, cfg, info)
		g := r.dev.geo.Load()
		if got := g.limits.MaxCompareAndWrite; got != want || (g.kind == &disks[featureCompare]) != (want > 0) {
			t.Errorf("longest transfer %d: %d blocks", longest, got)
		}
	}
}

// A store that comes back with other powers is another disk at once, and every nexus is told where to look.
func TestUpdateChangesTheCommands(t *testing.T) {
	r := powered(t, 0)
	one := scsi.AppendUnmapList(nil, scsi.Extent{LBA: 1, Blocks: 1})
	cdb := scsi.AppendUnmap(nil, uint16(len(one)))
	r.wantSense(r.run(cdb, one, 0), scsi.InvalidOpcode)
	update := func(change func(*backstore.Info)) {
		t.Helper()
		info := testInfo()
		change(&info)
		r.g.Detach(epoch)
		r.b.Hide = ^info.Powers
		if err := r.g.Attach(r.b); err != nil {
			t.Fatal(err)
		}
		if err := r.dev.Update(info); err != nil {
			t.Fatal(err)
		}
	}
	tur := func(want ...scsi.SenseCode) {
		t.Helper()
		for _, code := range want {
			r.wantSense(r.run(scsi.AppendTestUnitReady(nil), nil, 0), code)
		}
		r.wantGood(r.run(scsi.AppendTestUnitReady(nil), nil, 0))
	}
	update(func(i *backstore.Info) { i.Powers = unmap })
	tur(scsi.InquiryDataChanged, scsi.CapacityChanged)
	r.wantGood(r.run(cdb, one, 0))
	update(func(i *backstore.Info) { i.Powers = unmap })
	tur()
	update(func(i *backstore.Info) { i.Powers, i.UnmapGranularity = unmap, 65536 })
	tur(scsi.InquiryDataChanged)
	update(func(i *backstore.Info) { i.Powers, i.UnmapGranularity = unmap|caw, 65536 })
	tur(scsi.InquiryDataChanged)
	update(func(i *backstore.Info) { i.Powers = zeroes })
	tur(scsi.InquiryDataChanged, scsi.CapacityChanged)
	r.wantSense(r.run(cdb, one, 0), scsi.InvalidOpcode)
	update(func(i *backstore.Info) { i.Powers, i.Blocks = zeroes, testBlocks+1 })
	tur(scsi.CapacityChanged)
}

// changes are commands that change blocks 8 to 11, each with its data.
func changes() map[string]struct{ cdb, out []byte } {
	list := scsi.AppendUnmapList(nil, scsi.Extent{LBA: 8, Blocks: 2}, scsi.Extent{LBA: 10, Blocks: 2})
	block := make([]byte, 512)
	block[7] = 1
	e := scsi.Extent{LBA: 8, Blocks: 4}
	return map[string]struct{ cdb, out []byte }{
		"UNMAP":             {scsi.AppendUnmap(nil, uint16(len(list))), list},
		"WRITE SAME(10)":    {scsi.AppendTransfer10(nil, scsi.OpWriteSame10, e, 0), block},
		"WRITE SAME(16)":    {scsi.AppendTransfer16(nil, scsi.OpWriteSame16, e, scsi.FlagUNMAP), make([]byte, 512)},
		"without data":      {scsi.AppendTransfer16(nil, scsi.OpWriteSame16, e, scsi.FlagNDOB), nil},
		"COMPARE AND WRITE": {scsi.AppendCompareAndWrite(nil, e, 0), make([]byte, 4096)},
	}
}

func wide(i *backstore.Info) { i.UnmapZeroes, i.MaxCompareAndWrite = true, 4096 }

func TestChangesAreRefusedWhereTheyMustNotBe(t *testing.T) {
	for name, c := range changes() {
		t.Run(name, func(t *testing.T) {
			r := powered(t, everyPower, wide, func(i *backstore.Info) { i.ReadOnly = true })
			q := r.run(c.cdb, c.out, 0)
			r.wantSense(q, scsi.WriteProtected)
			if q.asked != 0 {
				t.Error("asked for a buffer")
			}
			r = powered(t, everyPower, wide)
			q = r.make(c.cdb, c.out, 0)
			q.ReadOnly = true
			r.u.Start(&q.Task)
			r.wantSense(q, scsi.WriteProtected)
		})
	}
}

// Protection information is not there: WRPROTECT is refused as WRITE refuses it.
func TestWRPROTECTIsRefused(t *testing.T) {
	r := powered(t, everyPower, wide)
	for name, c := range changes() {
		if name == "UNMAP" {
			continue
		}
		for bit := 5; bit < 8; bit++ {
			cdb := append([]byte(nil), c.cdb...)
			cdb[1] |= 1 << bit
			r.wantField(r.run(cdb, c.out, 0), 1, int8(bit))
		}
	}
}

// The codes that a store may end these commands with become the sense that a WRITE gets.
func TestStoreCodesOfChangesBecomeSense(t *testing.T) {
	codes := map[backstore.Code]scsi.SenseCode{
		backstore.CodeIO: scsi.WriteError, backstore.CodeUnavailable: scsi.BecomingReady,
		backstore.CodeNoSpace: scsi.SpaceAllocationFailed, backstore.CodeReadOnly: scsi.WriteProtected,
		backstore.CodeRange: scsi.LBAOutOfRange, backstore.CodeNotSupported: scsi.InvalidOpcode,
		backstore.CodeAborted: scsi.CommandAborted, backstore.CodeInvalid: scsi.InternalTargetFailure,
		backstore.Code(99): scsi.WriteError,
	}
	for name, c := range changes() {
		r := powered(t, everyPower, wide)
		for code, want := range codes {
			r.b.Plan = func(*backstore.Request) storetest.Fault { return storetest.Fault{Skip: true, Code: code} }
			r.wantSense(r.run(c.cdb, c.out, 0), want)
		}
		r.b.Plan = func(*backstore.Request) storetest.Fault { return storetest.Fault{Skip: true, Code: backstore.CodeBusy} }
		if q := r.run(c.cdb, c.out, 0); q.Status != scsi.StatusBusy || q.OutUsed+q.Wanted != 0 {
			t.Errorf("%s: %v, %d of %d", name, q.Status, q.OutUsed, q.Wanted)
		}
	}
}

// An abort at each moment: while the command waits for its data, in the guard's queue, and with the backend for each of its
// requests. It ends once, and asks for nothing more.
func TestAbortOfAChangeAtEveryStep(t *testing.T) {
	for _, powers := range []backstore.Powers{everyPower, unmap | caw, zeroes | caw | unmap} {
		for name, c := range changes() {
			t.Run(fmt.Sprint(name, " with ", powers), func(t *testing.T) {
				r := powered(t, powers, wide)
				if c.out != nil {
					r.manual = true
					q := r.start(c.cdb, c.out, 0)
					r.u.Abort(&q.Task)
					r.u.DataReady(&q.Task)
					r.wantAborted(q, 1)
					r.manual = false
				}
				q := r.start(c.cdb, c.out, 0)
				r.u.Abort(&q.Task)
				r.wantAborted(q, 1)
				for step := range 3 {
					seen := 0
					r.b.Plan = func(*backstore.Request) storetest.Fault {
						seen++
						return storetest.Fault{Hold: seen > step}
					}
					q = r.start(c.cdb, c.out, 0)
					r.turn()
					if q.dones > 0 {
						break // it has no more steps
					}
					r.u.Abort(&q.Task)
					if q.dones > 0 {
						t.Fatal("ended while the backend had its request")
					}
					r.b.Release()
					r.turn()
					r.wantAborted(q, 1)
					if seen != step+1 {
						t.Errorf("%d requests for an abort in step %d", seen, step)
					}
				}
				r.b.Plan = nil
				if name != "COMPARE AND WRITE" {
					r.wantGood(r.run(c.cdb, c.out, 0))
				}
			})
		}
	}
}
