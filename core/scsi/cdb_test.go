package scsi

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

func TestEveryOpcodeHasTheLengthOfItsGroup(t *testing.T) {
	want := [8]int{6, 10, 10, 0, 16, 12, 0, 0}
	for op := range 256 {
		if got := Opcode(op).CDBSize(); got != want[op>>5] {
			t.Errorf("opcode %02Xh: size %d, want %d", op, got, want[op>>5])
		}
	}
}

func TestParseCDBChecksTheLength(t *testing.T) {
	long := make([]byte, 260)
	for op := range 256 {
		size := Opcode(op).CDBSize()
		for _, n := range []int{0, 1, 5, 6, 9, 10, 11, 12, 15, 16, 260} {
			long[0] = byte(op)
			c, err := ParseCDB(long[:n])
			switch {
			case n > 0 && size == 0:
				if !errors.Is(err, ErrRange) {
					t.Fatalf("%02Xh in %d bytes: %v, want ErrRange", op, n, err)
				}
			case n < size || n == 0:
				if !errors.Is(err, ErrShort) {
					t.Fatalf("%02Xh in %d bytes: %v, want ErrShort", op, n, err)
				}
			case err != nil || len(c) != size:
				t.Fatalf("%02Xh in %d bytes: %d bytes, %v", op, n, len(c), err)
			}
		}
	}
}

func TestBuiltTransfersReadBack(t *testing.T) {
	tests := []struct {
		name   string
		cdb    CDB
		bytes  []byte
		extent Extent
		fua    bool
	}{
		{"READ(6)", AppendTransfer6(nil, OpRead6, Extent{0x1ABCDE, 7}), []byte{8, 0x1A, 0xBC, 0xDE, 7, 0}, Extent{0x1ABCDE, 7}, false},
		{"READ(6) of 256 blocks", AppendTransfer6(nil, OpRead6, Extent{1, 256}), []byte{8, 0, 0, 1, 0, 0}, Extent{1, 256}, false},
		{"WRITE(10)", AppendTransfer10(nil, OpWrite10, Extent{0x80000001, 0x1234}, FlagFUA),
			[]byte{0x2A, 8, 0x80, 0, 0, 1, 0, 0x12, 0x34, 0}, Extent{0x80000001, 0x1234}, true},
		{"READ(12)", AppendTransfer12(nil, OpRead12, Extent{5, 0x01020304}, FlagDPO),
			[]byte{0xA8, 0x10, 0, 0, 0, 5, 1, 2, 3, 4, 0, 0}, Extent{5, 0x01020304}, false},
		{"READ(16)", AppendTransfer16(nil, OpRead16, Extent{math.MaxUint64, math.MaxUint32}, 0),
			[]byte{0x88, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0}, Extent{math.MaxUint64, math.MaxUint32}, false},
		{"WRITE SAME(10)", AppendTransfer10(nil, OpWriteSame10, Extent{0x80000001, 0x1234}, 0),
			[]byte{0x41, 0, 0x80, 0, 0, 1, 0, 0x12, 0x34, 0}, Extent{0x80000001, 0x1234}, false},
		{"WRITE SAME(16)", AppendTransfer16(nil, OpWriteSame16, Extent{1 << 40, 0x01020304}, FlagNDOB),
			[]byte{0x93, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0}, Extent{1 << 40, 0x01020304}, false},
		{"COMPARE AND WRITE", AppendCompareAndWrite(nil, Extent{1 << 40, 255}, FlagFUA),
			[]byte{0x89, 8, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0}, Extent{1 << 40, 255}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !bytes.Equal(tt.cdb, tt.bytes) {
				t.Errorf("bytes % x, want % x", tt.cdb, tt.bytes)
			}
			if got := tt.cdb.Extent(); got != tt.extent {
				t.Errorf("extent %+v, want %+v", got, tt.extent)
			}
			if tt.cdb.FUA() != tt.fua {
				t.Errorf("FUA %v", tt.cdb.FUA())
			}
			if tt.cdb.Control() != 0 {
				t.Errorf("control %02X", tt.cdb.Control())
			}
		})
	}
}

func TestBitsOfWriteSame(t *testing.T) {
	for flags, want := range map[byte][2]bool{0: {}, FlagUNMAP: {true, false}, FlagNDOB: {false, true}, FlagUNMAP | FlagNDOB: {true, true}} {
		c := CDB(AppendTransfer16(nil, OpWriteSame16, Extent{}, flags))
		if got := [2]bool{c.MayUnmap(), c.NoData()}; got != want {
			t.Errorf("WRITE SAME(16) with %02x: %v", flags, got)
		}
		c = AppendTransfer10(nil, OpWriteSame10, Extent{}, flags)
		if got := [2]bool{c.MayUnmap(), c.NoData()}; got != [2]bool{want[0], false} {
			t.Errorf("WRITE SAME(10) with %02x: %v", flags, got)
		}
	}
}

func TestCompareAndWriteHasALengthOfOneByte(t *testing.T) {
	c := make(CDB, 16)
	c[0], c[10], c[11], c[12] = byte(OpCompareAndWrite), 1, 2, 3 // reserved
	c[c.LengthByte()] = 9
	if got := c.Extent().Blocks; got != 9 {
		t.Errorf("%d blocks", got)
	}
}

func TestLengthAndLBAOffsetsPointAtTheFields(t *testing.T) {
	for _, op := range []Opcode{OpRead6, OpRead10, OpRead12, OpRead16, OpWriteSame10, OpWriteSame16} {
		c := make(CDB, op.CDBSize())
		c[0] = byte(op)
		c[c.LengthByte()] = 0x01
		if got := c.Extent().Blocks; op != OpRead6 && got < 256 || op == OpRead6 && got != 1 {
			t.Errorf("%v: first length byte gives %d blocks", op, got)
		}
		c[c.LBAByte()] = 0x01
		if got := c.Extent().LBA; got < 0x10000 {
			t.Errorf("%v: first LBA byte gives LBA %d", op, got)
		}
	}
}

func TestExtentWithinIsExactAndDoesNotWrap(t *testing.T) {
	tests := []struct {
		e        Extent
		capacity uint64
		want     bool
	}{
		{Extent{0, 0}, 0, true},
		{Extent{0, 1}, 0, false},
		{Extent{9, 1}, 10, true},
		{Extent{10, 0}, 10, true},
		{Extent{10, 1}, 10, false},
		{Extent{11, 0}, 10, false},
		{Extent{0, 10}, 10, true},
		{Extent{0, 11}, 10, false},
		{Extent{math.MaxUint64, 1}, 10, false},
		{Extent{math.MaxUint64, math.MaxUint64}, 10, false},
		{Extent{math.MaxUint64 - 1, 1}, math.MaxUint64, true},
		{Extent{1, math.MaxUint64}, math.MaxUint64, false},
	}
	for _, tt := range tests {
		if got := tt.e.Within(tt.capacity); got != tt.want {
			t.Errorf("%+v within %d: %v", tt.e, tt.capacity, got)
		}
	}
}

func TestAllocationLengthIsReadFromEachBuiltCDB(t *testing.T) {
	tests := []struct {
		cdb  CDB
		want uint64
	}{
		{AppendInquiry(nil, 0x0124), 0x0124},
		{AppendInquiryVPD(nil, 0x83, 0xFFFF), 0xFFFF},
		{AppendRequestSense(nil, 252), 252},
		{AppendReadCapacity10(nil), 8},
		{AppendReadCapacity16(nil, 0x01000020), 0x01000020},
		{AppendModeSense6(nil, PageAll, 0, 192), 192},
		{CDB{0x5A, 0, 0x3F, 0, 0, 0, 0, 0x12, 0x34, 0}, 0x1234},
		{AppendReportLUNs(nil, 2, 0x01020304), 0x01020304},
		{AppendReportOperations(nil, 0x81, OpRead10, 0, 0xFFFF0000), 0xFFFF0000},
		{AppendTestUnitReady(nil), 0},
	}
	for _, tt := range tests {
		if got := tt.cdb.AllocationLength(); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.cdb.Opcode(), got, tt.want)
		}
		if got := len(tt.cdb); got != tt.cdb.Opcode().CDBSize() {
			t.Errorf("%v: built with %d bytes", tt.cdb.Opcode(), got)
		}
	}
}

func TestTruncateKeepsAPrefix(t *testing.T) {
	full := []byte{1, 2, 3}
	for alloc := range uint64(6) {
		got := Truncate(full, alloc)
		if !bytes.Equal(got, full[:min(3, alloc)]) {
			t.Errorf("alloc %d: % x", alloc, got)
		}
	}
}

func TestNames(t *testing.T) {
	tests := []struct{ got, want string }{
		{OpRead10.String(), "READ(10)"},
		{Opcode(0xC1).String(), "opcode C1h"},
		{StatusTaskSetFull.String(), "TASK SET FULL"},
		{Status(0x55).String(), "status 55h"},
		{LBAOutOfRange.String(), "05/21/00"},
		{PowerOn.String(), "06/29/00"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

// FuzzParseCDB: whatever is accepted can be asked everything without a panic, and its extent
// comes back from the matching builder.
func FuzzParseCDB(f *testing.F) {
	f.Add([]byte(AppendTransfer16(nil, OpRead16, Extent{1 << 40, 8}, FlagFUA)))
	f.Add([]byte(AppendTransfer6(nil, OpWrite6, Extent{5, 256})))
	f.Add([]byte{0x12})
	f.Add([]byte{0x7F, 0, 0, 0, 0, 0, 0, 0x18})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseCDB(b)
		if err != nil {
			return
		}
		_, _, _, _ = c.ServiceAction(), c.Control(), c.FUA(), c.AllocationLength()
		e := c.Extent()
		var built CDB
		switch len(c) {
		case 6:
			built = AppendTransfer6(nil, c.Opcode(), e)
		case 10:
			built = AppendTransfer10(nil, c.Opcode(), e, c[1])
		case 12:
			built = AppendTransfer12(nil, c.Opcode(), e, c[1])
		case 16:
			built = AppendTransfer16(nil, c.Opcode(), e, c[1])
		}
		if got := built.Extent(); got != e {
			t.Fatalf("extent %+v read back as %+v", e, got)
		}
	})
}
