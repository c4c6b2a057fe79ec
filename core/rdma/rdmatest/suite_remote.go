package rdmatest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gosrpt/gosrpt/core/rdma"
)

var remoteChecks = []check{
	{"WriteWithoutTheRightBreaksTheConnection", func(r *rig) { r.violations(rdma.OpWrite) }},
	{"ReadWithoutTheRightBreaksTheConnection", func(r *rig) { r.violations(rdma.OpRead) }},
	{"LaterWorkIsFlushed", violationFlushes},
	{"ReceiveTooSmallBreaksTheConnection", receiveTooSmall},
	{"OtherConnectionsGoOn", othersGoOn},
}

// violation is an access that the region does not give.
type violation struct {
	name string
	// access is of the region, addr is relative to its start, key is xored to its key.
	access rdma.Access
	addr   int64
	n      int
	key    uint32
	closed bool
}

func (r *rig) violationsOf(op rdma.Op) []violation {
	right, wrong := rdma.RemoteWrite, rdma.RemoteRead
	if op == rdma.OpRead {
		right, wrong = wrong, right
	}
	both := right | wrong
	list := []violation{
		{name: "wrong key", access: both, n: 64, key: 1},
		{name: "wrong upper half of the key", access: both, n: 64, key: 0x80000000},
		{name: "one byte before the region", access: both, addr: -1, n: 64},
		{name: "one byte beyond the region", access: both, addr: 1, n: 4096},
		{name: "begins at the end", access: both, addr: 4096, n: 1},
		{name: "far away", access: both, addr: 1 << 40, n: 64},
		{name: "the end of the address space", access: both, addr: -1 << 62, n: 64},
		{name: "closed region", access: both, n: 64, closed: true},
	}
	if op == rdma.OpRead && r.ReadsUnchecked {
		return list
	}
	return append(list, violation{name: "only the other right", access: wrong, n: 64}, violation{name: "no right at all", access: 0, n: 64})
}

// refused checks the completion of work that the peer refuses. iWARP has no word for it, and the WRITE may have been on its way already.
func (r *rig) refused(c rdma.Completion, op rdma.Op) {
	r.Helper()
	right := c.Status == rdma.StatusRemoteAccess || r.iwarp() && (c.Status == rdma.StatusFlushed || op == rdma.OpWrite)
	if c.Op != op || c.ID != 1 || !right {
		r.Fatalf("got %+v (%v), want %v", c, c.Status, rdma.StatusRemoteAccess)
	}
}

func (r *rig) violations(op rdma.Op) {
	l := r.listen(r.service())
	for _, v := range r.violationsOf(op) {
		r.Run(v.name, func(t *testing.T) {
			sub := *r
			sub.T = t
			sub.violate(l, op, v)
		})
	}
}

func (r *rig) violate(l rdma.Listener, op rdma.Op, v violation) {
	a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
	r.joinAt(l, a, b)
	remote := r.memory(r.B, 4096, v.access)
	local := r.memory(r.A, 8192, rdma.ReadSink)
	pattern(remote.Bytes(), 50)
	pattern(local.Bytes(), 51)
	remoteBefore, localBefore := bytes.Clone(remote.Bytes()), bytes.Clone(local.Bytes())
	w := remoteWork(1, op, sge(local, 0, v.n), remote)
	w.RKey ^= v.key
	w.RemoteAddr += uint64(v.addr)
	if v.closed {
		r.must(remote.Close())
	}
	a.Send(w)
	r.refused(a.Next(), op)
	a.Event(rdma.EventDisconnected)
	b.Event(rdma.EventDisconnected)
	if !bytes.Equal(remote.Bytes(), remoteBefore) || !bytes.Equal(local.Bytes(), localBefore) {
		r.Error("memory was changed")
	}
}

func violationFlushes(r *rig) {
	r.skipOnIWARP("later work may have been on its way")
	a, b := r.pair()
	good := r.memory(r.B, 64, rdma.RemoteWrite)
	local := r.memory(r.A, 64, 0)
	bad := remoteWork(2, rdma.OpWrite, all(local), good)
	bad.RKey ^= 0x55
	quiet := remoteWork(3, rdma.OpWrite, all(local), good)
	quiet.Flags = 0
	a.Receive(recvWork(10, nil), recvWork(11, nil))
	a.Send(remoteWork(1, rdma.OpWrite, all(local), good), bad, quiet, sendWork(4, nil))
	var sends []string
	var receives []uint64
	for {
		c := a.Next()
		if c.Op == rdma.OpEvent {
			break
		}
		if c.Op == rdma.OpRecv {
			receives = append(receives, c.ID)
			continue
		}
		sends = append(sends, fmt.Sprint(c.ID, " ", c.Status))
	}
	want := []string{"1 " + rdma.StatusOK.String(), "2 " + rdma.StatusRemoteAccess.String(),
		"3 " + rdma.StatusFlushed.String(), "4 " + rdma.StatusFlushed.String()}
	if fmt.Sprint(sends) != fmt.Sprint(want) {
		r.Errorf("completed %q, want %q", sends, want)
	}
	if fmt.Sprint(receives) != "[10 11]" {
		r.Errorf("receives %v completed, want 10 and 11", receives)
	}
	b.Event(rdma.EventDisconnected)
}

func receiveTooSmall(r *rig) {
	for _, n := range []int{1, r.MTU, 3 * r.MTU} {
		a, b := r.pair()
		src := r.memory(r.A, n+1, 0)
		dst := r.memory(r.B, n+guard, 0)
		b.Receive(recvWork(1, sge(dst, 0, n)), recvWork(2, sge(dst, 0, n)))
		pattern(src.Bytes(), 1)
		a.Send(sendWork(3, all(src)))
		if c := b.Done(rdma.OpRecv, rdma.StatusLocalLength); c.ID != 1 {
			r.Errorf("receive %d completed", c.ID)
		}
		b.Done(rdma.OpRecv, rdma.StatusFlushed)
		b.Event(rdma.EventDisconnected)
		if c := a.Next(); c.Op != rdma.OpSend || c.Status != r.TooLong && !r.iwarp() {
			r.Fatalf("got %+v (%v), want %v", c, c.Status, r.TooLong)
		}
		a.Event(rdma.EventDisconnected)
		if !bytes.Equal(dst.Bytes()[n:], make([]byte, guard)) {
			r.Errorf("%d bytes into a receive of %d went beyond it", n+1, n)
		}
	}
}

func othersGoOn(r *rig) {
	a, b := r.pair()
	c, d := r.pair()
	bad := remoteWork(1, rdma.OpWrite, all(r.memory(r.A, 64, 0)), r.memory(r.B, 64, 0))
	a.Send(bad)
	r.refused(a.Next(), rdma.OpWrite)
	a.Event(rdma.EventDisconnected)
	b.Event(rdma.EventDisconnected)
	r.exchange(c, d)
}
