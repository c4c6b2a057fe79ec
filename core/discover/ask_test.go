package discover

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/mad"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

// rig is an asker and an agent on a fabric in memory, whose answers a test may bend.
type rig struct {
	ask, agent *rdmatest.Device
	port       rdma.MADPort
	cfg        Config
	// bend turns the agent's answer to request n, from 1, into the datagrams that are sent; nil sends it as it is.
	bend func(n int, answer []byte) [][]byte
	n    int
}

const (
	askAddr   = "192.0.2.1"
	agentAddr = "192.0.2.2"
)

func gid(a string) ib.GID { return ib.GID(netip.MustParseAddr(a).As16()) }

// testUnit has two controllers of which the first has more services than an answer holds.
func testUnit(t testing.TB) *mad.Agent {
	t.Helper()
	controller := func(guid ib.GUID, services int) mad.Controller {
		c := mad.Controller{GUID: guid, Protocol: mad.SRP, SendDepth: 1, SendSize: 8276, Operations: mad.SRPOperations, ID: "test"}
		for i := range services {
			c.Services = append(c.Services, mad.SRPService(uint64(i), 0x1061500+uint64(i)))
		}
		return c
	}
	a, err := mad.New(mad.Config{}, []mad.Controller{controller(1, 6), controller(2, 1)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// queries is how many testUnit takes.
const queries = 1 + 3 + 2

// run calls f within a bubble of time of its own, in which the agent runs.
func run(t *testing.T, f func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		fabric := rdmatest.NewFabric()
		p := rdmatest.NewProvider(fabric, "memory",
			rdmatest.DeviceConfig{Name: "ask", Addrs: []netip.Addr{netip.MustParseAddr(askAddr)}, LID: 1},
			rdmatest.DeviceConfig{Name: "agent", Addrs: []netip.Addr{netip.MustParseAddr(agentAddr)}, LID: 2})
		defer p.Close()
		r := &rig{ask: p.Device("ask"), agent: p.Device("agent")}
		var err error
		if r.port, err = r.ask.OpenMAD(1, rdma.MADConfig{Class: ib.ClassDeviceMgmt, Version: mad.ClassVersion}); err != nil {
			t.Fatal(err)
		}
		r.cfg = Config{Port: r.port, To: rdma.MADAddr{QPN: ib.QPGeneralServices, HasGRH: true, GRH: rdma.MADRoute{GID: gid(agentAddr)}}}
		served := r.serve(t, testUnit(t))
		f(t, r)
		p.Close()
		<-served
	})
}

func (r *rig) serve(t *testing.T, unit *mad.Agent) (done chan struct{}) {
	reg, err := r.agent.OpenMAD(1, rdma.MADConfig{Class: ib.ClassDeviceMgmt, Version: 1, Methods: []ib.Method{ib.MethodGet, ib.MethodSet}})
	if err != nil {
		t.Fatal(err)
	}
	done = make(chan struct{})
	go func() {
		defer close(done)
		in := make([]byte, rdma.MADBufferSize)
		for {
			n, from, err := reg.Receive(t.Context(), in)
			if err != nil {
				return
			}
			r.n++
			answer, _ := unit.Answer(nil, in[:n])
			list := [][]byte{answer}
			if r.bend != nil {
				list = r.bend(r.n, answer)
			}
			for _, b := range list {
				_ = reg.Send(from, b) // the asker may have gone
			}
		}
	}()
	return done
}

func mustFindAll(t *testing.T, u mad.Unit, err error) {
	t.Helper()
	if err != nil || len(u.Found) != 2 || len(u.Found[0].Controller.Services) != 6 || len(u.Found[1].Controller.Services) != 1 {
		t.Errorf("found %+v, %v", u, err)
	}
}

func TestEverythingBehindAPortIsFound(t *testing.T) {
	for name, to := range map[string]rdma.MADAddr{
		"by GID": {QPN: 1, HasGRH: true, GRH: rdma.MADRoute{GID: gid(agentAddr)}},
		"by LID": {QPN: 1, LID: 2},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, r *rig) {
				r.cfg.To = to
				var said []string
				r.cfg.Trace = func(s Step) { said = append(said, s.String()) }
				u, stats, err := Ask(t.Context(), r.cfg)
				mustFindAll(t, u, err)
				if want := (Stats{Queries: queries, Sent: queries}); stats != want {
					t.Errorf("%+v", stats)
				}
				if len(said) != 2*queries || said[0] != "Get IOUnitInfo" || said[1] != "Get IOUnitInfo: answered in 0s" {
					t.Errorf("%q", said)
				}
			})
		})
	}
}

func TestLostDatagramsAreSentAgain(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		r.bend = func(n int, answer []byte) [][]byte {
			if n%3 != 0 { // two of three answers are lost
				return nil
			}
			return [][]byte{answer}
		}
		begin := time.Now()
		u, stats, err := Ask(t.Context(), r.cfg)
		mustFindAll(t, u, err)
		if want := (Stats{Queries: queries, Sent: 3 * queries}); stats != want {
			t.Errorf("%+v", stats)
		}
		if d := time.Since(begin); d != 2*queries*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

func TestLateAnswerToAnEarlierTryCountsAndToAnEarlierQueryDoesNot(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		var kept []byte
		r.bend = func(n int, answer []byte) [][]byte {
			if n == 1 {
				kept = slices.Clone(answer)
				return nil
			}
			if n == 2 { // the answer to the first try, and then that to the second
				return [][]byte{kept, answer}
			}
			return [][]byte{answer}
		}
		u, stats, err := Ask(t.Context(), r.cfg)
		mustFindAll(t, u, err)
		if want := (Stats{Queries: queries, Sent: queries + 1, Strange: 1}); stats != want {
			t.Errorf("%+v", stats)
		}
	})
}

func TestSilentAgentIsGivenUpAfterItsTries(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		r.agent.Vanish()
		var last Step
		r.cfg.Trace = func(s Step) { last = s }
		begin := time.Now()
		u, stats, err := Ask(t.Context(), r.cfg)
		if !errors.Is(err, ErrSilent) || stats.Sent != 5 || len(u.Found) != 0 || time.Since(begin) != 5*time.Second {
			t.Errorf("%+v, %+v, %v after %v", u, stats, err, time.Since(begin))
		}
		const want = "device management: Get IOUnitInfo to 192.0.2.2: no answer to 5 tries of 1s each"
		if err.Error() != want || last.Event != GivenUp || last.String() != want {
			t.Errorf("%q, %v", err, last)
		}
	})
}

func TestControllerThatIsNotToldIsKeptWithItsReason(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		r.bend = func(_ int, answer []byte) [][]byte {
			if m := ib.MAD(answer); m.AttrID() == mad.AttrIOControllerProfile && m.AttrMod() == 1 {
				return nil
			}
			return [][]byte{answer}
		}
		u, _, err := Ask(t.Context(), r.cfg)
		if err != nil || len(u.Found) != 2 || !errors.Is(u.Found[0].Err, ErrSilent) || u.Found[1].Err != nil {
			t.Errorf("%+v, %v", u, err)
		}
	})
}

func TestRefusalIsTheAgentsAnswer(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		r.bend = func(_ int, answer []byte) [][]byte {
			ib.MAD(answer).SetStatus(ib.StatusBadMethodAttr)
			return [][]byte{answer}
		}
		_, stats, err := Ask(t.Context(), r.cfg)
		var refused *mad.StatusError
		if !errors.As(err, &refused) || stats.Sent != 1 {
			t.Errorf("%v, %+v", err, stats)
		}
	})
}

func TestBusyAgentIsAskedAgainAfterAPause(t *testing.T) {
	busy := func(answer []byte) [][]byte {
		ib.MAD(answer).SetStatus(ib.StatusBusy)
		return [][]byte{answer}
	}
	run(t, func(t *testing.T, r *rig) {
		r.bend = func(n int, answer []byte) [][]byte {
			if n == 1 {
				return busy(answer)
			}
			return [][]byte{answer}
		}
		begin := time.Now()
		u, stats, err := Ask(t.Context(), r.cfg)
		mustFindAll(t, u, err)
		if stats.Busy != 1 || stats.Sent != queries+1 || time.Since(begin) != time.Second {
			t.Errorf("%+v after %v", stats, time.Since(begin))
		}
	})
	run(t, func(t *testing.T, r *rig) {
		r.bend = func(_ int, answer []byte) [][]byte { return busy(answer) }
		_, stats, err := Ask(t.Context(), r.cfg)
		if err == nil || !strings.Contains(err.Error(), "the agent is busy") || stats.Busy != 5 {
			t.Errorf("%v, %+v", err, stats)
		}
	})
}

func TestAddressesAreTheOperators(t *testing.T) {
	for want, a := range map[string]rdma.MADAddr{
		"192.0.2.2": {QPN: 1, HasGRH: true, GRH: rdma.MADRoute{GID: gid(agentAddr)}},
		"GID fe80:0000:0000:0000:0000:0000:0000:0002": {QPN: 1, HasGRH: true, LID: 3, GRH: rdma.MADRoute{GID: gid("fe80::2")}},
		"LID 7 queue pair 9":                          {QPN: 9, LID: 7},
	} {
		if got := where(&a); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Whoever answers in the agent's place, or with what was not asked, is not heard.
func TestStrangeDatagramsAreIgnoredAndCounted(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		strange := 0
		r.bend = func(_ int, answer []byte) [][]byte {
			for _, change := range []func(m ib.MAD){
				func(m ib.MAD) { m[15]++ }, // the lower half of the transaction id
				func(m ib.MAD) { binary.BigEndian.PutUint16(m[16:], mad.AttrClassPortInfo) },
				func(m ib.MAD) { m[23]++ },
				func(m ib.MAD) { m[2] = 9 },
				func(m ib.MAD) { m[0] = 9 },
			} {
				m := ib.MAD(slices.Clone(answer))
				change(m)
				r.ask.DeliverMAD(r.from(agentAddr), m)
				strange++
			}
			r.ask.DeliverMAD(r.from(agentAddr), answer[:200])
			r.ask.DeliverMAD(r.from(agentAddr), append(slices.Clone(answer), 0))
			r.ask.DeliverMAD(r.from("192.0.2.66"), answer)
			from := r.from(agentAddr)
			from.QPN = 7
			r.ask.DeliverMAD(from, answer)
			strange += 4
			return [][]byte{answer}
		}
		u, stats, err := Ask(t.Context(), r.cfg)
		mustFindAll(t, u, err)
		if stats.Sent != queries || stats.Strange != strange {
			t.Errorf("%+v, %d were strange", stats, strange)
		}
	})
}

// from is a sender, as the asker sees it.
func (r *rig) from(a string) rdma.MADAddr {
	return rdma.MADAddr{QPN: 1, HasGRH: true, GRH: rdma.MADRoute{GID: gid(a)}}
}

// flood is a port at which something strange has always arrived.
type flood struct {
	rdma.MADPort
	sent int
}

func (f *flood) Send(rdma.MADAddr, []byte) error { f.sent++; return nil }

func (f *flood) Receive(_ context.Context, b []byte) (int, rdma.MADAddr, error) {
	time.Sleep(time.Millisecond)
	return copy(b, "strange"), rdma.MADAddr{QPN: 1}, nil
}

func TestFloodDoesNotBuyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flood{}
		begin := time.Now()
		_, stats, err := Ask(t.Context(), Config{Port: f, To: rdma.MADAddr{LID: 2, QPN: 1}, Tries: 2})
		if d := time.Since(begin); !errors.Is(err, ErrSilent) || d > 2*time.Second+10*time.Millisecond || f.sent != 2 || stats.Strange < 1000 {
			t.Errorf("%v after %v, %+v", err, d, stats)
		}
	})
}

// The agent claims 255 controllers, and answers each query as late as it may.
func TestSlowAgentIsLeftAtTheLimitWithWhatItHasTold(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		r.bend = func(_ int, answer []byte) [][]byte {
			time.Sleep(900 * time.Millisecond)
			if m := ib.MAD(answer); m.AttrID() == mad.AttrIOUnitInfo {
				answer[mad.HeaderSize+2] = 255
				for i := range 128 {
					answer[mad.HeaderSize+4+i] = 0x11
				}
			}
			return [][]byte{answer}
		}
		r.cfg.Limit = 10 * time.Second
		begin := time.Now()
		u, _, err := Ask(t.Context(), r.cfg)
		if d := time.Since(begin); !errors.Is(err, ErrLimit) || d != 10*time.Second || u.Slots != 255 || len(u.Found) == 0 {
			t.Errorf("%v after %v, %d found of %d", err, d, len(u.Found), u.Slots)
		}
	})
}

func TestDiscoveryEndsWithItsContextAndItsPort(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		r.agent.Vanish()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		if _, _, err := Ask(ctx, r.cfg); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, stats, err := Ask(ctx, r.cfg); !errors.Is(err, context.Canceled) || stats.Sent != 0 {
			t.Error(stats, err)
		}
		time.AfterFunc(300*time.Millisecond, func() { r.port.Close() })
		if _, _, err := Ask(t.Context(), r.cfg); !errors.Is(err, rdma.ErrClosed) {
			t.Error(err)
		}
		if _, _, err := Ask(t.Context(), r.cfg); !errors.Is(err, rdma.ErrClosed) {
			t.Error(err)
		}
	})
}
