package scsi

import (
	"bytes"
	"math"
	"testing"
)

func TestUnmapListBytes(t *testing.T) {
	list := AppendUnmapList([]byte{9}, Extent{0x0102030405060708, 0x090A0B0C}, Extent{1, 2})
	wantBytes(t, list[1:], unhex(t, `00 26 00 20 00 00 00 00
		01 02 03 04 05 06 07 08 09 0a 0b 0c 00 00 00 00
		00 00 00 00 00 00 00 01 00 00 00 02 00 00 00 00`))
	wantBytes(t, AppendUnmapList(nil), unhex(t, "00 06 00 00 00 00 00 00"))
	wantBytes(t, AppendUnmap(nil, 0x1234), unhex(t, "42 00 00 00 00 00 00 12 34 00"))
	if got := CDB(AppendUnmap(nil, 0x1234)).ParameterListLength(); got != 0x1234 {
		t.Errorf("%x", got)
	}
}

func TestUnmapListsReadBack(t *testing.T) {
	extents := []Extent{{0, 1}, {math.MaxUint64, math.MaxUint32}, {5, 0}}
	list, n, sense := ParseUnmap(AppendUnmapList(nil, extents...))
	if n != len(extents) || !sense.IsZero() {
		t.Fatalf("%d descriptors, %v", n, sense.Code)
	}
	for i, want := range extents {
		if got := list.At(i); got != want {
			t.Errorf("descriptor %d: %+v, want %+v", i, got, want)
		}
	}
	if at := UnmapBlocksByte(1); at != 32 || list[at] != 0xFF {
		t.Errorf("number of blocks of descriptor 1 is said to be at %d", at)
	}
}

func TestUnmapListLengths(t *testing.T) {
	one := AppendUnmapList(nil, Extent{1, 1})
	with := func(length uint16, b []byte) []byte {
		b = bytes.Clone(b)
		b[2], b[3] = byte(length>>8), byte(length)
		return b
	}
	tests := []struct {
		name string
		list []byte
		n    int
		code SenseCode
	}{
		{"one", one, 1, 0},
		{"none", AppendUnmapList(nil), 0, 0},
		{"nothing at all", nil, 0, ParameterListLengthError},
		{"part of the header", one[:7], 0, ParameterListLengthError},
		{"cut inside the descriptor", one[:23], 0, ParameterListLengthError},
		{"cut behind the header", one[:8], 0, ParameterListLengthError},
		{"more descriptors than there are", with(32, one), 0, ParameterListLengthError},
		{"the greatest length", with(65535, one), 0, ParameterListLengthError},
		{"half a descriptor is none", with(15, one), 0, 0},
		{"one and a half", with(31, append(one, make([]byte, 15)...)), 1, 0},
		{"bytes behind the descriptors", append(one, 1, 2, 3), 1, 0},
		{"another UNMAP DATA LENGTH", append([]byte{0, 0}, one[2:]...), 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, n, sense := ParseUnmap(tt.list); n != tt.n || sense.Code != tt.code {
				t.Errorf("%d descriptors, %v", n, sense.Code)
			}
		})
	}
}

// FuzzParseUnmap: whatever is counted can be read.
func FuzzParseUnmap(f *testing.F) {
	f.Add(AppendUnmapList(nil, Extent{1, 2}, Extent{3, 4}))
	f.Add(AppendUnmapList(nil))
	f.Add([]byte{0, 22, 0, 16, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		list, n, sense := ParseUnmap(b)
		if n > 0 && !sense.IsZero() || n > len(b)/unmapDescriptorSize {
			t.Fatalf("%d descriptors in %d bytes, %v", n, len(b), sense.Code)
		}
		for i := range n {
			list.At(i)
		}
	})
}
