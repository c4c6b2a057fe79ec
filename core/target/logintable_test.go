package target

import (
	"encoding/hex"
	"testing"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/target/hostile"
)

// TestLoginTable has each case of a login with the bytes in and out, in both forms. Each row logs in to a target without channels of the
// nexus, after the logins of before.
func TestLoginTable(t *testing.T) {
	leaktest.Check(t)
	for _, row := range hostile.LoginRows() {
		g := newRig(t, func(g *rig) { g.cfg.Limits.ChannelsPerNexus = 2 })
		for native, k := range map[bool]*knocker{false: g.knocker(g.peer), true: g.knockerByID()} {
			var ends []*rdmatest.End
			login := func(changes string) rdma.Completion {
				e, c := k.knock(hostile.LoginBytes(native, 0, changes))
				ends = append(ends, e)
				return c
			}
			for _, b := range row.Before {
				if c := login(b); c.Event != rdma.EventEstablished {
					t.Fatalf("%s: before it: %+v", row.Name, c)
				}
			}
			c := login(row.Changes)
			event := rdma.EventEstablished
			if row.Refused() {
				event = rdma.EventRejected
			}
			if c.Event != event || !row.Is(c.Data) {
				t.Errorf("%s, native %v: event %v with\n%x, want\n%s", row.Name, native, c.Event, c.Data, row.Want)
			}
			if c.Event == rdma.EventRejected && c.Reason != rdma.RejectConsumer {
				t.Errorf("%s, native %v: REJ %d", row.Name, native, c.Reason)
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
	k.knock(hostile.LoginBytes(false, 0, "flags=81"))
	_, c := k.knock(hostile.LoginBytes(false, 0, "flags=81"))
	if got, want := hex.EncodeToString(c.Data[:32]), hostile.Rejected("0102030405060708", "00010005"); got != want {
		t.Errorf("answered with\n%s, want\n%s", got, want)
	}
}
