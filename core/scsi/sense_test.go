package scsi

import (
	"bytes"
	"errors"
	"testing"
)

func TestFixedSenseBytes(t *testing.T) {
	tests := []struct {
		name  string
		sense Sense
		want  []byte
	}{
		// The first two are what the Linux kernel's target sends for an unknown opcode and an LBA beyond the end.
		{"unknown opcode", Sense{Code: InvalidOpcode},
			[]byte{0x70, 0, 5, 0, 0, 0, 0, 0x0A, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0}},
		{"LBA out of range", Sense{Code: LBAOutOfRange},
			[]byte{0x70, 0, 5, 0, 0, 0, 0, 0x0A, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0}},
		{"nothing", Sense{},
			[]byte{0x70, 0, 0, 0, 0, 0, 0, 0x0A, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		{"field and bit", InvalidField(2, 5),
			[]byte{0x70, 0, 5, 0, 0, 0, 0, 0x0A, 0, 0, 0, 0, 0x24, 0, 0, 0xCD, 0, 2}},
		{"field of whole bytes", InvalidField(0x0102, NoBit),
			[]byte{0x70, 0, 5, 0, 0, 0, 0, 0x0A, 0, 0, 0, 0, 0x24, 0, 0, 0xC0, 1, 2}},
		{"information", Sense{Code: UnrecoveredReadError, HasInfo: true, Info: 0x01020304},
			[]byte{0xF0, 0, 3, 1, 2, 3, 4, 0x0A, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0}},
		{"information too large for the field", Sense{Code: UnrecoveredReadError, HasInfo: true, Info: 1 << 32},
			[]byte{0x70, 0, 3, 0, 0, 0, 0, 0x0A, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0}},
		// The Linux kernel's target sends the same for a difference in the first byte.
		{"miscompare", Sense{Code: MiscompareDuringVerify, HasInfo: true},
			[]byte{0xF0, 0, 0xE, 0, 0, 0, 0, 0x0A, 0, 0, 0, 0, 0x1D, 0, 0, 0, 0, 0}},
		{"miscompare behind the first block", Sense{Code: MiscompareDuringVerify, HasInfo: true, Info: 0x0201},
			[]byte{0xF0, 0, 0xE, 0, 0, 2, 1, 0x0A, 0, 0, 0, 0, 0x1D, 0, 0, 0, 0, 0}},
		{"field of the parameter list", InvalidParameter(16),
			[]byte{0x70, 0, 5, 0, 0, 0, 0, 0x0A, 0, 0, 0, 0, 0x26, 0, 0, 0x80, 0, 16}},
		{"parameter list that ends too early", Sense{Code: ParameterListLengthError},
			[]byte{0x70, 0, 5, 0, 0, 0, 0, 0x0A, 0, 0, 0, 0, 0x1A, 0, 0, 0, 0, 0}},
		{"deferred", Sense{Code: WriteError, Deferred: true},
			[]byte{0x71, 0, 3, 0, 0, 0, 0, 0x0A, 0, 0, 0, 0, 0x0C, 0, 0, 0, 0, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.sense.AppendFixed(nil); !bytes.Equal(got, tt.want) {
				t.Errorf("\n got % x\nwant % x", got, tt.want)
			}
		})
	}
}

func TestDescriptorSenseBytes(t *testing.T) {
	s := InvalidField(1, 3)
	s.HasInfo, s.Info = true, 1<<40
	want := []byte{
		0x72, 5, 0x24, 0, 0, 0, 0, 20,
		0, 0x0A, 0x80, 0, 0, 0, 1, 0, 0, 0, 0, 0,
		2, 6, 0, 0, 0xCB, 0, 1, 0,
	}
	if got := s.AppendDescriptor(nil); !bytes.Equal(got, want) {
		t.Errorf("\n got % x\nwant % x", got, want)
	}
}

func TestSenseReadsBackFromBothFormats(t *testing.T) {
	field := InvalidField(9, 7)
	inData := field
	inData.Field.Data = true
	senses := []Sense{
		{}, {Code: PowerOn}, field, inData, InvalidField(3, NoBit),
		{Code: UnrecoveredReadError, HasInfo: true, Info: 77},
		{Code: WriteError, Deferred: true},
	}
	for _, s := range senses {
		for name, b := range map[string][]byte{"fixed": s.AppendFixed(nil), "descriptor": s.AppendDescriptor([]byte{})} {
			got, err := ParseSense(b)
			if err != nil || got != s {
				t.Errorf("%s: %+v, %v; want %+v", name, got, err, s)
			}
		}
	}
}

func TestParseSenseRefusesWhatIsNone(t *testing.T) {
	tests := []struct {
		name string
		b    []byte
		want error
	}{
		{"empty", nil, ErrShort},
		{"seven bytes", []byte{0x70, 0, 5, 0, 0, 0, 0}, ErrShort},
		{"fixed without a code", []byte{0x70, 0, 5, 0, 0, 0, 0, 2, 0, 0}, ErrShort},
		{"response code 7Fh", []byte{0x7F, 0, 5, 0, 0, 0, 0, 0}, ErrRange},
		{"descriptor beyond the end", []byte{0x72, 5, 0x24, 0, 0, 0, 0, 4, 2, 6, 0, 0}, ErrShort},
	}
	for _, tt := range tests {
		if _, err := ParseSense(tt.b); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestPutOverwritesAllOfTheBuffer(t *testing.T) {
	b := [SenseSize]byte(bytes.Repeat([]byte{0xEE}, SenseSize))
	Sense{Code: BecomingReady}.Put(&b)
	if want := (Sense{Code: BecomingReady}).AppendFixed(nil); !bytes.Equal(b[:], want) {
		t.Errorf("% x, want % x", b, want)
	}
}

// FuzzParseSense: no input panics, and what is understood survives being built again.
func FuzzParseSense(f *testing.F) {
	f.Add(InvalidField(2, 5).AppendFixed(nil))
	f.Add(InvalidField(2, 5).AppendDescriptor(nil))
	f.Add([]byte{0x72, 0, 0, 0, 0, 0, 0, 255, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseSense(b)
		if err != nil {
			return
		}
		again, err := ParseSense(s.AppendDescriptor(nil))
		if err != nil || again != s {
			t.Fatalf("%+v became %+v, %v", s, again, err)
		}
	})
}
