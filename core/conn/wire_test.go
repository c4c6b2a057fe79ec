package conn

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// These tests hold what goes over the wire against bytes that are written out here.

const wireTag = srp.Tag(0x0500010000000000)

// rspBytes is an SRP_RSP without response data, in hexadecimal.
func rspBytes(delta uint32, flags, status byte, out, in uint32, sense string) string {
	return fmt.Sprintf("c1000000%08x%016x0000%02x%02x%08x%08x%08x00000000%s", delta, uint64(wireTag), flags, status, out, in, len(sense)/2, sense)
}

const (
	senseField      = "700005000000000a00000000240000000000"
	senseOverlapped = "70000b000000000a000000004e0000000000"
	senseDisk       = "700005000000000000000000000000000000" // what the disk of these tests says
)

// TestResidualsOfEveryMismatch: the data buffer that the descriptors make, what the CDB asks for, and what the unit describes, in
// every relation that they can have (r16a 6.9, residual counts).
func TestResidualsOfEveryMismatch(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{immediate: 80})
	zero := srp.DataFields{Format: srp.FormatDirect, List: []srp.Desc{{}}}
	short := func(total uint32, list ...srp.Desc) func([]byte) { // a total that is not the sum of the entries
		return func(b []byte) { binary.BigEndian.PutUint32(b[64:], total) }
	}
	immediate := func(n int) srp.DataFields {
		return srp.DataFields{Format: srp.FormatImmediate, Immediate: make([]byte, n), ImmediateOffset: 80}
	}
	for _, c := range []struct {
		name    string
		op      byte
		n       uint32 // that the CDB asks for
		out, in srp.DataFields
		change  func([]byte)
		want    string
	}{
		{name: "read, exact", op: opRead, n: 1000, in: direct(p.desc(0, 1000)), want: rspBytes(1, 0, 0, 0, 0, "")},
		{name: "read, buffer larger", op: opRead, n: 1000, in: direct(p.desc(0, 1024)), want: rspBytes(1, 0x20, 0, 0, 24, "")},
		{name: "read, buffer smaller", op: opRead, n: 1000, in: direct(p.desc(0, 900)), want: rspBytes(1, 0x10, 0, 0, 100, "")},
		{name: "read, buffer of nothing", op: opRead, n: 1000, in: zero, want: rspBytes(1, 0x10, 0, 0, 1000, "")},
		{name: "read, no buffer", op: opRead, n: 1000, want: rspBytes(1, 0, 0, 0, 0, "")},
		{name: "read of nothing", op: opRead, n: 0, in: direct(p.desc(0, 512)), want: rspBytes(1, 0x20, 0, 0, 512, "")},
		{name: "read, table", op: opRead, n: 1000, in: indirect(p.desc(0, 500), p.desc(600, 500)), want: rspBytes(1, 0, 0, 0, 0, ""), change: short(1000)},
		{name: "read, total below the entries, CDB above", op: opRead, n: 1000, in: indirect(p.desc(0, 1000), p.desc(1000, 1000)), change: short(512),
			want: rspBytes(1, 0x10, 0, 0, 488, "")},
		{name: "read, entries without length", op: opRead, n: 1000, in: indirect(p.desc(0, 0), p.desc(0, 500), p.desc(0, 0), p.desc(500, 500), p.desc(0, 0)),
			want: rspBytes(1, 0, 0, 0, 0, "")},
		{name: "read, table of nothing", op: opRead, n: 10, in: indirect(), want: rspBytes(1, 0x10, 0, 0, 10, "")},
		{name: "read, and an empty data-out buffer", op: opRead, n: 1000, out: zero, in: direct(p.desc(0, 1024)), want: rspBytes(1, 0x20, 0, 0, 24, "")},
		{name: "read that fails", op: 0xff, n: 1000, in: direct(p.desc(0, 1024)), want: rspBytes(1, 0x22, 2, 0, 1024, senseDisk)},
		{name: "write, exact", op: opWrite, n: 1000, out: direct(p.desc(0, 1000)), want: rspBytes(1, 0, 0, 0, 0, "")},
		{name: "write, buffer larger", op: opWrite, n: 1000, out: direct(p.desc(0, 1024)), want: rspBytes(1, 0x08, 0, 24, 0, "")},
		{name: "write, buffer smaller", op: opWrite, n: 1000, out: direct(p.desc(0, 900)), want: rspBytes(1, 0x04, 0, 100, 0, "")},
		{name: "write, buffer of nothing", op: opWrite, n: 1000, out: zero, want: rspBytes(1, 0x04, 0, 1000, 0, "")},
		{name: "write, total below the entries", op: opWrite, n: 512, out: indirect(p.desc(0, 400), p.desc(400, 400)), change: short(512),
			want: rspBytes(1, 0, 0, 0, 0, "")},
		{name: "write, immediate", op: opWrite, n: 512, out: immediate(512), want: rspBytes(1, 0, 0, 0, 0, "")},
		{name: "write, immediate larger", op: opWrite, n: 512, out: immediate(600), want: rspBytes(1, 0x08, 0, 88, 0, "")},
		{name: "write, immediate smaller", op: opWrite, n: 512, out: immediate(500), want: rspBytes(1, 0x04, 0, 12, 0, "")},
		{name: "write that fails", op: 0xff, n: 512, out: direct(p.desc(0, 512)), want: rspBytes(1, 0x0a, 2, 512, 0, senseDisk)},
		{name: "no data", op: opRead, n: 0, want: rspBytes(1, 0, 0, 0, 0, "")},
	} {
		f := srp.CmdFields{Tag: wireTag, CDB: cdb(c.op, 0, c.n), Out: c.out, In: c.in}
		unit := f.Append(nil)
		if c.change != nil {
			c.change(unit)
		}
		p.send(unit)
		if got := hex.EncodeToString(p.unit()); got != c.want {
			t.Errorf("%s: answered\n%s, want\n%s", c.name, got, c.want)
		}
	}
	g.settled(p)
}

// TestCommandsThatAreRefusedWithSense: a command that is whole, but asks for what cannot be done, gets CHECK CONDITION and its
// credit back, and the channel goes on.
func TestCommandsThatAreRefusedWithSense(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{immediate: 60})
	table := func(n, inUnit int, at srp.Desc) srp.DataFields {
		return srp.DataFields{Format: srp.FormatIndirect, List: make([]srp.Desc, n), Remote: n - inUnit, Table: at}
	}
	inOnly := func(d srp.DataFields) srp.CmdFields { return srp.CmdFields{In: d} }
	for _, c := range []struct {
		name   string
		f      srp.CmdFields
		change func(b []byte)
	}{
		{"task attribute 3", srp.CmdFields{Attr: 3}, nil},
		{"task attribute 5", srp.CmdFields{Attr: 5}, nil},
		{"task attribute 6", srp.CmdFields{Attr: 6}, nil},
		{"task attribute 7", srp.CmdFields{Attr: 7}, nil},
		{"data in both directions", srp.CmdFields{Out: direct(p.desc(0, 1)), In: direct(p.desc(8, 1))}, nil},
		{"data-in of 16 MiB and a byte", inOnly(direct(srp.Desc{Length: 16<<20 + 1})), nil},
		{"data-in of 4 GiB", inOnly(direct(srp.Desc{Length: 1<<32 - 1})), nil},
		{"data-in that wraps", inOnly(direct(srp.Desc{Addr: 1<<64 - 512, Length: 1024})), nil},
		{"entry that wraps", inOnly(indirect(p.desc(0, 8), srp.Desc{Addr: 1<<64 - 1, Length: 2})), nil},
		{"total above the entries", inOnly(indirect(p.desc(0, 8))), func(b []byte) { b[67] = 9 }},
		{"table of 17 bytes", inOnly(indirect(p.desc(0, 8))), func(b []byte) { b[63] = 17 }},
		{"more entries than the table", inOnly(indirect(p.desc(0, 8), p.desc(8, 8))), func(b []byte) { b[63] = 16 }},
		{"table that wraps", inOnly(table(3, 1, srp.Desc{Addr: 1<<64 - 40})), nil},
		{"table of more entries than are read", inOnly(table(16<<20/512+1, 1, p.desc(0, 0))), nil},
		{"table of 4 GiB", inOnly(table(2, 1, p.desc(0, 0))), func(b []byte) { copy(b[60:], "\xff\xff\xff\xf0") }},
		{"immediate data within the descriptor area", srp.CmdFields{CDB: make([]byte, 28),
			Out: srp.DataFields{Format: srp.FormatImmediate, Immediate: make([]byte, 16), ImmediateOffset: 60}}, nil},
	} {
		c.f.Tag = wireTag
		if c.f.CDB == nil {
			c.f.CDB = cdb(opRead, 0, 8)
		}
		unit := c.f.Append(nil)
		if c.change != nil {
			c.change(unit)
		}
		p.send(unit)
		if got, want := hex.EncodeToString(p.unit()), rspBytes(1, 2, 2, 0, 0, senseField); got != want {
			t.Errorf("%s: answered\n%s, want\n%s", c.name, got, want)
		}
	}
	g.settled(p)
	if n := g.disk.started; n != 0 {
		t.Errorf("%d of the commands reached the handler", n)
	}
}

// TestTableThatTurnsOutWrongIsRefused: what is in the initiator's memory is no table.
func TestTableThatTurnsOutWrongIsRefused(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{})
	for _, c := range []struct {
		name string
		last srp.Desc
	}{
		{"an entry wraps", srp.Desc{Addr: 1<<64 - 1, Length: 512}},
		{"entries are shorter than the total", p.desc(0, 511)},
	} {
		entry := p.desc(4096, 512)
		c.last.Append(entry.Append(p.mem[:0]))
		for _, write := range []bool{false, true} {
			d := srp.DataFields{Format: srp.FormatIndirect, List: []srp.Desc{entry, entry}, Remote: 2, Table: p.desc(0, 0)}
			f := srp.CmdFields{Tag: wireTag, CDB: cdb(opRead, 0, 1024), In: d}
			want := rspBytes(1, 0x22, 2, 0, 1024, senseField)
			if write {
				f = srp.CmdFields{Tag: wireTag, CDB: cdb(opWrite, 0, 1024), Out: d}
				want = rspBytes(1, 0x0a, 2, 1024, 0, senseField)
			}
			p.send(f.Append(nil))
			if got := hex.EncodeToString(p.unit()); got != want {
				t.Errorf("%s, write %v: answered\n%s, want\n%s", c.name, write, got, want)
			}
			g.expectNews("abort")
		}
	}
	g.settled(p)
}

// TestCommandsWithATagInUse: both end, the newer with a status, after nothing of the older one moves any more.
func TestCommandsWithATagInUse(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{})
	p.hold(wireTag)
	g.expectNews("held")
	p.read(wireTag, 0, 100, direct(p.desc(0, 100)))
	g.expectNews("abort")
	if got, want := hex.EncodeToString(p.unit()), rspBytes(2, 0x22, 2, 0, 100, senseOverlapped); got != want {
		t.Errorf("answered\n%s, want\n%s", got, want)
	}
	g.settled(p)
}

// TestAdditionalCDBBytesAreSkipped: descriptors are found behind them, whatever their number.
func TestAdditionalCDBBytesAreSkipped(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{})
	for _, add := range []int{0, 4, 16, 252} {
		f := srp.CmdFields{Tag: wireTag, CDB: append(cdb(opRead, 0, 100), make([]byte, add)...), In: direct(p.desc(0, 100))}
		p.send(f.Append(nil))
		if got, want := hex.EncodeToString(p.unit()), rspBytes(1, 0, 0, 0, 0, ""); got != want {
			t.Errorf("%d additional bytes: answered\n%s, want\n%s", add, got, want)
		}
	}
}

// TestSixteenMiBMove is the longest transfer there is, with a direct descriptor, with a table in the unit, and with one of blocks
// in the initiator's memory.
func TestSixteenMiBMove(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, func(g *rig) { g.memory = 16 << 20 })
	p := g.login(login{})
	const n = 16 << 20
	data := g.register(n+n/512*srp.DescLen, rdma.RemoteRead|rdma.RemoteWrite)
	piece := func(off, n int) srp.Desc {
		return srp.Desc{Addr: data.Addr() + uint64(off), Key: data.RKey(), Length: uint32(n)}
	}
	split := func(size, inUnit int) srp.DataFields {
		d := srp.DataFields{Format: srp.FormatIndirect, Table: piece(n, 0)}
		var table []byte
		for off := 0; off < n; off += size {
			d.List = append(d.List, piece(off, min(size, n-off)))
			table = d.List[len(d.List)-1].Append(table)
		}
		copy(data.Bytes()[n:], table)
		d.Remote = max(len(d.List)-inUnit, 0)
		return d
	}
	for i, d := range []srp.DataFields{direct(piece(0, n)), split(n/200, 255), split(512, 12)} {
		split(512, 12) // the table in memory
		fill(data.Bytes()[:n], uint64(i))
		f := srp.CmdFields{Tag: wireTag, CDB: cdb(opWrite, 0, n), Out: d}
		p.send(f.Append(nil))
		if got, want := hex.EncodeToString(p.unit()), rspBytes(1, 0, 0, 0, 0, ""); got != want {
			t.Fatalf("write %d: answered\n%s, want\n%s", i, got, want)
		}
		clear(data.Bytes()[:n])
		f = srp.CmdFields{Tag: wireTag, CDB: cdb(opRead, 0, n), In: d}
		p.send(f.Append(nil))
		if got, want := hex.EncodeToString(p.unit()), rspBytes(1, 0, 0, 0, 0, ""); got != want {
			t.Fatalf("read %d: answered\n%s, want\n%s", i, got, want)
		}
		want := make([]byte, n)
		fill(want, uint64(i))
		if !bytes.Equal(data.Bytes()[:n], want) {
			t.Fatalf("%d: other data came back", i)
		}
	}
	g.settled(p)
}

// interrupts are the units of a busy moment, of a channel where the initiator wants to be interrupted for what notify says.
func interrupts(t *testing.T, granted bool, notify srp.LoginFlags) map[string]bool {
	g := newRig(t)
	p := g.login(login{solNot: granted, notify: notify})
	solNot := map[string]bool{}
	for name, sent := range map[string]srp.CmdFields{
		"success, wanted":     {CDB: cdb(opRead, 0, 0), SolNot: srp.SolNotSuccess},
		"success, not wanted": {CDB: cdb(opRead, 0, 0), SolNot: srp.SolNotUnsuccess},
		"failure, wanted":     {CDB: cdb(0xff, 0, 0), SolNot: srp.SolNotUnsuccess},
		"failure, not wanted": {CDB: cdb(0xff, 0, 0), SolNot: srp.SolNotSuccess},
	} {
		p.send(sent.Append(nil))
		solNot[name] = p.unit()[1] == 1
	}
	tm := srp.TskMgmtFields{Function: srp.FuncLUNReset, SolNot: srp.SolNotSuccess}
	p.send(tm.Append(nil))
	solNot["task management, wanted"] = p.unit()[1] == 1
	g.run(func() { p.ch.Close(channel.CauseReplaced) })
	for _, u := range p.disconnected() {
		solNot["logout"] = u[1] == 1
	}
	return solNot
}

func TestInterruptsAreForWhoeverWantsThem(t *testing.T) {
	leaktest.Check(t)
	for _, c := range []struct {
		granted bool
		notify  srp.LoginFlags
		want    string
	}{
		{false, srp.LoginLogoutSolNot, ""},
		{true, 0, "success, wanted; failure, wanted; task management, wanted"},
		{true, srp.LoginLogoutSolNot, "success, wanted; failure, wanted; task management, wanted; logout"},
	} {
		got := interrupts(t, c.granted, c.notify)
		for name, on := range got {
			if on != (c.want != "" && strings.Contains("; "+c.want+";", "; "+name+";")) {
				t.Errorf("granted %v, login %02x: %s: %v", c.granted, c.notify, name, on)
			}
		}
	}
}

// TestUnitLongerThanTheReceiveBreaksTheConnection: nothing of it is looked at, and nothing is left.
func TestUnitLongerThanTheReceiveBreaksTheConnection(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	p := g.login(login{immediate: 80})
	p.hold(1)
	g.expectNews("held")
	f := srp.CmdFields{Tag: wireTag, CDB: cdb(opWrite, 0, 512),
		Out: srp.DataFields{Format: srp.FormatImmediate, Immediate: make([]byte, int(g.plan.MaxRequestIU)-80+1), ImmediateOffset: 80}}
	p.trySend(f.Append(nil))
	if units := p.disconnected(); len(units) != 0 {
		t.Errorf("answered %x", units)
	}
	if s := <-p.done; s.Cause != channel.CauseTransport || s.Fault.Status != rdma.StatusLocalLength || s.Protocol.Commands != 1 {
		t.Errorf("%v, %v, %d commands", s.Cause, s.Fault, s.Protocol.Commands)
	}
	g.settled(nil)
}
