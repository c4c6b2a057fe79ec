package cm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

// schedule runs the machine's clock until nothing is due, and returns when it sent what.
func (f *fixture) schedule() (log []string) {
	f.t.Helper()
	start := f.now
	for range 100 {
		at, ok := f.m.Deadline()
		if !ok {
			return log
		}
		f.now = at
		if got := f.step(Tick{}); got != "" {
			log = append(log, fmt.Sprintf("%dms %s", (at-start)/millisecond, got))
		}
	}
	f.t.Fatal("the machine's clock never comes to rest")
	return nil
}

func TestREQIsRepeatedWithBackoffThenGivenUp(t *testing.T) {
	f := newFixture(t)
	f.m.cfg.RequestRetries = 5
	f.enter("req-sent")
	want := []string{"500ms REQ", "1500ms REQ", "3500ms REQ", "7500ms REQ", "11500ms REQ", "15500ms REJ4 -timeout free"}
	if got := f.schedule(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestConnectLimitBoundsTheAttempt(t *testing.T) {
	f := newFixture(t)
	c := f.connect().(Connect)
	c.Limit = 2 * second
	f.step(c)
	want := []string{"500ms REQ", "1500ms REQ", "2000ms REJ4 -timeout free"}
	if got := f.schedule(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestREPIsRepeatedAsOftenAsThePeerAllows(t *testing.T) {
	for _, c := range []struct {
		retries uint8
		timeout uint8 // code
		want    []string
	}{
		{2, 20, []string{"500ms REP", "1500ms REP", "3500ms REJ4 -timeout free"}},
		{0, 20, []string{"500ms REJ4 -timeout free"}},
		{3, 5, []string{"500ms REP", "1000ms REP", "1500ms REP", "2000ms REJ4 -timeout free"}},
		{15, 20, []string{"500ms REP", "1500ms REP", "3500ms REP", "7500ms REP", "11500ms REP", "15500ms REP", "19500ms REP", "23500ms REJ4 -timeout free"}},
	} {
		f := newFixture(t)
		f.step(f.req(func(r *REQFields) { r.MaxCMRetries, r.LocalResponseTimeout = c.retries, c.timeout }, 1))
		f.step(Accept{Conn: f.conn, QPN: hereQPN})
		if got := f.schedule(); !slices.Equal(got, c.want) {
			t.Errorf("%d retries, timeout code %d: %q, want %q", c.retries, c.timeout, got, c.want)
		}
	}
}

func TestDREQIsGivenUpIntoTimewait(t *testing.T) {
	f := newFixture(t)
	f.m.cfg.DisconnectRetries = 1
	f.enter("dreq-sent")
	// ACK timeout code 19 is 2147 ms.
	want := []string{"500ms DREQ", "1500ms -timeout", "3647ms free"}
	if got := f.schedule(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRepetitionsAreTheSameMessage(t *testing.T) {
	f := newFixture(t)
	out, _ := f.m.Step(f.now, f.connect(), nil)
	first := bytes.Clone(out[0].MAD)
	at, _ := f.m.Deadline()
	again, _ := f.m.Step(at, Tick{}, nil)
	if !bytes.Equal(first, again[0].MAD) || again[0].Peer != gidThere {
		t.Error("the repeated REQ differs")
	}
}

func TestMRAExtendsTheWaitWithinTheLimit(t *testing.T) {
	f := newFixture(t)
	f.enter("rep-sent")
	start := f.now
	f.step(tableEvents["mra-rep"](f))
	if want := start + Timeout(22) + 500*millisecond; f.due() != want {
		t.Errorf("deadline in %d ms, want %d", (f.due()-start)/millisecond, (want-start)/millisecond)
	}
	for range 50 { // a peer that asks for ever more time
		f.now = f.due() - 1
		f.step(tableEvents["mra-rep"](f))
	}
	if limit := start + f.m.cfg.HandshakeLimit; f.due() > limit {
		t.Errorf("deadline %d ms beyond the handshake's limit", (f.due()-limit)/millisecond)
	}
	f.now = f.due()
	if got := f.step(Tick{}); got != "REJ4 -timeout free" {
		t.Errorf("at the limit: %q", got)
	}
}

func TestMRAOfOursCoversTheUsersTime(t *testing.T) {
	f := newFixture(t)
	f.enter("req-rcvd")
	f.now += 10 * second
	out, _ := f.m.Step(f.now, f.req(nil, f.tid), nil)
	msg, _ := ParseMessage(out[0].MAD)
	if r := msg.MRA(); r.Received() != RefusedREQ || Timeout(r.ServiceTimeout()) < 20*second || r.RemoteCommID() != f.remote {
		t.Errorf("service timeout code %d, about message %d", r.ServiceTimeout(), r.Received())
	}
}

// The rule is that of Linux ib_cm: what a message carries is its sender's receive PSN.
func TestStartingPSNIsWhatTheSenderOfTheMessageExpects(t *testing.T) {
	f := newFixture(t)
	out, _ := f.m.Step(f.now, f.req(nil, f.tid), nil)
	if psn := out[0].Request.SendPSN; psn != 0xABCDEF {
		t.Errorf("passive side sends from %#x, REQ said 0xabcdef", psn)
	}
	out, _ = f.m.Step(f.now, Accept{Conn: out[0].Conn, QPN: hereQPN, RecvPSN: 0x123}, nil)
	msg, _ := ParseMessage(out[0].MAD)
	if psn := msg.REP().StartingPSN(); psn != 0x123 {
		t.Errorf("REP says %#x, the passive side expects 0x123", psn)
	}
	f = newFixture(t)
	out, _ = f.m.Step(f.now, f.connect(), nil)
	msg, _ = ParseMessage(out[0].MAD)
	if psn := msg.REQ().StartingPSN(); psn != 3 {
		t.Errorf("REQ says %#x, the active side expects 3", psn)
	}
	f.local = msg.REQ().LocalCommID()
	out, _ = f.m.Step(f.now, f.rep(f.remote), nil)
	if psn := out[0].Reply.SendPSN; psn != 9 {
		t.Errorf("active side sends from %#x, REP said 9", psn)
	}
}

func TestRequestTellsThePeersWishes(t *testing.T) {
	f := newFixture(t)
	out, _ := f.m.Step(f.now, f.req(func(r *REQFields) { r.InitiatorDepth = 2 }, f.tid), nil)
	q := out[0].Request
	if out[0].Peer != gidThere || q.RemoteQPN != thereQPN || q.InitiatorDepth != 4 || q.ResponderResources != 2 || q.PathMTU != ib.MTU1024 ||
		q.PKey != 0xFFFF || q.RetryCount != 7 || q.RNRRetryCount != 7 || q.AckTimeout != 19 || !q.FlowControl || q.RemoteGID != gidThere || q.LocalGID != gidHere {
		t.Errorf("%+v", q)
	}
	if want := (IPHeader{40000, gidThere, gidHere}); !q.IPAddressed || q.IP != want || !bytes.Equal(q.Private, bytes.Repeat([]byte{0x5A}, IPPrivateSize)) {
		t.Errorf("IP %v %+v, private data %x", q.IPAddressed, q.IP, q.Private)
	}
	// Without IP addressing all the data is the consumer's, whatever it looks like.
	const service = 0x0002C90300A1B2C3
	_ = f.m.Listen(service)
	out, _ = f.m.Step(f.now, f.req(func(r *REQFields) { r.ServiceID, r.LocalCommID, r.LocalQPN = service, 2, 0x99 }, 5), nil)
	if q := out[0].Request; q.IPAddressed || len(q.Private) != REQPrivateSize {
		t.Errorf("IP %v, %d bytes of private data", q.IPAddressed, len(q.Private))
	}
}

func TestRequestOutlivesTheDatagram(t *testing.T) {
	f := newFixture(t)
	ev := f.req(nil, 1).(Received)
	out, _ := f.m.Step(f.now, ev, nil)
	clear(ev.MAD)
	if out[0].Request.Private[0] != 0x5A {
		t.Error("private data is the datagram's")
	}
}

func TestRequestsThatCannotBeServedAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func([]byte)
		want   string
	}{
		{"no listener", func(b []byte) { b[15]++ }, "REJ8"},
		{"unreliable connection", func(b []byte) { b[43] |= 1 << 1 }, "REJ9"},
		{"XRC", func(b []byte) { b[51] |= 1 }, "REJ9"},
		{"MTU code 0", func(b []byte) { b[50] &= 0x0F }, "REJ26"},
		{"MTU code 6", func(b []byte) { b[50] = 0x67 }, "REJ26"},
		{"QP 0", func(b []byte) { b[34] = 0 }, "REJ5"},
		{"QP 1", func(b []byte) { b[34] = 1 }, "REJ5"},
	} {
		f := newFixture(t)
		ev := f.req(nil, 6).(Received)
		c.change(ev.MAD[24:])
		out, _ := f.m.Step(f.now, ev, nil)
		if got := f.describe(out); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: %q, want %s", c.name, got, c.want)
			continue
		}
		msg, _ := ParseMessage(out[0].MAD)
		if r := msg.REJ(); msg.TID() != 6 || r.RemoteCommID() != 0x11223344 || r.LocalCommID() != 0 || r.Refused() != RefusedREQ || out[0].Peer != gidThere {
			t.Errorf("%s: REJ %x", c.name, []byte(r)[:12])
		}
		if len(f.m.conns) != 0 || f.m.Stats().Refused != 1 {
			t.Errorf("%s: state was kept", c.name)
		}
	}
}

func TestRejectCarriesItsData(t *testing.T) {
	f := newFixture(t)
	f.enter("req-rcvd")
	out, err := f.m.Step(f.now, Reject{Conn: f.conn, Reason: ReasonConsumer, ARI: []byte{1}, Private: []byte{0xC2, 3}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	msg, _ := ParseMessage(out[0].MAD)
	if r := msg.REJ(); msg.TID() != f.tid || r.LocalCommID() != f.local || r.RemoteCommID() != f.remote || r.ARI()[0] != 1 || r.Private()[0] != 0xC2 {
		t.Errorf("REJ %x", []byte(r))
	}
}

func TestAPeersRejectIsReported(t *testing.T) {
	f := newFixture(t)
	f.enter("req-sent")
	r := REJFields{RemoteCommID: f.local, Reason: ReasonConsumer, Private: []byte{0xC2, 7}}
	out, _ := f.m.Step(f.now, f.mad(r.Append(nil, 1)), nil)
	if a := out[0]; a.Cause != CauseRejected || a.Reason != ReasonConsumer || !bytes.HasPrefix(a.Private, []byte{0xC2, 7}) || len(a.Private) != REJPrivateSize {
		t.Errorf("%+v", a)
	}
}

func TestGivingUpNamesTheAdapter(t *testing.T) {
	f := newFixture(t)
	f.enter("req-sent")
	out, _ := f.m.Step(f.now, Disconnect{f.conn}, nil)
	msg, _ := ParseMessage(out[0].MAD)
	if r := msg.REJ(); !bytes.Equal(r.ARI(), []byte{0, 0, 0, 0, 0, 0, 0, 0xCA}) || r.LocalCommID() != f.local || r.Refused() != RefusedREQ {
		t.Errorf("REJ %x", []byte(r)[:24])
	}
}

func TestRefusedCommandsChangeNothing(t *testing.T) {
	long := make([]byte, 256)
	for _, c := range []struct {
		name, state string
		ev          func(*fixture) Event
		want        error
	}{
		{"accept, private data", "req-rcvd", func(f *fixture) Event { return Accept{Conn: f.conn, QPN: hereQPN, Private: long[:197]} }, ErrPrivate},
		{"accept, QP 1", "req-rcvd", func(f *fixture) Event { return Accept{Conn: f.conn, QPN: 1} }, ErrInvalid},
		{"accept, QPN of 25 bits", "req-rcvd", func(f *fixture) Event { return Accept{Conn: f.conn, QPN: 1 << 24} }, ErrInvalid},
		{"reject, private data", "req-rcvd", func(f *fixture) Event { return Reject{Conn: f.conn, Private: long[:149]} }, ErrPrivate},
		{"reject, information", "req-rcvd", func(f *fixture) Event { return Reject{Conn: f.conn, ARI: long[:73]} }, ErrPrivate},
		{"connect, handle in use", "req-sent", func(f *fixture) Event { return Connect{Conn: f.conn, QPN: 5, PathMTU: 1} }, ErrInUse},
		{"connect, handle made up", "none", func(f *fixture) Event { return Connect{Conn: 1000, QPN: 5, PathMTU: 1} }, ErrInvalid},
		{"connect, no handle", "none", func(f *fixture) Event { return Connect{QPN: 5, PathMTU: 1} }, ErrInvalid},
		{"connect, MTU", "none", func(f *fixture) Event { return Connect{Conn: f.m.NewHandle(), QPN: 5} }, ErrInvalid},
		{"connect, QPN", "none", func(f *fixture) Event { return Connect{Conn: f.m.NewHandle(), PathMTU: 1} }, ErrInvalid},
		{"connect, private data", "none", func(f *fixture) Event {
			return Connect{Conn: f.m.NewHandle(), QPN: 5, PathMTU: 1, Private: long[:93]}
		}, ErrPrivate},
	} {
		f := newFixture(t)
		f.enter(c.state)
		due, conns := f.due(), len(f.m.conns)
		out, err := f.m.Step(f.now, c.ev(f), nil)
		if !errors.Is(err, c.want) || len(out) != 0 || f.state() != c.state || f.due() != due || len(f.m.conns) != conns {
			t.Errorf("%s: %v, %d actions, state %s", c.name, err, len(out), f.state())
		}
		f.checkTables()
	}
}

func TestListenOnce(t *testing.T) {
	f := newFixture(t)
	if err := f.m.Listen(ServiceID(5555)); !errors.Is(err, ErrInUse) {
		t.Errorf("second Listen: %v", err)
	}
	f.m.Unlisten(ServiceID(5555))
	if got := f.step(f.req(nil, 1)); got != "REJ8" {
		t.Errorf("after Unlisten: %q", got)
	}
	if err := f.m.Listen(ServiceID(5555)); err != nil {
		t.Errorf("Listen again: %v", err)
	}
}

func TestForeignDatagramsAreCounted(t *testing.T) {
	f := newFixture(t)
	if _, err := f.m.Step(0, Received{Peer: gidThere, MAD: make([]byte, 256)}, nil); !errors.Is(err, ErrMessage) {
		t.Errorf("zeros: %v", err)
	}
	f.step(tableEvents["lap"](f))
	f.step(tableEvents["rtu"](f))
	if s := f.m.Stats(); s.Received != 3 || s.Malformed != 1 || s.Unsupported != 1 || s.Unmatched != 1 {
		t.Errorf("%+v", s)
	}
}

func TestAPeerThatComesBackWithItsQPIsServedAtOnce(t *testing.T) {
	f := newFixture(t)
	f.enter("est-p")
	if got := f.step(tableEvents["same-qp"](f)); got != "-stale DREQ +request" {
		t.Fatalf("got %q", got)
	}
	f.checkTables()
}

func TestAReplyWithAQPThatIsInUseEndsBoth(t *testing.T) {
	f := newFixture(t)
	f.enter("est-a")
	f.step(f.connect())
	f.local = f.m.conns[f.conn].local
	if got := f.step(f.rep(f.remote + 5)); got != "REJ10 -stale DREQ -stale free" {
		t.Errorf("got %q", got)
	}
	f.checkTables()
}

func TestAReplyWithoutAQPIsDropped(t *testing.T) {
	f := newFixture(t)
	f.enter("req-sent")
	r := REPFields{LocalCommID: f.remote, RemoteCommID: f.local, LocalQPN: 1}
	if got := f.step(f.mad(r.Append(nil, 1))); got != "" || f.state() != "req-sent" {
		t.Errorf("%q, state %s", got, f.state())
	}
}

func TestMachineMayTalkToItself(t *testing.T) {
	f := newFixture(t)
	c := f.connect().(Connect)
	c.Peer = gidHere
	queue, _ := f.m.Step(f.now, c, nil)
	seen := map[Handle]string{}
	for len(queue) > 0 {
		a := queue[0]
		queue = queue[1:]
		var more []Action
		switch a.Kind {
		case ActionSend:
			more, _ = f.m.Step(f.now, Received{Peer: a.Peer, MAD: a.MAD}, nil)
		case ActionRequest:
			more, _ = f.m.Step(f.now, Accept{Conn: a.Conn, QPN: 0x88}, nil)
		case ActionEstablished:
			seen[a.Conn] += "up "
			if len(seen) == 2 {
				more, _ = f.m.Step(f.now, Disconnect{c.Conn}, nil)
			}
		case ActionEnded:
			seen[a.Conn] += a.Cause.String()
		}
		queue = append(queue, more...)
	}
	if seen[1] != "up local request" || seen[2] != "up disconnected by the peer" {
		t.Errorf("%v", seen)
	}
	f.checkTables()
}

func TestAPoorSourceOfNumbersDoesNotHang(t *testing.T) {
	m := New(Config{Rand: func() uint32 { return 0 }})
	for range 3 {
		if _, err := m.Step(0, Connect{Conn: m.NewHandle(), Peer: gidThere, QPN: 5, PathMTU: 1}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := consistent(m); err != nil {
		t.Error(err)
	}
}

func TestARepeatedREQIsTheSameInEveryField(t *testing.T) {
	for name, c := range map[string]struct {
		tid    uint64
		change func(*REQFields)
	}{
		"transaction id": {43, nil},
		"queue pair":     {42, func(r *REQFields) { r.LocalQPN++ }},
		"starting PSN":   {42, func(r *REQFields) { r.StartingPSN++ }},
	} {
		f := newFixture(t)
		f.enter("rep-sent")
		if got := f.step(f.req(c.change, c.tid)); got != "REJ10 -stale free" {
			t.Errorf("another %s: %q", name, got)
		}
	}
}
