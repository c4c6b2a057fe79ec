package srp

import "testing"

// noAlloc fails if f allocates.
func noAlloc(t *testing.T, what string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(100, f); n != 0 {
		t.Errorf("%s: %v allocations", what, n)
	}
}

func TestParsingAllocatesNothing(t *testing.T) {
	read, tm, rsp := unhex(t, readHex), unhex(t, abortHex), unhex(t, rspHex)
	write := append(unhex(t, writeHex), make([]byte, 512)...)
	login, loginRDMA := unhex(t, loginReqHex), unhex(t, loginReqRDMAHex)
	loginRsp, loginRej := unhex(t, loginRspHex), unhex(t, loginRejHex)
	control := AppendCredRsp(nil, 1)
	aer := (&AerReq{Sense: []byte{1}}).Append(nil)
	var c Cmd
	var sink uint64
	noAlloc(t, "Cmd.Parse", func() {
		if c.Parse(read, testLimits) != nil || c.Parse(write, testLimits) != nil {
			t.Fatal("refused")
		}
		sink += uint64(c.Tag()) + uint64(c.CDB()[0]) + uint64(c.DataOut().Immediate()[0])
	})
	noAlloc(t, "ParseTskMgmt", func() { v, _ := ParseTskMgmt(tm); sink += uint64(v.Managed()) })
	noAlloc(t, "ParseRsp", func() { v, _ := ParseRsp(rsp); sink += uint64(v.Sense()[0]) })
	noAlloc(t, "ParseLoginReq", func() { v, _ := ParseLoginReq(login); sink += uint64(v.MaxITIU) })
	noAlloc(t, "ParseLoginReqRDMA", func() { v, _ := ParseLoginReqRDMA(loginRDMA); sink += uint64(v.MaxITIU) })
	noAlloc(t, "ParseLoginRsp", func() { v, _ := ParseLoginRsp(loginRsp); sink += uint64(v.Delta) })
	noAlloc(t, "ParseLoginRej", func() { v, _ := ParseLoginRej(loginRej); sink += uint64(v.Reason) })
	noAlloc(t, "ParseCredRsp", func() { v, _ := ParseCredRsp(control); sink += uint64(v) })
	noAlloc(t, "ParseAerReq", func() { v, _ := ParseAerReq(aer); sink += uint64(len(v.Sense)) })
	if sink == 0 {
		t.Error("nothing was parsed")
	}
}

func TestBuildingIntoRoomAllocatesNothing(t *testing.T) {
	b := make([]byte, 0, 1024)
	f := CmdFields{Tag: readTag, CDB: readCDB, In: DataFields{Format: FormatIndirect, List: readList, Table: tableHome}}
	sense := make([]byte, 18)
	tm := TskMgmtFields{Function: FuncLUNReset}
	login := LoginReq{MaxITIU: 8260}
	rsp, rej := LoginRsp{Delta: 64}, LoginRej{Reason: RejNexus}
	lo, cr, ar := TLogout{}, CredReq{}, AerReq{Sense: sense}
	noAlloc(t, "CmdFields", func() { b = f.Append(b[:0]) })
	noAlloc(t, "AppendRsp", func() { b = AppendRsp(b[:0], &RspFields{Status: 2, Sense: sense, In: 8192}, 512) })
	noAlloc(t, "TskMgmtFields", func() { b = tm.Append(b[:0]) })
	noAlloc(t, "LoginReq", func() { b = login.AppendRDMA(login.Append(b[:0])) })
	noAlloc(t, "LoginRsp", func() { b = rsp.Append(b[:0]) })
	noAlloc(t, "LoginRej", func() { b = rej.Append(b[:0]) })
	noAlloc(t, "control units", func() { b = ar.Append(cr.Append(lo.Append(AppendILogout(b[:0], 1)))) })
}

func BenchmarkParseRead(b *testing.B) {
	iu := unhex(b, readHex)
	var c Cmd
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Parse(iu, testLimits); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendRsp(b *testing.B) {
	buf := make([]byte, 0, 512)
	f := RspFields{Tag: 1, Delta: 1, In: 100}
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendRsp(buf[:0], &f, 512)
	}
}
