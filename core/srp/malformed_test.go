package srp

import (
	"errors"
	"testing"
)

var testLimits = CmdLimits{MaxTransfer: 1 << 24, ImmediateOffset: 68}

// head builds the 48 fixed bytes of an SRP_CMD with the given bytes 5..7 and 31.
func head(formats, nout, nin, add byte) []byte {
	b := make([]byte, CmdLen)
	b[0], b[5], b[6], b[7], b[31] = byte(OpCmd), formats, nout, nin, add
	b[8], b[21] = 0x77, 3
	return b
}

func join(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch v := p.(type) {
		case []byte:
			b = append(b, v...)
		case Desc:
			b = v.Append(b)
		case int:
			b = append(b, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
		}
	}
	return b
}

var (
	page  = Desc{Addr: 0x7f0000001000, Key: 0xabcd, Length: 4096}
	check = Answer{Kind: AnswerCheck}
)

func leave(r LogoutReason) Answer { return Answer{AnswerLogout, r} }

// table returns a table descriptor of n bytes.
func table(n uint32) Desc { return Desc{Addr: 0x1000, Key: 0x1234, Length: n} }

func TestMalformedCommandGetsItsAnswer(t *testing.T) {
	attr := func(a byte) []byte {
		b := head(0, 0, 0, 0)
		b[29] = a
		return b
	}
	opcode := func(o byte) []byte {
		b := head(0, 0, 0, 0)
		b[0] = o
		return b
	}
	wrap := Desc{Addr: ^uint64(0) - 4095, Key: 1, Length: 4097}
	noImm := CmdLimits{MaxTransfer: 1 << 24}
	tests := []struct {
		name    string
		iu      []byte
		limits  CmdLimits
		problem Problem
		answer  Answer
	}{
		{"empty", nil, testLimits, ProblemShort, leave(LogoutLength)},
		{"one byte", []byte{2}, testLimits, ProblemShort, leave(LogoutLength)},
		{"47 bytes", head(0, 0, 0, 0)[:47], testLimits, ProblemShort, leave(LogoutLength)},
		{"another unit", opcode(0xc1), testLimits, ProblemOpcode, leave(LogoutInvalidIU)},
		{"additional CDB of 4, none there", head(0, 0, 0, 0x04), testLimits, ProblemAddCDB, leave(LogoutLength)},
		{"additional CDB of 252, 251 there", join(head(0, 0, 0, 0xff), make([]byte, 251)), testLimits, ProblemAddCDB, leave(LogoutLength)},
		{"data-out format 4", head(0x40, 0, 0, 0), testLimits, ProblemFormatOut, leave(LogoutFormatOut)},
		{"data-out format 15", head(0xf0, 0, 0, 0), testLimits, ProblemFormatOut, leave(LogoutFormatOut)},
		{"data-in format 3", head(0x03, 0, 0, 0), testLimits, ProblemFormatIn, leave(LogoutFormatIn)},
		{"data-in format 15", head(0x0f, 0, 0, 0), testLimits, ProblemFormatIn, leave(LogoutFormatIn)},
		{"immediate, not negotiated", join(head(0x30, 0, 0, 0), 512, make([]byte, 528)), noImm, ProblemFormatOut, leave(LogoutFormatOut)},
		{"direct out, no descriptor", head(0x10, 0, 0, 0), testLimits, ProblemDescriptorArea, leave(LogoutLength)},
		{"direct in, 15 bytes", join(head(0x01, 0, 0, 0), page)[:63], testLimits, ProblemDescriptorArea, leave(LogoutLength)},
		{"direct after additional CDB cut off", join(head(0x01, 0, 0, 4), page), testLimits, ProblemDescriptorArea, leave(LogoutLength)},
		{"indirect, 19 bytes", join(head(0x20, 0, 0, 0), table(0), 0)[:67], testLimits, ProblemDescriptorArea, leave(LogoutLength)},
		{"indirect, list cut off", join(head(0x02, 0, 2, 0), table(32), 8192, page), testLimits, ProblemDescriptorArea, leave(LogoutLength)},
		{"indirect, 255 entries claimed", join(head(0x20, 255, 0, 0), table(255*16), 4096, page), testLimits, ProblemDescriptorArea, leave(LogoutLength)},
		{"second direction cut off", join(head(0x11, 0, 0, 0), page), testLimits, ProblemDescriptorArea, leave(LogoutLength)},
		{"immediate, no descriptor", join(head(0x30, 0, 0, 0), []byte{0, 0, 2}), testLimits, ProblemDescriptorArea, leave(LogoutLength)},
		{"immediate, one byte beyond", join(head(0x30, 0, 0, 0), 513, make([]byte, 16+512)), testLimits, ProblemImmediateRange, leave(LogoutLength)},
		{"immediate, FFFFFFFF", join(head(0x30, 0, 0, 0), 0xffffffff, make([]byte, 16+512)), testLimits, ProblemImmediateRange, leave(LogoutLength)},
		{"immediate, wraps with offset", join(head(0x30, 0, 0, 0), 0xffffffb0, make([]byte, 16+512)), testLimits, ProblemImmediateRange, leave(LogoutLength)},
		{"immediate, unit ends before offset", join(head(0x30, 0, 0, 0), 0), testLimits, ProblemImmediateRange, leave(LogoutLength)},
		{"immediate offset in additional CDB", join(head(0x30, 0, 0, 20), make([]byte, 20), 4, make([]byte, 32)), testLimits, ProblemImmediateOverlap, check},
		{"immediate offset in data-in descriptor", join(head(0x31, 0, 0, 0), 4, page, make([]byte, 32)), CmdLimits{MaxTransfer: 1 << 24, ImmediateOffset: 52}, ProblemImmediateOverlap, check},
		{"table of 17 bytes", join(head(0x02, 0, 1, 0), table(17), 4096, page), testLimits, ProblemTableLength, check},
		{"more descriptors than table", join(head(0x02, 0, 2, 0), table(16), 4096, page, page), testLimits, ProblemCount, check},
		{"empty table, one descriptor", join(head(0x20, 1, 0, 0), table(0), 0, page), testLimits, ProblemCount, check},
		{"table half remote", join(head(0x02, 0, 1, 0), table(32), 4096, page), testLimits, ProblemRemoteTable, check},
		{"table all remote", join(head(0x02, 0, 0, 0), table(32), 4096), testLimits, ProblemRemoteTable, check},
		{"table of 4 GiB", join(head(0x02, 0, 1, 0), table(0xfffffff0), 4096, page), testLimits, ProblemRemoteTable, check},
		{"total beyond the sum", join(head(0x02, 0, 1, 0), table(16), 4097, page), testLimits, ProblemTotal, check},
		{"total without entries", join(head(0x02, 0, 0, 0), table(0), 1), testLimits, ProblemTotal, check},
		{"direct wraps", join(head(0x10, 0, 0, 0), wrap), testLimits, ProblemWrap, check},
		{"indirect entry wraps", join(head(0x02, 0, 2, 0), table(32), 4096, page, wrap), testLimits, ProblemWrap, check},
		{"direct too long", join(head(0x01, 0, 0, 0), Desc{0, 1, 1<<24 + 1}), testLimits, ProblemTransfer, check},
		{"both directions", join(head(0x11, 0, 0, 0), page, page), testLimits, ProblemBidirectional, check},
		{"attribute 3", attr(3), testLimits, ProblemTaskAttribute, check},
		{"attribute 5", attr(5), testLimits, ProblemTaskAttribute, check},
		{"attribute 6", attr(6), testLimits, ProblemTaskAttribute, check},
		{"attribute 7", attr(7), testLimits, ProblemTaskAttribute, check},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c Cmd
			err := c.Parse(tt.iu, tt.limits)
			var e *ParseError
			if !errors.As(err, &e) || !errors.Is(err, tt.problem) {
				t.Fatalf("got %v, want %v", err, tt.problem)
			}
			if e.Answer() != tt.answer {
				t.Errorf("answer %+v, want %+v", e.Answer(), tt.answer)
			}
			if c.DataOut().Len() != 0 || c.DataIn().Len() != 0 || c.DataIn().Count() != 0 {
				t.Error("a refused command keeps a data buffer")
			}
			if tt.answer == check && (c.Tag() != 0x77<<56 || c.LUN() != LUN{0, 3}) {
				t.Errorf("tag %v, LUN %v", c.Tag(), c.LUN())
			}
			if tt.answer != check && c.Bytes() != nil {
				t.Error("a broken unit stays in view")
			}
		})
	}
}

func TestUnusualCommandIsAccepted(t *testing.T) {
	attr := head(0, 0, 0, 0)
	attr[29] = 0xf8 | byte(AttrACA)
	tests := []struct {
		name    string
		iu      []byte
		outLen  uint32
		inLen   uint32
		entries int // of the direction that has any
	}{
		{"no data", head(0, 9, 9, 0), 0, 0, 0},
		{"reserved bits beside the attribute", attr, 0, 0, 0},
		{"direct of length 0", join(head(0x01, 0, 0, 0), Desc{}), 0, 0, 1},
		{"direct ends at the last address", join(head(0x10, 0, 0, 0), Desc{^uint64(0) - 4096, 1, 4096}), 4096, 0, 1},
		{"direct with counts set", join(head(0x10, 7, 8, 0), page), 4096, 0, 1},
		{"longest transfer", join(head(0x01, 0, 0, 0), Desc{0, 1, 1 << 24}), 0, 1 << 24, 1},
		{"bytes behind the descriptor", join(head(0x01, 0, 0, 0), page, make([]byte, 9)), 0, 4096, 1},
		{"empty table", join(head(0x02, 0, 0, 0), table(0), 0), 0, 0, 0},
		{"total below the sum", join(head(0x20, 1, 0, 0), table(16), 512, page), 512, 0, 1},
		{"data-in count in the data-out byte", join(head(0x02, 2, 0, 0), table(32), 8192, page, page), 0, 8192, 2},
		{"data-out count in the data-in byte", join(head(0x20, 0, 2, 0), table(32), 8192, page, page), 8192, 0, 2},
		{"both counts, one direction", join(head(0x02, 9, 1, 0), table(16), 4096, page), 0, 4096, 1},
		{"entries of length 0", join(head(0x02, 0, 3, 0), table(48), 4096, Desc{}, page, Desc{}), 0, 4096, 3},
		{"both formats, one empty", join(head(0x11, 0, 0, 0), Desc{}, page), 0, 4096, 1},
		{"after additional CDB", join(head(0x01, 0, 0, 0x0f), make([]byte, 12), page), 0, 4096, 1},
		{"immediate of length 0", join(head(0x30, 0, 0, 0), 0, make([]byte, 16)), 0, 0, 0},
		{"immediate to the last byte", join(head(0x30, 0, 0, 0), 512, make([]byte, 16+512)), 512, 0, 0},
		{"immediate right behind a 32-byte CDB", join(head(0x30, 0, 0, 16), make([]byte, 16), 8, make([]byte, 8)), 8, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c Cmd
			if err := c.Parse(tt.iu, testLimits); err != nil {
				t.Fatal(err)
			}
			out, in := c.DataOut(), c.DataIn()
			if out.Len() != tt.outLen || in.Len() != tt.inLen || max(out.Count(), in.Count()) != tt.entries {
				t.Errorf("out %d bytes, in %d bytes, %d or %d entries", out.Len(), in.Len(), out.Count(), in.Count())
			}
		})
	}
}

func TestAdditionalCDBIsFound(t *testing.T) {
	cdb := make([]byte, 32)
	for i := range cdb {
		cdb[i] = byte(i + 1)
	}
	f := CmdFields{Tag: 1, CDB: cdb, In: DataFields{Format: FormatDirect, List: []Desc{page}}}
	var c Cmd
	if err := c.Parse(f.Append(nil), testLimits); err != nil {
		t.Fatal(err)
	}
	want(t, "CDB", c.CDB(), cdb[:16])
	want(t, "additional CDB", c.AddCDB(), cdb[16:])
	if c.DataIn().At(0) != page {
		t.Errorf("descriptor %+v", c.DataIn().At(0))
	}
}

func TestTwoIndirectDirectionsLieBehindEachOther(t *testing.T) {
	iu := join(head(0x22, 1, 2, 0), table(16), 0, page, table(32), 8192, page, Desc{0x9000, 2, 4096})
	var c Cmd
	if err := c.Parse(iu, testLimits); err != nil {
		t.Fatal(err)
	}
	if c.DataOut().Count() != 1 || c.DataIn().Count() != 2 || c.DataIn().At(1).Addr != 0x9000 {
		t.Errorf("out %+v, in %+v", c.DataOut(), c.DataIn())
	}
}

func TestShortAndForeignUnitsAreRefused(t *testing.T) {
	tests := []struct {
		name  string
		op    Opcode
		size  int
		parse func([]byte) error
	}{
		{"LOGIN_RSP", OpLoginRsp, LoginRspLen, func(b []byte) error { _, err := ParseLoginRsp(b); return err }},
		{"LOGIN_REJ", OpLoginRej, LoginRejLen, func(b []byte) error { _, err := ParseLoginRej(b); return err }},
		{"RSP", OpRsp, RspLen, func(b []byte) error { _, err := ParseRsp(b); return err }},
		{"TSK_MGMT", OpTskMgmt, TskMgmtLen, func(b []byte) error { _, err := ParseTskMgmt(b); return err }},
		{"I_LOGOUT", OpILogout, ILogoutLen, func(b []byte) error { _, err := ParseILogout(b); return err }},
		{"T_LOGOUT", OpTLogout, TLogoutLen, func(b []byte) error { _, err := ParseTLogout(b); return err }},
		{"CRED_REQ", OpCredReq, CredReqLen, func(b []byte) error { _, err := ParseCredReq(b); return err }},
		{"CRED_RSP", OpCredRsp, CredRspLen, func(b []byte) error { _, err := ParseCredRsp(b); return err }},
		{"AER_REQ", OpAerReq, AerReqLen, func(b []byte) error { _, err := ParseAerReq(b); return err }},
		{"AER_RSP", OpAerRsp, AerRspLen, func(b []byte) error { _, err := ParseAerRsp(b); return err }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := make([]byte, tt.size)
			b[0] = byte(tt.op)
			if err := tt.parse(b); err != nil {
				t.Errorf("right size: %v", err)
			}
			for n := range tt.size {
				if err := tt.parse(b[:n]); !errors.Is(err, ProblemShort) {
					t.Fatalf("%d bytes: %v", n, err)
				}
			}
			b[0] ^= 0x10
			if err := tt.parse(b); !errors.Is(err, ProblemOpcode) {
				t.Errorf("opcode %02x: %v", b[0], err)
			}
		})
	}
}

func TestLoginReqRefusals(t *testing.T) {
	r := LoginReq{Tag: 0x1234, Formats: 6}
	long, short := r.Append(nil), r.AppendRDMA(nil)
	if _, err := ParseLoginReq(long[:63]); !errors.Is(err, ProblemShort) {
		t.Errorf("63 bytes: %v", err)
	}
	if _, err := ParseLoginReqRDMA(short[:55]); !errors.Is(err, ProblemShort) {
		t.Errorf("55 bytes: %v", err)
	}
	long[0], short[11] = 0x10, 0x10
	if got, err := ParseLoginReq(long); !errors.Is(err, ProblemOpcode) || got.Tag != 0x1234 {
		t.Errorf("type 10h: tag %v, %v", got.Tag, err)
	}
	if got, err := ParseLoginReqRDMA(short); !errors.Is(err, ProblemOpcode) || got.Tag != 0x1234 {
		t.Errorf("type 10h: tag %v, %v", got.Tag, err)
	}
}

func TestResponseLengthsAreHeldAgainstTheUnit(t *testing.T) {
	tests := []struct {
		name        string
		sense, data uint32
		have        int
		ok          bool
	}{
		{"exact", 18, 4, 58, true},
		{"sense beyond", 19, 4, 58, false},
		{"data beyond", 0, 23, 58, false},
		{"sum wraps 32 bits", 0xfffffffe, 4, 58, false},
		{"both huge", 0xffffffff, 0xffffffff, 58, false},
	}
	for _, tt := range tests {
		b := make([]byte, tt.have)
		b[0] = byte(OpRsp)
		copy(b[28:], join(int(tt.sense), int(tt.data)))
		_, err := ParseRsp(b)
		if tt.ok != (err == nil) || !tt.ok && !errors.Is(err, ProblemVariable) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	aer := make([]byte, AerReqLen+3)
	aer[0], aer[31] = byte(OpAerReq), 4
	if _, err := ParseAerReq(aer); !errors.Is(err, ProblemVariable) {
		t.Errorf("AER_REQ with sense beyond: %v", err)
	}
}
