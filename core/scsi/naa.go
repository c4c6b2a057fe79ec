package scsi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// NAA is a name of the NAA formats, the identity that hosts build /dev/disk/by-id and multipath
// maps from (SPC-4 7.8.6.6). Its zero value is no name. It is comparable.
type NAA struct {
	b [16]byte
	n uint8
}

// LocalNAA derives a locally assigned name (NAA 3h, 8 bytes) from seed: the same seed gives the same
// name for ever, and two seeds share one with a probability of 2^-60.
func LocalNAA(seed string) NAA {
	h := nameHash(seed)
	n := NAA{n: 8}
	copy(n.b[:8], h[:])
	n.b[0] = 0x30 | n.b[0]&0x0F
	return n
}

// RegisteredNAA derives an IEEE registered extended name (NAA 6h, 16 bytes) under a company id, which
// must be the operator's own, from seed. Errors wrap ErrRange: an OUI has 24 bits and is not 0.
func RegisteredNAA(oui uint32, seed string) (NAA, error) {
	if oui == 0 || oui > 0xFFFFFF {
		return NAA{}, fmt.Errorf("OUI %Xh: %w", oui, ErrRange)
	}
	h := nameHash(seed)
	n := NAA{n: 16}
	copy(n.b[:], h[:])
	n.b[0] = 0x60 | byte(oui>>20)
	n.b[1] = byte(oui >> 12)
	n.b[2] = byte(oui >> 4)
	n.b[3] = byte(oui<<4) | n.b[3]&0x0F
	return n, nil
}

// nameHash is part of the identity of every volume in the field: it never changes.
func nameHash(seed string) [sha256.Size]byte {
	return sha256.Sum256([]byte("gosrpt.lu.name\x00" + seed))
}

// ParseNAA reads 16 hexadecimal digits (NAA 2h, 3h or 5h) or 32 (NAA 6h), with or without the
// prefix "naa." or "0x". Errors wrap ErrSyntax.
func ParseNAA(s string) (NAA, error) {
	digits := strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(s), "naa."), "0x")
	var n NAA
	if len(digits) != 16 && len(digits) != 32 {
		return NAA{}, fmt.Errorf("NAA name %.64q has %d digits, 16 or 32 are needed: %w", s, len(digits), ErrSyntax)
	}
	if _, err := hex.Decode(n.b[:], []byte(digits)); err != nil {
		return NAA{}, fmt.Errorf("NAA name %.64q is not hexadecimal: %w", s, ErrSyntax)
	}
	n.n = uint8(len(digits) / 2)
	format := n.b[0] >> 4
	long := format == 6
	short := format == 2 || format == 3 || format == 5
	if long != (n.n == 16) || !long && !short {
		return NAA{}, fmt.Errorf("NAA name %.64q: format %Xh does not have %d bytes: %w", s, format, n.n, ErrSyntax)
	}
	return n, nil
}

// Bytes is the name as on the wire, 8 or 16 bytes.
func (n NAA) Bytes() []byte { return append([]byte(nil), n.b[:n.n]...) }

// IsZero tells whether there is no name.
func (n NAA) IsZero() bool { return n.n == 0 }

// String is the form "naa." and the digits.
func (n NAA) String() string { return "naa." + hex.EncodeToString(n.b[:n.n]) }
