package srp

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// unhex reads hexadecimal bytes; white space is ignored.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatalf("bad vector: %v", err)
	}
	return b
}

func want(t *testing.T, what string, got, expect []byte) {
	t.Helper()
	if !bytes.Equal(got, expect) {
		t.Errorf("%s:\n got %x\nwant %x", what, got, expect)
	}
}

const (
	portIDs = "00 00 00 00 00 00 00 00 00 02 c9 03 00 a1 b2 c3" +
		"00 02 c9 03 00 11 22 33 00 02 c9 03 00 11 22 33"
	loginReqHex = "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00" +
		"00 00 20 44 00 00 00 00 00 06 80 00 00 44 00 00" + portIDs
	loginReqRDMAHex = "00 00 00 00 00 00 00 00 00 06 81 00 00 00 20 44" + portIDs + "00 44 00 00 00 00 00 00"
	loginRspHex     = "c0 00 00 00 00 00 00 80 00 00 00 00 00 00 00 00" +
		"00 00 20 54 00 00 20 44 00 06 80 00 00 00 00 00" +
		"00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
	loginRejHex = "c2 00 00 00 00 01 00 02 00 00 00 00 00 00 00 00" +
		"00 00 00 00 00 00 00 00 00 06 00 00 00 00 00 00"
	readHex = "02 00 00 00 00 02 00 02 05 00 01 00 00 00 00 00" +
		"00 00 00 00 00 03 00 00 00 00 00 00 00 00 00 00" +
		"28 00 00 00 10 00 00 00 10 00 00 00 00 00 00 00" +
		"00 00 00 00 00 00 10 00 00 00 12 34 00 00 00 20" +
		"00 00 20 00 00 00 7f 00 00 00 10 00 00 00 ab cd" +
		"00 00 10 00 00 00 7f 00 00 00 50 00 00 00 ab ce" +
		"00 00 10 00"
	writeHex = "02 00 00 00 00 30 00 00 05 00 01 00 00 00 00 00" +
		"00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00" +
		"2a 00 00 00 10 00 00 00 01 00 00 00 00 00 00 00" +
		"00 00 02 00 00 00 00 00 00 00 00 00 00 00 00 00" +
		"00 00 00 00"
	rspHex = "c1 00 00 00 00 00 00 01 05 00 01 00 00 00 00 00" +
		"00 00 02 02 00 00 00 00 00 00 00 00 00 00 00 12" +
		"00 00 00 00 70 00 06 00 00 00 00 0a 00 00 00 00" +
		"29 00 00 00 00 00"
	abortHex = "01 00 00 00 00 00 00 00 01 00 00 80 00 00 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 00 01 00" +
		"05 00 01 00 00 00 00 00 00 00 00 00 00 00 00 00"
	abortRspHex = "c1 00 00 00 00 00 00 01 01 00 00 80 00 00 00 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00 00 00" +
		"00 00 00 04 00 00 00 00"
)

var (
	initiatorID = MakePortID(0, 0x0002c90300a1b2c3)
	targetID    = MakePortID(0x0002c90300112233, 0x0002c90300112233)
	readTag     = Tag(0x0500010000000000)
	readCDB     = []byte{0x28, 0, 0, 0, 0x10, 0, 0, 0, 0x10, 0}
	writeCDB    = []byte{0x2a, 0, 0, 0, 0x10, 0, 0, 0, 0x01, 0}
	tableHome   = Desc{Addr: 0x1000, Key: 0x1234}
	readList    = []Desc{{0x7f00000010_00, 0xabcd, 4096}, {0x7f00000050_00, 0xabce, 4096}}
)

func TestLoginReqIBCM(t *testing.T) {
	b := unhex(t, loginReqHex)
	expect := LoginReq{
		MaxITIU: 8260, Formats: 6, Flags: LoginImmediate, ImmediateOffset: 68,
		Initiator: initiatorID, Target: targetID,
	}
	got, err := ParseLoginReq(append(b, make([]byte, 28)...)) // as IB CM pads it
	if err != nil || got != expect {
		t.Errorf("got %+v, %v; want %+v", got, err, expect)
	}
	want(t, "built", expect.Append(nil), b)
}

func TestLoginReqRDMACM(t *testing.T) {
	b := unhex(t, loginReqRDMAHex)
	expect := LoginReq{
		MaxITIU: 8260, Formats: 6, Flags: LoginImmediate | LoginFlags(ActionMulti), ImmediateOffset: 68,
		Initiator: initiatorID, Target: targetID,
	}
	got, err := ParseLoginReqRDMA(b)
	if err != nil || got != expect {
		t.Errorf("got %+v, %v; want %+v", got, err, expect)
	}
	if got.Flags.Action() != ActionMulti {
		t.Errorf("action %d", got.Flags.Action())
	}
	want(t, "built", expect.AppendRDMA(nil), b)
}

func TestLoginFormsAgree(t *testing.T) {
	r := LoginReq{
		Tag: 0x0102030405060708, MaxITIU: 0x0a0b0c0d, Formats: 0x1112, Flags: 0xf1, ImmediateOffset: 0x2122,
		Initiator: MakePortID(1, 2), Target: MakePortID(3, 4),
	}
	for name, f := range map[string]func() (LoginReq, error){
		"64": func() (LoginReq, error) { return ParseLoginReq(r.Append(nil)) },
		"56": func() (LoginReq, error) { return ParseLoginReqRDMA(r.AppendRDMA(nil)) },
	} {
		if got, err := f(); err != nil || got != r {
			t.Errorf("%s bytes: %+v, %v", name, got, err)
		}
	}
}

func TestLoginRsp(t *testing.T) {
	b := unhex(t, loginRspHex)
	expect := LoginRsp{Delta: 128, MaxITIU: 8276, MaxTIIU: 8260, Formats: 6, Flags: LoginRspImmediate}
	got, err := ParseLoginRsp(b)
	if err != nil || got != expect {
		t.Errorf("got %+v, %v", got, err)
	}
	want(t, "built", expect.Append(nil), b)
}

func TestLoginRej(t *testing.T) {
	b := unhex(t, loginRejHex)
	expect := LoginRej{Reason: RejITIULength, Formats: 6}
	got, err := ParseLoginRej(b)
	if err != nil || got != expect {
		t.Errorf("got %+v, %v", got, err)
	}
	want(t, "built", expect.Append(nil), b)
}

func TestReadCommand(t *testing.T) {
	b := unhex(t, readHex)
	var c Cmd
	if err := c.Parse(b, testLimits); err != nil {
		t.Fatal(err)
	}
	if n, k := c.LUN().Decode(); c.Tag() != readTag || n != 3 || k != LUNUnit || c.Attr() != AttrSimple || c.SolNot() != 0 {
		t.Errorf("tag %v, LUN %d, attribute %d", c.Tag(), n, c.Attr())
	}
	want(t, "CDB", c.CDB()[:10], readCDB)
	if len(c.AddCDB()) != 0 || c.DataOut().Len() != 0 || c.DataOut().Format() != FormatNone {
		t.Error("additional CDB or data-out where there is none")
	}
	in := c.DataIn()
	if in.Len() != 8192 || in.Count() != 2 || in.At(0) != readList[0] || in.At(1) != readList[1] {
		t.Errorf("data-in %d bytes, %d entries: %+v", in.Len(), in.Count(), in)
	}
	if in.Table() != (Desc{0x1000, 0x1234, 32}) {
		t.Errorf("table %+v", in.Table())
	}
	l, _ := MakeLUN(3)
	f := CmdFields{
		Tag: readTag, LUN: l, CDB: readCDB,
		In: DataFields{Format: FormatIndirect, List: readList, Table: tableHome},
	}
	want(t, "built", f.Append(nil), b)
}

func TestImmediateWriteCommand(t *testing.T) {
	data := bytes.Repeat([]byte{0x5a}, 512)
	b := append(unhex(t, writeHex), data...)
	var c Cmd
	if err := c.Parse(b, testLimits); err != nil {
		t.Fatal(err)
	}
	out := c.DataOut()
	if out.Format() != FormatImmediate || out.Len() != 512 || out.Count() != 0 || c.DataIn().Len() != 0 {
		t.Errorf("data-out %+v", out)
	}
	want(t, "data", out.Immediate(), data)
	f := CmdFields{
		Tag: readTag, CDB: writeCDB,
		Out: DataFields{Format: FormatImmediate, Immediate: data, ImmediateOffset: 68},
	}
	want(t, "built", f.Append(nil), b)
}

func TestUnitAttentionResponse(t *testing.T) {
	b := unhex(t, rspHex)
	sense := []byte{0x70, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x29, 0, 0, 0, 0, 0}
	want(t, "built", AppendRsp(nil, &RspFields{Tag: readTag, Delta: 1, Status: 2, Sense: sense}, 512), b)
	r, err := ParseRsp(b)
	if err != nil {
		t.Fatal(err)
	}
	if r.Tag() != readTag || r.Delta() != 1 || r.Status() != 2 || r.Out() != 0 || r.In() != 0 || r.SolNot() {
		t.Errorf("parsed %x", []byte(r))
	}
	want(t, "sense", r.Sense(), sense)
	if _, ok := r.Code(); ok {
		t.Error("a response code where there is none")
	}
}

func TestAbortTaskAndItsResponse(t *testing.T) {
	b := unhex(t, abortHex)
	tm, err := ParseTskMgmt(b)
	if err != nil {
		t.Fatal(err)
	}
	l, _ := MakeLUN(3)
	f := TskMgmtFields{Tag: 0x0100008000000000, LUN: l, Function: FuncAbortTask, Managed: readTag}
	if tm.Tag() != f.Tag || tm.LUN() != l || tm.Function() != f.Function || tm.Managed() != readTag || tm.SolNot() != 0 {
		t.Errorf("parsed %x", []byte(tm))
	}
	want(t, "built", f.Append(nil), b)

	rsp := unhex(t, abortRspHex)
	want(t, "response", AppendRsp(nil, &RspFields{Tag: f.Tag, Delta: 1, HasCode: true}, 512), rsp)
	r, err := ParseRsp(rsp)
	if err != nil {
		t.Fatal(err)
	}
	if code, ok := r.Code(); !ok || code != RspComplete {
		t.Errorf("code %d, %v", code, ok)
	}
}

func TestControlUnits(t *testing.T) {
	const tag = Tag(0x1122334455667788)
	tl := TLogout{Reason: LogoutLength, Tag: tag, SolNot: true}
	cr := CredReq{Delta: -2, Tag: tag}
	ar := AerReq{Delta: 1, Tag: tag, LUN: LUN{0, 3}, Sense: []byte{0x70, 0, 6}}
	tests := []struct {
		name string
		got  []byte
		hex  string
	}{
		{"I_LOGOUT", AppendILogout(nil, tag), "03 00 00 00 00 00 00 00 11 22 33 44 55 66 77 88"},
		{"T_LOGOUT", tl.Append(nil), "80 01 00 00 00 00 00 08 11 22 33 44 55 66 77 88"},
		{"CRED_REQ", cr.Append(nil), "81 00 00 00 ff ff ff fe 11 22 33 44 55 66 77 88"},
		{"CRED_RSP", AppendCredRsp(nil, tag), "41 00 00 00 00 00 00 00 11 22 33 44 55 66 77 88"},
		{"AER_RSP", AppendAerRsp(nil, tag), "42 00 00 00 00 00 00 00 11 22 33 44 55 66 77 88"},
		{"AER_REQ", ar.Append(nil), "82 00 00 00 00 00 00 01 11 22 33 44 55 66 77 88 00 00 00 00" +
			"00 03 00 00 00 00 00 00 00 00 00 03 00 00 00 00 70 00 06"},
	}
	for _, tt := range tests {
		want(t, tt.name, tt.got, unhex(t, tt.hex))
	}
	if got, err := ParseTLogout(tests[1].got); err != nil || got != tl {
		t.Errorf("T_LOGOUT %+v, %v", got, err)
	}
	if got, err := ParseCredReq(tests[2].got); err != nil || got != cr {
		t.Errorf("CRED_REQ %+v, %v", got, err)
	}
	for i, parse := range map[int]func([]byte) (Tag, error){0: ParseILogout, 3: ParseCredRsp, 4: ParseAerRsp} {
		if got, err := parse(tests[i].got); err != nil || got != tag {
			t.Errorf("%s: %v, %v", tests[i].name, got, err)
		}
	}
	got, err := ParseAerReq(tests[5].got)
	if err != nil || got.Delta != 1 || got.Tag != tag || got.LUN != ar.LUN || !bytes.Equal(got.Sense, ar.Sense) {
		t.Errorf("AER_REQ %+v, %v", got, err)
	}
}
