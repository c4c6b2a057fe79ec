package mad

import (
	"errors"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

func TestQueriesAreTheRequestsOfTheTranscripts(t *testing.T) {
	found := map[string]bool{}
	for _, x := range readTranscript(t, "testdata/linux.txt") {
		m := ib.MAD(x.request)
		if m.Method() != ib.MethodGet || m.ClassVersion() != ClassVersion {
			continue
		}
		q := Query{Attr: m.AttrID(), Mod: m.AttrMod()}
		b := q.Append(nil, uint32(m.TID()))
		copy(b[8:12], m[8:12])
		if string(b) != string(m) {
			t.Errorf("%v:\n got %x\nwant %x", q, b, []byte(m))
		}
		found[q.String()] = true
	}
	for _, q := range []Query{GetClassPortInfo(), GetIOUnitInfo(), GetProfile(1), GetServices(1, 0, 0), GetServices(1, 0, 3), GetServices(2, 0, 3)} {
		if !found[q.String()] {
			t.Errorf("%v is in no transcript", q)
		}
	}
}

func TestAnAnswerHasToBeThatOfTheQuery(t *testing.T) {
	a := mustAgent(t, Config{}, testController(1, 1))
	q := GetProfile(1)
	good, _ := a.Answer(nil, q.Append(nil, 0x01020304))
	if data, err := q.Parse(good, 0x01020304); err != nil || len(data) != DataSize {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	for name, spoil := range map[string]func(b []byte) []byte{
		"empty":         func([]byte) []byte { return nil },
		"short":         func(b []byte) []byte { return b[:255] },
		"long":          func(b []byte) []byte { return append(b, 0) },
		"base version":  func(b []byte) []byte { b[0]++; return b },
		"class":         func(b []byte) []byte { b[1]++; return b },
		"class version": func(b []byte) []byte { b[2]++; return b },
		"request":       func(b []byte) []byte { b[3] = 1; return b },
		"report":        func(b []byte) []byte { b[3] = 0x86; return b },
		"transaction":   func(b []byte) []byte { b[15]++; return b },
		"attribute":     func(b []byte) []byte { b[17]++; return b },
		"modifier":      func(b []byte) []byte { b[23]++; return b },
	} {
		if _, err := q.Parse(spoil(append([]byte(nil), good...)), 0x01020304); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "slot 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	moved := append([]byte(nil), good...)
	copy(moved[8:12], "port")
	if _, err := q.Parse(moved, 0x01020304); err != nil {
		t.Errorf("upper half of the transaction id set by the port: %v", err)
	}
}

func TestARefusalIsAStatusError(t *testing.T) {
	a := mustAgent(t, Config{})
	for q, want := range map[Query]ib.Status{GetProfile(1): StatusNoIOC, GetProfile(0): ib.StatusBadAttrValue, {Attr: 0x20}: ib.StatusBadMethodAttr} {
		b, _ := a.Answer(nil, q.Append(nil, 1))
		var refused *StatusError
		if _, err := q.Parse(b, 1); !errors.As(err, &refused) || refused.Status != want || refused.Query != q || !strings.Contains(err.Error(), StatusText(want)) {
			t.Errorf("%v: %v", q, err)
		}
	}
	b, _ := a.Answer(nil, GetIOUnitInfo().Append(nil, 1))
	b[2], b[5] = 2, 4
	var refused *StatusError
	if _, err := GetIOUnitInfo().Parse(b, 1); !errors.As(err, &refused) || refused.Status != ib.StatusBadVersion {
		t.Errorf("refusal in the agent's own class version: %v", err)
	}
}

func TestQueriesNameWhatTheyAsk(t *testing.T) {
	for q, want := range map[Query]string{
		GetClassPortInfo():    "Get ClassPortInfo",
		GetIOUnitInfo():       "Get IOUnitInfo",
		GetProfile(3):         "Get IOControllerProfile of slot 3",
		GetServices(3, 4, 7):  "Get ServiceEntries 4 to 7 of slot 3",
		{Attr: 0x20, Mod: 10}: "Get attribute 0020 modifier 0000000a",
	} {
		if q.String() != want {
			t.Errorf("%q, want %q", q, want)
		}
	}
}
