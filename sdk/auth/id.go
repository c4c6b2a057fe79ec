package auth

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
)

// ID is a port identifier or a GID: 16 bytes as they are on the wire.
type ID [16]byte

// ParseID reads every spelling that tools and logs print: 32 hexadecimal digits, or eight groups of four with colons
// between them; with or without a leading 0x; in any letter case. Spaces around it are ignored.
func ParseID(s string) (ID, error) {
	t := strings.ToLower(strings.TrimSpace(s))
	t = strings.TrimPrefix(t, "0x")
	if groups := strings.Split(t, ":"); len(groups) > 1 {
		for _, g := range groups {
			if len(g) != 4 {
				return ID{}, fmt.Errorf("auth: %q: groups between colons have four hexadecimal digits", s)
			}
		}
		t = strings.Join(groups, "")
	}
	var id ID
	if len(t) != 2*len(id) {
		return ID{}, fmt.Errorf("auth: %q has %d hexadecimal digits, want %d", s, len(t), 2*len(id))
	}
	if _, err := hex.Decode(id[:], []byte(t)); err != nil {
		return ID{}, fmt.Errorf("auth: %q: %w", s, err)
	}
	return id, nil
}

// String returns 0x and 32 hexadecimal digits, the one form that gosrpt prints a port identifier in.
func (id ID) String() string { return "0x" + hex.EncodeToString(id[:]) }

// GID returns the eight groups that the kernel prints a GID in.
func (id ID) GID() string {
	out := make([]byte, 0, 39)
	for i := 0; i < len(id); i += 2 {
		if i > 0 {
			out = append(out, ':')
		}
		out = hex.AppendEncode(out, id[i:i+2])
	}
	return string(out)
}

// Kinds of names, as they stand before the colon of a rule and in Login.Names.
const (
	KindPortID  = "port_id"
	KindGID     = "gid"
	KindAddress = "address"
)

// Names are the initiator's names, each with its kind, as an operator can paste them into a rule: port_id:0x...,
// gid:fe80:..., address:10.0.0.7.
func (l *Login) Names() []string {
	names := []string{KindPortID + ":" + l.Initiator.String(), KindGID + ":" + l.SourceGID.GID()}
	if l.SourceAddr.IsValid() {
		names = append(names, KindAddress+":"+PlainAddr(l.SourceAddr).String())
	}
	return names
}

// PlainAddr is the one form in which addresses are compared: without a zone, and an IPv4 address as such.
func PlainAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
