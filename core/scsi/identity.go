package scsi

import (
	"fmt"
	"strings"
)

// Identity is what a logical unit is called towards initiators. It belongs to the configuration.
type Identity struct {
	// Vendor (at most 8), Product (16) and Revision (4) are graphic ASCII; shorter ones are padded with spaces.
	Vendor, Product, Revision string
	// Serial is 1 to MaxSerial characters of graphic ASCII.
	Serial string
	// NAA is the world wide name.
	NAA NAA
}

// MaxSerial is the greatest length of a serial number here: with it the T10 vendor identification
// designator still fits in its one length byte.
const MaxSerial = 128

// Validate checks the lengths and characters (SPC-4 4.3.1). Errors wrap ErrSyntax or ErrRange and name the field.
func (i *Identity) Validate() error {
	fields := []struct {
		name, value string
		most        int
	}{
		{"vendor", i.Vendor, 8}, {"product", i.Product, 16},
		{"revision", i.Revision, 4}, {"serial", i.Serial, MaxSerial},
	}
	for _, f := range fields {
		if len(f.value) > f.most {
			return fmt.Errorf("%s %q has %d characters, at most %d fit: %w", f.name, f.value, len(f.value), f.most, ErrRange)
		}
		if strings.ContainsFunc(f.value, notGraphic) {
			return fmt.Errorf("%s %q: only ASCII from space to ~ may be used: %w", f.name, f.value, ErrSyntax)
		}
	}
	if strings.TrimSpace(i.Serial) == "" {
		return fmt.Errorf("serial is empty: %w", ErrSyntax)
	}
	if i.NAA.IsZero() {
		return fmt.Errorf("NAA name is empty: %w", ErrSyntax)
	}
	return nil
}

func notGraphic(r rune) bool { return r < 0x20 || r > 0x7E }

// appendPadded appends s in a field of n bytes, cut or padded with spaces (SPC-4 4.3.1: left-aligned).
func appendPadded(b []byte, s string, n int) []byte {
	b = append(b, s[:min(n, len(s))]...)
	for range n - len(s) {
		b = append(b, ' ')
	}
	return b
}

// TargetPort is the port through which a command came, as VPD page 83h names it.
type TargetPort struct {
	// ID is the SRP target port identifier (SRP r16a 4.3).
	ID [16]byte
	// RelativeID is the relative target port identifier, from 1.
	RelativeID uint16
	// Group is the target port group.
	Group uint16
}
