package rdmatest

import (
	"bytes"
	"errors"
	"math"

	"github.com/gosrpt/gosrpt/core/rdma"
)

var queueChecks = []check{
	{"FullSendQueueTakesAPrefix", fullSendQueue},
	{"FullReceiveQueueTakesAPrefix", fullReceiveQueue},
	{"InvalidSendElements", func(r *rig) { r.invalidWork(sendSide) }},
	{"InvalidReceiveElements", func(r *rig) { r.invalidWork(receiveSide) }},
	{"NothingAfterARefusedWorkIsTaken", nothingAfterRefused},
	{"SendsBeforeTheConnectionAreFlushed", sendsBeforeConnection},
	{"LimitsAreKept", limitsAreKept},
	{"ListsAreAsLongAsGranted", listsAreAsLongAsGranted},
	{"UserComesBack", userComesBack},
}

// fill posts work until a queue is full, in batches, and returns how many were taken.
func (r *rig) fill(post func([]rdma.Work) (int, error), make func(id uint64) rdma.Work) uint64 {
	var taken uint64
	for taken < 1<<17 {
		var batch []rdma.Work
		for i := range uint64(100) {
			batch = append(batch, make(taken+i))
		}
		n, err := post(batch)
		taken += uint64(n)
		switch {
		case n < len(batch) && !errors.Is(err, rdma.ErrFull):
			r.Errorf("%d of %d taken with %v, want ErrFull", n, len(batch), err)
			return taken
		case n == len(batch) && err != nil:
			r.Errorf("all taken with %v", err)
			return taken
		case n < len(batch):
			return taken
		}
	}
	r.Error("the queue is never full")
	return taken
}

func fullSendQueue(r *rig) {
	cfg := config()
	cfg.SendDepth = 10
	a, b := r.la.NewEnd(cfg), r.lb.NewEnd(config())
	r.join(a, b)
	src, dst := r.memory(r.A, 8, 0), r.memory(r.B, 8, rdma.RemoteWrite)
	write := func(id uint64) rdma.Work { return remoteWork(id, rdma.OpWrite, all(src), dst) }
	for range 3 {
		var taken uint64
		r.la.Do(func() {
			taken = r.fill(a.QP.PostSend, write)
			r.la.cq.Flush()
		})
		if taken < 10 {
			r.Errorf("%d taken, want 10 or more", taken)
		}
		for id := range taken {
			if c := a.Done(rdma.OpWrite, rdma.StatusOK); c.ID != id {
				r.Fatalf("completion of %d, want %d", c.ID, id)
			}
		}
	}
	r.exchange(a, b)
}

func fullReceiveQueue(r *rig) {
	cfg := config()
	cfg.RecvDepth = 10
	a, b := r.la.NewEnd(config()), r.lb.NewEnd(cfg)
	r.join(a, b)
	r.receivesUntilFull(a, b, b.QP.PostRecv)
	r.exchange(a, b)
}

// receivesUntilFull posts receives of depth 10 until no more are taken, and has them complete in order.
func (r *rig) receivesUntilFull(a, b *End, post func([]rdma.Work) (int, error)) {
	r.Helper()
	var taken uint64
	r.lb.Do(func() {
		taken = r.fill(post, func(id uint64) rdma.Work { return recvWork(id, nil) })
		r.lb.cq.Flush()
	})
	if taken < 10 {
		r.Errorf("%d taken, want 10 or more", taken)
	}
	for id := range taken {
		if c := arrives(a, b, sendWork(id, nil)); c.ID != id {
			r.Fatalf("receive %d completed, want %d", c.ID, id)
		}
	}
}

// arrives sends a message that succeeds, and returns the completion of its receive.
func arrives(a, b *End, w rdma.Work) rdma.Completion {
	a.Loop.tb.Helper()
	a.Send(w)
	a.Done(rdma.OpSend, rdma.StatusOK)
	return b.Done(rdma.OpRecv, rdma.StatusOK)
}

// side is a queue of a queue pair.
type side bool

const (
	sendSide    side = true
	receiveSide side = false
)

func (s side) post(q rdma.QP, w ...rdma.Work) (int, error) {
	if s == sendSide {
		return q.PostSend(w)
	}
	return q.PostRecv(w)
}

func (s side) work(sgl []rdma.SGE) rdma.Work {
	if s == sendSide {
		return sendWork(1, sgl)
	}
	return recvWork(1, sgl)
}

func (r *rig) invalidWork(s side) {
	a, b := r.pair()
	mem := r.memory(r.A, 100, rdma.RemoteRead|rdma.RemoteWrite)
	gone := r.memory(r.A, 100, 0)
	r.must(gone.Close())
	foreign := r.memory(r.B, 100, rdma.RemoteRead|rdma.RemoteWrite)
	type row struct {
		name string
		work rdma.Work
	}
	rows := []row{
		{"one byte beyond the end", s.work(sge(mem, 0, 101))},
		{"begins at the end", s.work(sge(mem, 100, 1))},
		{"begins beyond the end", s.work(sge(mem, 101, 0))},
		{"offset and length wrap", s.work([]rdma.SGE{{Region: mem, Off: math.MaxUint64, Len: 2}})},
		{"length wraps", s.work([]rdma.SGE{{Region: mem, Off: 1, Len: math.MaxUint64}})},
		{"no region", s.work([]rdma.SGE{{Len: 1}})},
		{"closed region", s.work(all(gone))},
		{"more elements than the device takes", s.work(make([]rdma.SGE, r.A.Attr().MaxSGE+1))},
		{"no operation", rdma.Work{ID: 1, SGL: all(mem)}},
		{"an event", rdma.Work{ID: 1, Op: rdma.OpEvent, SGL: all(mem)}},
	}
	if s == sendSide {
		rows = append(rows, row{"a receive on the send queue", recvWork(1, all(mem))})
	} else {
		rows = append(rows, row{"a send on the receive queue", sendWork(1, all(mem))},
			row{"a read on the receive queue", rdma.Work{ID: 1, Op: rdma.OpRead, SGL: all(mem)}})
	}
	if r.A != r.B {
		rows = append(rows, row{"region of another device", s.work(all(foreign))})
	}
	r.la.Do(func() {
		for _, row := range rows {
			if n, err := s.post(a.QP, row.work); n != 0 || !errors.Is(err, rdma.ErrInvalid) {
				r.Errorf("%s: %d taken with %v, want ErrInvalid", row.name, n, err)
			}
		}
	})
	r.exchange(a, b)
}

func nothingAfterRefused(r *rig) {
	a, b := r.pair()
	mem := r.memory(r.A, 100, 0)
	dst := r.memory(r.B, 100, rdma.RemoteWrite)
	good := func(id uint64) rdma.Work { return remoteWork(id, rdma.OpWrite, all(mem), dst) }
	r.la.Do(func() {
		n, err := a.QP.PostSend([]rdma.Work{good(1), good(2), remoteWork(3, rdma.OpWrite, sge(mem, 1, 100), dst), good(4)})
		if n != 2 || !errors.Is(err, rdma.ErrInvalid) {
			r.Errorf("%d taken with %v, want 2 with ErrInvalid", n, err)
		}
		r.la.cq.Flush()
	})
	for _, id := range []uint64{1, 2} {
		if c := a.Done(rdma.OpWrite, rdma.StatusOK); c.ID != id {
			r.Errorf("completion of %d, want %d", c.ID, id)
		}
	}
	r.exchange(a, b)
}

func sendsBeforeConnection(r *rig) {
	a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
	mem := r.memory(r.A, 10, 0)
	w := sendWork(2, all(mem))
	w.Flags = 0
	a.Send(sendWork(1, all(mem)), w)
	for _, id := range []uint64{1, 2} {
		if c := a.Done(rdma.OpSend, rdma.StatusFlushed); c.ID != id {
			r.Errorf("completion of %d, want %d", c.ID, id)
		}
	}
	r.join(a, b)
	r.exchange(a, b)
}

func limitsAreKept(r *rig) {
	attr := r.A.Attr()
	for _, cfg := range []rdma.QPConfig{
		{SendDepth: attr.MaxQPWork + 1, RecvDepth: 1},
		{SendDepth: 1, RecvDepth: attr.MaxQPWork + 1},
		{SendDepth: -1, RecvDepth: 1},
		{SendDepth: 1, RecvDepth: -1},
		{SendDepth: 1, RecvDepth: 1, MaxSGE: attr.MaxSGE + 1},
	} {
		r.la.Do(func() {
			if q, err := r.la.cq.NewQP(cfg); !errors.Is(err, rdma.ErrInvalid) {
				r.Errorf("%+v: %v, want ErrInvalid", cfg, err)
				if err == nil {
					q.Close()
				}
			}
		})
	}
}

func listsAreAsLongAsGranted(r *rig) {
	cfg := config()
	cfg.MaxSGE = r.A.Attr().MaxSGE
	a, b := r.la.NewEnd(cfg), r.lb.NewEnd(config())
	n := a.QP.MaxSGE()
	if n < 1 || n > cfg.MaxSGE {
		r.Fatalf("granted %d elements of %d", n, cfg.MaxSGE)
	}
	r.join(a, b)
	src, dst := r.memory(r.A, n+1, 0), r.memory(r.B, n, 0)
	pattern(src.Bytes(), 61)
	var list []rdma.SGE
	for i := range n + 1 {
		list = append(list, sge(src, i, 1)...)
	}
	r.la.Do(func() {
		if taken, err := a.QP.PostSend([]rdma.Work{sendWork(1, list)}); taken != 0 || !errors.Is(err, rdma.ErrInvalid) {
			r.Errorf("%d elements: %d taken with %v, want ErrInvalid", n+1, taken, err)
		}
	})
	b.Receive(recvWork(2, all(dst)))
	a.Send(sendWork(3, list[:n]))
	a.Done(rdma.OpSend, rdma.StatusOK)
	b.Done(rdma.OpRecv, rdma.StatusOK)
	if !bytes.Equal(dst.Bytes(), src.Bytes()[:n]) {
		r.Error("the bytes differ")
	}
}

func userComesBack(r *rig) {
	a, b := r.pair()
	c, d := r.pair()
	for _, e := range []*End{b, d} {
		e.Receive(recvWork(1, nil))
	}
	for _, e := range []*End{a, c} {
		e.Send(sendWork(2, nil))
	}
	users := make(map[uint64]bool)
	for _, e := range []*End{a, c} {
		users[e.Done(rdma.OpSend, rdma.StatusOK).User] = true
	}
	b.Done(rdma.OpRecv, rdma.StatusOK)
	d.Done(rdma.OpRecv, rdma.StatusOK)
	if len(users) != 2 {
		r.Errorf("two queue pairs of one queue have the users %v", users)
	}
}
