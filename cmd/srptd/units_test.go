package main

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/srp"
)

// answer is what a target must say to a unit.
type answer struct {
	check  bool             // CHECK CONDITION, ILLEGAL REQUEST, INVALID FIELD IN CDB; the channel goes on
	reason srp.LogoutReason // of SRP_T_LOGOUT, after which it disconnects
	end    bool             // it disconnects without a word
}

var (
	checkField   = answer{check: true}
	disconnected = answer{end: true}
)

func logoutWith(r srp.LogoutReason) answer { return answer{reason: r} }

// read10 is a READ(16) of ten blocks with a data-in buffer.
func read10(in srp.DataFields) *srp.CmdFields {
	cdb := initiator.Read16(0, 10)
	return &srp.CmdFields{Tag: 77, LUN: lunOf(0), CDB: cdb[:], In: in}
}

// write10 is a WRITE(16) of ten blocks with a data-out buffer.
func write10(out srp.DataFields) *srp.CmdFields {
	cdb := initiator.Write16(0, 10)
	return &srp.CmdFields{Tag: 78, LUN: lunOf(0), CDB: cdb[:], Out: out}
}

func direct(length uint32) srp.DataFields {
	return srp.DataFields{Format: srp.FormatDirect, List: []srp.Desc{{Addr: 0x1000, Key: 1, Length: length}}}
}

func indirect(lengths ...uint32) srp.DataFields {
	d := srp.DataFields{Format: srp.FormatIndirect}
	for _, n := range lengths {
		d.List = append(d.List, srp.Desc{Addr: 0x1000, Key: 1, Length: n})
	}
	return d
}

// changed is a unit with one thing wrong.
func changed(f *srp.CmdFields, change func(b []byte)) []byte {
	b := f.Append(nil)
	change(b)
	return b
}

// malformed are the units that no initiator may send, and what each is answered with.
func malformed() []struct {
	name string
	unit []byte
	want answer
} {
	tsk := srp.TskMgmtFields{Tag: 5, Function: srp.FuncLUNReset}
	login, logout := loginRequest(), srp.TLogout{}
	immediate := srp.DataFields{Format: srp.FormatImmediate, ImmediateOffset: 68, Immediate: make([]byte, 5120)}
	const table, total, list = 48, 64, 68 // offsets in a unit with an indirect descriptor
	length := logoutWith(srp.LogoutLength)
	invalid := logoutWith(srp.LogoutInvalidIU)
	return []struct {
		name string
		unit []byte
		want answer
	}{
		{"nothing", nil, length},
		{"one byte of SRP_CMD", []byte{byte(srp.OpCmd)}, length},
		{"SRP_CMD of 47 bytes", read10(direct(5120)).Append(nil)[:47], length},
		{"additional CDB beyond the unit", changed(read10(srp.DataFields{}), func(b []byte) { b[31] = 0xFC }), length},
		{"data-out format 4", changed(write10(direct(5120)), func(b []byte) { b[5] = 0x40 }), logoutWith(srp.LogoutFormatOut)},
		{"data-out format 15", changed(write10(direct(5120)), func(b []byte) { b[5] = 0xF0 }), logoutWith(srp.LogoutFormatOut)},
		{"data-in format 3", changed(read10(direct(5120)), func(b []byte) { b[5] = 3 }), logoutWith(srp.LogoutFormatIn)},
		{"data-in format 15", changed(read10(direct(5120)), func(b []byte) { b[5] = 15 }), logoutWith(srp.LogoutFormatIn)},
		{"direct descriptor beyond the unit", read10(direct(5120)).Append(nil)[:63], length},
		{"indirect descriptor beyond the unit", read10(indirect(5120)).Append(nil)[:67], length},
		{"indirect list beyond the unit", changed(read10(indirect(5120)), func(b []byte) { b[7] = 255 }), length},
		{"immediate data beyond the unit", changed(write10(immediate), func(b []byte) { putUint32(b[48:], 1<<32-1) }), length},
		{"table of no whole number of descriptors", changed(read10(indirect(5120)), func(b []byte) { putUint32(b[table+12:], 17) }), checkField},
		{"more descriptors than the table has", changed(read10(indirect(5120, 0)), func(b []byte) { putUint32(b[table+12:], 16) }), checkField},
		{"table of 4 GiB", changed(read10(indirect(5120)), func(b []byte) { putUint32(b[table+12:], 0xFFFFFFF0) }), checkField},
		{"total beyond the descriptors", changed(read10(indirect(2560, 2559)), func(b []byte) { putUint32(b[total:], 5120) }), checkField},
		{"memory that wraps around", changed(read10(indirect(5120)), func(b []byte) { copy(b[list:], "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF") }), checkField},
		{"direct memory that wraps around", changed(read10(direct(5120)), func(b []byte) { copy(b[48:], "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF") }), checkField},
		{"4 GiB", read10(direct(1<<32 - 1)).Append(nil), checkField},
		{"a table of 8 times 4 GiB", changed(read10(indirect(slices.Repeat([]uint32{1<<32 - 1}, 8)...)), func([]byte) {}), checkField},
		{"data in both directions", (&srp.CmdFields{Tag: 3, LUN: lunOf(0), CDB: make([]byte, 16), Out: direct(512), In: direct(512)}).Append(nil), checkField},
		{"task attribute 3", changed(read10(direct(5120)), func(b []byte) { b[29] = 3 }), checkField},
		{"task attribute 5", changed(read10(direct(5120)), func(b []byte) { b[29] = 5 }), checkField},
		{"task attribute 7", changed(read10(direct(5120)), func(b []byte) { b[29] = 7 }), checkField},
		{"SRP_TSK_MGMT of 47 bytes", tsk.Append(nil)[:47], length},
		{"SRP_LOGIN_REQ", login.Append(nil), invalid},
		{"SRP_RSP", append([]byte{byte(srp.OpRsp)}, make([]byte, 35)...), invalid},
		{"SRP_T_LOGOUT", logout.Append(nil), invalid},
		{"unknown type 7Fh", append([]byte{0x7F}, make([]byte, 63)...), invalid},
		{"SRP_CRED_RSP unasked", srp.AppendCredRsp(nil, 1), logoutWith(srp.LogoutUnsolicited)},
		{"SRP_CRED_RSP of 15 bytes", srp.AppendCredRsp(nil, 1)[:15], length},
		{"SRP_AER_RSP unasked", srp.AppendAerRsp(nil, 1), logoutWith(srp.LogoutUnsolicited)},
		{"SRP_I_LOGOUT of 15 bytes", srp.AppendILogout(nil, 1)[:15], length},
		{"SRP_I_LOGOUT", srp.AppendILogout(nil, 1), disconnected},
		{"a unit longer than was agreed", changed(read10(srp.DataFields{}), func([]byte) {}), disconnected},
	}
}

func TestMalformedUnitIsAnsweredAsSpecifiedAndHarmsNoOtherSession(t *testing.T) {
	t.Parallel()
	s := newSite(t, quietLUN()...)
	s.start(t)
	l := newLoad(t, dial(t, s, 0), 0, 16)
	end := l.background(t)
	h := newComputer(t)
	for _, row := range malformed() {
		r := loginRequest()
		r.MaxITIU, r.Flags, r.ImmediateOffset = 8260, srp.LoginImmediate, 68
		c := rawLogin(t, h, s, r)
		unit := row.unit
		if row.name == "a unit longer than was agreed" {
			unit = append(unit, make([]byte, int(c.rsp.MaxITIU)+1-len(unit))...)
		}
		c.put(unit)
		if err := c.expect(row.want); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		c.close()
	}
	end()
	if l.requests == 0 {
		t.Error("the other session has made no request")
	}
	eventually(t, "the hostile sessions are gone", func() bool { return len(s.sessions(t)) == 1 })
}

// expect looks at the answer to the one unit that was sent.
func (c *rawChannel) expect(want answer) error {
	c.t.Helper()
	u := c.unit()
	switch {
	case want.end && u != nil:
		return fmt.Errorf("answered with %x, want the end of the connection alone", u)
	case want.end:
		return nil
	case u == nil:
		return fmt.Errorf("disconnected without an answer")
	case want.check:
		return c.expectCheck(u)
	}
	out, err := srp.ParseTLogout(u)
	if err != nil {
		return fmt.Errorf("answered with %x, want SRP_T_LOGOUT %v", u, want.reason)
	}
	if out.Reason != want.reason {
		return fmt.Errorf("logged out with %v, want %v", out.Reason, want.reason)
	}
	if u := c.unit(); u != nil {
		return fmt.Errorf("%x follows SRP_T_LOGOUT", u)
	}
	return nil
}

// expectCheck wants a CHECK CONDITION, and that the channel goes on with the credit returned.
func (c *rawChannel) expectCheck(u []byte) error {
	c.t.Helper()
	rsp, err := srp.ParseRsp(u)
	if err != nil {
		return fmt.Errorf("answered with %x, want SRP_RSP", u)
	}
	sense := rsp.Sense()
	if rsp.Status() != 2 || len(sense) < 14 || sense[2] != 5 || sense[12] != 0x24 || sense[13] != 0 || rsp.Delta() < 1 {
		return fmt.Errorf("status %02xh, sense %x, delta %d; want CHECK CONDITION 5/24/00 and a credit", rsp.Status(), sense, rsp.Delta())
	}
	ready := srp.CmdFields{Tag: 99, LUN: lunOf(0), CDB: make([]byte, 6)}
	c.put(ready.Append(nil))
	rsp, err = srp.ParseRsp(c.unit())
	if err != nil || rsp.Tag() != 99 {
		return fmt.Errorf("the channel does not go on: %v", err)
	}
	return nil
}

func TestRequestWithoutACreditEndsTheChannel(t *testing.T) {
	t.Parallel()
	s := newSite(t, append(lunWithPlugin(0, "ice"), "--login-queue-depth", "4")...)
	s.install(t, "ice")
	s.start(t)
	session := dial(t, s, 0)
	c := rawLogin(t, newComputer(t), s, loginRequest())
	c.put((&srp.CmdFields{Tag: 1, LUN: lunOf(0), CDB: make([]byte, 6)}).Append(nil))
	c.unit() // the unit attention
	pid := s.process(t, "ice")
	freeze(t, pid) // so that no credit comes back
	var units [][]byte
	for i := range c.rsp.Delta + 1 {
		f := read10(direct(5120))
		f.Tag = srp.Tag(100 + i)
		units = append(units, f.Append(nil))
	}
	c.put(units...)
	if err := c.expect(logoutWith(srp.LogoutNoReason)); err != nil {
		t.Error(err)
	}
	kill(t, pid, syscall.SIGCONT)
	c.close()
	if err := session.TestUnitReady(soon(t), lunOf(0)); err != nil {
		t.Errorf("the other session: %v", err)
	}
}
