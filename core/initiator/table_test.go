package initiator

import (
	"bytes"
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

// TestTableThatDoesNotFitIsLeftInMemory looks at the unit that the target gets, and at what it would read.
func TestTableThatDoesNotFitIsLeftInMemory(t *testing.T) {
	rows := []struct {
		name                   string
		list, table, pieces, n int // n entries in the unit
		iuLen                  uint32
	}{
		{"all in the unit", 12, 64, 12, 12, 1024},
		{"one left", 12, 64, 13, 12, 1024},
		{"one in the unit", 1, 64, 64, 1, 1024},
		{"as many as the unit has room for", 255, 300, 300, 27, 512},
		{"no room in the unit at all", 255, 8, 8, 0, 68},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bed) {
				b.cfg.ListEntries, b.cfg.TableEntries, b.cfg.IULen = row.list, row.table, row.iuLen
				b.size = max(row.iuLen, 512)
				var seen srp.DataFields
				var count int
				b.command = func(c *conn, cmd *srp.Cmd) {
					d := cmd.DataIn()
					seen.Table, count = d.Remote(), d.Count()
					c.respond(&srp.RspFields{Tag: cmd.Tag(), Delta: 1})
				}
				s := b.dial()
				mem := b.memory(s, 512*row.pieces)
				lens := make([]uint64, row.pieces)
				for i := range lens {
					lens[i] = 512
				}
				if err := <-b.start(s, &Command{In: pieces(mem, lens...), Format: FormatIndirect}); err != nil {
					t.Fatal(err)
				}
				if count != row.n || int(seen.Table.Length) != (row.pieces-row.n)*srp.DescLen {
					t.Fatalf("%d entries in the unit, %d bytes to be read", count, seen.Table.Length)
				}
				if seen.Table.Length == 0 {
					return
				}
				r := s.channels[0].tableMem
				if seen.Table.Key != r.RKey() {
					t.Fatalf("key %x, want %x", seen.Table.Key, r.RKey())
				}
				var want []byte
				for i := row.n; i < row.pieces; i++ {
					d := srp.Desc{Addr: mem.Addr() + uint64(i)*512, Key: mem.RKey(), Length: 512}
					want = d.Append(want)
				}
				if got := r.Bytes()[seen.Table.Addr-r.Addr():][:len(want)]; !bytes.Equal(got, want) {
					t.Error("the table in memory is not the rest of the list")
				}
			})
		})
	}
}

func TestEventsAreHandedOn(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		type event struct {
			lun   srp.LUN
			sense string
		}
		got := make(chan event, 1)
		b.cfg.Reports = true
		b.cfg.Event = func(l srp.LUN, sense []byte) { got <- event{l, string(sense)} }
		answered := make(chan []byte, 1)
		b.other = func(_ *conn, iu []byte) { answered <- bytes.Clone(iu) }
		b.dial()
		if b.reqs[0].Flags&srp.LoginAerSolNot == 0 {
			t.Error("the login does not ask for events")
		}
		r := srp.AerReq{Tag: 7, LUN: srp.LUN{0, 3}, Sense: []byte{0x70, 0, 6}}
		b.do(0, func(c *conn) { c.raw(r.Append(c.buffer())) })
		if e := <-got; e != (event{srp.LUN{0, 3}, "\x70\x00\x06"}) {
			t.Errorf("%+v", e)
		}
		if want := srp.AppendAerRsp(nil, 7); !bytes.Equal(<-answered, want) {
			t.Error("the event was not answered")
		}
	})
}
