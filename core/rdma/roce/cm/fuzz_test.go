package cm

import (
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

// FuzzCM feeds a machine with a connection in some state the datagrams of a hostile peer that has guessed the
// connection's ids. Each record of input is a byte that picks a template, a byte that says how the user
// reacts and how much time passes, and two pairs of position and value that spoil the template.
func FuzzCM(f *testing.F) {
	for i := range tableStates {
		f.Add(uint8(i), []byte{0, 0, 0, 0, 0, 0, 1, 4, 40, 1, 60, 2, 5, 8, 0, 0, 0, 0})
	}
	templates := []string{"req", "other", "same-qp", "mra-req", "mra-rep", "rej", "rej-req", "rej-10", "rej-t", "rep", "rep2", "rtu", "dreq", "dreq-qpn", "drep", "lap"}
	f.Fuzz(func(t *testing.T, state uint8, in []byte) {
		fx := newFixture(t)
		fx.enter(tableStates[int(state)%len(tableStates)])
		told := map[Handle]string{}
		for ; len(in) >= 6; in = in[6:] {
			ev := tableEvents[templates[int(in[0])%len(templates)]](fx).(Received)
			ev.MAD[in[2]] ^= in[3]
			ev.MAD[in[4]] ^= in[5]
			fx.now += int64(in[1]>>2) * 100 * millisecond
			feed(t, fx, told, ev, in[1]&3)
		}
		for at, ok := fx.m.Deadline(); ok; at, ok = fx.m.Deadline() {
			fx.now = at
			feed(t, fx, told, Tick{}, 0)
		}
		if len(fx.m.conns) > fx.m.established1() {
			t.Fatalf("%d connections are never forgotten", len(fx.m.conns))
		}
	})
}

func (m *Machine) established1() (n int) {
	for _, c := range m.conns {
		if c.state == StateEstablished {
			n++
		}
	}
	return n
}

func feed(t *testing.T, fx *fixture, told map[Handle]string, ev Event, user byte) {
	out, _ := fx.m.Step(fx.now, ev, nil)
	if err := consistent(fx.m); err != nil {
		t.Fatal(err)
	}
	for _, a := range out {
		if a.Kind == ActionSend {
			if _, err := ParseMessage(a.MAD); err != nil {
				t.Fatal(err)
			}
			continue
		}
		told[a.Conn] += string("-RExf"[a.Kind-ActionSend])
		switch told[a.Conn] {
		case "R", "RE", "Rx", "REx", "Rxf", "RExf", "E", "x", "Ex", "xf", "Exf", "f":
		default:
			t.Fatalf("connection %d was told %s", a.Conn, told[a.Conn])
		}
		if a.Kind != ActionRequest {
			continue
		}
		switch user {
		case 0:
			feed(t, fx, told, Accept{Conn: a.Conn, QPN: hereQPN}, 3)
		case 1:
			feed(t, fx, told, Reject{Conn: a.Conn, Reason: ReasonConsumer}, 3)
		case 2:
			feed(t, fx, told, Disconnect{a.Conn}, 3)
		}
	}
}

// FuzzMessage reads every field of any message.
func FuzzMessage(f *testing.F) {
	mad, _ := srpREQ().Append(nil, 1)
	f.Add(mad)
	f.Add(AppendDREQ(nil, 1, 2, 3, 4))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMessage(b)
		if err != nil {
			return
		}
		r := m.REQ()
		if _, rest, ok := ParseIPHeader(r.Private()); ok && len(rest) != IPPrivateSize {
			t.Fatal("IP header of another size")
		}
		if r.LocalQPN() > ib.QPNMask || r.StartingPSN() > ib.PSNMask || r.RemoteResponseTimeout() > 31 || r.AckTimeout() > 31 || r.MaxCMRetries() > 15 {
			t.Fatal("a field exceeds its width")
		}
		if n := len(m.REJ().ARI()); n > ARISize {
			t.Fatalf("reject information of %d bytes", n)
		}
		_ = newRequest(r)
		_ = newReply(m.REP())
		_, _, _, _ = m.RTU().Private(), m.MRA().Private(), m.DREQ().Private(), m.DREP().Private()
		_, _ = m.Attr().String(), m.REJ().Reason().String()
	})
}
