package rdmatest

import (
	"encoding/binary"
	"sync"

	"github.com/gosrpt/gosrpt/core/rdma"
)

var manyChecks = []check{
	{"ManyQueuePairsOnOneQueue", func(r *rig) { r.traffic([]*Loop{r.la}, []*Loop{r.lb}, 24) }},
	{"SeveralQueuesOfADevice", severalQueues},
	{"ManyConnectionsComeAndGo", comeAndGo},
}

// severalQueues runs two queues on each side, with connections between all of them.
func severalQueues(r *rig) {
	as := []*Loop{r.la, NewLoop(r.T, r.A, rdma.CQConfig{Depth: 4096, Index: 1, Count: 2})}
	bs := []*Loop{r.lb, NewLoop(r.T, r.B, rdma.CQConfig{Depth: 4096, Index: 1, Count: 2})}
	r.traffic(as, bs, 12)
}

const (
	streamWindow  = 16
	streamMessage = 200
)

// stream is one direction of a connection under load. The receiver's owner posts each buffer
// again and checks the number that the message carries; the sender's keeps a window of messages
// under way, of which at most as many are unreceived as there are receives, by credits that ride
// in the messages of the other direction.
type stream struct {
	r      *rig
	end    *End
	rounds uint32
	send   rdma.Region
	recv   rdma.Region
	// sent, acked and received count messages; credit is how many may be sent.
	sent, acked, received, credit, returned uint32
	done                                    *sync.WaitGroup
	over                                    bool
}

func (r *rig) newStream(e *End, rounds int, done *sync.WaitGroup) *stream {
	s := &stream{r: r, end: e, rounds: uint32(rounds), credit: streamWindow, done: done}
	s.send = r.memory(e.Loop.dev, streamWindow*streamMessage, 0)
	s.recv = r.memory(e.Loop.dev, streamWindow*streamMessage, 0)
	e.Handle = s.handle
	for i := range uint64(streamWindow) {
		e.Receive(s.recvAt(i))
	}
	return s
}

func (s *stream) recvAt(i uint64) rdma.Work {
	return recvWork(i, sge(s.recv, int(i)*streamMessage, streamMessage))
}

// handle runs in the owner goroutine.
func (s *stream) handle(c *rdma.Completion) bool {
	switch {
	case s.over:
		return true
	case c.Op == rdma.OpEvent:
		return false
	case c.Status != rdma.StatusOK:
		s.r.Errorf("queue pair %#x: %+v (%v)", s.end.QP.Num(), *c, c.Status)
	case c.Op == rdma.OpRecv:
		s.take(c)
	case c.Op == rdma.OpSend:
		if c.ID != uint64(s.acked) {
			s.r.Errorf("queue pair %#x: message %d completed, want %d", s.end.QP.Num(), c.ID, s.acked)
		}
		s.acked++
	}
	s.push()
	return true
}

func (s *stream) take(c *rdma.Completion) {
	msg := s.recv.Bytes()[c.ID*streamMessage:][:streamMessage]
	if n := binary.BigEndian.Uint32(msg); n != s.received || c.Bytes != streamMessage || msg[streamMessage-1] != byte(n) {
		s.r.Errorf("queue pair %#x: message %d of %d bytes, want %d", s.end.QP.Num(), n, c.Bytes, s.received)
	}
	s.credit += binary.BigEndian.Uint32(msg[4:])
	s.received++
	s.returned++
	if n, err := s.end.QP.PostRecv([]rdma.Work{s.recvAt(c.ID)}); n != 1 {
		s.r.Error(err)
	}
}

// push sends what the window and the credits allow. The last credit is kept for a message that
// returns credits, so that the two directions cannot starve each other.
func (s *stream) push() {
	for s.sent < s.rounds && s.sent-s.acked < streamWindow && (s.credit > 1 || s.credit == 1 && s.returned > 0) {
		slot := int(s.sent % streamWindow)
		msg := s.send.Bytes()[slot*streamMessage:][:streamMessage]
		binary.BigEndian.PutUint32(msg, s.sent)
		binary.BigEndian.PutUint32(msg[4:], s.returned)
		msg[streamMessage-1] = byte(s.sent)
		if n, err := s.end.QP.PostSend([]rdma.Work{sendWork(uint64(s.sent), sge(s.send, slot*streamMessage, streamMessage))}); n != 1 {
			s.r.Error(err)
			return
		}
		s.sent++
		s.credit--
		s.returned = 0
	}
	if !s.over && s.acked == s.rounds && s.received == s.rounds {
		s.over = true
		s.done.Done()
	}
}

// traffic connects n ends of each loop of as to the loops of bs in turn, and sends in both
// directions on all of them at once.
func (r *rig) traffic(as, bs []*Loop, n int) {
	svc := r.service()
	l := r.listen(svc)
	rounds := max(20, r.Rounds/n)
	var done sync.WaitGroup
	var streams []*stream
	for i := range n * len(as) {
		a, b := as[i%len(as)].NewEnd(config()), bs[i/len(as)%len(bs)].NewEnd(config())
		done.Add(2)
		streams = append(streams, r.newStream(a, rounds, &done), r.newStream(b, rounds, &done))
		r.joinAt(l, a, b)
	}
	for _, s := range streams {
		s.end.Loop.Do(s.push)
	}
	r.waitFor(&done, "traffic")
	for _, s := range streams {
		if c, more := s.end.TryNext(); more {
			r.Errorf("queue pair %#x: %+v", s.end.QP.Num(), c)
		}
	}
}

// waitFor ends the test if the group is not done in time.
func (r *rig) waitFor(g *sync.WaitGroup, what string) {
	r.Helper()
	ended := make(chan struct{})
	go func() {
		g.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-r.context().Done():
		r.Fatalf("%s did not end within %v", what, endPatience)
	}
}

func comeAndGo(r *rig) {
	l := r.listen(r.service())
	for i := range 20 {
		a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
		r.joinAt(l, a, b)
		r.exchange(a, b)
		if i%2 == 0 {
			a.Disconnect()
			a.Event(rdma.EventDisconnected)
			b.Event(rdma.EventDisconnected)
		}
		a.Close()
		b.Close()
	}
}
