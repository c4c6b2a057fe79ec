package hostile

import (
	"encoding/binary"
	"slices"

	"github.com/gosrpt/gosrpt/core/srp"
)

// Answer is what a target must say to a unit.
type Answer struct {
	check  bool             // CHECK CONDITION, ILLEGAL REQUEST, INVALID FIELD IN CDB; the channel goes on
	reason srp.LogoutReason // of SRP_T_LOGOUT, after which it disconnects
	end    bool             // it disconnects without a word
}

var (
	checkField   = Answer{check: true}
	disconnected = Answer{end: true}
)

// LogoutWith is SRP_T_LOGOUT with a reason, and the end of the connection.
func LogoutWith(r srp.LogoutReason) Answer { return Answer{reason: r} }

// cdb is a READ(16) or WRITE(16) of the first ten blocks.
func cdb(opcode byte) []byte { return []byte{opcode, 13: 10, 15: 0} }

// read10 is a READ(16) of ten blocks with a data-in buffer.
func read10(in srp.DataFields) *srp.CmdFields { return &srp.CmdFields{Tag: 77, CDB: cdb(0x88), In: in} }

// write10 is a WRITE(16) of ten blocks with a data-out buffer.
func write10(out srp.DataFields) *srp.CmdFields {
	return &srp.CmdFields{Tag: 78, CDB: cdb(0x8A), Out: out}
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

// Unit is one that no initiator may send, as the first of a channel that has immediate data at offset 68, unless Plain.
type Unit struct {
	Name  string
	Bytes []byte
	// Long is to be as long as the target accepts, and one byte more.
	Long bool
	// Plain is for a channel without immediate data.
	Plain bool
	Want  Answer
}

// ImmediateOffset is that of the channels that Units are for.
const ImmediateOffset = 68

// Units are the malformed units, and those that name memory which the target may not use.
func Units() []Unit {
	tsk := srp.TskMgmtFields{Tag: 5, Function: srp.FuncLUNReset}
	login, logout := srp.LoginReq{MaxITIU: 2116}, srp.TLogout{}
	immediate := srp.DataFields{Format: srp.FormatImmediate, ImmediateOffset: 68, Immediate: make([]byte, 5120)}
	const table, total, list = 48, 64, 68 // offsets in a unit with an indirect descriptor
	length := LogoutWith(srp.LogoutLength)
	invalid := LogoutWith(srp.LogoutInvalidIU)
	immediately := func(length uint32) []byte {
		return changed(write10(immediate), func(b []byte) { binary.BigEndian.PutUint32(b[48:], length) })
	}
	remote := indirect(2560, 2560)
	remote.Table, remote.Remote = srp.Desc{Addr: 0x2000, Key: 2}, 2
	return []Unit{
		{Name: "nothing", Bytes: nil, Want: length},
		{Name: "one byte of SRP_CMD", Bytes: []byte{byte(srp.OpCmd)}, Want: length},
		{Name: "SRP_CMD of 47 bytes", Bytes: read10(direct(5120)).Append(nil)[:47], Want: length},
		{Name: "additional CDB beyond the unit", Bytes: changed(read10(srp.DataFields{}), func(b []byte) { b[31] = 0xFC }), Want: length},
		{Name: "data-out format 4", Bytes: changed(write10(direct(5120)), func(b []byte) { b[5] = 0x40 }), Want: LogoutWith(srp.LogoutFormatOut)},
		{Name: "data-out format 15", Bytes: changed(write10(direct(5120)), func(b []byte) { b[5] = 0xF0 }), Want: LogoutWith(srp.LogoutFormatOut)},
		{Name: "data-in format 3", Bytes: changed(read10(direct(5120)), func(b []byte) { b[5] = 3 }), Want: LogoutWith(srp.LogoutFormatIn)},
		{Name: "data-in format 15", Bytes: changed(read10(direct(5120)), func(b []byte) { b[5] = 15 }), Want: LogoutWith(srp.LogoutFormatIn)},
		{Name: "direct descriptor beyond the unit", Bytes: read10(direct(5120)).Append(nil)[:63], Want: length},
		{Name: "indirect descriptor beyond the unit", Bytes: read10(indirect(5120)).Append(nil)[:67], Want: length},
		{Name: "indirect list beyond the unit", Bytes: changed(read10(indirect(5120)), func(b []byte) { b[7] = 255 }), Want: length},
		{Name: "immediate data beyond the unit", Bytes: immediately(1<<32 - 1), Want: length},
		{Name: "immediate data of one byte more than came", Bytes: immediately(5121), Want: length},
		{Name: "immediate data that wraps around with its offset", Bytes: immediately(1<<32 - 80), Want: length},
		{Name: "immediate data cut off", Bytes: immediately(5120)[:68+5119], Want: length},
		{Name: "immediate data that is not there", Bytes: immediately(5120)[:68], Want: length},
		{Name: "immediate descriptor cut off", Bytes: immediately(5120)[:51], Want: length},
		{Name: "immediate data that was not granted", Bytes: immediately(5120), Plain: true, Want: LogoutWith(srp.LogoutFormatOut)},
		{Name: "table of no whole number of descriptors", Bytes: changed(read10(indirect(5120)), func(b []byte) { binary.BigEndian.PutUint32(b[table+12:], 17) }), Want: checkField},
		{Name: "more descriptors than the table has", Bytes: changed(read10(indirect(5120, 0)), func(b []byte) { binary.BigEndian.PutUint32(b[table+12:], 16) }), Want: checkField},
		{Name: "table of 4 GiB", Bytes: changed(read10(indirect(5120)), func(b []byte) { binary.BigEndian.PutUint32(b[table+12:], 0xFFFFFFF0) }), Want: checkField},
		{Name: "total beyond the descriptors", Bytes: changed(read10(indirect(2560, 2559)), func(b []byte) { binary.BigEndian.PutUint32(b[total:], 5120) }), Want: checkField},
		{Name: "memory that wraps around", Bytes: changed(read10(indirect(5120)), func(b []byte) { copy(b[list:], "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF") }), Want: checkField},
		{Name: "direct memory that wraps around", Bytes: changed(read10(direct(5120)), func(b []byte) { copy(b[48:], "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF") }), Want: checkField},
		{Name: "4 GiB", Bytes: read10(direct(1<<32 - 1)).Append(nil), Want: checkField},
		{Name: "a table of 8 times 4 GiB", Bytes: read10(indirect(slices.Repeat([]uint32{1<<32 - 1}, 8)...)).Append(nil), Want: checkField},
		{Name: "data in both directions", Bytes: (&srp.CmdFields{Tag: 3, CDB: make([]byte, 16), Out: direct(512), In: direct(512)}).Append(nil), Want: checkField},
		{Name: "task attribute 3", Bytes: changed(read10(direct(5120)), func(b []byte) { b[29] = 3 }), Want: checkField},
		{Name: "task attribute 5", Bytes: changed(read10(direct(5120)), func(b []byte) { b[29] = 5 }), Want: checkField},
		{Name: "task attribute 7", Bytes: changed(read10(direct(5120)), func(b []byte) { b[29] = 7 }), Want: checkField},
		{Name: "SRP_TSK_MGMT of 47 bytes", Bytes: tsk.Append(nil)[:47], Want: length},
		{Name: "SRP_LOGIN_REQ", Bytes: login.Append(nil), Want: invalid},
		{Name: "SRP_RSP", Bytes: append([]byte{byte(srp.OpRsp)}, make([]byte, 35)...), Want: invalid},
		{Name: "SRP_T_LOGOUT", Bytes: logout.Append(nil), Want: invalid},
		{Name: "unknown type 7Fh", Bytes: append([]byte{0x7F}, make([]byte, 63)...), Want: invalid},
		{Name: "data to write in memory that is not registered", Bytes: write10(direct(5120)).Append(nil), Want: disconnected},
		{Name: "data read into memory that is not registered", Bytes: read10(direct(5120)).Append(nil), Want: disconnected},
		{Name: "table in memory that is not registered", Bytes: read10(remote).Append(nil), Want: disconnected},
		{Name: "SRP_CRED_RSP unasked", Bytes: srp.AppendCredRsp(nil, 1), Want: LogoutWith(srp.LogoutUnsolicited)},
		{Name: "SRP_CRED_RSP of 15 bytes", Bytes: srp.AppendCredRsp(nil, 1)[:15], Want: length},
		{Name: "SRP_AER_RSP unasked", Bytes: srp.AppendAerRsp(nil, 1), Want: LogoutWith(srp.LogoutUnsolicited)},
		{Name: "SRP_I_LOGOUT of 15 bytes", Bytes: srp.AppendILogout(nil, 1)[:15], Want: length},
		{Name: "SRP_I_LOGOUT", Bytes: srp.AppendILogout(nil, 1), Want: disconnected},
		{Name: "a unit longer than was agreed", Bytes: read10(srp.DataFields{}).Append(nil), Long: true, Want: disconnected},
	}
}
