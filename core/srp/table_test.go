package srp

import (
	"bytes"
	"errors"
	"testing"
)

// tableLimits permits tables in initiator memory of up to 64 entries.
var tableLimits = CmdLimits{MaxTransfer: 1 << 24, MaxTable: 64 * DescLen, ImmediateOffset: 68}

func TestRemotePartOfATableIsNamed(t *testing.T) {
	far := Desc{Addr: 1<<64 - 65, Key: 0x1234, Length: 64}
	tests := []struct {
		name   string
		iu     []byte
		remote Desc
	}{
		{"none", join(head(0x02, 0, 2, 0), table(32), 8192, page, page), Desc{}},
		{"half", join(head(0x02, 0, 1, 0), table(32), 8192, page), Desc{0x1010, 0x1234, 16}},
		{"all", join(head(0x02, 0, 0, 0), table(32), 8192), Desc{0x1000, 0x1234, 32}},
		{"as long as it may be", join(head(0x02, 0, 1, 0), table(64*16), 8192, page), Desc{0x1010, 0x1234, 63 * 16}},
		{"count in the byte of the other direction", join(head(0x02, 1, 0, 0), table(32), 8192, page), Desc{0x1010, 0x1234, 16}},
		{"near the end of memory", join(head(0x02, 0, 0, 0), far, 8192), Desc{far.Addr, 0x1234, 64}},
		{"a table in the unit has no address", join(head(0x02, 0, 1, 0), Desc{^uint64(0), 1, 16}, 4096, page), Desc{}},
	}
	for _, tt := range tests {
		var c Cmd
		if err := c.Parse(tt.iu, tableLimits); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := c.DataIn().Remote(); got != tt.remote {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.remote)
		}
	}
	var c Cmd
	out := join(head(0x20, 1, 0, 0), table(32), 8192, page)
	if err := c.Parse(out, tableLimits); err != nil || c.DataOut().Remote() != (Desc{0x1010, 0x1234, 16}) {
		t.Errorf("data-out: %+v, %v", c.DataOut().Remote(), err)
	}
}

func TestRemoteTableIsRefusedBeforeItIsRead(t *testing.T) {
	wrap := Desc{Addr: ^uint64(0) - 4095, Key: 1, Length: 4097}
	tests := []struct {
		name    string
		iu      []byte
		problem Problem
	}{
		{"one entry too long", join(head(0x02, 0, 1, 0), table(65*16), 4096, page), ProblemRemoteTable},
		{"4 GiB", join(head(0x02, 0, 1, 0), table(0xfffffff0), 4096, page), ProblemRemoteTable},
		{"half an entry", join(head(0x02, 0, 1, 0), table(24), 4096, page), ProblemTableLength},
		{"wraps", join(head(0x02, 0, 0, 0), Desc{1<<64 - 32, 1, 32}, 4096), ProblemWrap},
		{"an entry in the unit wraps", join(head(0x02, 0, 1, 0), table(32), 4096, wrap), ProblemWrap},
		{"total beyond the largest transfer", join(head(0x02, 0, 1, 0), table(32), 1<<24+1, page), ProblemTransfer},
		{"both directions", join(head(0x22, 1, 1, 0), table(32), 4096, page, table(32), 4096, page), ProblemBidirectional},
	}
	for _, tt := range tests {
		var c Cmd
		err := c.Parse(tt.iu, tableLimits)
		var e *ParseError
		if !errors.As(err, &e) || e.Problem != tt.problem || e.Answer() != check {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.problem)
		}
		if c.DataIn().Remote() != (Desc{}) || c.DataOut().Remote() != (Desc{}) {
			t.Errorf("%s: something is left to read", tt.name)
		}
	}
}

func TestFetchedTableIsHeldToTheSameRules(t *testing.T) {
	parse := func(total int) *Data {
		var c Cmd
		if err := c.Parse(join(head(0x02, 0, 1, 0), table(48), total, page), tableLimits); err != nil {
			t.Fatal(err)
		}
		return c.DataIn()
	}
	second := Desc{Addr: 0x5000, Key: 9, Length: 512}
	none := Desc{Addr: 0x9000, Key: 9}
	wrap := Desc{Addr: ^uint64(0), Key: 1, Length: 2}
	huge := Desc{Addr: 0, Key: 1, Length: ^uint32(0)}
	tests := []struct {
		name    string
		total   int
		rest    []byte
		problem Problem // 0: none
	}{
		{"exact", 4608, join(second, none), 0},
		{"longer than the total", 4096, join(second, second), 0},
		{"lengths whose sum exceeds 32 bits", 1 << 24, join(huge, huge), 0},
		{"shorter than the total", 4609, join(second, none), ProblemTotal},
		{"an entry wraps", 4608, join(second, wrap), ProblemWrap},
		{"too few bytes", 4608, join(second), ProblemTableLength},
		{"too many bytes", 4608, join(second, none, none), ProblemTableLength},
	}
	for _, tt := range tests {
		d := parse(tt.total)
		err := d.Complete(tt.rest)
		if tt.problem != 0 {
			if !errors.Is(err, tt.problem) || err.(*ParseError).Answer() != check {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.problem)
			}
			continue
		}
		if err != nil || d.Count() != 3 || d.Remote() != (Desc{}) || d.At(0) != page {
			t.Errorf("%s: %v, %d entries", tt.name, err, d.Count())
			continue
		}
		if got := join(d.At(1), d.At(2)); !bytes.Equal(got, tt.rest) {
			t.Errorf("%s: entries % x", tt.name, got)
		}
	}
}

func TestUnitWithARemoteTable(t *testing.T) {
	list := make([]Desc, 300)
	for i := range list {
		list[i] = Desc{Addr: uint64(i) << 12, Key: 7, Length: 512}
	}
	f := CmdFields{Tag: 1, CDB: []byte{0x2a}, Out: DataFields{Format: FormatIndirect, List: list, Remote: 298, Table: table(0)}}
	var c Cmd
	err := c.Parse(f.Append(nil), CmdLimits{MaxTransfer: 1 << 20, MaxTable: 300 * DescLen})
	if err != nil {
		t.Fatal(err)
	}
	d := c.DataOut()
	if d.Len() != 300*512 || d.Count() != 2 || d.Remote() != (Desc{0x1020, 0x1234, 298 * 16}) {
		t.Errorf("%d bytes, %d entries in the unit, %+v", d.Len(), d.Count(), d.Remote())
	}
}
