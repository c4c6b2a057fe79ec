package rdmatest

import (
	"context"
	"errors"

	"github.com/gosrpt/gosrpt/core/rdma"
)

var closeChecks = []check{
	{"EverythingClosesTwice", everythingClosesTwice},
	{"AClosedQueuePairAnswersErrClosed", closedQueuePair},
	{"AClosedQueueAnswersErrClosed", closedQueue},
	{"AClosedDeviceAnswersErrClosed", closedDevice},
	{"AClosedProviderAnswersErrClosed", closedProvider},
	{"DeviceCloseTellsThePeers", deviceCloseTells},
	{"DeviceCloseEndsAccept", deviceCloseEndsAccept},
	{"AClosedRegionMayBeUsedAgain", regionAgain},
}

func everythingClosesTwice(r *rig) {
	l := r.listen(r.service())
	region := r.memory(r.A, 64, rdma.RemoteRead)
	a := r.la.NewEnd(config())
	for range 2 {
		r.must(l.Close())
		r.must(region.Close())
		r.la.Do(func() { r.must(a.QP.Close()) })
	}
	a.Close()
	r.la.Stop()
	r.lb.Stop()
	for range 2 {
		r.must(r.la.cq.Close())
		r.must(r.lb.cq.Close())
		r.must(r.A.Close())
		r.must(r.B.Close())
		r.must(r.Provider.Close())
	}
}

// wantClosed reports an error that is not ErrClosed.
func (r *rig) wantClosed(op string, err error) {
	r.Helper()
	if !errors.Is(err, rdma.ErrClosed) {
		r.Errorf("%s: %v, want ErrClosed", op, err)
	}
}

func closedQueuePair(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	a, b := r.pair()
	other := r.la.NewEnd(config())
	other.Connect(r.params(svc, nil))
	req := r.accept(l)
	r.la.Do(func() {
		r.must(a.QP.Close())
		_, err := a.QP.PostSend([]rdma.Work{sendWork(1, nil)})
		r.wantClosed("PostSend", err)
		_, err = a.QP.PostRecv([]rdma.Work{recvWork(1, nil)})
		r.wantClosed("PostRecv", err)
		r.wantClosed("Connect", a.QP.Connect(r.params(svc, nil)))
		r.wantClosed("Disconnect", a.QP.Disconnect())
	})
	r.lb.Do(func() {
		r.must(b.QP.Close())
		r.wantClosed("Accept", b.QP.Accept(req, nil))
	})
}

func closedQueue(r *rig) {
	r.la.Stop()
	r.must(r.la.cq.Close())
	_, err := r.la.cq.NewQP(config())
	r.wantClosed("NewQP", err)
	r.la.cq.Flush()
	if n := r.la.cq.Poll(make([]rdma.Completion, 4)); n != 0 {
		r.Errorf("Poll of a closed queue returned %d", n)
	}
}

func closedDevice(r *rig) {
	a, b := r.pair()
	r.exchange(a, b)
	r.la.Stop()
	r.lb.Stop()
	r.must(r.A.Close())
	_, err := r.A.Ports()
	r.wantClosed("Ports", err)
	_, err = r.A.NewCQ(rdma.CQConfig{Depth: 16})
	r.wantClosed("NewCQ", err)
	_, err = r.A.Register(make([]byte, 10), 0)
	r.wantClosed("Register", err)
	_, err = r.A.Listen(rdma.Service{Addr: r.service().Addr})
	r.wantClosed("Listen", err)
	_, err = a.QP.PostSend([]rdma.Work{sendWork(1, nil)})
	r.wantClosed("PostSend", err)
	if r.A.Name() == "" || r.A.Attr().NodeGUID == 0 {
		r.Error("a closed device forgot its name or attributes")
	}
}

func closedProvider(r *rig) {
	r.la.Stop()
	r.lb.Stop()
	r.must(r.Provider.Close())
	_, err := r.Provider.Devices(context.Background())
	r.wantClosed("Devices", err)
	_, err = r.A.NewCQ(rdma.CQConfig{Depth: 16})
	r.wantClosed("NewCQ", err)
}

func deviceCloseTells(r *rig) {
	if r.A == r.B {
		r.Skip("one device is both ends")
	}
	_, b := r.pair()
	b.Receive(recvWork(1, nil))
	r.la.Stop()
	r.must(r.A.Close())
	b.Done(rdma.OpRecv, rdma.StatusFlushed)
	b.Event(rdma.EventDisconnected)
}

func deviceCloseEndsAccept(r *rig) {
	l := r.listen(r.service())
	r.la.Stop()
	r.lb.Stop()
	got := make(chan error)
	go func() {
		_, err := l.Accept(context.Background())
		got <- err
	}()
	r.must(r.B.Close())
	r.wantClosed("Accept", <-got)
}

func regionAgain(r *rig) {
	a, b := r.pair()
	mem := make([]byte, 4096)
	src := r.memory(r.A, 4096, 0)
	for seed := range uint64(10) {
		dst, err := r.B.Register(mem, rdma.RemoteWrite)
		r.must(err)
		pattern(src.Bytes(), seed)
		a.Send(remoteWork(1, rdma.OpWrite, all(src), dst))
		a.Done(rdma.OpWrite, rdma.StatusOK)
		r.exchange(a, b)
		if firstDifference(mem, src.Bytes()) >= 0 {
			r.Errorf("round %d: the bytes differ", seed)
		}
		r.must(dst.Close())
	}
}
