package mad

import (
	"bytes"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

// FuzzDM hands any bytes to both ends: the agent gives one answer, to the request, or none and a reason; the parsers and a
// discovery that meets nothing else come to an end.
func FuzzDM(f *testing.F) {
	for _, q := range []Query{GetClassPortInfo(), GetIOUnitInfo(), GetProfile(1), GetServices(1, 2, 5)} {
		f.Add(q.Append(nil, 1))
	}
	a := mustAgent(f, Config{}, testController(1, 6), testController(2, 0))
	hostile := mustAgent(f, Config{Slots: 255}, testController(1, 255))
	for _, q := range []Query{GetIOUnitInfo(), GetProfile(1), GetServices(1, 0, 3)} {
		b, _ := hostile.Answer(nil, q.Append(nil, 1))
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		answerOnce(t, a, b)
		discoverFrom(t, b)
	})
}

func answerOnce(t *testing.T, a *Agent, b []byte) {
	request := bytes.Clone(b)
	answer, drop := a.Answer(nil, b)
	if !bytes.Equal(request, b) {
		t.Fatal("the request was written to")
	}
	if drop != DropNone {
		if len(answer) != 0 || drop >= DropReasons {
			t.Fatalf("dropped for %v, and answered with %d bytes", drop, len(answer))
		}
		return
	}
	if len(answer) != ib.MADSize || len(b) != ib.MADSize {
		t.Fatalf("%d bytes answered with %d", len(b), len(answer))
	}
	m := ib.MAD(answer)
	if m.Method() != ib.MethodGetResp || !bytes.Equal(answer[:3], b[:3]) || !bytes.Equal(answer[6:HeaderSize], b[6:HeaderSize]) {
		t.Fatalf("%x answered with %x", b[:HeaderSize], answer[:HeaderSize])
	}
	if m.Status() != ib.StatusOK && !bytes.Equal(answer[HeaderSize:], make([]byte, DataSize)) {
		t.Fatalf("status %04x with data %x", m.Status(), answer[HeaderSize:])
	}
	if again, drop := a.Answer(nil, answer); drop != DropResponse || len(again) != 0 {
		t.Fatal("an answer was answered")
	}
}

// discoverFrom answers each query of a discovery with b, whatever it is.
func discoverFrom(t *testing.T, b []byte) {
	data := b[min(HeaderSize, len(b)):]
	if len(b) == ib.MADSize {
		m := ib.MAD(b)
		q := Query{m.AttrID(), m.AttrMod()}
		if _, err := q.Parse(b, uint32(m.TID())); err != nil && err.Error() == "" {
			t.Fatal("an error with no message")
		}
	}
	var d Discovery
	asked := 0
	for _, more := d.Next(); more; _, more = d.Next() {
		if asked++; asked > 16576 {
			t.Fatal("the discovery does not end")
		}
		d.Answer(data, nil)
	}
	u, _ := d.Result()
	for _, found := range u.Found {
		for _, s := range found.Controller.Services {
			found.Controller.AddTarget(s, ib.GID{}, ib.PKeyDefault)
		}
	}
}
