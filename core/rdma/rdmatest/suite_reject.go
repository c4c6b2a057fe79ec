package rdmatest

import (
	"bytes"
	"errors"
	"net/netip"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

var rejectChecks = []check{
	{"ConsumerReasonCarriesData", consumerReject},
	{"OtherReasonsCarryNone", otherReject},
	{"DataWithAnotherReasonIsRefused", dataWithOtherReason},
	{"ARequestIsAnsweredOnce", answeredOnce},
	{"NobodyListens", nobodyListens},
	{"NobodyAnswers", nobodyAnswers},
	{"ListenerClosesBeforeAccept", listenerClosesBeforeAccept},
	{"AnUnansweredRequestIsGivenUp", unansweredRequest},
	{"ClosingTheActiveEndWithdrawsTheRequest", withdrawnRequest},
	{"ClosingThePassiveEndFailsTheActiveOne", passiveCloses},
}

func consumerReject(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	a := r.la.NewEnd(config())
	data := private(privateReject, 6)
	a.Connect(r.params(svc, nil))
	r.must(r.accept(l).Reject(rdma.RejectConsumer, data))
	c := a.Event(rdma.EventRejected)
	if c.Reason != rdma.RejectConsumer || !bytes.HasPrefix(c.Data, data) {
		r.Errorf("rejected with reason %d, data %x; want %x", c.Reason, c.Data, data)
	}
}

func otherReject(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	for _, reason := range []rdma.RejectReason{rdma.RejectNoResources, rdma.RejectInvalidMTU, rdma.RejectInvalidService} {
		a := r.la.NewEnd(config())
		a.Connect(r.params(svc, nil))
		r.must(r.accept(l).Reject(reason, nil))
		want := reason
		if r.ConsumerRejects {
			want = rdma.RejectConsumer
		}
		if c := a.Event(rdma.EventRejected); c.Reason != want || len(bytes.Trim(c.Data, "\x00")) > 0 {
			r.Errorf("reason %d, data %x; want %d, none", c.Reason, c.Data, want)
		}
	}
}

func dataWithOtherReason(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	a := r.la.NewEnd(config())
	a.Connect(r.params(svc, nil))
	req := r.accept(l)
	if err := req.Reject(rdma.RejectNoQP, []byte{1}); !errors.Is(err, rdma.ErrInvalid) {
		r.Errorf("Reject: %v, want ErrInvalid", err)
	}
	if err := req.Reject(rdma.RejectConsumer, make([]byte, privateReject+1)); !errors.Is(err, rdma.ErrInvalid) {
		r.Errorf("Reject with too much data: %v, want ErrInvalid", err)
	}
	r.must(req.Reject(rdma.RejectConsumer, []byte{1}))
	a.Event(rdma.EventRejected)
}

func answeredOnce(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
	a.Connect(r.params(svc, nil))
	req := r.accept(l)
	r.must(req.Reject(rdma.RejectConsumer, nil))
	if err := req.Reject(rdma.RejectConsumer, nil); err == nil {
		r.Error("a second Reject returned nil")
	}
	r.lb.Do(func() {
		if err := b.QP.Accept(req, nil); err == nil {
			r.Error("Accept after Reject returned nil")
		}
	})
	a.Event(rdma.EventRejected)
}

func nobodyListens(r *rig) {
	a := r.la.NewEnd(config())
	a.Connect(r.params(r.service(), nil))
	if c := a.Event(rdma.EventRejected); c.Reason != rdma.RejectInvalidService {
		r.Errorf("reason %d, want %d", c.Reason, rdma.RejectInvalidService)
	}
}

func nobodyAnswers(r *rig) {
	if !r.Nobody.IsValid() {
		r.Skip("the harness names no address where nobody answers")
	}
	a := r.la.NewEnd(config())
	p := r.params(rdma.Service{Addr: netip.AddrPortFrom(r.Nobody, r.Port)}, nil)
	p.Timeout = 300 * time.Millisecond
	a.Connect(p)
	a.Event(rdma.EventFailed)
}

func listenerClosesBeforeAccept(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	a := r.la.NewEnd(config())
	p := r.params(svc, nil)
	p.Timeout = time.Second
	a.Connect(p)
	r.must(l.Close())
	if c := a.Next(); c.Op != rdma.OpEvent || c.Event != rdma.EventRejected && c.Event != rdma.EventFailed {
		r.Errorf("got %+v, want a rejection or failure", c)
	}
}

// answerInVain answers a request that its sender no longer wants: the provider says so at once, or
// reports that the connection did not come about. On iWARP, where nobody confirms, it may have come about and ends.
func (r *rig) answerInVain(req rdma.ConnRequest) {
	b := r.lb.NewEnd(config())
	var err error
	r.lb.Do(func() { err = b.QP.Accept(req, nil) })
	if errors.Is(err, rdma.ErrGone) {
		return
	}
	r.must(err)
	for {
		switch c := b.Next(); c.Event {
		case rdma.EventFailed, rdma.EventRejected, rdma.EventDisconnected:
			return
		case rdma.EventEstablished:
			if !r.iwarp() {
				r.Errorf("got %+v", c)
			}
		}
	}
}

func unansweredRequest(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	a := r.la.NewEnd(config())
	p := r.params(svc, nil)
	p.Timeout = 300 * time.Millisecond
	a.Connect(p)
	req := r.accept(l)
	a.Event(rdma.EventFailed)
	r.answerInVain(req)
}

func withdrawnRequest(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	a := r.la.NewEnd(config())
	a.Connect(r.params(svc, nil))
	req := r.accept(l)
	a.Close()
	r.answerInVain(req)
}

// passiveCloses closes the passive end right after Accept: the active one learns of it, before or
// after it was established.
func passiveCloses(r *rig) {
	svc := r.service()
	l := r.listen(svc)
	a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
	p := r.params(svc, nil)
	p.Timeout = time.Second
	a.Connect(p)
	b.Accept(r.accept(l), nil)
	b.Close()
	c := a.Next()
	if c.Event == rdma.EventEstablished {
		c = a.Next()
	}
	if c.Event != rdma.EventFailed && c.Event != rdma.EventRejected && c.Event != rdma.EventDisconnected {
		r.Errorf("got %+v, want the end of the connection", c)
	}
}
