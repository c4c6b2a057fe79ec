//go:build verbs

package verbs

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
)

// sharing is connections whose B ends take from one shared queue of four receives. Their loops have stopped: the test owns both queues.
type sharing struct {
	t        *testing.T
	la, lb   *rdmatest.Loop
	b        *cq
	srq      *srq
	a        []*rdmatest.End
	bs       []*qp
	src, dst rdma.Region
	out      []rdma.Completion // of B, not returned by next
	events   bool              // next returns those, too
}

// sharedSize is the length of its receives.
const (
	sharedDepth = 4
	sharedSize  = 8192
)

func share(t *testing.T, connections int) *sharing {
	addrA, addrB, _ := addresses(t)
	p := testProvider(t)
	devA, devB := deviceAt(t, p, addrA), deviceAt(t, p, addrB)
	s := &sharing{t: t, la: rdmatest.NewLoop(t, devA, rdma.CQConfig{Depth: 512}), lb: rdmatest.NewLoop(t, devB, rdma.CQConfig{Depth: 512})}
	q, err := s.lb.NewSRQ(rdma.SRQConfig{Depth: sharedDepth})
	if devB.Attr().IWARP && errors.Is(err, rdma.ErrUnsupported) {
		t.Skip("a message waits for no receive over iWARP")
	}
	if err != nil {
		t.Fatal(err)
	}
	s.b, s.srq = s.lb.CQ().(*cq), q.(*srq)
	s.src = registered(t, devA)
	if s.dst, err = devB.Register(make([]byte, sharedDepth*sharedSize), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.dst.Close() })
	l, err := devB.Listen(rdma.Service{Addr: netip.AddrPortFrom(addrB, 7100)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range connections {
		s.connect(addrA, l)
	}
	s.la.Stop()
	s.lb.Stop()
	s.post(0, 1, 2, 3)
	return s
}

func (s *sharing) connect(local netip.Addr, l rdma.Listener) {
	a := s.la.NewEnd(rdma.QPConfig{SendDepth: 16, RecvDepth: 16, MaxSGE: 2})
	b := s.lb.NewEnd(rdma.QPConfig{SendDepth: 16, RecvDepth: 16, SRQ: s.srq})
	a.Connect(rdma.ConnectParams{Local: local, Remote: l.Service()})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := l.Accept(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	b.Accept(req, nil)
	a.Event(rdma.EventEstablished)
	b.Event(rdma.EventEstablished)
	s.a, s.bs = append(s.a, a), append(s.bs, b.QP.(*qp))
}

// post posts receives.
func (s *sharing) post(ids ...uint64) {
	s.t.Helper()
	for _, id := range ids {
		w := rdma.Work{ID: id, Op: rdma.OpRecv, SGL: []rdma.SGE{{Region: s.dst, Off: sharedSize * id, Len: sharedSize}}}
		if n, err := s.srq.PostRecv([]rdma.Work{w}); n != 1 {
			s.t.Fatalf("post %d: %v", id, err)
		}
	}
	s.b.Flush()
}

// send sends a message on a connection, and returns when it has arrived.
func (s *sharing) send(i int) {
	s.t.Helper()
	s.sendList(i, rdma.SGE{Region: s.src, Len: 8})
	s.la.CQ().Flush()
	s.sent(i, rdma.StatusOK)
}

func (s *sharing) sendList(i int, list ...rdma.SGE) {
	s.t.Helper()
	w := rdma.Work{ID: 9, Op: rdma.OpSend, Flags: rdma.Signaled, SGL: list}
	if _, err := s.a[i].QP.PostSend([]rdma.Work{w}); err != nil {
		s.t.Fatal(err)
	}
}

// sent waits for the end of a message.
func (s *sharing) sent(i int, want rdma.Status) {
	s.t.Helper()
	user := s.a[i].QP.(*qp).user
	out := make([]rdma.Completion, 1)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if s.la.CQ().Poll(out) == 1 && out[0].Op == rdma.OpSend && out[0].User == user {
			if out[0].Status != want {
				s.t.Fatalf("sent with %v, want %v", out[0].Status, want)
			}
			return
		}
	}
	s.t.Fatal("the send does not complete")
}

// breakOff sends the first half of a message: the memory of the other half is taken away before the device looks.
func (s *sharing) breakOff(i int) {
	s.t.Helper()
	gone := registered(s.t, s.la.Device().(*Device))
	s.sendList(i, rdma.SGE{Region: s.src, Len: 4096}, rdma.SGE{Region: gone, Len: 4096})
	if err := gone.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.la.CQ().Flush()
	s.sent(i, rdma.StatusLocalProtection)
}

// next is B's next completion.
func (s *sharing) next() rdma.Completion {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); len(s.out) == 0; {
		if time.Now().After(deadline) {
			s.t.Fatal("no completion")
		}
		out := make([]rdma.Completion, 16)
		s.out = slices.DeleteFunc(out[:s.b.Poll(out)], func(c rdma.Completion) bool { return c.Op == rdma.OpEvent && !s.events })
	}
	c := s.out[0]
	s.out = s.out[1:]
	return c
}

func (s *sharing) wantRecv(want uint64, of *qp, status rdma.Status) {
	s.t.Helper()
	if c := s.next(); c.Op != rdma.OpRecv || c.ID != want || c.User != of.user || c.Status != status {
		s.t.Fatalf("%+v, want receive %d of %d, %v", c, want, of.user, status)
	}
}

func (s *sharing) close(q *qp) {
	s.t.Helper()
	if err := q.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// TestSharedReceiveThatTheDeviceLosesComesBack closes a queue pair whose completion has been made to disappear.
func TestSharedReceiveThatTheDeviceLosesComesBack(t *testing.T) {
	s := share(t, 2)
	s.send(0)
	delete(s.b.sharing, s.bs[0].num)
	if n := s.b.Poll(make([]rdma.Completion, 4)); n != 0 || s.srq.recvs.outstanding() != sharedDepth {
		t.Fatalf("%d completions, %d outstanding", n, s.srq.recvs.outstanding())
	}
	s.close(s.bs[0])
	s.b.dev.handleAsync(asyncEvent{kind: eventSpent, handle: s.bs[0].key})
	s.send(1)
	s.wantRecv(1, s.bs[1], rdma.StatusOK)
	s.wantRecv(0, s.bs[0], rdma.StatusFlushed)
	if n := s.b.dev.counts.receivesLost.Load(); n != 1 {
		t.Errorf("%d are counted", n)
	}
	s.allThere(0, 1)
}

func TestQueuePairClosedInTheMiddleOfAMessageGivesItsReceiveBack(t *testing.T) {
	s := share(t, 2)
	s.breakOff(0)
	s.send(1)
	s.close(s.bs[0])
	s.wantRecv(1, s.bs[1], rdma.StatusOK) // so that 0 has been taken
	s.wantRecv(0, s.bs[0], rdma.StatusFlushed)
	s.allThere(1, 0)
}

// One that is destroyed at once may have its receive flushed all the same, or the device loses it.
func TestQueuePairDestroyedInTheMiddleOfAMessageGivesItsReceiveBack(t *testing.T) {
	for name, before := range map[string]func(*qp){
		"after it is put into error": func(*qp) {},
		"as it is":                   func(q *qp) { q.halted = time.Now() },
	} {
		t.Run(name, func(t *testing.T) {
			s := share(t, 2)
			s.breakOff(0)
			s.send(1)
			q := s.bs[0]
			q.c.sq.tail++ // as if the device had a send, and did not flush it
			q.c.sq.handed++
			before(q)
			s.close(q)
			s.wantRecv(1, s.bs[1], rdma.StatusOK)
			s.send(1)
			got := map[uint64]rdma.Completion{}
			for range 2 {
				c := s.next()
				got[c.ID] = c
			}
			if got[0].Status != rdma.StatusFlushed || got[0].User != q.user || got[2].User != s.bs[1].user {
				t.Fatalf("%+v", got)
			}
			t.Logf("%d lost", s.b.dev.counts.receivesLost.Load())
			s.allThere(1, 2, 0)
		})
	}
}

// allThere posts the receives that have completed and finds that none is missing.
func (s *sharing) allThere(ids ...uint64) {
	s.t.Helper()
	s.post(ids...)
	seen := map[uint64]bool{}
	for range sharedDepth {
		s.send(1)
		seen[s.next().ID] = true
	}
	if len(seen) != sharedDepth || s.srq.recvs.outstanding() != 0 {
		s.t.Errorf("receives %v are left, %d outstanding", seen, s.srq.recvs.outstanding())
	}
}

func TestReceiveThatNobodyPolledBeforeCloseIsFlushed(t *testing.T) {
	for _, row := range []struct {
		where string
		bring func(s *sharing)
	}{
		{"in the device", func(*sharing) {}},
		{"fetched", func(s *sharing) { s.b.Arm() }},
		{"waiting for room", func(s *sharing) { s.b.sweep() }},
	} {
		t.Run(row.where, func(t *testing.T) {
			s := share(t, 2)
			q := s.bs[0]
			s.send(0)
			s.send(1)
			row.bring(s)
			s.close(q)
			s.wantRecv(0, q, rdma.StatusFlushed)
			s.wantRecv(1, s.bs[1], rdma.StatusOK)
		})
	}
}

func TestClosedQueuePairLingersForItsReceives(t *testing.T) {
	for _, row := range []struct {
		until string
		bring func(s *sharing, q *qp)
	}{
		{"the device says that it has taken the last", func(s *sharing, q *qp) {
			s.b.dev.handleAsync(asyncEvent{kind: eventSpent, handle: q.key})
			s.b.Poll(nil)
		}},
		{"the time is over", func(s *sharing, q *qp) {
			q.setDeadline(time.Now())
			s.b.Poll(nil)
		}},
		{"its room is needed", func(s *sharing, q *qp) {
			n := s.b.room - s.b.used + 1
			if err := s.b.reserve(n); err != nil {
				s.t.Error(err)
			}
			s.b.used -= n
		}},
		{"the device is gone", func(s *sharing, q *qp) {
			s.b.dev.die()
			s.b.Poll(nil)
		}},
		{"the shared queue is closed", func(s *sharing, q *qp) {
			s.close(s.bs[1])
			if err := s.srq.Close(); err != nil {
				s.t.Error(err)
			}
		}},
	} {
		t.Run("until "+row.until, func(t *testing.T) {
			s := share(t, 2)
			q := s.bs[0]
			s.close(q)
			if d := s.b.Deadline(); q.c == nil || d.IsZero() || time.Until(d) > lastTime {
				t.Fatalf("it does not linger: deadline %v", d)
			}
			row.bring(s, q)
			if q.c != nil || len(s.b.lingering) != 0 || s.b.sharing[q.num] != nil {
				t.Error("it lingers")
			}
			s.b.dev.handleAsync(asyncEvent{kind: eventSpent, handle: q.key}) // of a queue pair that is not there any more
		})
	}
}

// Nothing may touch the memory of a send when Close has returned.
func TestQueuePairWithSendsUnderWayDoesNotLinger(t *testing.T) {
	s := share(t, 2)
	q := s.bs[0]
	q.c.sq.tail++ // as if the device had one, and did not flush it
	q.c.sq.handed++
	s.close(q)
	if q.c != nil {
		t.Error("it lingers")
	}
}

func TestSharedQueueThatFailsEndsItsConnections(t *testing.T) {
	s := share(t, 2)
	s.events = true
	other, err := s.b.NewQP(rdma.QPConfig{SendDepth: 1, RecvDepth: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.b.dev.handleAsync(asyncEvent{kind: eventSRQError, handle: s.srq.key})
	for range s.bs {
		if c := s.next(); c.Event != rdma.EventDisconnected {
			t.Fatalf("%+v", c)
		}
	}
	if other.(*qp).state != idle {
		t.Error("a queue pair without the shared queue ends, too")
	}
	if _, err := s.srq.PostRecv([]rdma.Work{{Op: rdma.OpRecv}}); !errors.Is(err, rdma.ErrBroken) {
		t.Errorf("post: %v, want ErrBroken", err)
	}
	if _, err := s.b.NewQP(rdma.QPConfig{SendDepth: 1, SRQ: s.srq}); !errors.Is(err, rdma.ErrBroken) {
		t.Errorf("a queue pair on it: %v, want ErrBroken", err)
	}
	s.close(other.(*qp))
}

func TestSharedReceivesAllocateNothingInSteadyState(t *testing.T) {
	s := share(t, 1)
	out := make([]rdma.Completion, 16)
	work := []rdma.Work{{Op: rdma.OpRecv, SGL: []rdma.SGE{{Region: s.dst, Len: 64}}}}
	send := []rdma.Work{{ID: 9, Op: rdma.OpSend, Flags: rdma.Signaled, SGL: []rdma.SGE{{Region: s.src, Len: 8}}}}
	if n := testing.AllocsPerRun(500, func() {
		if _, err := s.a[0].QP.PostSend(send); err != nil {
			t.Fatal(err)
		}
		s.la.CQ().Flush()
		poll(t, s.la.CQ(), out, 1)
		poll(t, s.b, out, 1)
		if _, err := s.srq.PostRecv(work); err != nil {
			t.Fatal(err)
		}
		s.b.Flush()
	}); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}

func TestSharedQueueIsWithinTheDevicesLimitsAndTheCompletionQueues(t *testing.T) {
	s := share(t, 0)
	d := s.b.dev
	for _, cfg := range []rdma.SRQConfig{{Depth: d.sharedWork + 1}, {Depth: 1, MaxSGE: d.sharedSGE + 1}, {Depth: -1}, {Depth: 1, MaxSGE: -1}} {
		if _, err := s.b.NewSRQ(cfg); !errors.Is(err, rdma.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", cfg, err)
		}
	}
	used := s.b.used
	if used != sharedDepth {
		t.Errorf("%d reserved, want %d", used, sharedDepth)
	}
	if _, err := s.b.NewSRQ(rdma.SRQConfig{Depth: s.b.room - used + 1}); !errors.Is(err, rdma.ErrFull) {
		t.Errorf("more than the completion queue has room for: %v, want ErrFull", err)
	}
	q, err := s.b.NewQP(rdma.QPConfig{SendDepth: 16, RecvDepth: 16, SRQ: s.srq})
	if err != nil || s.b.used != used+16 {
		t.Fatalf("%v, %d reserved, want %d", err, s.b.used, used+16)
	}
	if err := q.Close(); err != nil || s.b.used != used {
		t.Errorf("%v, %d reserved, want %d", err, s.b.used, used)
	}
	d.sharedWork = 0
	if _, err := s.b.NewSRQ(rdma.SRQConfig{Depth: 1}); !errors.Is(err, rdma.ErrUnsupported) {
		t.Errorf("a device without shared queues: %v, want ErrUnsupported", err)
	}
}
