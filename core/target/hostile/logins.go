package hostile

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// The two forms of a login that is in order: tag 0102030405060708, units of 2044h bytes, direct and indirect descriptors, immediate
// data at offset 44h.
const (
	loginIB = "00000000000000000102030405060708" + "00002044000000000006800000440000" +
		"00000000000030000000000000004000" + "00000000000010000000000000002000"
	loginRDMA = "01020304050607080006800000002044" +
		"00000000000030000000000000004000" + "00000000000010000000000000002000" + "0044000000000000"
)

// loginFields is where the fields of a login are in the two forms; -1 where a form has none.
var loginFields = map[string]struct{ ib, rdma int }{
	"type": {0, 11}, "tag": {8, 0}, "length": {16, 12}, "formats": {24, 8}, "flags": {26, 10}, "offset": {28, 48},
	"initiator": {32, 16}, "target": {48, 32},
	"reserved 1": {1, -1}, "reserved 20": {20, -1}, "reserved 27": {27, -1}, "reserved 30": {30, -1}, "reserved 50": {-1, 50},
}

// TargetIDExt and TargetIOCGUID are the target of the table of logins. It must have limits of 16 requests, of 2 channels for an initiator,
// and units of up to 2054h bytes.
const TargetIDExt, TargetIOCGUID = 0x1000, 0x2000

// LoginBytes are the private data of a login that is in order but for changes, given as "field=hex, field=hex": for IB CM if native, else for
// RDMA/CM. Initiators with different numbers are different ones. It panics if the changes are no such text.
func LoginBytes(native bool, initiator uint16, changes string) []byte {
	form := loginRDMA
	if native {
		form = loginIB
	}
	changes = fmt.Sprintf("initiator=%032x, ", uint64(initiator)<<16|0x4000) + changes
	b, _ := hex.DecodeString(form)
	for _, c := range strings.Split(changes, ", ") {
		name, value, _ := strings.Cut(c, "=")
		if name == "" {
			continue
		}
		at, ok := loginFields[name]
		v, err := hex.DecodeString(value)
		if !ok || err != nil {
			panic(fmt.Sprintf("hostile: %q: %v", c, err))
		}
		off := at.rdma
		if native {
			off = at.ib
		}
		if off >= 0 {
			copy(b[off:], v)
		}
	}
	return b
}

const zeros8 = "0000000000000000"

// Accepted is an SRP_LOGIN_RSP with a limit of 16 requests, units of 2054h bytes in and 200h out, and result and flags,
// of which SOLNTSUP (10h) is always there.
func Accepted(tag, flags string) string {
	return "c000000000000010" + tag + "00002054" + "00000200" + "0006" + flags + "00" + zeros8 + zeros8 + zeros8
}

// Rejected is an SRP_LOGIN_REJ.
func Rejected(tag, reason string) string {
	return "c2000000" + reason + tag + zeros8 + "0006" + "000000000000"
}

// LoginRow is a row of the table: a login and the answer, in hexadecimal digits, to an initiator without channels but for those of Before.
type LoginRow struct {
	Name    string
	Before  []string // logins that are accepted
	Changes string
	Want    string
}

// LoginRows are the table.
func LoginRows() []LoginRow {
	const tag, other = "0102030405060708", "00000000000030000000000000004001"
	multi := "flags=81"
	return []LoginRow{
		{"in order", nil, "", Accepted(tag, "90")},
		{"the tag is opaque", nil, "tag=fffefdfcfbfaf9f8", Accepted("fffefdfcfbfaf9f8", "90")},
		{"tag of zeros", nil, "tag=" + zeros8, Accepted(zeros8, "90")},
		{"reserved bytes are not looked at", nil, "reserved 1=0f, reserved 20=ffffffff, reserved 27=ff, reserved 30=ffff, reserved 50=ffffffffffff", Accepted(tag, "90")},

		{"another type", nil, "type=02", Rejected(tag, "00010000")},
		{"type of a response", nil, "type=c0", Rejected(tag, "00010000")},
		{"reserved flag 04", nil, "flags=84", Rejected(tag, "00010000")},
		{"reserved flag 08", nil, "flags=88", Rejected(tag, "00010000")},
		{"solicited notification is asked for and granted", nil, "flags=f0", Accepted(tag, "90")},

		{"units of no length", nil, "length=00000000", Rejected(tag, "00010002")},
		{"units of 63 bytes", nil, "length=0000003f", Rejected(tag, "00010002")},
		{"units of 64 bytes", nil, "length=00000040", Accepted(tag, "90")},
		{"units as long as can be", nil, "length=00002054", Accepted(tag, "90")},
		{"units of one byte more", nil, "length=00002055", Rejected(tag, "00010002")},
		{"units of 2 GiB", nil, "length=80000000", Rejected(tag, "00010002")},
		{"units of 4 GiB less one", nil, "length=ffffffff", Rejected(tag, "00010002")},

		{"no format", nil, "formats=0000", Rejected(tag, "00010004")},
		{"direct alone", nil, "formats=0002", Accepted(tag, "90")},
		{"indirect alone", nil, "formats=0004", Accepted(tag, "90")},
		{"format 0001", nil, "formats=0001", Rejected(tag, "00010004")},
		{"format 0008 besides", nil, "formats=000e", Rejected(tag, "00010004")},
		{"format 8000 besides", nil, "formats=8006", Rejected(tag, "00010004")},

		{"another target id_ext", nil, "target=00000000000010010000000000002000", Rejected(tag, "00010003")},
		{"another target ioc_guid", nil, "target=00000000000010000000000000002001", Rejected(tag, "00010003")},
		{"top byte of the target's ioc_guid", nil, "target=00000000000010000200000000002000", Rejected(tag, "00010003")},
		{"halves of the target swapped, as in r10", nil, "target=00000000000020000000000000001000", Rejected(tag, "00010003")},
		{"no target", nil, "target=" + zeros8 + zeros8, Rejected(tag, "00010003")},
		{"no initiator", nil, "initiator=" + zeros8 + zeros8, Rejected(tag, "00010003")},

		{"immediate data not asked for", nil, "flags=00", Accepted(tag, "10")},
		{"immediate offset 0", nil, "offset=0000", Accepted(tag, "10")},
		{"immediate offset in the command", nil, "offset=0030", Accepted(tag, "10")},
		{"immediate offset in the descriptor", nil, "offset=0033", Accepted(tag, "10")},
		{"immediate offset after the descriptor", nil, "offset=0034", Accepted(tag, "90")},
		{"largest immediate offset", nil, "offset=0200", Accepted(tag, "90")},
		{"immediate offset of one more", nil, "offset=0201", Accepted(tag, "10")},
		{"immediate offset 65535", nil, "offset=ffff", Accepted(tag, "10")},

		{"multi, none there", nil, multi, Accepted(tag, "90")},
		{"multi, one there", []string{""}, multi, Accepted(tag, "92")},
		{"multi, as many as may be", []string{"", multi}, multi, Rejected(tag, "00010006")},
		{"multi, those of another initiator", []string{"initiator=" + other, multi + ", initiator=" + other}, multi, Accepted(tag, "90")},
		{"single, one there", []string{""}, "", Accepted(tag, "91")},
		{"single, as many as may be", []string{"", multi}, "", Accepted(tag, "91")},
		{"multi after single in place of two", []string{"", multi, ""}, multi, Accepted(tag, "92")},
		{"action 2", nil, "flags=82", Rejected(tag, "00010000")},
		{"action 3", nil, "flags=83", Rejected(tag, "00010000")},
		{"action 2, one there", []string{""}, "flags=82", Rejected(tag, "00010000")},

		{"wrong in every way", nil, "type=01, flags=ff, length=00000000, formats=0000, target=" + zeros8 + zeros8, Rejected(tag, "00010000")},
		{"length before format", nil, "length=00000001, formats=0000", Rejected(tag, "00010002")},
		{"format before target", nil, "formats=0000, target=" + zeros8 + zeros8, Rejected(tag, "00010004")},
	}
}

// Is tells whether private data is what was wanted; the rest of it must be zeros.
func (l *LoginRow) Is(private []byte) bool {
	got := hex.EncodeToString(private)
	return strings.HasPrefix(got, l.Want) && strings.Trim(got[len(l.Want):], "0") == ""
}

// Refused tells whether the login is to be rejected.
func (l *LoginRow) Refused() bool { return strings.HasPrefix(l.Want, "c2") }
