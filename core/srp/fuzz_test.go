package srp

import (
	"bytes"
	"testing"
)

// inside tells whether v lies in b, from offset low on.
func inside(b, v []byte, low int) bool {
	if len(v) == 0 {
		return true
	}
	for i := max(low, 0); i+len(v) <= len(b); i++ {
		if &b[i] == &v[0] {
			return true
		}
	}
	return false
}

func FuzzCmd(f *testing.F) {
	f.Add(unhex(f, readHex), uint16(68))
	f.Add(append(unhex(f, writeHex), make([]byte, 512)...), uint16(68))
	f.Add(join(head(0x22, 1, 2, 4), 0, table(16), 0, page, table(32), 8192, page, page), uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, offset uint16) {
		var c Cmd
		err := c.Parse(b, CmdLimits{MaxTransfer: 1 << 24, MaxTable: 4096, ImmediateOffset: offset})
		if err != nil {
			if e, ok := err.(*ParseError); !ok || e.Answer().Kind == 0 || e.Error() == "" {
				t.Fatalf("error without an answer: %v", err)
			}
			return
		}
		for _, d := range []*Data{c.DataOut(), c.DataIn()} {
			if fetched(t, b, d) {
				checkData(t, b, d)
			}
		}
		if c.DataOut().Len() > 0 && c.DataIn().Len() > 0 {
			t.Fatal("bidirectional command accepted")
		}
		if !inside(b, c.AddCDB(), CmdLen) {
			t.Fatal("additional CDB outside the unit")
		}
	})
}

// fetched completes a table from the unit's own bytes, over and over, and tells whether that made a data buffer.
func fetched(t *testing.T, b []byte, d *Data) bool {
	t.Helper()
	r := d.Remote()
	if r.Length > 4096 || r.wraps() {
		t.Fatalf("%+v is to be read", r)
	}
	if r.Length == 0 {
		return true
	}
	rest := bytes.Repeat(b, int(r.Length)/len(b)+1)[:r.Length]
	return d.Complete(rest) == nil
}

func checkData(t *testing.T, b []byte, d *Data) {
	t.Helper()
	if d.Len() > 1<<24 || !inside(b, d.list, CmdLen) || !inside(b, d.imm, CmdLen) || !inside(b, d.table, CmdLen) {
		t.Fatalf("data buffer outside the unit: %+v", d)
	}
	var sum uint64
	for i := range d.Count() {
		e := d.At(i)
		if e.Addr+uint64(e.Length) < e.Addr {
			t.Fatalf("entry %d wraps: %+v", i, e)
		}
		sum += uint64(e.Length)
	}
	if d.Format() == FormatImmediate {
		sum = uint64(len(d.Immediate()))
	}
	if uint64(d.Len()) > sum {
		t.Fatalf("%d bytes wanted, %d described", d.Len(), sum)
	}
}

func FuzzRsp(f *testing.F) {
	f.Add(unhex(f, rspHex))
	f.Add(unhex(f, abortRspHex))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRsp(b)
		if err != nil {
			return
		}
		r.Code()
		if !inside(b, r.Sense(), RspLen) || r.In().Count() > 0 && r.Flags()&(RspInOver|RspInUnder) == 0 {
			t.Fatalf("response %x", b)
		}
	})
}

func FuzzLoginReq(f *testing.F) {
	f.Add(unhex(f, loginReqHex))
	f.Add(unhex(f, loginReqRDMAHex))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := ParseLoginReq(b); err == nil {
			if again, err := ParseLoginReq(r.Append(nil)); err != nil || again != r {
				t.Fatalf("64 bytes: %+v became %+v", r, again)
			}
		}
		if r, err := ParseLoginReqRDMA(b); err == nil {
			if again, err := ParseLoginReqRDMA(r.AppendRDMA(nil)); err != nil || again != r {
				t.Fatalf("56 bytes: %+v became %+v", r, again)
			}
		}
	})
}

// FuzzControl covers the units of fixed size, and AER_REQ.
func FuzzControl(f *testing.F) {
	f.Add(unhex(f, abortHex))
	f.Add(unhex(f, loginRspHex))
	f.Add(unhex(f, loginRejHex))
	f.Add(AppendILogout(nil, 1))
	f.Add((&TLogout{Reason: 8}).Append(nil))
	f.Add((&CredReq{Delta: 1}).Append(nil))
	f.Add((&AerReq{Sense: []byte{0x70}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := ParseTskMgmt(b); err == nil {
			_ = v.LUN().String() + v.Function().String()
			_ = v.Tag() + v.Managed()
		}
		if v, err := ParseLoginRsp(b); err == nil {
			if again, err := ParseLoginRsp(v.Append(nil)); err != nil || again != v {
				t.Fatalf("%+v became %+v", v, again)
			}
		}
		if v, err := ParseLoginRej(b); err == nil {
			if again, err := ParseLoginRej(v.Append(nil)); err != nil || again != v {
				t.Fatalf("%+v became %+v", v, again)
			}
		}
		if v, err := ParseTLogout(b); err == nil {
			if again, err := ParseTLogout(v.Append(nil)); err != nil || again != v {
				t.Fatalf("%+v became %+v", v, again)
			}
		}
		if v, err := ParseCredReq(b); err == nil {
			if again, err := ParseCredReq(v.Append(nil)); err != nil || again != v {
				t.Fatalf("%+v became %+v", v, again)
			}
		}
		if v, err := ParseAerReq(b); err == nil {
			again, err := ParseAerReq(v.Append(nil))
			if err != nil || again.LUN != v.LUN || !bytes.Equal(again.Sense, v.Sense) {
				t.Fatalf("%+v became %+v", v, again)
			}
		}
		for _, parse := range []func([]byte) (Tag, error){ParseILogout, ParseCredRsp, ParseAerRsp} {
			if _, err := parse(b); err == nil && len(b) < 16 {
				t.Fatal("short unit accepted")
			}
		}
	})
}
