package target

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
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

// changedLogin is a form with fields changed, given as "field=hex field=hex".
func changedLogin(t *testing.T, native bool, changes string) []byte {
	t.Helper()
	form := loginRDMA
	if native {
		form = loginIB
	}
	b, err := hex.DecodeString(form)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range strings.Split(changes, ", ") {
		name, value, _ := strings.Cut(c, "=")
		if name == "" {
			continue
		}
		at, ok := loginFields[name]
		v, err := hex.DecodeString(value)
		if !ok || err != nil {
			t.Fatalf("%q: %v", c, err)
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

// accept is an SRP_LOGIN_RSP with a limit of 16 requests, units of 2054h bytes in and 200h out, and result and flags,
// of which SOLNTSUP (10h) is always there.
func accept(tag, flags string) string {
	return "c000000000000010" + tag + "00002054" + "00000200" + "0006" + flags + "00" + zeros8 + zeros8 + zeros8
}

// reject is an SRP_LOGIN_REJ.
func reject(tag, reason string) string {
	return "c2000000" + reason + tag + zeros8 + "0006" + "000000000000"
}

// TestLoginTable has each case of a login with the bytes in and out, in both forms. Each row logs in to a target without channels of the
// nexus, after the logins of before.
func TestLoginTable(t *testing.T) {
	leaktest.Check(t)
	const tag, other = "0102030405060708", "00000000000030000000000000004001"
	multi := "flags=81"
	for _, row := range []struct {
		name    string
		before  []string // logins that are accepted
		changes string
		want    string
	}{
		{"in order", nil, "", accept(tag, "90")},
		{"the tag is opaque", nil, "tag=fffefdfcfbfaf9f8", accept("fffefdfcfbfaf9f8", "90")},
		{"tag of zeros", nil, "tag=" + zeros8, accept(zeros8, "90")},
		{"reserved bytes are not looked at", nil, "reserved 1=0f, reserved 20=ffffffff, reserved 27=ff, reserved 30=ffff, reserved 50=ffffffffffff", accept(tag, "90")},

		{"another type", nil, "type=02", reject(tag, "00010000")},
		{"type of a response", nil, "type=c0", reject(tag, "00010000")},
		{"reserved flag 04", nil, "flags=84", reject(tag, "00010000")},
		{"reserved flag 08", nil, "flags=88", reject(tag, "00010000")},
		{"solicited notification is asked for and granted", nil, "flags=f0", accept(tag, "90")},

		{"units of no length", nil, "length=00000000", reject(tag, "00010002")},
		{"units of 63 bytes", nil, "length=0000003f", reject(tag, "00010002")},
		{"units of 64 bytes", nil, "length=00000040", accept(tag, "90")},
		{"units as long as can be", nil, "length=00002054", accept(tag, "90")},
		{"units of one byte more", nil, "length=00002055", reject(tag, "00010002")},
		{"units of 2 GiB", nil, "length=80000000", reject(tag, "00010002")},
		{"units of 4 GiB less one", nil, "length=ffffffff", reject(tag, "00010002")},

		{"no format", nil, "formats=0000", reject(tag, "00010004")},
		{"direct alone", nil, "formats=0002", accept(tag, "90")},
		{"indirect alone", nil, "formats=0004", accept(tag, "90")},
		{"format 0001", nil, "formats=0001", reject(tag, "00010004")},
		{"format 0008 besides", nil, "formats=000e", reject(tag, "00010004")},
		{"format 8000 besides", nil, "formats=8006", reject(tag, "00010004")},

		{"another target id_ext", nil, "target=00000000000010010000000000002000", reject(tag, "00010003")},
		{"another target ioc_guid", nil, "target=00000000000010000000000000002001", reject(tag, "00010003")},
		{"top byte of the target's ioc_guid", nil, "target=00000000000010000200000000002000", reject(tag, "00010003")},
		{"halves of the target swapped, as in r10", nil, "target=00000000000020000000000000001000", reject(tag, "00010003")},
		{"no target", nil, "target=" + zeros8 + zeros8, reject(tag, "00010003")},
		{"no initiator", nil, "initiator=" + zeros8 + zeros8, reject(tag, "00010003")},

		{"immediate data not asked for", nil, "flags=00", accept(tag, "10")},
		{"immediate offset 0", nil, "offset=0000", accept(tag, "10")},
		{"immediate offset in the command", nil, "offset=0030", accept(tag, "10")},
		{"immediate offset in the descriptor", nil, "offset=0033", accept(tag, "10")},
		{"immediate offset after the descriptor", nil, "offset=0034", accept(tag, "90")},
		{"largest immediate offset", nil, "offset=0200", accept(tag, "90")},
		{"immediate offset of one more", nil, "offset=0201", accept(tag, "10")},
		{"immediate offset 65535", nil, "offset=ffff", accept(tag, "10")},

		{"multi, none there", nil, multi, accept(tag, "90")},
		{"multi, one there", []string{""}, multi, accept(tag, "92")},
		{"multi, as many as may be", []string{"", multi}, multi, reject(tag, "00010006")},
		{"multi, those of another initiator", []string{"initiator=" + other, multi + ", initiator=" + other}, multi, accept(tag, "90")},
		{"single, one there", []string{""}, "", accept(tag, "91")},
		{"single, as many as may be", []string{"", multi}, "", accept(tag, "91")},
		{"multi after single in place of two", []string{"", multi, ""}, multi, accept(tag, "92")},
		{"action 2", nil, "flags=82", reject(tag, "00010000")},
		{"action 3", nil, "flags=83", reject(tag, "00010000")},
		{"action 2, one there", []string{""}, "flags=82", reject(tag, "00010000")},

		{"wrong in every way", nil, "type=01, flags=ff, length=00000000, formats=0000, target=" + zeros8 + zeros8, reject(tag, "00010000")},
		{"length before format", nil, "length=00000001, formats=0000", reject(tag, "00010002")},
		{"format before target", nil, "formats=0000, target=" + zeros8 + zeros8, reject(tag, "00010004")},
	} {
		g := newRig(t, func(g *rig) { g.cfg.Limits.ChannelsPerNexus = 2 })
		for native, k := range map[bool]*knocker{false: g.knocker(g.peer), true: g.knocker(g.nativeDevice())} {
			var ends []*rdmatest.End
			login := func(changes string) rdma.Completion {
				e, c := k.knock(changedLogin(t, native, changes))
				ends = append(ends, e)
				return c
			}
			for _, b := range row.before {
				if c := login(b); c.Event != rdma.EventEstablished {
					t.Fatalf("%s: before it: %+v", row.name, c)
				}
			}
			c := login(row.changes)
			event, n := rdma.EventEstablished, 104
			if row.want[:2] == "c2" {
				event, n = rdma.EventRejected, 64
			}
			if got := hex.EncodeToString(c.Data); c.Event != event || len(got) < n || got[:n] != row.want || strings.Trim(got[n:], "0") != "" {
				t.Errorf("%s, native %v: event %v with\n%s, want\n%s", row.name, native, c.Event, got, row.want)
			}
			if c.Event == rdma.EventRejected && c.Reason != rdma.RejectConsumer {
				t.Errorf("%s, native %v: REJ %d", row.name, native, c.Reason)
			}
			for _, e := range ends {
				e.Close()
			}
			g.empty()
		}
		g.shutdown()
	}
}

// TestOneChannelANexusIsToldSo: a host whose limit is one channel learns that from the reason.
func TestOneChannelANexusIsToldSo(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, func(g *rig) { g.cfg.Limits.ChannelsPerNexus = 1 })
	k := g.knocker(g.peer)
	k.knock(changedLogin(t, false, "flags=81"))
	_, c := k.knock(changedLogin(t, false, "flags=81"))
	if got, want := hex.EncodeToString(c.Data[:32]), reject("0102030405060708", "00010005"); got != want {
		t.Errorf("answered with\n%s, want\n%s", got, want)
	}
}
