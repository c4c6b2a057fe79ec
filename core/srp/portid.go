package srp

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// PortID is a 16-byte initiator or target port identifier: an 8-byte extension,
// then an 8-byte GUID (r16a 5.3, I/O class 0100h).
type PortID [16]byte

// MakePortID puts an identifier together.
func MakePortID(ext, guid uint64) PortID {
	var p PortID
	binary.BigEndian.PutUint64(p[:8], ext)
	binary.BigEndian.PutUint64(p[8:], guid)
	return p
}

// ParsePortID reads 32 hexadecimal digits, with or without a leading 0x and
// with or without colons between groups. Fewer or more digits are an error.
func ParsePortID(s string) (PortID, error) {
	t := strings.TrimPrefix(strings.TrimPrefix(s, "0x"), "0X")
	t = strings.ReplaceAll(t, ":", "")
	var p PortID
	if len(t) != 2*len(p) {
		return PortID{}, fmt.Errorf("srp: port id %q has %d hexadecimal digits, want %d", s, len(t), 2*len(p))
	}
	if _, err := hex.Decode(p[:], []byte(t)); err != nil {
		return PortID{}, fmt.Errorf("srp: port id %q: %w", s, err)
	}
	return p, nil
}

// Ext returns the extension, the first half.
func (p PortID) Ext() uint64 { return binary.BigEndian.Uint64(p[:8]) }

// GUID returns the second half.
func (p PortID) GUID() uint64 { return binary.BigEndian.Uint64(p[8:]) }

// IsZero reports whether every byte is zero.
func (p PortID) IsZero() bool { return p == PortID{} }

// String returns the 32 hexadecimal digits with a leading 0x.
func (p PortID) String() string { return "0x" + hex.EncodeToString(p[:]) }
