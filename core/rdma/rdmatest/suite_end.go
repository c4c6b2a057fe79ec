package rdmatest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/gosrpt/gosrpt/core/rdma"
)

var endChecks = []check{
	{"DisconnectFlushesBothEnds", disconnectFlushes},
	{"DisconnectFlushesWhatWaitsForAReceive", disconnectFlushesWaiting},
	{"DisconnectOfTheActiveEnd", func(r *rig) { r.disconnectOne(0) }},
	{"DisconnectOfThePassiveEnd", func(r *rig) { r.disconnectOne(1) }},
	{"BothEndsDisconnect", bothDisconnect},
	{"DisconnectTwice", disconnectTwice},
	{"DisconnectBeforeTheConnection", disconnectIdle},
	{"EveryWorkCompletesOnce", everyWorkOnce},
	{"PostAfterDisconnected", postAfterDisconnected},
	{"CloseReturnsNoMoreCompletions", closeIsSilent},
	{"CloseTellsThePeer", closeTellsPeer},
	{"CloseLeavesMemoryAlone", closeLeavesMemory},
	{"CloseInTheMiddleOfTraffic", closeInTraffic},
}

// untilDisconnected returns the completions before EventDisconnected.
func (e *End) untilDisconnected() (list []rdma.Completion) {
	for {
		c := e.Next()
		if c.Op == rdma.OpEvent && c.Event == rdma.EventDisconnected {
			return list
		}
		list = append(list, c)
	}
}

// nothingMore proves with an exchange on another connection that an end has nothing to report.
func (r *rig) nothingMore(ends ...*End) {
	r.Helper()
	r.exchange(r.pair())
	for _, e := range ends {
		if c, more := e.TryNext(); more {
			r.Errorf("queue pair %#x: %+v after the last completion", e.QP.Num(), c)
		}
	}
}

func disconnectFlushes(r *rig) {
	a, b := r.pair()
	for _, e := range []*End{a, b} {
		for id := range uint64(5) {
			e.Receive(recvWork(id, nil))
		}
	}
	a.Disconnect()
	for _, e := range []*End{a, b} {
		list := e.untilDisconnected()
		if len(list) != 5 {
			r.Errorf("%d completions before the event, want 5", len(list))
		}
		for i, c := range list {
			if c.Op != rdma.OpRecv || c.ID != uint64(i) || c.Status != rdma.StatusFlushed {
				r.Errorf("completion %d: %+v", i, c)
			}
		}
	}
	r.nothingMore(a, b)
}

func disconnectFlushesWaiting(r *rig) {
	r.skipOnIWARP("a message waits for nothing")
	a, b := r.pair()
	quiet := sendWork(2, nil)
	quiet.Flags = 0
	a.Send(sendWork(1, nil), quiet, sendWork(3, nil))
	a.Disconnect()
	for i, c := range a.untilDisconnected() {
		if c.Op != rdma.OpSend || c.ID != uint64(i+1) || c.Status != rdma.StatusFlushed {
			r.Errorf("completion %d: %+v (%v)", i, c, c.Status)
		}
	}
	b.Event(rdma.EventDisconnected)
}

func (r *rig) disconnectOne(which int) {
	a, b := r.pair()
	r.exchange(a, b)
	[]*End{a, b}[which].Disconnect()
	a.Event(rdma.EventDisconnected)
	b.Event(rdma.EventDisconnected)
	r.nothingMore(a, b)
}

func bothDisconnect(r *rig) {
	a, b := r.pair()
	a.Disconnect()
	b.Disconnect()
	a.Event(rdma.EventDisconnected)
	b.Event(rdma.EventDisconnected)
	r.nothingMore(a, b)
}

func disconnectTwice(r *rig) {
	a, b := r.pair()
	a.Disconnect()
	a.Disconnect()
	a.Event(rdma.EventDisconnected)
	b.Event(rdma.EventDisconnected)
	a.Disconnect()
	r.nothingMore(a, b)
}

func disconnectIdle(r *rig) {
	a := r.la.NewEnd(config())
	r.la.Do(func() {
		if err := a.QP.Disconnect(); !errors.Is(err, rdma.ErrState) {
			r.Errorf("Disconnect: %v, want ErrState", err)
		}
	})
	b := r.lb.NewEnd(config())
	r.join(a, b)
	r.exchange(a, b)
}

// everyWorkOnce disconnects in the middle of traffic: each work completes, once and in order.
func everyWorkOnce(r *rig) {
	l := r.listen(r.service())
	for round := range 5 {
		a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
		r.joinAt(l, a, b)
		local := r.memory(r.A, 2*r.MTU, rdma.ReadSink)
		remote := r.memory(r.B, 2*r.MTU, rdma.RemoteRead|rdma.RemoteWrite)
		for id := range uint64(10) {
			b.Receive(recvWork(id, nil))
		}
		r.la.Do(func() {
			for id := uint64(0); id < 30; id += 3 {
				n, err := a.QP.PostSend([]rdma.Work{remoteWork(id, rdma.OpWrite, all(local), remote),
					remoteWork(id+1, rdma.OpRead, all(local), remote), sendWork(id+2, nil)})
				if n != 3 {
					r.Error(err)
				}
				if round%2 == 0 {
					r.la.cq.Flush()
				}
			}
			if err := a.QP.Disconnect(); err != nil {
				r.Error(err)
			}
		})
		checkRun(r.T, "sender", a.untilDisconnected(), 30)
		checkRun(r.T, "receiver", b.untilDisconnected(), 10)
	}
}

// checkRun checks that a list completes ids 0..n-1, first some with success and then the flushed.
func checkRun(t *testing.T, who string, list []rdma.Completion, n int) {
	t.Helper()
	if len(list) != n {
		t.Errorf("%s: %d completions, want %d", who, len(list), n)
	}
	flushed := false
	for i, c := range list {
		ok := c.Status == rdma.StatusOK && !flushed || c.Status == rdma.StatusFlushed
		flushed = flushed || c.Status == rdma.StatusFlushed
		if c.ID != uint64(i) || !ok {
			t.Errorf("%s: completion %d is %+v (%v)", who, i, c, c.Status)
		}
	}
}

// postAfterDisconnected: what is posted after the last completion is refused.
func postAfterDisconnected(r *rig) {
	a, b := r.pair()
	a.Disconnect()
	a.Event(rdma.EventDisconnected)
	b.Event(rdma.EventDisconnected)
	for _, e := range []*End{a, b} {
		e.Loop.Do(func() {
			if n, err := e.QP.PostSend([]rdma.Work{sendWork(1, nil)}); n != 0 || !errors.Is(err, rdma.ErrState) {
				r.Errorf("PostSend: %d, %v; want ErrState", n, err)
			}
			if n, err := e.QP.PostRecv([]rdma.Work{recvWork(1, nil)}); n != 0 || !errors.Is(err, rdma.ErrState) {
				r.Errorf("PostRecv: %d, %v; want ErrState", n, err)
			}
		})
	}
	r.nothingMore(a, b)
}

// closeIsSilent closes a queue pair that has both kinds of work, and completions that have not
// been polled. Loop fails the test if one comes.
func closeIsSilent(r *rig) {
	a, b := r.pair()
	b.Receive(recvWork(5, nil))
	r.la.Do(func() {
		work := []rdma.Work{recvWork(1, nil), recvWork(2, nil)}
		if _, err := a.QP.PostRecv(work); err != nil {
			r.Error(err)
		}
		if _, err := a.QP.PostSend([]rdma.Work{sendWork(3, nil), sendWork(4, nil)}); err != nil {
			r.Error(err)
		}
		r.la.cq.Flush()
	})
	b.Done(rdma.OpRecv, rdma.StatusOK)
	a.Close()
	for {
		if _, more := a.TryNext(); !more {
			break
		}
	}
	b.Event(rdma.EventDisconnected)
	r.nothingMore(a, b)
}

func closeTellsPeer(r *rig) {
	a, b := r.pair()
	b.Receive(recvWork(1, nil))
	a.Close()
	b.Done(rdma.OpRecv, rdma.StatusFlushed)
	b.Event(rdma.EventDisconnected)
}

func closeLeavesMemory(r *rig) {
	a, b := r.pair()
	src, dst := r.memory(r.A, 2*r.MTU, 0), r.memory(r.B, 2*r.MTU, 0)
	pattern(src.Bytes(), 1)
	b.Receive(recvWork(1, all(dst)))
	r.la.Do(func() {
		r.lb.Do(func() {
			if err := b.QP.Close(); err != nil {
				r.Error(err)
			}
		})
		// The news has not been polled yet, and so the work is taken.
		if n, err := a.QP.PostSend([]rdma.Work{sendWork(2, all(src))}); n != 1 {
			r.Error(err)
		}
	})
	for _, c := range a.untilDisconnected() {
		if c.Status == rdma.StatusOK {
			r.Errorf("a SEND to a closed queue pair succeeded: %+v", c)
		}
	}
	if !bytes.Equal(dst.Bytes(), make([]byte, 2*r.MTU)) {
		r.Error("the memory of a closed queue pair was written to")
	}
}

// closeInTraffic closes an end while READs into its memory are under way, and uses the memory for
// something else at once.
func closeInTraffic(r *rig) {
	l := r.listen(r.service())
	src := r.memory(r.B, 64<<10, rdma.RemoteRead)
	pattern(src.Bytes(), 1)
	for range 10 {
		a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
		r.joinAt(l, a, b)
		dst := r.memory(r.A, 64<<10, rdma.ReadSink)
		a.Send(remoteWork(1, rdma.OpRead, all(dst), src), remoteWork(2, rdma.OpRead, all(dst), src))
		a.Close()
		clear(dst.Bytes())
		b.Event(rdma.EventDisconnected)
		if !bytes.Equal(dst.Bytes(), make([]byte, 64<<10)) {
			r.Fatal("the memory of a closed queue pair was written to")
		}
	}
}
