package scsi

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
)

// unhex reads hexadecimal with any white space.
func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wantBytes(t *testing.T, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("\n got % x\nwant % x", got, want)
	}
}

func TestStandardInquiryOfADisk(t *testing.T) {
	got := AppendStandardInquiry(nil, PeripheralDisk, testIdentity())
	wantBytes(t, got, unhex(t, `
		00 00 06 12 5b 00 10 02 47 4f 53 52 50 54 20 20
		54 45 53 54 44 49 53 4b 20 20 20 20 20 20 20 20
		31 2e 30 20 00 00 00 00 00 00 00 00 00 00 00 00
		00 00 00 00 00 00 00 00 00 00 00 a0 09 40 04 60
		04 c0 00 00 00 00 00 00 00 00 00 00 00 00 00 00
		00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00`))
}

func TestInquiryWhereThereIsNoUnitHasNoNULInItsNames(t *testing.T) {
	got := AppendStandardInquiry(nil, PeripheralNone, &Identity{})
	if got[0] != 0x7F || len(got) != inquirySize {
		t.Errorf("byte 0 %02x, %d bytes", got[0], len(got))
	}
	if want := bytes.Repeat([]byte(" "), 28); !bytes.Equal(got[8:36], want) {
		t.Errorf("names %q", got[8:36])
	}
}

func TestVPDPages(t *testing.T) {
	id := testIdentity()
	port := &TargetPort{ID: [16]byte{0: 0xFE, 15: 0x56}, RelativeID: 0x0102, Group: 3}
	name := hex.EncodeToString(id.NAA.Bytes())
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"00", AppendVPDSupported(nil, 0, []uint8{0, 0x80, 0x83}), "00 00 00 03 00 80 83"},
		{"80", AppendVPDSerial(nil, 0, "lab-d0"), "00 80 00 06 6c 61 62 2d 64 30"},
		{"83", AppendVPDIdentification(nil, 0, id, port), `
			00 83 00 52 01 03 00 08 ` + name + `
			02 01 00 1e 47 4f 53 52 50 54 20 20 54 45 53 54 44 49 53 4b 20 20 20 20 20 20 20 20 73 2d 30 30 30 31
			41 94 00 04 00 00 01 02  41 95 00 04 00 00 00 03
			41 92 00 10 fe 00 00 00 00 00 00 00 00 00 00 00 00 00 00 56`},
		{"83 of a well known unit", AppendVPDIdentification(nil, 0x1E, &Identity{}, nil), "1e 83 00 00"},
		{"86", AppendVPDExtended(nil, 0, true), "00 86 00 3c 00 07 01" + strings.Repeat("00", 57)},
		{"b0", BlockLimits{Granularity: 8, MaxTransfer: 0x2000, OptimalTransfer: 0x100}.AppendVPD(nil, 0),
			"00 b0 00 3c 00 00 00 08 00 00 20 00 00 00 01 00" + strings.Repeat("00", 48)},
		// The Linux kernel's target sends the same bytes for pages B1h and B2h.
		{"b1", AppendVPDCharacteristics(nil, 0, 0), "00 b1 00 3c" + strings.Repeat("00", 60)},
		{"b2", Provisioning{}.AppendVPD(nil, 0), "00 b2 00 04 00 00 00 00"},
		{"b0 with every limit", BlockLimits{
			Granularity: 1, MaxTransfer: 0x400, OptimalTransfer: 0x200, MaxCompareAndWrite: 0x7F, MaxUnmap: 0x01020304,
			MaxUnmapDescriptors: 0x100, UnmapGranularity: 0x800, MaxWriteSame: 0x0102030405060708,
		}.AppendVPD(nil, 0), `00 b0 00 3c 00 7f 00 01 00 00 04 00 00 00 02 00
			00 00 00 00 01 02 03 04 00 00 01 00 00 00 08 00
			80 00 00 00 01 02 03 04 05 06 07 08` + strings.Repeat("00", 20)},
		// The Linux kernel's target says e0h in byte 5, too, and leaves the provisioning type in byte 6 at 0, not told.
		{"b2 of a thin unit", Provisioning{Thin: true}.AppendVPD(nil, 0), "00 b2 00 04 00 e0 02 00"},
		{"b2 of a thin unit that zeroes", Provisioning{Thin: true, UnmapZeroes: true}.AppendVPD(nil, 0), "00 b2 00 04 00 e4 02 00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantBytes(t, tt.got, unhex(t, tt.want)) })
	}
}

func TestSerialOfAnyLegalLengthIsWhole(t *testing.T) {
	for _, n := range []int{1, 36, 37, 64, MaxSerial} {
		id := testIdentity()
		id.Serial = strings.Repeat("q", n)
		page := AppendVPDSerial(nil, 0, id.Serial)
		if int(page[3]) != n || string(page[4:]) != id.Serial {
			t.Errorf("length %d: page length %d, %q", n, page[3], page[4:])
		}
		page = AppendVPDIdentification(nil, 0, id, nil)
		if got := string(page[len(page)-n:]); got != id.Serial || int(page[19]) != 24+n {
			t.Errorf("length %d: designator length %d, serial %q", n, page[19], got)
		}
	}
}

func TestPagesAreAppendedBehindWhatIsThere(t *testing.T) {
	id := testIdentity()
	prefix := []byte{9, 9}
	builders := map[string]func([]byte) []byte{
		"inquiry": func(b []byte) []byte { return AppendStandardInquiry(b, 0, id) },
		"83":      func(b []byte) []byte { return AppendVPDIdentification(b, 0, id, nil) },
		"86":      func(b []byte) []byte { return AppendVPDExtended(b, 0, false) },
		"b0":      func(b []byte) []byte { return BlockLimits{}.AppendVPD(b, 0) },
		"b2":      func(b []byte) []byte { return Provisioning{Thin: true}.AppendVPD(b, 0) },
		"mode": func(b []byte) []byte {
			b, _ = (&ModeParams{}).Append(b, ModeRequest{Page: PageAll})
			return b
		},
		"luns":     func(b []byte) []byte { return AppendLUNList(b, []uint64{1}) },
		"commands": func(b []byte) []byte { return EndAllCommands(BeginAllCommands(b), len(b)) },
	}
	for name, build := range builders {
		alone := build(nil)
		if got := build(prefix); !bytes.Equal(got[2:], alone) || !bytes.Equal(got[:2], prefix) {
			t.Errorf("%s: % x behind a prefix, % x alone", name, got, alone)
		}
	}
}

func TestReadCapacityBytes(t *testing.T) {
	c := Capacity{Blocks: 0x80000, BlockSize: 512}
	// The Linux kernel's target sends the same for 256 MiB.
	wantBytes(t, c.Append10(nil), unhex(t, "00 07 ff ff 00 00 02 00"))
	wantBytes(t, c.Append16(nil), unhex(t, "00 00 00 00 00 07 ff ff 00 00 02 00"+strings.Repeat("00", 20)))

	// And for one that can unmap.
	c.Thin = true
	wantBytes(t, c.Append16(nil), unhex(t, "00 00 00 00 00 07 ff ff 00 00 02 00 00 00 80"+strings.Repeat("00", 17)))
	c.UnmapZeroes = true
	wantBytes(t, c.Append16(nil)[12:16], unhex(t, "00 00 c0 00"))

	big := Capacity{Blocks: 1<<32 + 1, BlockSize: 512, PhysicalBlockSize: 4096}
	wantBytes(t, big.Append10(nil), unhex(t, "ff ff ff ff 00 00 02 00"))
	if got := big.Append16(nil); got[13] != 3 || got[3] != 1 {
		t.Errorf("% x", got)
	}
}

func TestReadCapacityReadsBack(t *testing.T) {
	for _, c := range []Capacity{
		{Blocks: 1, BlockSize: 512, PhysicalBlockSize: 512}, {Blocks: 1 << 32, BlockSize: 4096, PhysicalBlockSize: 4096},
		{Blocks: 1 << 50, BlockSize: 512, PhysicalBlockSize: 4096, Thin: true},
		{Blocks: 1, BlockSize: 512, PhysicalBlockSize: 512, Thin: true, UnmapZeroes: true},
	} {
		if got, err := ParseCapacity16(c.Append16(nil)); err != nil || got != c {
			t.Errorf("%+v read back as %+v, %v", c, got, err)
		}
	}
	if _, err := ParseCapacity16(make([]byte, 13)); !errors.Is(err, ErrShort) {
		t.Errorf("13 bytes: %v", err)
	}
	if _, err := ParseCapacity16(bytes.Repeat([]byte{255}, 32)); !errors.Is(err, ErrRange) {
		t.Errorf("last LBA of all ones: %v", err)
	}
	if _, err := ParseCapacity10(make([]byte, 7)); !errors.Is(err, ErrShort) {
		t.Errorf("7 bytes: %v", err)
	}
	if got, err := ParseCapacity10((Capacity{Blocks: 1 << 40, BlockSize: 512}).Append10(nil)); err != nil || got.Blocks != 1<<32 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLUNFieldsInBothForms(t *testing.T) {
	tests := []struct {
		field uint64
		n     uint16
		ok    bool
	}{
		{0, 0, true},
		{0x0003 << 48, 3, true},
		{0x4003 << 48, 3, true},
		{0x412C << 48, 300, true},
		{0x7FFF << 48, MaxLUN, true},
		{0x0100 << 48, 256, false}, // peripheral addressing on bus 1
		{0x8003 << 48, 0, false},   // logical unit addressing
		{WellKnownReportLUNs, 0, false},
		{0x0003<<48 | 1, 0, false},
		{0x0003<<48 | 1<<32, 0, false},
	}
	for _, tt := range tests {
		n, ok := DecodeLUN(tt.field)
		if ok != tt.ok || ok && n != tt.n {
			t.Errorf("%016x: %d, %v", tt.field, n, ok)
		}
	}
	for n := range uint16(MaxLUN + 1) {
		if got, ok := DecodeLUN(EncodeLUN(n)); !ok || got != n {
			t.Fatalf("LUN %d reads back as %d, %v", n, got, ok)
		}
	}
}

func TestLUNListBytes(t *testing.T) {
	got := AppendLUNList(nil, []uint64{EncodeLUN(100), EncodeLUN(101), EncodeLUN(300)})
	wantBytes(t, got, unhex(t, `00 00 00 18 00 00 00 00  00 64 00 00 00 00 00 00
		00 65 00 00 00 00 00 00  41 2c 00 00 00 00 00 00`))
	if LUNListSize(3) != uint64(len(got)) {
		t.Errorf("size %d, %d bytes", LUNListSize(3), len(got))
	}
}

func TestCommandDescriptors(t *testing.T) {
	read := &Command{Op: OpRead10, Usage: []byte{0x28, 0x18, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F, 0xFF, 0xFF, 0}, Recommended: 60}
	rc16 := &Command{Op: OpServiceActionIn16, SA: 0x10, HasSA: true, Usage: make([]byte, 16)}
	all := rc16.AppendTo(read.AppendTo(BeginAllCommands(nil), false), false)
	wantBytes(t, EndAllCommands(all, 0), unhex(t, `00 00 00 10
		28 00 00 00 00 00 00 0a  9e 00 00 10 00 01 00 10`))
	wantBytes(t, read.AppendTo(nil, true), unhex(t, `28 00 00 00 00 02 00 0a
		00 0a 00 00 00 00 00 00 00 00 00 3c`))
	wantBytes(t, read.AppendOne(nil, false), unhex(t, `00 03 00 0a 28 18 ff ff ff ff 1f ff ff 00`))
	wantBytes(t, read.AppendOne(nil, true), unhex(t, `00 83 00 0a 28 18 ff ff ff ff 1f ff ff 00
		00 0a 00 00 00 00 00 00 00 00 00 3c`))
	wantBytes(t, AppendUnsupported(nil), unhex(t, `00 01 00 00`))
}

func TestOperationsRequestReadsBack(t *testing.T) {
	got := CDB(AppendReportOperations(nil, 0x82, OpMaintenanceIn, 0x010C, 9)).OperationsRequest()
	want := OperationsRequest{Timeouts: true, Options: 2, Op: OpMaintenanceIn, SA: 0x010C}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestBuildersAllocateNothingIntoARoomySlice(t *testing.T) {
	id, port := testIdentity(), &TargetPort{}
	buf := make([]byte, 0, 1024)
	luns := []uint64{0, 1, 2}
	mode := &ModeParams{Capacity: Capacity{Blocks: math.MaxUint64, BlockSize: 512}}
	n := testing.AllocsPerRun(100, func() {
		b := AppendStandardInquiry(buf, 0, id)
		b = AppendVPDIdentification(b, 0, id, port)
		b = BlockLimits{}.AppendVPD(b, 0)
		b, _ = mode.Append(b, ModeRequest{Page: PageAll})
		b = mode.Append16(b)
		b = AppendLUNList(b, luns)
		b = InvalidField(1, 1).AppendFixed(b)
		if len(b) > cap(buf) {
			t.Fatal("buffer too small for the test")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
