package srp

import (
	"strings"
	"testing"
)

func TestLUNs(t *testing.T) {
	tests := []struct {
		lun  LUN
		n    uint32
		kind LUNKind
	}{
		{LUN{}, 0, LUNUnit},
		{LUN{0, 3}, 3, LUNUnit},
		{LUN{0, 255}, 255, LUNUnit},
		{LUN{0x40, 3}, 3, LUNUnit},
		{LUN{0x41, 0x2c}, 300, LUNUnit},
		{LUN{0x7f, 0xff}, MaxLUN, LUNUnit},
		{LUN{0xc1, 0x01}, 0, LUNReportLUNs},
		{LUN{0xc1, 0x02}, 0, LUNInvalid},
		{LUN{0x01, 0x03}, 0, LUNInvalid},
		{LUN{0x80, 0x03}, 0, LUNInvalid},
		{LUN{0, 3, 1}, 0, LUNInvalid},
		{LUN{0, 3, 0, 0, 0, 0, 0, 1}, 0, LUNInvalid},
		{LUN{0xc1, 0x01, 0, 1}, 0, LUNInvalid},
	}
	for _, tt := range tests {
		if n, k := tt.lun.Decode(); n != tt.n || k != tt.kind {
			t.Errorf("%v: %d, kind %d; want %d, kind %d", tt.lun, n, k, tt.n, tt.kind)
		}
	}
}

func TestMadeLUNsDecode(t *testing.T) {
	for n := range uint32(MaxLUN + 1) {
		l, ok := MakeLUN(n)
		got, k := l.Decode()
		if !ok || got != n || k != LUNUnit {
			t.Fatalf("%d: %v, %v", n, l, ok)
		}
		if flat := l[0] != 0; flat != (n > 255) {
			t.Fatalf("%d: %v", n, l)
		}
	}
	if _, ok := MakeLUN(MaxLUN + 1); ok {
		t.Error("a LUN beyond flat addressing")
	}
}

func TestPortIDs(t *testing.T) {
	id := MakePortID(0x0001020304050607, 0x08090a0b0c0d0e0f)
	for _, s := range []string{
		"000102030405060708090a0b0c0d0e0f", "0x000102030405060708090A0B0C0D0E0F", id.String(),
		"0001:0203:0405:0607:0809:0a0b:0c0d:0e0f",
	} {
		if got, err := ParsePortID(s); err != nil || got != id {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	if id.Ext() != 0x0001020304050607 || id.GUID() != 0x08090a0b0c0d0e0f || id.IsZero() || !(PortID{}).IsZero() {
		t.Errorf("halves %x, %x", id.Ext(), id.GUID())
	}
	for _, s := range []string{"", "0x", "00", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("g", 32)} {
		if got, err := ParsePortID(s); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
}

func TestNames(t *testing.T) {
	tests := []struct{ got, want string }{
		{OpCmd.String(), "SRP_CMD"},
		{Opcode(0x55).String(), "opcode 55h"},
		{Tag(0x0500010000000000).String(), "0500010000000000"},
		{RejChannelLimit.String(), "RDMA channel limit of the I_T nexus reached"},
		{RejReason(7).String(), "reject reason 00000007h"},
		{LogoutMultiChannel.String(), "disconnected by multi-channel action of a new login"},
		{LogoutReason(99).String(), "logout reason 00000063h"},
		{FuncLUNReset.String(), "LOGICAL UNIT RESET"},
		{TaskFunction(0x7f).String(), "task management function 7fh"},
		{LUN{0, 3}.String(), "0003000000000000"},
		{Problem(200).Error(), "problem 200"},
		{fail(OpCmd, ProblemShort, 47, 48).Error(), "srp: SRP_CMD: too short (have 47, limit 48)"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestEveryProblemHasWordsAndAnAnswer(t *testing.T) {
	for p := ProblemShort; int(p) < len(problemNames); p++ {
		if p.Error() == "" || p.Answer().Kind == 0 {
			t.Errorf("problem %d: %q, %+v", p, p.Error(), p.Answer())
		}
	}
	answers := map[Problem]Answer{
		ProblemUnsolicited: leave(LogoutUnsolicited),
		ProblemCredit:      leave(LogoutNoReason),
		ProblemTag:         {Kind: AnswerOverlap},
	}
	for p, a := range answers {
		if p.Answer() != a {
			t.Errorf("%v: %+v", p, p.Answer())
		}
	}
}
