package cm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
)

// world is two machines, a bad network between them, and users that act at random. It checks what
// each user is told against the contract.
type world struct {
	t      *testing.T
	r      *rand.Rand
	now    int64
	ends   [2]*end
	flight []packet
	lose   int // percent
}

type end struct {
	gid    ib.GID
	m      *Machine
	qpn    ib.QPN
	told   map[Handle]string // what the user has been told, a letter each
	active map[Handle]bool
	up     map[Handle]bool
}

type packet struct {
	to   int
	mad  []byte
	from ib.GID
	at   int64
}

func newWorld(t *testing.T, seed uint64, lose int) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 1)), lose: lose}
	for i, gid := range []ib.GID{gidHere, gidThere} {
		m := New(Config{CAGUID: ib.GUID(i), Rand: w.r.Uint32})
		_ = m.Listen(ServiceID(5555))
		w.ends[i] = &end{gid: gid, m: m, qpn: 0x10, told: map[Handle]string{}, active: map[Handle]bool{}, up: map[Handle]bool{}}
	}
	return w
}

func (w *world) step(i int, ev Event) {
	e := w.ends[i]
	actions, err := e.m.Step(w.now, ev, nil)
	if err != nil {
		w.t.Fatalf("%T: %v", ev, err)
	}
	if err := consistent(e.m); err != nil {
		w.t.Fatalf("after %T: %v", ev, err)
	}
	for _, a := range actions {
		w.do(i, e, a)
	}
}

func (w *world) do(i int, e *end, a Action) {
	switch a.Kind {
	case ActionSend:
		for copies := 1; copies > 0; copies-- {
			if w.r.IntN(100) < w.lose {
				continue
			}
			if w.r.IntN(100) < w.lose/2 {
				copies += 2
			}
			w.flight = append(w.flight, packet{1 - i, a.MAD, e.gid, w.now + w.r.Int64N(50*millisecond)})
		}
	case ActionRequest:
		e.told[a.Conn] = "R"
		switch w.r.IntN(10) {
		case 0:
			w.step(i, Reject{Conn: a.Conn, Reason: ReasonConsumer})
		case 1: // leave it
		default:
			e.qpn++
			w.step(i, Accept{Conn: a.Conn, QPN: e.qpn, InitiatorDepth: 4})
		}
	case ActionEstablished:
		w.tell(e, a.Conn, "E")
		e.up[a.Conn] = true
	case ActionEnded:
		w.tell(e, a.Conn, "X")
		delete(e.up, a.Conn)
	case ActionReleased:
		w.tell(e, a.Conn, "F")
	}
}

// tell checks the order that ActionKind promises: (R|C) E? X F.
func (w *world) tell(e *end, h Handle, letter string) {
	was := e.told[h]
	ok := map[string]bool{"RE": true, "CE": true, "RX": true, "CX": true, "REX": true, "CEX": true, "RXF": true, "CXF": true, "REXF": true, "CEXF": true}
	e.told[h] = was + letter
	if !ok[e.told[h]] {
		w.t.Fatalf("connection %d was told %s", h, e.told[h])
	}
}

// advance moves the clock to the next thing that is due and does it. It returns false if nothing is.
func (w *world) advance() bool {
	next, who := int64(-1), -1
	for i, e := range w.ends {
		if at, ok := e.m.Deadline(); ok && (next < 0 || at < next) {
			next, who = at, i
		}
	}
	first := -1
	for i, p := range w.flight {
		if next < 0 || p.at < next {
			next, first = p.at, i
		}
	}
	if next < 0 {
		return false
	}
	w.now = max(w.now, next)
	if first >= 0 {
		p := w.flight[first]
		w.flight = append(w.flight[:first], w.flight[first+1:]...)
		w.step(p.to, Received{Peer: p.from, MAD: p.mad})
		return true
	}
	w.step(who, Tick{})
	return true
}

func (w *world) connect(i int) {
	e := w.ends[i]
	e.qpn++
	h := e.m.NewHandle()
	e.told[h], e.active[h] = "C", true
	w.step(i, Connect{Conn: h, Local: e.gid, Peer: w.ends[1-i].gid, ServiceID: ServiceID(5555), QPN: e.qpn, PathMTU: ib.MTU1024, AckTimeout: 18})
}

func (w *world) disconnectOne(i int) {
	for h := range w.ends[i].told {
		if s := w.ends[i].m.State(h); s != StateNone && s != StateRefused {
			w.step(i, Disconnect{h})
			return
		}
	}
}

func TestEveryConnectionEndsInOrderWhateverTheNetworkDoes(t *testing.T) {
	for seed := range uint64(40) {
		lose := int(seed%4) * 20
		t.Run(fmt.Sprintf("seed %d, %d%% lost", seed, lose), func(t *testing.T) {
			w := newWorld(t, seed, lose)
			for range 400 {
				i := w.r.IntN(2)
				switch w.r.IntN(8) {
				case 0:
					w.connect(i)
				case 1:
					w.disconnectOne(i)
				case 2:
					for h := range w.ends[i].told {
						w.step(i, Traffic{h})
						break
					}
				default:
					w.advance()
				}
			}
			w.settle()
		})
	}
}

// settle disconnects what is up and lets time pass until both machines are empty.
func (w *world) settle() {
	for n := 0; ; n++ {
		if n > 100_000 {
			w.t.Fatal("does not come to rest")
		}
		if w.advance() {
			continue
		}
		if len(w.ends[0].up)+len(w.ends[1].up) == 0 {
			break
		}
		for i, e := range w.ends {
			for h := range e.up {
				w.step(i, Disconnect{h})
				break
			}
		}
	}
	for i, e := range w.ends {
		if n := len(e.m.conns) + len(e.m.byQP) + len(e.m.byRemote) + len(e.m.halfOpenPeer); n != 0 {
			w.t.Errorf("machine %d keeps %d entries", i, n)
		}
		for h, told := range e.told {
			if told[len(told)-1] != 'F' {
				w.t.Errorf("machine %d, connection %d was told %s", i, h, told)
			}
		}
	}
}

func TestWithoutLossBothSidesAgree(t *testing.T) {
	w := newWorld(t, 7, 0)
	for range 20 {
		w.connect(0)
	}
	for len(w.flight) > 0 {
		w.advance()
	}
	accepted, up := 0, 0
	for h, told := range w.ends[1].told {
		if told == "RE" && w.ends[1].m.State(h) == StateEstablished {
			accepted++
		}
	}
	for h := range w.ends[0].up {
		if w.ends[0].m.State(h) == StateEstablished {
			up++
		}
	}
	if accepted == 0 || accepted != up {
		t.Errorf("%d accepted, %d established", accepted, up)
	}
	w.settle()
}
