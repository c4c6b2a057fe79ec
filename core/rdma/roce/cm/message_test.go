package cm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

var (
	gidHere  = ib.GIDFromIPv4([4]byte{10, 77, 0, 2})
	gidThere = ib.GIDFromIPv4([4]byte{10, 77, 0, 1})
)

// srpREQ is the request that a Linux ib_srp makes over RDMA/CM.
func srpREQ() *REQFields {
	private := IPHeader{Port: 40000, Src: gidThere, Dst: gidHere}.Append(nil)
	return &REQFields{
		LocalCommID: 0x11223344, ServiceID: ServiceID(5555), CAGUID: 0x505400FFFE123456, LocalQPN: 0x000011,
		ResponderResources: 4, InitiatorDepth: 0, RemoteResponseTimeout: 20, FlowControl: true, StartingPSN: 0xABCDEF,
		LocalResponseTimeout: 20, RetryCount: 7, PKey: 0xFFFF, PathMTU: ib.MTU1024, RNRRetryCount: 7, MaxCMRetries: 15,
		LocalGID: gidThere, RemoteGID: gidHere, FlowLabel: 0x12345, HopLimit: 64, AckTimeout: 19,
		Private: append(private, bytes.Repeat([]byte{0x5A}, 56)...),
	}
}

func TestREQLayoutIsWhatIBSRPSends(t *testing.T) {
	mad, err := srpREQ().Append(nil, 0x0102030405060708)
	if err != nil || len(mad) != 256 {
		t.Fatalf("%d bytes, %v", len(mad), err)
	}
	zeros := func(n int) string { return strings.Repeat("00", n) }
	gids := "00000000000000000000ffff0a4d0001" + "00000000000000000000ffff0a4d0002"
	want := "01070203" + zeros(4) + "0102030405060708" + "0010" + zeros(6) + // MAD header
		"11223344" + zeros(4) + "00000000010615b3" + "505400fffe123456" + zeros(8) +
		"00001104" + "00000000" + "000000a1" + "abcdefa7" + "ffff" + "37" + "f0" + "ffffffff" + gids +
		"12345000" + "00400098" + zeros(44) +
		"00409c40" + zeros(12) + "0a4d0001" + zeros(12) + "0a4d0002" + strings.Repeat("5a", 56)
	if got := hex.EncodeToString(mad); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

func TestREQReadsBack(t *testing.T) {
	f := srpREQ()
	f.SRQ, f.InitiatorDepth = true, 3
	mad, _ := f.Append(nil, 9)
	m, err := ParseMessage(mad)
	if err != nil || m.Attr() != AttrREQ || m.TID() != 9 {
		t.Fatalf("%v, %v", m.Attr(), err)
	}
	r := m.REQ()
	got := REQFields{r.LocalCommID(), r.ServiceID(), r.CAGUID(), r.LocalQPN(), r.ResponderResources(), r.InitiatorDepth(),
		r.RemoteResponseTimeout(), r.FlowControl(), r.StartingPSN(), r.LocalResponseTimeout(), r.RetryCount(), r.PKey(), r.PathMTU(),
		r.RNRRetryCount(), r.MaxCMRetries(), r.SRQ(), r.LocalGID(), r.RemoteGID(), r.FlowLabel(), 64, r.AckTimeout(), nil}
	if !bytes.Equal(r.Private(), f.Private) {
		t.Errorf("private data %x", r.Private())
	}
	f.Private = nil
	if got.Private != nil || !equalREQ(got, *f) {
		t.Errorf("got %+v, want %+v", got, *f)
	}
	if r.QKey() != 0 || r.TransportType() != 0 || r.ExtendedTransport() != 0 {
		t.Error("not a reliable connection")
	}
}

func equalREQ(a, b REQFields) bool {
	x, _ := a.Append(nil, 0)
	y, _ := b.Append(nil, 0)
	return bytes.Equal(x, y)
}

func TestREPLayout(t *testing.T) {
	f := REPFields{LocalCommID: 0xA1A2A3A4, RemoteCommID: 0x11223344, LocalQPN: 0x123456, StartingPSN: 0xFEDCBA, ResponderResources: 2,
		InitiatorDepth: 4, TargetAckDelay: 22, FlowControl: true, RNRRetryCount: 7, SRQ: true, CAGUID: 0x0102030405060708, Private: []byte{0xC0, 1}}
	mad, err := f.Append(nil, 5)
	if err != nil || len(mad) != 256 {
		t.Fatal(len(mad), err)
	}
	want := "a1a2a3a4" + "11223344" + "00000000" + "12345600" + "00000000" + "fedcba00" + "0204b1f0" + "0102030405060708" + "c001"
	if got := hex.EncodeToString(mad[24:]); !strings.HasPrefix(got, want) || strings.Trim(got[len(want):], "0") != "" {
		t.Errorf("got %s, want %s and zeros", got, want)
	}
	m, _ := ParseMessage(mad)
	r := m.REP()
	got := REPFields{r.LocalCommID(), r.RemoteCommID(), r.LocalQPN(), r.StartingPSN(), r.ResponderResources(), r.InitiatorDepth(),
		r.TargetAckDelay(), r.FlowControl(), r.RNRRetryCount(), r.SRQ(), r.CAGUID(), r.Private()}
	again, err := got.Append(nil, m.TID())
	if err != nil || !bytes.Equal(again, mad) || len(r.Private()) != REPPrivateSize {
		t.Errorf("%+v does not read back: %v", got, err)
	}
}

func TestREJLayout(t *testing.T) {
	f := REJFields{LocalCommID: 1, RemoteCommID: 2, Refused: RefusedREP, Reason: ReasonConsumer, ARI: []byte{9, 8, 7}, Private: []byte{0xC2}}
	mad, err := f.Append(nil, 5)
	if err != nil {
		t.Fatal(err)
	}
	want := "00000001" + "00000002" + "4006001c" + "090807" + strings.Repeat("00", 69) + "c2"
	if got := hex.EncodeToString(mad[24:]); !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	m, _ := ParseMessage(mad)
	r := m.REJ()
	if r.LocalCommID() != 1 || r.RemoteCommID() != 2 || r.Refused() != RefusedREP || r.Reason() != ReasonConsumer ||
		!bytes.Equal(r.ARI(), []byte{9, 8, 7}) || r.Private()[0] != 0xC2 || len(r.Private()) != REJPrivateSize {
		t.Errorf("reads back as %x", []byte(r))
	}
	mad[24+9] = 0xFF
	if n := len(m.REJ().ARI()); n != ARISize {
		t.Errorf("a length of 127 gives %d bytes of information", n)
	}
}

func TestShortMessages(t *testing.T) {
	for _, c := range []struct {
		mad  []byte
		attr Attr
		body string
	}{
		{AppendRTU(nil, 1, 0x11, 0x22), AttrRTU, "0000001100000022"},
		{AppendDREP(nil, 1, 0x11, 0x22), AttrDREP, "0000001100000022"},
		{AppendDREQ(nil, 1, 0x11, 0x22, 0x334455), AttrDREQ, "000000110000002233445500"},
		{AppendMRA(nil, 1, 0x11, 0x22, RefusedREP, 24), AttrMRA, "000000110000002240c0"},
	} {
		m, err := ParseMessage(c.mad)
		if err != nil || m.Attr() != c.attr {
			t.Fatalf("%v: %v, %v", c.attr, m.Attr(), err)
		}
		if got := hex.EncodeToString(m.Data()); !strings.HasPrefix(got, c.body) || strings.Trim(got[len(c.body):], "0") != "" {
			t.Errorf("%v: %s, want %s and zeros", c.attr, got, c.body)
		}
	}
	m, _ := ParseMessage(AppendMRA(nil, 1, 0x11, 0x22, RefusedREP, 24))
	if r := m.MRA(); r.LocalCommID() != 0x11 || r.RemoteCommID() != 0x22 || r.Received() != RefusedREP || r.ServiceTimeout() != 24 || len(r.Private()) != MRAPrivateSize {
		t.Error("MRA does not read back")
	}
	if r := m.DREQ(); r.LocalCommID() != 0x11 || r.RemoteCommID() != 0x22 || len(r.Private()) != DREQPrivateSize {
		t.Error("DREQ does not read back")
	}
	if r := m.RTU(); r.LocalCommID() != 0x11 || r.RemoteCommID() != 0x22 || len(r.Private()) != RTUPrivateSize {
		t.Error("RTU does not read back")
	}
	if r := m.DREP(); r.LocalCommID() != 0x11 || r.RemoteCommID() != 0x22 || len(r.Private()) != DREPPrivateSize {
		t.Error("DREP does not read back")
	}
}

func TestParseMessageRefusesOtherDatagrams(t *testing.T) {
	good := AppendRTU(nil, 1, 2, 3)
	for name, change := range map[string]func([]byte) []byte{
		"short":           func(b []byte) []byte { return b[:255] },
		"long":            func(b []byte) []byte { return append(b, 0) },
		"base version 2":  func(b []byte) []byte { b[0] = 2; return b },
		"subnet class":    func(b []byte) []byte { b[1] = 3; return b },
		"class version 1": func(b []byte) []byte { b[2] = 1; return b },
		"method Get":      func(b []byte) []byte { b[3] = 1; return b },
		"empty":           func([]byte) []byte { return nil },
	} {
		if _, err := ParseMessage(change(bytes.Clone(good))); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPrivateDataThatDoesNotFitIsAnError(t *testing.T) {
	long := make([]byte, 250)
	_, req := (&REQFields{Private: long[:93]}).Append(nil, 0)
	_, rep := (&REPFields{Private: long[:197]}).Append(nil, 0)
	_, rej := (&REJFields{Private: long[:149]}).Append(nil, 0)
	_, ari := (&REJFields{ARI: long[:73]}).Append(nil, 0)
	for i, err := range []error{req, rep, rej, ari} {
		if !errors.Is(err, ErrPrivate) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestIPHeader(t *testing.T) {
	h4 := IPHeader{Port: 0xABCD, Src: gidThere, Dst: gidHere}
	h6 := IPHeader{Port: 7, Src: ib.GID{0: 0xFD, 15: 1}, Dst: ib.GID{0: 0xFD, 15: 2}}
	for _, h := range []IPHeader{h4, h6} {
		b := h.Append(nil)
		got, rest, ok := ParseIPHeader(append(b, 1, 2, 3))
		if len(b) != IPHeaderSize || !ok || got != h || !bytes.Equal(rest, []byte{1, 2, 3}) {
			t.Errorf("%+v: %+v, %x, %v", h, got, rest, ok)
		}
	}
	if b := h4.Append(nil); hex.EncodeToString(b) != "0040abcd"+"0000000000000000000000000a4d0001"+"0000000000000000000000000a4d0002" {
		t.Errorf("IPv4: %x", b)
	}
	for name, b := range map[string][]byte{
		"short": make([]byte, 35), "SRP login": make([]byte, 92),
		"CMA version 1": append([]byte{1, 0x40}, make([]byte, 40)...), "IP version 5": append([]byte{0, 0x50}, make([]byte, 40)...),
	} {
		if _, rest, ok := ParseIPHeader(b); ok || len(rest) != len(b) {
			t.Errorf("%s: taken for an IP header", name)
		}
	}
}

func TestServiceIDs(t *testing.T) {
	if id := ServiceID(5555); id != 0x010615B3 {
		t.Errorf("ServiceID = %#x", id)
	}
	for id, want := range map[uint64]bool{0x010615B3: true, 0x0106_0000: true, 0x0111_15B3: false, 1<<32 | 0x010615B3: false, 0x015615B3: false} {
		if port, ok := ServicePort(id); ok != want || ok && ServiceID(port) != id {
			t.Errorf("%#x: %d, %v", id, port, ok)
		}
	}
}

func TestTimeoutCodes(t *testing.T) {
	if Timeout(0) != 4096 || Timeout(20) != 4294967296 || Timeout(31) != 4096<<31 {
		t.Error("4.096 us * 2^code is not kept")
	}
	for code := range uint8(32) {
		ns := Timeout(code)
		if TimeoutCode(ns) != code || code < 31 && TimeoutCode(ns+1) != code+1 {
			t.Errorf("code %d: back as %d and %d", code, TimeoutCode(ns), TimeoutCode(ns+1))
		}
	}
	if TimeoutCode(-1) != 0 || TimeoutCode(1<<62) != 31 {
		t.Error("codes leave 0..31")
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{ReasonStaleConnection.String(), "stale connection"}, {Reason(34).String(), "reason 34"}, {Reason(0).String(), "reason 0"},
		{Reason(35).String(), "vendor option not supported"}, {Reason(65535).String(), "reason 65535"},
		{AttrREQ.String(), "REQ"}, {AttrAPR.String(), "APR"}, {Attr(1).String(), "attribute 0x0001"}, {Attr(0x1B).String(), "attribute 0x001b"},
		{StateTimewait.String(), "timewait"}, {State(99).String(), "unknown state"},
		{CauseStale.String(), "the peer has lost the connection"}, {Cause(0).String(), "unknown cause"}, {Cause(99).String(), "unknown cause"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
