package sa

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
)

// The datagrams of opensm 3.3.23 and its clients on a simulated subnet, up to where zeros follow: a port asks for the path to
// LID 4, and is told.
const (
	requestByLID = "01030201000000000000000000000000" + "0035000000000000" + // common header
		"000000000000000000000000" + "0000000000000000" + "00000000" + "0000000000001818" + // RMPP, SM_Key, offset, mask
		"0000000000000000" + "00000000000000000000000000000000" + "fe800000000000000000000000100005" + "00040000" + "00000000" + "0081"
	requestByGID = "01030201000000000000000000000000" + "0035000000000000" +
		"000000000000000000000000" + "0000000000000000" + "00000000" + "000000000000180c" +
		"0000000000000000" + "fe800000000000000000000000100003" + "fe800000000000000000000000100005" + "00000000" + "00000000" + "0081"
	answer = "0103028100000000000300001f89d1e9" + "0035000000000000" +
		"000000000000000000000000" + "0000000000000000" + "00080000" + "0000000000001818" +
		"0000000000000000" + "fe800000000000000000000000100003" + "fe800000000000000000000000100005" + "00030004" + "00000000" +
		"0080" + "ffff" + "0000" + "8483" + "9200" + "000000000000"
	answerTID = 0x1F89_D1E9
)

var (
	here  = ib.MakeGID(ib.LinkLocalPrefix, 0x100005)
	there = ib.MakeGID(ib.LinkLocalPrefix, 0x100003)
)

func fromHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// whole is an answer as an adapter delivers it.
func whole(t testing.TB, s string) []byte {
	b := make([]byte, ib.MADSize)
	copy(b, fromHex(t, s))
	return b
}

func TestRequestHasTheBytesThatOpensmUnderstands(t *testing.T) {
	for want, q := range map[string]PathQuery{
		requestByLID: {SGID: here, DLID: 4},
		requestByGID: {SGID: here, DGID: there},
	} {
		got := q.Append([]byte("before"), 0)
		if string(got[:6]) != "before" || !slices.Equal(got[6:], whole(t, want)) {
			t.Errorf("%v:\n%x, want\n%x", q, got[6:], whole(t, want))
		}
	}
	if got := (PathQuery{SGID: here, DLID: 4}).Append(nil, 0x01020304); binary.BigEndian.Uint64(got[8:]) != 0x01020304 {
		t.Errorf("transaction id %x", got[8:16])
	}
}

func TestAnswerOfOpensmIsRead(t *testing.T) {
	q := PathQuery{SGID: here, DLID: 3}
	for name, b := range map[string][]byte{"as it is sent": fromHex(t, answer), "as it is delivered": whole(t, answer)} {
		data, err := q.Parse(b, answerTID)
		if err != nil {
			t.Fatal(name, err)
		}
		r, err := ParsePathRecord(data)
		if err != nil {
			t.Fatal(name, err)
		}
		if err := q.Check(r); err != nil {
			t.Error(name, err)
		}
		if r.DGID() != there || r.SGID() != here || r.DLID() != 3 || r.SLID() != 4 || r.Routed() || r.HopLimit() != 0 || r.FlowLabel() != 0 ||
			r.TrafficClass() != 0 || !r.Reversible() || r.PKey() != ib.PKeyDefault || r.SL() != 0 || r.MTU() != ib.MTU2048 {
			t.Errorf("%s: %x", name, []byte(r))
		}
	}
}

func TestEveryFieldHasItsPlace(t *testing.T) {
	r := PathRecord(make([]byte, PathRecordSize))
	copy(r[44:], "\xF1\x23\x45\x67\x89\x7F\x80\x01\xAB\xC9\x45\xC4")
	if r.FlowLabel() != 0x12345 || r.HopLimit() != 0x67 || !r.Routed() || r.TrafficClass() != 0x89 || r.Reversible() || r.PKey() != 0x8001 || r.SL() != 9 ||
		r.MTU() != 5 {
		t.Errorf("%x: flow label %x, hop limit %x, traffic class %x, P_Key %x, SL %d, MTU %d", []byte(r), r.FlowLabel(), r.HopLimit(), r.TrafficClass(),
			r.PKey(), r.SL(), r.MTU())
	}
	r[47] = 1
	if r.Routed() {
		t.Error("a hop limit of 1 passes no router")
	}
}

func TestWhatIsNoAnswerToTheQueryIsAMismatch(t *testing.T) {
	q := PathQuery{SGID: here, DLID: 3}
	for name, change := range map[string]func(b []byte) []byte{
		"nothing":              func([]byte) []byte { return nil },
		"too short":            func(b []byte) []byte { return b[:HeaderSize-1] },
		"too long":             func(b []byte) []byte { return append(b, 0) },
		"base version":         func(b []byte) []byte { b[0] = 0x80; return b },
		"class":                func(b []byte) []byte { b[1] = byte(ib.ClassDeviceMgmt); return b },
		"class version":        func(b []byte) []byte { b[2] = 1; return b },
		"request":              func(b []byte) []byte { b[3] = byte(ib.MethodGet); return b },
		"table":                func(b []byte) []byte { b[3] = 0x92; return b },
		"transaction id":       func(b []byte) []byte { b[15]++; return b },
		"another attribute":    func(b []byte) []byte { b[17]++; return b },
		"refusal of another's": func(b []byte) []byte { b[4], b[15] = 3, b[15]+1; return b },
	} {
		if data, err := q.Parse(change(whole(t, answer)), answerTID); !errors.Is(err, mad.ErrMismatch) || data != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRefusalIsToldWithItsMeaning(t *testing.T) {
	q := PathQuery{SGID: here, DGID: there}
	for status, want := range map[ib.Status]string{
		StatusNoRecords: "refused with status 0300, there is no such path", StatusInvalidGID: "no port of that GID", StatusDenied: "may not ask",
		StatusNoResources: "no resources", StatusInvalid: "invalid", StatusTooManyRecords: "too many", StatusTooFewComponents: "does not say enough",
		ib.StatusBusy: "busy", 0x0900: "unknown", 0x8000: "unknown",
	} {
		b := whole(t, answer)
		ib.MAD(b).SetStatus(status)
		_, err := q.Parse(b, answerTID)
		var refused *StatusError
		if !errors.As(err, &refused) || refused.Status != status || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "to GID fe80:") {
			t.Errorf("%04x: %v", uint16(status), err)
		}
	}
}

// Whatever an administrator says, only a path that was asked for is used.
func TestPathThatWasNotAskedForIsRefused(t *testing.T) {
	byLID, byGID := PathQuery{SGID: here, DLID: 3}, PathQuery{SGID: here, DGID: there}
	for name, c := range map[string]struct {
		q      PathQuery
		change func(r PathRecord)
	}{
		"from another port":      {byLID, func(r PathRecord) { r[39]++ }},
		"to another LID":         {byLID, func(r PathRecord) { r[41]++ }},
		"to another GID":         {byGID, func(r PathRecord) { r[23]++ }},
		"to no GID":              {byLID, func(r PathRecord) { clear(r[8:24]) }},
		"to a group":             {byLID, func(r PathRecord) { r[8] = 0xFF }},
		"to LID 0":               {byGID, func(r PathRecord) { clear(r[40:42]) }},
		"to a multicast LID":     {byGID, func(r PathRecord) { r[40] = 0xC0 }},
		"from LID 0":             {byLID, func(r PathRecord) { clear(r[42:44]) }},
		"in no partition":        {byLID, func(r PathRecord) { r[50], r[51] = 0x80, 0 }},
		"from which none return": {byLID, func(r PathRecord) { r[49] &= 0x7F }},
	} {
		r, err := ParsePathRecord(whole(t, answer)[HeaderSize:])
		if err != nil || c.q.Check(r) != nil {
			t.Fatal(err, c.q.Check(r))
		}
		if c.change(r); !errors.Is(c.q.Check(r), ErrPath) {
			t.Errorf("a path %s: %v", name, c.q.Check(r))
		}
	}
	if _, err := ParsePathRecord(make([]byte, PathRecordSize-1)); !errors.Is(err, mad.ErrShort) {
		t.Error(err)
	}
}

// FuzzPathRecord: whatever is answered, it is read within its bounds, and what passes has an address that packets can carry.
func FuzzPathRecord(f *testing.F) {
	f.Add(whole(f, answer))
	f.Add(fromHex(f, answer))
	f.Add((PathQuery{SGID: here, DGID: there}).Append(nil, answerTID))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := slices.Clone(b)
		for _, q := range []PathQuery{{SGID: here, DLID: 3}, {SGID: here, DGID: there}} {
			data, err := q.Parse(b, answerTID)
			if err != nil {
				var refused *StatusError
				if data != nil || !errors.Is(err, mad.ErrMismatch) && !errors.As(err, &refused) {
					t.Fatalf("%d bytes, %v", len(data), err)
				}
				continue
			}
			r, err := ParsePathRecord(data)
			if err != nil || q.Check(r) != nil {
				continue
			}
			if !r.DLID().IsUnicast() || !r.SLID().IsUnicast() || r.SL() > 15 || r.FlowLabel() > 0xF_FFFF || r.DGID().IsZero() || r.SGID() != here ||
				!r.Reversible() || !q.DGID.IsZero() && r.DGID() != there || q.DLID != 0 && r.DLID() != 3 {
				t.Fatalf("%v: passed %x", q, []byte(r))
			}
		}
		if !slices.Equal(b, before) {
			t.Fatal("the answer was written to")
		}
	})
}

func TestAskingAndReadingAllocateNothing(t *testing.T) {
	q, b, out := PathQuery{SGID: here, DLID: 3}, whole(t, answer), make([]byte, 0, ib.MADSize)
	if n := testing.AllocsPerRun(100, func() {
		q.Append(out, 1)
		data, _ := q.Parse(b, answerTID)
		if r, err := ParsePathRecord(data); err != nil || q.Check(r) != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
