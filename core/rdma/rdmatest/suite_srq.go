package rdmatest

import (
	"errors"
	"math/rand/v2"

	"github.com/gosrpt/gosrpt/core/rdma"
)

var srqChecks = []check{
	{"EachMessageTakesOneReceiveAndNamesItsQueuePair", sharedReceives},
	{"FullSharedQueueTakesAPrefix", fullSharedQueue},
	{"InvalidSharedWork", invalidSharedWork},
	{"WhoFindsNoneWaitsAndAllAreServed", sharedWaiting},
	{"WhoFillsNoneIsServedBesideWhoFillsAll", sharedGreedy},
	{"TooLongAMessageHurtsItsConnectionAlone", sharedTooLong},
	{"ReceivesSurviveTheirQueuePairs", sharedSurvive},
	{"NoReceiveIsLostUnderChange", sharedChange},
	{"CloseWaitsForTheQueuePairs", sharedClose},
}

// shared is a shared receive queue of B, with one buffer of a size for each receive.
type shared struct {
	r    *rig
	srq  rdma.SRQ
	mem  rdma.Region
	size int
	l    rdma.Listener
}

// newShared makes a queue, or skips the test if the provider has none.
func (r *rig) newShared(depth, size int) *shared {
	r.Helper()
	srq, err := r.lb.NewSRQ(rdma.SRQConfig{Depth: depth})
	if errors.Is(err, rdma.ErrUnsupported) {
		r.Skip("the provider has no shared receive queues")
	}
	r.must(err)
	return &shared{r: r, srq: srq, mem: r.memory(r.B, depth*size, 0), size: size, l: r.listen(r.service())}
}

// post posts the receives of these buffers.
func (s *shared) post(bufs ...int) {
	s.r.Helper()
	var n int
	var err error
	s.r.lb.Do(func() {
		n, err = s.postHere(bufs...)
		s.r.lb.cq.Flush()
	})
	if n != len(bufs) || err != nil {
		s.r.Fatalf("PostRecv took %d of %d: %v", n, len(bufs), err)
	}
}

// postHere is post in the owner goroutine.
func (s *shared) postHere(bufs ...int) (int, error) {
	var work []rdma.Work
	for _, b := range bufs {
		work = append(work, recvWork(uint64(b), sge(s.mem, b*s.size, s.size)))
	}
	return s.srq.PostRecv(work)
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// pair is a connection whose B end takes its receives from the queue.
func (s *shared) pair() (a, b *End) {
	s.r.Helper()
	a = s.r.la.NewEnd(config())
	b = s.r.lb.NewEnd(rdma.QPConfig{SendDepth: 64, RecvDepth: 64, MaxSGE: 1, SRQ: s.srq})
	s.r.joinAt(s.l, a, b)
	return a, b
}

func sharedReceives(r *rig) {
	s := r.newShared(12, 64)
	s.post(upTo(12)...)
	seen := map[uint64]bool{}
	for i := range 3 {
		a, b := s.pair()
		src := r.memory(r.A, 64, 0)
		for n := range 4 {
			pattern(src.Bytes(), uint64(i*10+n))
			c := arrives(a, b, sendWork(1, sge(src, 0, 32+n)))
			if seen[c.ID] || c.ID > 11 || int(c.Bytes) != 32+n {
				r.Fatalf("received %+v, of %v", c, seen)
			}
			seen[c.ID] = true
			if got := s.mem.Bytes()[c.ID*64 : c.ID*64+uint64(c.Bytes)]; string(got) != string(src.Bytes()[:32+n]) {
				r.Errorf("connection %d, message %d: other bytes", i, n)
			}
		}
	}
}

func fullSharedQueue(r *rig) {
	s := r.newShared(10, 8)
	a, b := s.pair()
	r.receivesUntilFull(a, b, s.srq.PostRecv)
}

func invalidSharedWork(r *rig) {
	s := r.newShared(10, 8)
	_, b := s.pair()
	gone := r.memory(r.B, 8, 0)
	r.must(gone.Close())
	other := NewLoop(r.T, r.B, rdma.CQConfig{Depth: 16})
	r.lb.Do(func() {
		for name, w := range map[string]rdma.Work{
			"a send": sendWork(1, all(s.mem)), "closed region": recvWork(1, all(gone)), "beyond the end": recvWork(1, sge(s.mem, 80, 1)),
			"more elements than agreed": recvWork(1, make([]rdma.SGE, 2)),
		} {
			if n, err := s.srq.PostRecv([]rdma.Work{w}); n != 0 || !errors.Is(err, rdma.ErrInvalid) {
				r.Errorf("%s: %d taken with %v, want ErrInvalid", name, n, err)
			}
		}
		if n, err := b.QP.PostRecv([]rdma.Work{recvWork(1, all(s.mem))}); n != 0 || !errors.Is(err, rdma.ErrInvalid) {
			r.Errorf("a receive on the queue pair: %d taken with %v, want ErrInvalid", n, err)
		}
		if _, err := rdma.NewSRQ(r.lb.cq, rdma.SRQConfig{}); !errors.Is(err, rdma.ErrInvalid) {
			r.Errorf("a queue of no depth: %v, want ErrInvalid", err)
		}
	})
	other.Do(func() {
		if q, err := other.cq.NewQP(rdma.QPConfig{SendDepth: 1, SRQ: s.srq}); !errors.Is(err, rdma.ErrInvalid) {
			r.Errorf("the queue of another completion queue: %v, want ErrInvalid", err)
			if err == nil {
				q.Close()
			}
		}
	})
}

// sharedWaiting has more senders than receives.
func sharedWaiting(r *rig) {
	const connections, messages = 6, 20
	s := r.newShared(2, 64)
	var senders, receivers []*End
	for range connections {
		a, b := s.pair()
		b.Handle = func(c *rdma.Completion) bool {
			if c.Op != rdma.OpRecv || c.Status != rdma.StatusOK {
				return false
			}
			b.keep(*c)
			if n, err := s.postHere(int(c.ID)); n != 1 {
				r.Errorf("post again: %v", err)
			}
			return true
		}
		senders, receivers = append(senders, a), append(receivers, b)
	}
	src := r.memory(r.A, 64, 0)
	for _, a := range senders {
		for id := range uint64(messages) {
			a.Send(sendWork(id, all(src)))
		}
	}
	s.post(0, 1)
	for i, b := range receivers {
		for range messages {
			b.Done(rdma.OpRecv, rdma.StatusOK)
		}
		for id := range uint64(messages) {
			if c := senders[i].Done(rdma.OpSend, rdma.StatusOK); c.ID != id {
				r.Fatalf("send %d completed, want %d", c.ID, id)
			}
		}
	}
}

// sharedGreedy has one connection that always has much to send, and one that has a message now and then.
func sharedGreedy(r *rig) {
	s := r.newShared(4, 64)
	src := r.memory(r.A, 64, 0)
	greedy, sink := s.pair()
	small, b := s.pair()
	repost := func(e *End, keep bool) func(c *rdma.Completion) bool {
		return func(c *rdma.Completion) bool {
			if c.Op != rdma.OpRecv || c.Status != rdma.StatusOK {
				return false
			}
			if keep {
				e.keep(*c)
			}
			if n, err := s.postHere(int(c.ID)); n != 1 {
				r.Errorf("post again: %v", err)
			}
			return true
		}
	}
	stop := false // the owner's of A
	r.lb.Do(func() { sink.Handle, b.Handle = repost(sink, false), repost(b, true) })
	r.la.Do(func() {
		greedy.Handle = func(c *rdma.Completion) bool {
			if c.Op != rdma.OpSend || c.Status != rdma.StatusOK {
				return false
			}
			if !stop {
				if n, err := greedy.QP.PostSend([]rdma.Work{sendWork(1, all(src))}); n != 1 {
					r.Errorf("send again: %v", err)
				}
			}
			return true
		}
	})
	for range 32 {
		greedy.Send(sendWork(1, all(src)))
	}
	s.post(upTo(4)...)
	for id := range uint64(50) {
		arrives(small, b, sendWork(id, all(src)))
	}
	r.la.Do(func() { stop = true })
	r.la.Close() // before the memory is
	r.lb.Close()
}

func sharedTooLong(r *rig) {
	s := r.newShared(4, 64)
	s.post(upTo(4)...)
	a, b := s.pair()
	c, d := s.pair()
	src := r.memory(r.A, 65, 0)
	a.Send(sendWork(1, all(src)))
	if w := b.Next(); w.Op != rdma.OpRecv || w.Status != rdma.StatusLocalLength {
		r.Errorf("%+v, want a length error", w)
	}
	b.Event(rdma.EventDisconnected)
	for range 3 {
		arrives(c, d, sendWork(2, sge(src, 0, 64)))
	}
}

func sharedSurvive(r *rig) {
	s := r.newShared(8, 64)
	s.post(upTo(8)...)
	a, b := s.pair()
	c, d := s.pair()
	src := r.memory(r.A, 64, 0)
	arrives(a, b, sendWork(1, all(src)))
	b.Disconnect()
	b.Event(rdma.EventDisconnected)
	b.Close()
	for range 7 {
		arrives(c, d, sendWork(2, all(src)))
	}
	r.lb.Do(func() {
		if len(r.lb.strays) != 0 {
			r.Errorf("receives that nobody took came back: %+v", r.lb.strays)
		}
	})
}

// sharedChange lets connections come and go at any moment, and counts the receives at the end.
func sharedChange(r *rig) {
	const depth, size = 16, 8 << 10
	s := r.newShared(depth, size)
	s.post(upTo(depth)...)
	rnd := rand.New(rand.NewPCG(3, 5))
	src := r.memory(r.A, size, 0)
	back := func(c *rdma.Completion) bool {
		if c.Op != rdma.OpRecv {
			return false
		}
		if n, err := s.postHere(int(c.ID)); n != 1 {
			r.Errorf("post buffer %d again: %v", c.ID, err)
		}
		return true
	}
	r.lb.Do(func() { r.lb.stray = func(c *rdma.Completion) { back(c) } }) // it may come late
	for range max(r.Rounds/40, 20) {
		a, b := s.pair()
		r.lb.Do(func() { b.Handle = back })
		for id := range uint64(1 + rnd.IntN(30)) {
			w := sendWork(id, sge(src, 0, rnd.IntN(size)))
			r.la.Do(func() {
				_, _ = a.QP.PostSend([]rdma.Work{w}) // it may have ended
				if rnd.IntN(3) == 0 {
					r.la.cq.Flush()
				}
			})
		}
		switch rnd.IntN(4) {
		case 0:
			b.Close() // with messages under way
		case 1:
			a.Close()
			b.Event(rdma.EventDisconnected)
			b.Close()
		case 2:
			b.Disconnect()
			b.Event(rdma.EventDisconnected)
			b.Close()
		case 3:
			r.lb.Do(func() {
				r.la.Do(func() { r.la.cq.Flush() })
				_ = b.QP.Close() // an error would show when it is closed again
			})
			b.Close()
		}
		if a.QP != nil {
			a.Close()
		}
	}
	a, b := s.pair()
	var got []uint64
	for len(got) < depth {
		got = append(got, arrives(a, b, sendWork(1, sge(src, 0, 8))).ID)
	}
	seen := map[uint64]bool{}
	for _, id := range got {
		seen[id] = true
	}
	if len(seen) != depth {
		r.Errorf("%d receives are left: %v, want %d", len(seen), got, depth)
	}
	a.Send(sendWork(2, nil)) // there is none for it, until one is posted
	s.post(int(got[0]))
	a.Done(rdma.OpSend, rdma.StatusOK)
	b.Done(rdma.OpRecv, rdma.StatusOK)
}

func sharedClose(r *rig) {
	s := r.newShared(4, 64)
	s.post(upTo(4)...)
	_, b := s.pair()
	r.lb.Do(func() {
		if err := s.srq.Close(); !errors.Is(err, rdma.ErrState) {
			r.Errorf("close under a queue pair: %v, want ErrState", err)
		}
	})
	b.Close()
	r.lb.Do(func() {
		if err := r.lb.cq.Close(); !errors.Is(err, rdma.ErrState) {
			r.Errorf("close the completion queue under a shared receive queue: %v, want ErrState", err)
		}
		r.must(s.srq.Close())
		r.must(s.srq.Close())
		if _, err := s.postHere(0); !errors.Is(err, rdma.ErrClosed) {
			r.Errorf("post after Close: %v, want ErrClosed", err)
		}
	})
}
