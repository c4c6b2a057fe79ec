package scsi

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func testIdentity() *Identity {
	return &Identity{Vendor: "GOSRPT", Product: "TESTDISK", Revision: "1.0", Serial: "s-0001", NAA: LocalNAA("s-0001")}
}

func TestIdentityNamesTheFieldThatIsWrong(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Identity)
		want   error
		field  string
	}{
		{"good", func(*Identity) {}, nil, ""},
		{"long serial", func(i *Identity) { i.Serial = strings.Repeat("x", MaxSerial) }, nil, ""},
		{"vendor of nine", func(i *Identity) { i.Vendor = "ninechars" }, ErrRange, "vendor"},
		{"product of seventeen", func(i *Identity) { i.Product = strings.Repeat("p", 17) }, ErrRange, "product"},
		{"revision of five", func(i *Identity) { i.Revision = "12345" }, ErrRange, "revision"},
		{"serial too long", func(i *Identity) { i.Serial = strings.Repeat("x", MaxSerial+1) }, ErrRange, "serial"},
		{"serial empty", func(i *Identity) { i.Serial = "" }, ErrSyntax, "serial"},
		{"serial blank", func(i *Identity) { i.Serial = "   " }, ErrSyntax, "serial"},
		{"umlaut", func(i *Identity) { i.Product = "plätte" }, ErrSyntax, "product"},
		{"NUL", func(i *Identity) { i.Vendor = "a\x00" }, ErrSyntax, "vendor"},
		{"no NAA", func(i *Identity) { i.NAA = NAA{} }, ErrSyntax, "NAA"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id := testIdentity()
			tt.change(id)
			err := id.Validate()
			if !errors.Is(err, tt.want) || tt.want != nil && !strings.Contains(err.Error(), tt.field) {
				t.Errorf("%v, want %v naming %q", err, tt.want, tt.field)
			}
		})
	}
}

// The names are burnt into multipath maps and fstabs: these values may never change.
func TestDerivedNamesNeverChange(t *testing.T) {
	reg, err := RegisteredNAA(0x123456, "volume-a")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ got, want string }{
		{LocalNAA("volume-a").String(), "naa.3f9da7b85fad2b91"},
		{reg.String(), "naa.612345685fad2b914911d40821a2f14e"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s, want %s", tt.got, tt.want)
		}
	}
}

func TestDerivedNamesDifferAndReadBack(t *testing.T) {
	seen := map[NAA]string{}
	for _, seed := range []string{"", "a", "b", "volume-a", "volume-A", "volume-a\x00"} {
		reg, err := RegisteredNAA(0xABCDEF, seed)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []NAA{LocalNAA(seed), reg} {
			if other, dup := seen[n]; dup {
				t.Errorf("%q and %q share %v", seed, other, n)
			}
			seen[n] = seed
			if back, err := ParseNAA(n.String()); err != nil || back != n {
				t.Errorf("%v read back as %v, %v", n, back, err)
			}
		}
	}
}

func TestParseNAA(t *testing.T) {
	tests := []struct {
		text string
		want string
		err  error
	}{
		{"0x3000000000000001", "3000000000000001", nil},
		{"naa.5000C500A0B1C2D3", "5000c500a0b1c2d3", nil},
		{"6001405abd0000000000000000000000", "6001405abd0000000000000000000000", nil},
		{"", "", ErrSyntax},
		{"6001405abd000000", "", ErrSyntax},
		{"5000c500a0b1c2d35000c500a0b1c2d3", "", ErrSyntax},
		{"4000000000000001", "", ErrSyntax},
		{"300000000000000g", "", ErrSyntax},
		{"30000000000000011", "", ErrSyntax},
	}
	for _, tt := range tests {
		n, err := ParseNAA(tt.text)
		if !errors.Is(err, tt.err) || hex.EncodeToString(n.Bytes()) != tt.want {
			t.Errorf("%q: %v, %v", tt.text, n, err)
		}
	}
	if _, err := RegisteredNAA(0, "x"); !errors.Is(err, ErrRange) {
		t.Errorf("OUI 0: %v", err)
	}
	if _, err := RegisteredNAA(1<<24, "x"); !errors.Is(err, ErrRange) {
		t.Errorf("OUI of 25 bits: %v", err)
	}
}

func TestPaddingCutsAndFills(t *testing.T) {
	if got := appendPadded(nil, "abc", 5); !bytes.Equal(got, []byte("abc  ")) {
		t.Errorf("%q", got)
	}
	if got := appendPadded(nil, "abcdef", 5); !bytes.Equal(got, []byte("abcde")) {
		t.Errorf("%q", got)
	}
}
