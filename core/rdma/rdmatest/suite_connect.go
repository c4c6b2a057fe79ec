package rdmatest

import (
	"bytes"
	"context"
	"errors"
	"net/netip"

	"github.com/gosrpt/gosrpt/core/rdma"
)

var connectChecks = []check{
	{"PrivateDataGoesBothWays", privateDataBothWays},
	{"PrivateDataIsCopied", privateDataIsCopied},
	{"TooMuchPrivateDataIsRefused", tooMuchPrivateData},
	{"InfoNamesBothEnds", infoNamesBothEnds},
	{"RequestNamesItsDevice", requestNamesItsDevice},
	{"ReadsAreTheLesserOfBothSides", readsAreTheLesser},
	{"ReceivesMayBePostedBefore", receivesBeforeConnect},
	{"FirstSendMayOvertakeEstablished", firstSendAtOnce},
	{"WhatTheAcceptingSideSendsFirstArrives", acceptingSideSendsFirst},
	{"ListenerOfAnyAddress", listenerOfAnyAddress},
	{"DeviceChoosesTheSource", deviceChoosesTheSource},
	{"AcceptEndsWithTheContext", acceptEndsWithTheContext},
	{"AcceptEndsWithClose", acceptEndsWithClose},
	{"RequestOutlivesItsListener", requestOutlivesListener},
	{"ConnectTwiceIsRefused", connectTwice},
	{"AcceptOnABusyQueuePairIsRefused", acceptOnBusy},
}

// private makes n bytes of private data.
func private(n int, seed uint64) []byte {
	b := make([]byte, n)
	pattern(b, seed)
	return b
}

// roomOf is how much private data a request has room for.
func roomOf(req rdma.ConnRequest) int {
	if req.Info().IPAddressed {
		return privateIP
	}
	return privateNative
}

func privateDataBothWays(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
	sent, reply := private(privateIP, 1), private(privateReply, 2)
	a.Connect(r.params(svc, sent))
	req := r.accept(l)
	if got := req.Private(); len(got) != roomOf(req) || !bytes.HasPrefix(got, sent) {
		r.Errorf("request carried %x, want %x in %d bytes", got, sent, roomOf(req))
	}
	b.Accept(req, reply)
	if c := a.Event(rdma.EventEstablished); !bytes.HasPrefix(c.Data, reply) {
		r.Errorf("reply carried %x, want %x", c.Data, reply)
	}
	b.Event(rdma.EventEstablished)
	r.exchange(a, b)
}

func privateDataIsCopied(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
	sent, reply := private(20, 3), private(20, 4)
	buf := bytes.Clone(sent)
	r.la.Do(func() {
		if err := a.QP.Connect(r.params(svc, buf)); err != nil {
			r.Error(err)
		}
		clear(buf)
	})
	req := r.accept(l)
	if !bytes.HasPrefix(req.Private(), sent) {
		r.Errorf("request carried %x, want %x", req.Private(), sent)
	}
	buf = bytes.Clone(reply)
	r.lb.Do(func() {
		if err := b.QP.Accept(req, buf); err != nil {
			r.Error(err)
		}
		clear(buf)
	})
	if c := a.Event(rdma.EventEstablished); !bytes.HasPrefix(c.Data, reply) {
		r.Errorf("reply carried %x, want %x", c.Data, reply)
	}
}

func tooMuchPrivateData(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
	r.la.Do(func() {
		if err := a.QP.Connect(r.params(svc, private(privateNative+1, 1))); !errors.Is(err, rdma.ErrInvalid) {
			r.Errorf("Connect with %d bytes: %v, want ErrInvalid", privateNative+1, err)
		}
	})
	a = r.la.NewEnd(config())
	a.Connect(r.params(svc, nil))
	req := r.accept(l)
	r.lb.Do(func() {
		if err := b.QP.Accept(req, private(privateReply+1, 1)); !errors.Is(err, rdma.ErrInvalid) {
			r.Errorf("Accept with %d bytes: %v, want ErrInvalid", privateReply+1, err)
		}
	})
}

func infoNamesBothEnds(r *rig) {
	a, b := r.pair()
	ia, ib := a.Info(), b.Info()
	if ia.Device != r.A.Name() || ib.Device != r.B.Name() {
		r.Errorf("devices %q and %q", ia.Device, ib.Device)
	}
	if ia.Local.Addr() != r.AddrA || ia.Remote.Addr() != r.AddrB || ib.Local.Addr() != r.AddrB || ib.Remote.Addr() != r.AddrA {
		r.Errorf("addresses %v -> %v and %v -> %v", ia.Local, ia.Remote, ib.Local, ib.Remote)
	}
	if r.iwarp() {
		return // the ends know no more of each other
	}
	if ia.RemoteQPN != b.QP.Num() || ib.RemoteQPN != a.QP.Num() {
		r.Errorf("remote queue pairs %#x and %#x, want %#x and %#x", ia.RemoteQPN, ib.RemoteQPN, b.QP.Num(), a.QP.Num())
	}
	if ia.PathMTU != ib.PathMTU || ia.PathMTU != r.MTU {
		r.Errorf("path MTU %d and %d, want %d", ia.PathMTU, ib.PathMTU, r.MTU)
	}
	if ia.LocalGID != ib.RemoteGID || ia.RemoteGID != ib.LocalGID || ia.LocalGID.IsZero() {
		r.Errorf("GIDs %v -> %v and %v -> %v", ia.LocalGID, ia.RemoteGID, ib.LocalGID, ib.RemoteGID)
	}
}

func requestNamesItsDevice(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	a := r.la.NewEnd(config())
	a.Connect(r.params(svc, nil))
	req := r.accept(l)
	if req.Device() != r.B {
		r.Errorf("request came in on %s", req.Device().Name())
	}
	info := req.Info()
	if info.Local.Port() != svc.Addr.Port() || info.Local.Addr() != r.AddrB || info.Remote.Addr() != r.AddrA {
		r.Errorf("request from %v to %v", info.Remote, info.Local)
	}
	r.must(req.Reject(rdma.RejectNoResources, nil))
}

// readsAreTheLesser is worth most with two devices of which one has fewer.
func readsAreTheLesser(r *rig) {
	want := min(r.A.Attr().MaxReads, r.B.Attr().MaxReads)
	svc := r.service()
	l := r.listen(svc)
	a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
	a.Connect(r.params(svc, nil))
	req := r.accept(l)
	if n := req.Info().Reads; n != want {
		r.Errorf("the request tells of %d READs, want %d", n, want)
	}
	b.Accept(req, nil)
	a.Event(rdma.EventEstablished)
	b.Event(rdma.EventEstablished)
	if na, nb := a.Info().Reads, b.Info().Reads; na != want || nb != want {
		r.Errorf("the ends tell of %d and %d READs, want %d", na, nb, want)
	}
	r.exchange(a, b)
}

func receivesBeforeConnect(r *rig) {
	a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
	dst, src := r.memory(r.B, 100, 0), r.memory(r.A, 100, 0)
	pattern(src.Bytes(), 5)
	b.Receive(recvWork(1, all(dst)))
	r.join(a, b)
	a.Send(sendWork(2, all(src)))
	if c := b.Done(rdma.OpRecv, rdma.StatusOK); c.ID != 1 || !bytes.Equal(dst.Bytes(), src.Bytes()) {
		r.Errorf("received %+v", c)
	}
}

// firstSendAtOnce sends as soon as the active side may; the passive side gets the message and
// the event, in whichever order.
func firstSendAtOnce(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
	src, dst := r.memory(r.A, 8, 0), r.memory(r.B, 8, 0)
	b.Receive(recvWork(1, all(dst)))
	a.Handle = func(c *rdma.Completion) bool {
		if c.Event == rdma.EventEstablished {
			if n, err := a.QP.PostSend([]rdma.Work{sendWork(2, all(src))}); n != 1 {
				r.Error(err)
			}
		}
		return false
	}
	a.Connect(r.params(svc, nil))
	b.Accept(r.accept(l), nil)
	established, received := 0, 0
	for range 2 {
		switch c := b.Next(); {
		case c.Op == rdma.OpEvent && c.Event == rdma.EventEstablished:
			established++
		case c.Op == rdma.OpRecv && c.Status == rdma.StatusOK:
			received++
		}
	}
	if established != 1 || received != 1 {
		r.Errorf("%d established, %d received, want one each", established, received)
	}
}

// acceptingSideSendsFirst has the accepting side post a message before the other has sent any. It arrives no later than after the first.
func acceptingSideSendsFirst(r *rig) {
	a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
	src, dst := r.memory(r.B, 8, 0), r.memory(r.A, 8, 0)
	pattern(src.Bytes(), 9)
	a.Receive(recvWork(1, all(dst)))
	b.Receive(recvWork(2, nil))
	b.Handle = func(c *rdma.Completion) bool {
		if c.Event == rdma.EventEstablished {
			if n, err := b.QP.PostSend([]rdma.Work{sendWork(3, all(src))}); n != 1 {
				r.Error(err)
			}
			r.lb.cq.Flush()
		}
		return false
	}
	r.join(a, b)
	a.Send(sendWork(4, nil))
	for _, e := range []*End{a, a, b, b} {
		if c := e.Next(); c.Status != rdma.StatusOK || c.Op != rdma.OpSend && c.Op != rdma.OpRecv {
			r.Errorf("got %+v (%v)", c, c.Status)
		}
	}
	if !bytes.Equal(dst.Bytes(), src.Bytes()) {
		r.Error("the message did not arrive")
	}
}

func listenerOfAnyAddress(r *rig) {
	svc := r.service()
	l := r.listen(rdma.Service{Addr: netip.AddrPortFrom(netip.Addr{}, svc.Addr.Port())})
	a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
	r.joinAt(l, a, b)
	r.exchange(a, b)
}

func deviceChoosesTheSource(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
	p := r.params(svc, nil)
	p.Local = netip.Addr{}
	a.Connect(p)
	b.Accept(r.accept(l), nil)
	a.Event(rdma.EventEstablished)
	if got := a.Info().Local.Addr(); !got.IsValid() {
		r.Errorf("the source address is %v", got)
	}
}

func acceptEndsWithTheContext(r *rig) {
	l := r.listen(r.service())
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error)
	go func() {
		_, err := l.Accept(ctx)
		got <- err
	}()
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		r.Errorf("Accept: %v, want context.Canceled", err)
	}
}

func acceptEndsWithClose(r *rig) {
	l := r.listen(r.service())
	got := make(chan error)
	go func() {
		_, err := l.Accept(context.Background())
		got <- err
	}()
	r.must(l.Close())
	if err := <-got; !errors.Is(err, rdma.ErrClosed) {
		r.Errorf("Accept: %v, want ErrClosed", err)
	}
	if _, err := l.Accept(context.Background()); !errors.Is(err, rdma.ErrClosed) {
		r.Errorf("Accept after Close: %v, want ErrClosed", err)
	}
}

func requestOutlivesListener(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
	a.Connect(r.params(svc, nil))
	req := r.accept(l)
	r.must(l.Close())
	b.Accept(req, nil)
	a.Event(rdma.EventEstablished)
	b.Event(rdma.EventEstablished)
	r.exchange(a, b)
}

func connectTwice(r *rig) {
	a, b := r.pair()
	r.la.Do(func() {
		if err := a.QP.Connect(r.params(r.service(), nil)); !errors.Is(err, rdma.ErrState) {
			r.Errorf("Connect of a connected queue pair: %v, want ErrState", err)
		}
	})
	r.exchange(a, b)
}

func acceptOnBusy(r *rig) {
	a, b := r.pair()
	svc := r.service()
	l := r.listen(svc)
	other, fresh := r.la.NewEnd(config()), r.lb.NewEnd(config())
	other.Connect(r.params(svc, nil))
	req := r.accept(l)
	r.lb.Do(func() {
		if err := b.QP.Accept(req, nil); !errors.Is(err, rdma.ErrState) {
			r.Errorf("Accept on a connected queue pair: %v, want ErrState", err)
		}
	})
	fresh.Accept(req, nil)
	other.Event(rdma.EventEstablished)
	r.exchange(a, b)
}
