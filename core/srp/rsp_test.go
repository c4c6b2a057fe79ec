package srp

import (
	"bytes"
	"testing"
)

func TestResidualsGoToTheirDirection(t *testing.T) {
	tests := []struct {
		name    string
		out, in Residual
		flags   RspFlags
		outN    uint32
		inN     uint32
	}{
		{"none", 0, 0, 0, 0, 0},
		{"out under", 512, 0, RspOutUnder, 512, 0},
		{"out over", -512, 0, RspOutOver, 512, 0},
		{"in under", 0, 100, RspInUnder, 0, 100},
		{"in over", 0, -100, RspInOver, 0, 100},
		{"both", 1, -2, RspOutUnder | RspInOver, 1, 2},
		{"saturates", 0, -(1 << 40), RspInOver, 0, 0xffffffff},
	}
	for _, tt := range tests {
		b := AppendRsp(nil, &RspFields{Out: tt.out, In: tt.in}, 512)
		r, err := ParseRsp(b)
		if err != nil {
			t.Fatal(err)
		}
		if r.Flags() != tt.flags || r.Out().Count() != tt.outN || r.In().Count() != tt.inN {
			t.Errorf("%s: flags %02x, out %d, in %d", tt.name, r.Flags(), r.Out(), r.In())
		}
		if (r.Out() < 0) != (tt.out < 0) || (r.In() < 0) != (tt.in < 0) {
			t.Errorf("%s: signs of out %d, in %d", tt.name, r.Out(), r.In())
		}
		if len(b) != RspLen {
			t.Errorf("%s: %d bytes", tt.name, len(b))
		}
	}
}

func TestSenseIsCutToTheLimit(t *testing.T) {
	sense := bytes.Repeat([]byte{0x72}, 300)
	tests := []struct {
		limit   uint32
		hasCode bool
		keep    int
	}{
		{0, false, 0},
		{36, false, 0},
		{37, false, 1},
		{64, false, 28},
		{64, true, 24},
		{256, false, 220},
		{512, false, MaxSense},
		{0xffffffff, true, MaxSense},
	}
	for _, tt := range tests {
		b := AppendRsp(nil, &RspFields{Sense: sense, HasCode: tt.hasCode}, tt.limit)
		r, err := ParseRsp(b)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Sense()) != tt.keep {
			t.Errorf("limit %d: %d bytes of sense, want %d", tt.limit, len(r.Sense()), tt.keep)
		}
		if has := r.Flags()&RspSense != 0; has != (tt.keep > 0) {
			t.Errorf("limit %d: SNSVALID %v", tt.limit, has)
		}
		if tt.limit >= 40 && uint64(len(b)) > uint64(tt.limit) {
			t.Errorf("limit %d: %d bytes", tt.limit, len(b))
		}
	}
}

func TestResponseDataLengthIsZeroWithoutData(t *testing.T) {
	b := AppendRsp(nil, &RspFields{Status: 2, Sense: []byte{0x70}}, 512)
	want(t, "response data length", b[32:36], []byte{0, 0, 0, 0})
	if RspFlags(b[18]) != RspSense {
		t.Errorf("flags %02x", b[18])
	}
}

func TestTaskManagementResponseIsFortyBytes(t *testing.T) {
	for code := range 256 {
		b := AppendRsp(nil, &RspFields{Tag: 7, Delta: 2, SolNot: true, HasCode: true, Code: RspCode(code)}, 512)
		if len(b) != 40 || b[1] != 1 || b[18] != 1 || b[35] != 4 || b[39] != byte(code) {
			t.Fatalf("code %02x: %x", code, b)
		}
		if r, err := ParseRsp(b); err != nil || !r.SolNot() {
			t.Fatalf("code %02x: %v", code, err)
		}
	}
}

func TestSenseWithoutItsFlagIsNone(t *testing.T) {
	b := AppendRsp(nil, &RspFields{Sense: []byte{1, 2, 3}, HasCode: true}, 512)
	b[18] = 0
	r, err := ParseRsp(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Code(); ok || r.Sense() != nil {
		t.Error("flags are ignored")
	}
}

func TestNegativeDelta(t *testing.T) {
	r, err := ParseRsp(AppendRsp(nil, &RspFields{Delta: -3}, 512))
	if err != nil || r.Delta() != -3 {
		t.Errorf("delta %d, %v", r.Delta(), err)
	}
}
