package rdmatest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gosrpt/gosrpt/core/rdma"
)

var dataChecks = []check{
	{"SendOfEverySize", func(r *rig) { r.everySize(rdma.OpSend) }},
	{"WriteOfEverySize", func(r *rig) { r.everySize(rdma.OpWrite) }},
	{"ReadOfEverySize", func(r *rig) { r.everySize(rdma.OpRead) }},
	{"ListsAreGatheredAndScattered", listsAreScattered},
	{"NoListIsNoBytes", noListIsNoBytes},
	{"AReceiveMayBeLarger", receiveMayBeLarger},
	{"WorkMayBeReusedAtOnce", workMayBeReused},
	{"CompletionsComeInOrder", completionsInOrder},
	{"WriteArrivesBeforeTheSendAfterIt", writeBeforeSend},
	{"UnsignaledSuccessIsSilent", unsignaledIsSilent},
	{"SolicitedSendArrives", solicitedSend},
	{"MoreReadsThanTheDeviceKeeps", manyReads},
	{"SendWaitsForAReceive", sendWaitsForReceive},
	{"ConnectionToItself", connectionToItself},
}

// guard is the size of the zones around a sink that must stay untouched.
const guard = 64

// sizes are the message lengths around each boundary.
func (r *rig) sizes() []int {
	m := r.MTU
	var list []int
	for _, n := range []int{0, 1, 3, 4, 5, m - 1, m, m + 1, 2*m - 1, 2 * m, 2*m + 1, 64 << 10, 1 << 20, 4 << 20} {
		if n <= r.MaxMessage {
			list = append(list, n)
		}
	}
	return list
}

// everySize moves messages with one operation, over one connection, and looks at every byte.
func (r *rig) everySize(op rdma.Op) {
	a, b := r.pair()
	for _, n := range r.sizes() {
		r.Run(fmt.Sprint(n), func(t *testing.T) {
			sub := *r
			sub.T = t
			sub.move(a, b, op, n)
		})
	}
}

// move transfers n bytes and checks the sink and what surrounds it.
func (r *rig) move(a, b *End, op rdma.Op, n int) {
	srcDev, dstDev := r.A, r.B
	if op == rdma.OpRead {
		srcDev, dstDev = r.B, r.A
	}
	src := r.memory(srcDev, n+2*guard, rdma.RemoteRead)
	dst := r.memory(dstDev, n+2*guard, rdma.RemoteWrite|rdma.ReadSink)
	pattern(src.Bytes(), uint64(n)+1)
	pattern(dst.Bytes(), uint64(n)+2)
	want := bytes.Clone(dst.Bytes())
	copy(want[guard:guard+n], src.Bytes()[guard:])

	w := rdma.Work{ID: 9, Op: op, Flags: rdma.Signaled, SGL: sge(src, guard, n)}
	switch op {
	case rdma.OpSend:
		b.Receive(recvWork(8, sge(dst, guard, n)))
	case rdma.OpWrite:
		w.RemoteAddr, w.RKey = dst.Addr()+guard, dst.RKey()
	case rdma.OpRead:
		w.SGL, w.RemoteAddr, w.RKey = sge(dst, guard, n), src.Addr()+guard, src.RKey()
	}
	a.Send(w)
	if c := a.Done(op, rdma.StatusOK); c.ID != 9 {
		r.Errorf("completed %+v", c)
	}
	if op == rdma.OpSend {
		if c := b.Done(rdma.OpRecv, rdma.StatusOK); c.ID != 8 || c.Bytes != uint32(n) {
			r.Errorf("received %+v, want %d bytes", c, n)
		}
	}
	r.exchange(a, b)
	if !bytes.Equal(dst.Bytes(), want) {
		r.Errorf("%d bytes arrived wrong, or touched what surrounds them; first difference at %d",
			n, firstDifference(dst.Bytes(), want)-guard)
	}
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// pieces cuts a region of 3n bytes into a list, in an order of its own and with gaps.
func pieces(region rdma.Region, lens []int) (sgl []rdma.SGE) {
	off := len(region.Bytes())
	for _, n := range lens {
		off -= n + 3
		sgl = append(sgl, rdma.SGE{Region: region, Off: uint64(off), Len: uint64(n)})
	}
	return sgl
}

// content is what a list names.
func content(sgl []rdma.SGE) (b []byte) {
	for _, e := range sgl {
		b = append(b, e.Region.Bytes()[e.Off:e.Off+e.Len]...)
	}
	return b
}

func listsAreScattered(r *rig) {
	n := min(4, r.A.Attr().MaxSGE, r.B.Attr().MaxSGE)
	cfg := config()
	cfg.MaxSGE = n
	a, b := r.la.NewEnd(cfg), r.lb.NewEnd(cfg)
	n = min(n, a.QP.MaxSGE(), b.QP.MaxSGE())
	r.join(a, b)
	src := r.memory(r.A, 4*r.MTU+100, rdma.RemoteRead|rdma.RemoteWrite|rdma.ReadSink)
	dst := r.memory(r.B, 4*r.MTU+100, rdma.RemoteRead|rdma.RemoteWrite)
	m := r.MTU
	from := pieces(src, []int{m + 7, 1, 2, m/2 + 1}[:n])
	var total int
	for _, e := range from {
		total += int(e.Len)
	}
	to := pieces(dst, []int{5, total - 5, 0, 0}[:min(n, 2)])
	if n == 1 {
		to = pieces(dst, []int{total})
	}
	pattern(src.Bytes(), 20)
	b.Receive(recvWork(1, to))
	a.Send(sendWork(2, from))
	b.Done(rdma.OpRecv, rdma.StatusOK)
	a.Done(rdma.OpSend, rdma.StatusOK)
	if !bytes.Equal(content(to), content(from)) {
		r.Error("SEND: the lists differ")
	}
	pattern(src.Bytes(), 21)
	a.Send(remoteWork(3, rdma.OpWrite, from, dst))
	a.Done(rdma.OpWrite, rdma.StatusOK)
	r.exchange(a, b)
	if !bytes.Equal(dst.Bytes()[:total], content(from)) {
		r.Error("WRITE: the memory differs from the list")
	}
	pattern(dst.Bytes(), 22)
	a.Send(remoteWork(4, rdma.OpRead, from, dst))
	a.Done(rdma.OpRead, rdma.StatusOK)
	if !bytes.Equal(dst.Bytes()[:total], content(from)) {
		r.Error("READ: the list differs from the memory")
	}
}

func noListIsNoBytes(r *rig) {
	a, b := r.pair()
	b.Receive(recvWork(1, nil))
	a.Send(sendWork(2, nil), rdma.Work{ID: 3, Op: rdma.OpWrite, Flags: rdma.Signaled},
		rdma.Work{ID: 4, Op: rdma.OpRead, Flags: rdma.Signaled})
	if c := b.Done(rdma.OpRecv, rdma.StatusOK); c.Bytes != 0 {
		r.Errorf("received %d bytes", c.Bytes)
	}
	a.Done(rdma.OpSend, rdma.StatusOK)
	a.Done(rdma.OpWrite, rdma.StatusOK)
	a.Done(rdma.OpRead, rdma.StatusOK)
}

func receiveMayBeLarger(r *rig) {
	a, b := r.pair()
	src, dst := r.memory(r.A, 10, 0), r.memory(r.B, 3*r.MTU, 0)
	pattern(src.Bytes(), 1)
	b.Receive(recvWork(1, all(dst)))
	a.Send(sendWork(2, all(src)))
	c := b.Done(rdma.OpRecv, rdma.StatusOK)
	if c.Bytes != 10 || !bytes.Equal(dst.Bytes()[:10], src.Bytes()) || !bytes.Equal(dst.Bytes()[10:], make([]byte, 3*r.MTU-10)) {
		r.Errorf("received %+v: %x", c, dst.Bytes()[:20])
	}
}

func workMayBeReused(r *rig) {
	a, b := r.pair()
	src, dst := r.memory(r.A, 32, 0), r.memory(r.B, 32, 0)
	pattern(src.Bytes(), 1)
	r.lb.Do(func() {
		w := []rdma.Work{recvWork(1, all(dst))}
		if _, err := b.QP.PostRecv(w); err != nil {
			r.Error(err)
		}
		w[0].SGL[0] = rdma.SGE{}
		w[0] = rdma.Work{}
		r.lb.cq.Flush()
	})
	r.la.Do(func() {
		w := []rdma.Work{sendWork(2, all(src))}
		if _, err := a.QP.PostSend(w); err != nil {
			r.Error(err)
		}
		w[0].SGL[0] = rdma.SGE{}
		w[0] = rdma.Work{}
		r.la.cq.Flush()
	})
	if c := a.Done(rdma.OpSend, rdma.StatusOK); c.ID != 2 {
		r.Errorf("sent %+v", c)
	}
	if c := b.Done(rdma.OpRecv, rdma.StatusOK); c.ID != 1 || !bytes.Equal(dst.Bytes(), src.Bytes()) {
		r.Errorf("received %+v", c)
	}
}

func completionsInOrder(r *rig) {
	a, b := r.pair()
	src := r.memory(r.A, 3*r.MTU, rdma.ReadSink)
	dst := r.memory(r.B, 3*r.MTU, rdma.RemoteRead|rdma.RemoteWrite)
	sink := r.memory(r.B, 64, 0)
	sent := uint64(0)
	for range 20 {
		for i := range 16 {
			b.Receive(recvWork(sent+uint64(i), all(sink)))
		}
		var batch []rdma.Work
		for i := range uint64(16) {
			batch = append(batch, remoteWork(sent+3*i, rdma.OpWrite, all(src), dst),
				remoteWork(sent+3*i+1, rdma.OpRead, all(src), dst), sendWork(sent+3*i+2, sge(src, 0, 64)))
		}
		a.Send(batch...)
		for _, w := range batch {
			if c := a.Done(w.Op, rdma.StatusOK); c.ID != w.ID {
				r.Fatalf("completion of %d, want %d", c.ID, w.ID)
			}
		}
		for i := range uint64(16) {
			if c := b.Done(rdma.OpRecv, rdma.StatusOK); c.ID != sent+i {
				r.Fatalf("receive %d completed, want %d", c.ID, sent+i)
			}
		}
		sent += 48
	}
}

func writeBeforeSend(r *rig) {
	a, b := r.pair()
	src, dst := r.memory(r.A, 2*r.MTU+9, 0), r.memory(r.B, 2*r.MTU+9, rdma.RemoteWrite)
	note := r.memory(r.B, 8, 0)
	for i := range uint64(20) {
		pattern(src.Bytes(), i)
		b.Receive(recvWork(i, all(note)))
		w := remoteWork(i, rdma.OpWrite, all(src), dst)
		w.Flags = 0
		a.Send(w, sendWork(i, sge(src, 0, 8)))
		b.Done(rdma.OpRecv, rdma.StatusOK)
		if !bytes.Equal(dst.Bytes(), src.Bytes()) {
			r.Fatalf("round %d: the SEND came before the data of the WRITE", i)
		}
		a.Done(rdma.OpSend, rdma.StatusOK)
	}
}

func unsignaledIsSilent(r *rig) {
	a, b := r.pair()
	src, dst := r.memory(r.A, 8, 0), r.memory(r.B, 8, rdma.RemoteWrite)
	for round := range uint64(8) {
		var batch []rdma.Work
		for i := range uint64(32) {
			w := remoteWork(100*round+i, rdma.OpWrite, all(src), dst)
			if i < 31 {
				w.Flags = 0
			}
			batch = append(batch, w)
		}
		a.Send(batch...)
		if c := a.Done(rdma.OpWrite, rdma.StatusOK); c.ID != 100*round+31 {
			r.Fatalf("completion of %d, want %d", c.ID, 100*round+31)
		}
	}
	r.exchange(a, b)
	if c, more := b.TryNext(); more {
		r.Errorf("a WRITE made a completion at its target: %+v", c)
	}
}

func solicitedSend(r *rig) {
	a, b := r.pair()
	b.Receive(recvWork(1, nil))
	w := sendWork(2, nil)
	w.Flags |= rdma.Solicited
	a.Send(w)
	b.Done(rdma.OpRecv, rdma.StatusOK)
	a.Done(rdma.OpSend, rdma.StatusOK)
}

func manyReads(r *rig) {
	n := min(r.A.Attr().MaxReads+40, r.A.Attr().MaxQPWork)
	cfg := config()
	cfg.SendDepth = n
	a, b := r.la.NewEnd(cfg), r.lb.NewEnd(cfg)
	r.join(a, b)
	size := r.MTU + 1
	src, dst := r.memory(r.B, n*size, rdma.RemoteRead), r.memory(r.A, n*size, rdma.ReadSink)
	pattern(src.Bytes(), 30)
	var batch []rdma.Work
	for i := range n {
		w := remoteWork(uint64(i), rdma.OpRead, sge(dst, i*size, size), src)
		w.RemoteAddr += uint64(i * size)
		batch = append(batch, w)
	}
	a.Send(batch...)
	for i := range n {
		if c := a.Done(rdma.OpRead, rdma.StatusOK); c.ID != uint64(i) {
			r.Fatalf("read %d completed, want %d", c.ID, i)
		}
	}
	if !bytes.Equal(dst.Bytes(), src.Bytes()) {
		r.Error("the bytes differ")
	}
}

func sendWaitsForReceive(r *rig) {
	r.skipOnIWARP("a message waits for nothing")
	a, b := r.pair()
	src, dst := r.memory(r.A, 16, 0), r.memory(r.B, 16, 0)
	pattern(src.Bytes(), 3)
	a.Send(sendWork(1, sge(src, 0, 8)), sendWork(2, sge(src, 8, 8)))
	r.lb.Do(func() {})
	b.Receive(recvWork(3, sge(dst, 0, 8)), recvWork(4, sge(dst, 8, 8)))
	for _, id := range []uint64{3, 4} {
		if c := b.Done(rdma.OpRecv, rdma.StatusOK); c.ID != id {
			r.Errorf("receive %d completed, want %d", c.ID, id)
		}
	}
	a.Done(rdma.OpSend, rdma.StatusOK)
	a.Done(rdma.OpSend, rdma.StatusOK)
	if !bytes.Equal(dst.Bytes(), src.Bytes()) {
		r.Error("the bytes differ")
	}
}

// connectionToItself joins two queue pairs of one queue.
func connectionToItself(r *rig) {
	a, b := r.lb.NewEnd(config()), r.lb.NewEnd(config())
	svc := r.service()
	l := r.listen(svc)
	p := r.params(svc, nil)
	p.Local = r.AddrB
	a.Connect(p)
	b.Accept(r.accept(l), nil)
	a.Event(rdma.EventEstablished)
	b.Event(rdma.EventEstablished)
	r.exchange(a, b)
}
