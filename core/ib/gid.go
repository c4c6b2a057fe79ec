package ib

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
)

// GID is a global identifier, 16 bytes as on the wire: subnet prefix and interface id, which is
// the form of an IPv6 address (IBTA 4.1). On Ethernet it is the interface's IPv6 address, or
// its IPv4 address as ::ffff:a.b.c.d (IBTA annex A17).
type GID [16]byte

// LinkLocalPrefix is the default subnet prefix fe80::/64.
const LinkLocalPrefix = 0xFE80_0000_0000_0000

// MakeGID puts a GID together.
func MakeGID(prefix uint64, iface GUID) GID {
	var g GID
	binary.BigEndian.PutUint64(g[:8], prefix)
	binary.BigEndian.PutUint64(g[8:], uint64(iface))
	return g
}

// GIDFromIPv4 is the IPv4-mapped GID of an address.
func GIDFromIPv4(a [4]byte) GID {
	return GID{10: 0xFF, 11: 0xFF, 12: a[0], 13: a[1], 14: a[2], 15: a[3]}
}

// IPv4 returns the address that an IPv4-mapped GID stands for, and whether it is one.
func (g GID) IPv4() ([4]byte, bool) {
	return [4]byte(g[12:]), g.Is4()
}

// Is4 tells whether the GID is IPv4-mapped.
func (g GID) Is4() bool {
	return binary.BigEndian.Uint64(g[:8]) == 0 && binary.BigEndian.Uint32(g[8:12]) == 0xFFFF
}

// IsZero tells whether the GID is all zeros, the reserved GID.
func (g GID) IsZero() bool { return g == GID{} }

// Prefix is the upper half, the subnet prefix.
func (g GID) Prefix() uint64 { return binary.BigEndian.Uint64(g[:8]) }

// GUID is the lower half, the interface id.
func (g GID) GUID() GUID { return GUID(binary.BigEndian.Uint64(g[8:])) }

// String is the full form of eight groups that the kernel prints.
func (g GID) String() string {
	var b [39]byte
	out := b[:0]
	for i := 0; i < 16; i += 2 {
		if i > 0 {
			out = append(out, ':')
		}
		out = hex.AppendEncode(out, g[i:i+2])
	}
	return string(out)
}

// Hex is 32 hexadecimal digits, the form of dgid= in ib_srp's add_target.
func (g GID) Hex() string { return hex.EncodeToString(g[:]) }

// ParseGID reads 32 hexadecimal digits, an IPv6 address in any form of RFC 4291 section 2.2
// (without a zone), or an IPv4 address, which becomes IPv4-mapped. Errors wrap ErrSyntax.
func ParseGID(s string) (GID, error) {
	if len(s) == 32 && !strings.Contains(s, ":") {
		var g GID
		if _, err := hex.Decode(g[:], []byte(s)); err != nil {
			return GID{}, syntaxError("GID", s)
		}
		return g, nil
	}
	if a, ok := parseIPv4(s); ok {
		return GIDFromIPv4(a), nil
	}
	if g, ok := parseIPv6(s); ok {
		return g, nil
	}
	return GID{}, syntaxError("GID", s)
}

func parseIPv4(s string) (a [4]byte, ok bool) {
	parts := strings.Split(s, ".")
	if len(parts) != 4 {
		return a, false
	}
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 8)
		if err != nil || len(p) > 1 && p[0] == '0' {
			return a, false
		}
		a[i] = byte(v)
	}
	return a, true
}

// parseIPv6 splits at the one "::", if there is one, and fills from both ends.
func parseIPv6(s string) (g GID, ok bool) {
	head, tail, gap := strings.Cut(s, "::")
	var h, t GID
	hn, ok := parseGroups(&h, head, !gap)
	if !ok {
		return g, false
	}
	if !gap {
		return h, hn == 16
	}
	tn, ok := parseGroups(&t, tail, true)
	if !ok || hn+tn > 14 {
		return g, false
	}
	copy(g[:], h[:hn])
	copy(g[16-tn:], t[:tn])
	return g, true
}

// parseGroups reads groups separated by colons into g and returns the bytes filled. An IPv4
// address may stand for the last two groups of the whole text.
func parseGroups(g *GID, s string, last bool) (n int, ok bool) {
	if s == "" {
		return 0, true
	}
	parts := strings.Split(s, ":")
	for i, p := range parts {
		if a, v4 := parseIPv4(p); v4 && last && i == len(parts)-1 && n <= 12 {
			return n + copy(g[n:], a[:]), true
		}
		v, err := strconv.ParseUint(p, 16, 16)
		if err != nil || len(p) > 4 || n == 16 {
			return 0, false
		}
		binary.BigEndian.PutUint16(g[n:], uint16(v))
		n += 2
	}
	return n, true
}
