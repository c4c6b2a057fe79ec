package rdmatest

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// fixture is a pair of devices with short timeouts, inside a synctest bubble.
type fixture struct {
	*rig
	a, b *Device
}

func inBubble(t *testing.T, run func(f fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		addr := netip.MustParseAddr
		p := NewProvider(NewFabric(), "memory",
			DeviceConfig{Name: "a", Addrs: []netip.Addr{addr("192.0.2.1")}, RetryTimeout: 2 * time.Second, RNRTimeout: 3 * time.Second},
			DeviceConfig{Name: "b", Addrs: []netip.Addr{addr("192.0.2.2")}})
		a, b := p.Device("a"), p.Device("b")
		r := newRig(t, Harness{Provider: p, A: a, B: b, AddrA: addr("192.0.2.1"), AddrB: addr("192.0.2.2"), Port: 5000})
		run(fixture{r, a, b})
	})
}

// quiet fails if an end has something to report once all goroutines rest.
func (f fixture) quiet(e *End) {
	f.Helper()
	synctest.Wait()
	if c, more := e.TryNext(); more {
		f.Fatalf("got %+v, want nothing yet", c)
	}
}

func TestHeldDataArrivesWhenReleased(t *testing.T) {
	inBubble(t, func(f fixture) {
		a, b := f.pair()
		f.b.Hold(Data)
		b.Receive(recvWork(1, nil))
		a.Send(sendWork(2, nil))
		time.Sleep(time.Hour)
		f.quiet(a)
		f.quiet(b)
		f.b.Release(Data)
		a.Done(rdma.OpSend, rdma.StatusOK)
		b.Done(rdma.OpRecv, rdma.StatusOK)
	})
}

func TestStepLetsSoManyPass(t *testing.T) {
	inBubble(t, func(f fixture) {
		a, b := f.pair()
		f.a.Hold(Data)
		b.Receive(recvWork(1, nil), recvWork(2, nil), recvWork(3, nil))
		a.Send(sendWork(4, nil), sendWork(5, nil), sendWork(6, nil))
		f.a.Step(2)
		a.Done(rdma.OpSend, rdma.StatusOK)
		a.Done(rdma.OpSend, rdma.StatusOK)
		f.quiet(a)
		a.Disconnect()
		a.Done(rdma.OpSend, rdma.StatusFlushed)
		a.Event(rdma.EventDisconnected)
		b.Done(rdma.OpRecv, rdma.StatusOK)
		b.Done(rdma.OpRecv, rdma.StatusOK)
		b.Done(rdma.OpRecv, rdma.StatusFlushed)
	})
}

func TestReceivesMayCompleteBeforeEstablished(t *testing.T) {
	inBubble(t, func(f fixture) {
		f.b.Hold(Readies)
		svc := f.service()
		l := f.listen(svc)
		a, b := f.la.NewEnd(config()), f.lb.NewEnd(config())
		b.Receive(recvWork(1, nil))
		a.Connect(f.params(svc, nil))
		b.Accept(f.accept(l), nil)
		a.Event(rdma.EventEstablished)
		a.Send(sendWork(2, nil))
		b.Done(rdma.OpRecv, rdma.StatusOK)
		f.quiet(b)
		f.b.Release(Readies)
		b.Event(rdma.EventEstablished)
	})
}

func TestAPassiveEndThatIsNeverReadyFails(t *testing.T) {
	inBubble(t, func(f fixture) {
		f.b.Hold(Readies)
		svc := f.service()
		l := f.listen(svc)
		a, b := f.la.NewEnd(config()), f.lb.NewEnd(config())
		a.Connect(f.params(svc, nil))
		b.Accept(f.accept(l), nil)
		a.Event(rdma.EventEstablished)
		b.Event(rdma.EventFailed)
	})
}

func TestAHeldRequestIsGoneAfterTheTimeout(t *testing.T) {
	inBubble(t, func(f fixture) {
		f.b.Hold(Requests)
		svc := f.service()
		l := f.listen(svc)
		a := f.la.NewEnd(config())
		before := time.Now()
		p := f.params(svc, nil)
		p.Timeout = 7 * time.Second
		a.Connect(p)
		a.Event(rdma.EventFailed)
		if d := time.Since(before); d != 7*time.Second {
			t.Errorf("failed after %v, want 7 s", d)
		}
		f.b.Release(AllTraffic)
		other, b := f.la.NewEnd(config()), f.lb.NewEnd(config())
		f.joinAt(l, other, b)
	})
}

func TestAReplyThatComesTooLateFailsBothEnds(t *testing.T) {
	inBubble(t, func(f fixture) {
		f.a.Hold(Replies)
		svc := f.service()
		l := f.listen(svc)
		a, b := f.la.NewEnd(config()), f.lb.NewEnd(config())
		p := f.params(svc, nil)
		p.Timeout = 100 * time.Millisecond
		a.Connect(p)
		b.Accept(f.accept(l), nil)
		a.Event(rdma.EventFailed)
		f.a.Release(Replies)
		b.Event(rdma.EventFailed)
		f.quiet(a)
	})
}

func TestANewsOfTheEndCanComeLate(t *testing.T) {
	inBubble(t, func(f fixture) {
		a, b := f.pair()
		f.b.Hold(Ends)
		a.Disconnect()
		a.Event(rdma.EventDisconnected)
		f.quiet(b)
		f.b.Release(Ends)
		b.Event(rdma.EventDisconnected)
	})
}

func TestChosenWorkFailsWithTheChosenStatus(t *testing.T) {
	for _, op := range []rdma.Op{rdma.OpSend, rdma.OpWrite, rdma.OpRead} {
		for _, status := range []rdma.Status{rdma.StatusRetryExceeded, rdma.StatusLocalProtection, rdma.StatusRemoteOperation} {
			inBubble(t, func(f fixture) {
				a, b := f.pair()
				b.Receive(recvWork(7, nil), recvWork(8, nil))
				f.a.FailAfter(1, op, status)
				a.Send(rdma.Work{ID: 1, Op: op, Flags: rdma.Signaled}, rdma.Work{ID: 2, Op: op})
				a.Done(op, rdma.StatusOK)
				a.Done(op, status)
				a.Event(rdma.EventDisconnected)
				b.untilDisconnected()
			})
		}
	}
}

// Where a READ puts data has to be registered for that, as on iWARP.
func TestAReadIntoAnotherRegionFails(t *testing.T) {
	for _, access := range []rdma.Access{0, rdma.RemoteRead, rdma.RemoteWrite, rdma.ReadSink} {
		inBubble(t, func(f fixture) {
			a, b := f.pair()
			src, dst := f.memory(f.b, 8, rdma.RemoteRead), f.memory(f.a, 8, access)
			pattern(src.Bytes(), 1)
			a.Send(remoteWork(1, rdma.OpRead, all(dst), src))
			if access == rdma.ReadSink {
				a.Done(rdma.OpRead, rdma.StatusOK)
				return
			}
			a.Done(rdma.OpRead, rdma.StatusLocalProtection)
			a.Event(rdma.EventDisconnected)
			b.Event(rdma.EventDisconnected)
			if firstDifference(dst.Bytes(), make([]byte, 8)) >= 0 {
				t.Error("the data is there all the same")
			}
		})
	}
}

func TestAChosenReceiveFails(t *testing.T) {
	inBubble(t, func(f fixture) {
		a, b := f.pair()
		b.Receive(recvWork(1, nil))
		f.b.FailAfter(0, rdma.OpRecv, rdma.StatusLocalLength)
		a.Send(sendWork(2, nil))
		b.Done(rdma.OpRecv, rdma.StatusLocalLength)
		b.Event(rdma.EventDisconnected)
		a.Done(rdma.OpSend, rdma.StatusRemoteInvalid)
		a.Event(rdma.EventDisconnected)
	})
}

func TestBreakEndsOneConnectionOnBothEnds(t *testing.T) {
	inBubble(t, func(f fixture) {
		a, b := f.pair()
		c, d := f.pair()
		b.Receive(recvWork(1, nil))
		if !f.a.Break(a.QP.Num()) || f.a.Break(a.QP.Num()) {
			t.Error("Break does not break once")
		}
		a.Event(rdma.EventDisconnected)
		b.Done(rdma.OpRecv, rdma.StatusFlushed)
		b.Event(rdma.EventDisconnected)
		f.exchange(c, d)
		if n := f.b.BreakAll(); n != 1 {
			t.Errorf("BreakAll broke %d", n)
		}
		c.Event(rdma.EventDisconnected)
		d.Event(rdma.EventDisconnected)
	})
}

func TestBreakSRQsEndsWhoSharesAndNobodyElse(t *testing.T) {
	inBubble(t, func(f fixture) {
		s := f.newShared(4, 8)
		s.post(0, 1)
		a, b := s.pair()
		c, d := f.pair()
		f.b.BreakSRQs()
		a.Event(rdma.EventDisconnected)
		b.Event(rdma.EventDisconnected)
		f.exchange(c, d)
		f.lb.Do(func() {
			if n, err := s.postHere(2, 3); n != 0 || !errors.Is(err, rdma.ErrBroken) {
				t.Errorf("%d taken with %v, want ErrBroken", n, err)
			}
			if _, err := f.lb.cq.NewQP(rdma.QPConfig{SendDepth: 1, SRQ: s.srq}); !errors.Is(err, rdma.ErrBroken) {
				t.Errorf("a queue pair on it: %v, want ErrBroken", err)
			}
		})
	})
}

func TestAVanishedPeerIsNoticedByWorkAlone(t *testing.T) {
	inBubble(t, func(f fixture) {
		a, b := f.pair()
		f.b.Vanish()
		time.Sleep(time.Hour)
		f.quiet(a)
		before := time.Now()
		a.Send(sendWork(1, nil), sendWork(2, nil))
		a.Done(rdma.OpSend, rdma.StatusRetryExceeded)
		if d := time.Since(before); d != 2*time.Second {
			t.Errorf("noticed after %v, want 2 s", d)
		}
		a.Done(rdma.OpSend, rdma.StatusFlushed)
		a.Event(rdma.EventDisconnected)
		f.quiet(b)
	})
}

func TestAShortLinkFailureIsSurvived(t *testing.T) {
	inBubble(t, func(f fixture) {
		a, b := f.pair()
		b.Receive(recvWork(1, nil))
		f.b.SetLink(LinkDown)
		ports, err := f.b.Ports()
		f.must(err)
		if ports[0].Active {
			t.Error("the port is active though its link is down")
		}
		a.Send(sendWork(2, nil))
		time.Sleep(time.Second)
		f.quiet(a)
		f.b.SetLink(LinkUp)
		a.Done(rdma.OpSend, rdma.StatusOK)
		b.Done(rdma.OpRecv, rdma.StatusOK)
		time.Sleep(time.Hour)
		f.exchange(a, b)
	})
}

func TestAMissingReceiveEndsInRNRRetryExceeded(t *testing.T) {
	inBubble(t, func(f fixture) {
		a, b := f.pair()
		before := time.Now()
		a.Send(sendWork(1, nil))
		a.Done(rdma.OpSend, rdma.StatusRNRRetryExceeded)
		if d := time.Since(before); d != 3*time.Second {
			t.Errorf("given up after %v, want 3 s", d)
		}
		a.Event(rdma.EventDisconnected)
		b.Event(rdma.EventDisconnected)
	})
}

func TestAMissingReceiveIsWaitedForByDefault(t *testing.T) {
	inBubble(t, func(f fixture) {
		a, b := f.pair()
		b.Send(sendWork(1, nil))
		time.Sleep(time.Hour)
		f.quiet(b)
		a.Receive(recvWork(2, nil))
		b.Done(rdma.OpSend, rdma.StatusOK)
	})
}

func TestSendsCanBeLimited(t *testing.T) {
	inBubble(t, func(f fixture) {
		a, b := f.pair()
		b.Receive(recvWork(1, nil), recvWork(2, nil), recvWork(3, nil))
		f.a.LimitSends(2)
		f.la.Do(func() {
			n, err := a.QP.PostSend([]rdma.Work{sendWork(1, nil), sendWork(2, nil), sendWork(3, nil)})
			if n != 2 || err == nil {
				t.Errorf("%d taken with %v, want 2 with ErrFull", n, err)
			}
		})
		a.Done(rdma.OpSend, rdma.StatusOK)
		a.Done(rdma.OpSend, rdma.StatusOK)
		f.a.LimitSends(-1)
		a.Send(sendWork(3, nil))
		a.Done(rdma.OpSend, rdma.StatusOK)
	})
}

func TestASlotIsFreeOnlyAfterASignaledCompletion(t *testing.T) {
	inBubble(t, func(f fixture) {
		cfg := config()
		cfg.SendDepth = 3
		a, b := f.la.NewEnd(cfg), f.lb.NewEnd(config())
		f.join(a, b)
		quiet := rdma.Work{Op: rdma.OpWrite}
		a.Send(quiet, quiet)
		f.la.Do(func() {
			if n, _ := a.QP.PostSend([]rdma.Work{quiet, quiet}); n != 1 {
				t.Errorf("%d taken, want 1: unsignaled work holds its slot", n)
			}
		})
	})
}

func TestConnectionsByServiceIDCarry92BytesAndNoAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addr := netip.MustParseAddr
		ga, gb := ib.GID{0: 0xFE, 1: 0x80, 15: 1}, ib.GID{0: 0xFE, 1: 0x80, 15: 2}
		p := NewProvider(NewFabric(), "memory",
			DeviceConfig{Name: "a", Addrs: []netip.Addr{addr("fd00::1")}, GIDs: []ib.GID{ga}, LID: 1, PKeys: []ib.PKey{0x8001}},
			DeviceConfig{Name: "b", Addrs: []netip.Addr{addr("fd00::2")}, GIDs: []ib.GID{gb}, LID: 2, PKeys: []ib.PKey{0xFFFF, 0x0001}})
		r := newRig(t, Harness{Provider: p, A: p.Device("a"), B: p.Device("b"), AddrA: addr("fd00::1"), AddrB: addr("fd00::2"), Port: 7})
		svc := rdma.Service{ID: rdma.ServiceID(7), GID: gb}
		l := r.listen(svc)
		if _, err := r.B.Listen(svc); !errors.Is(err, rdma.ErrInUse) {
			t.Errorf("a second listener: %v, want ErrInUse", err)
		}
		a, b := r.la.NewEnd(config()), r.lb.NewEnd(config())
		sent := private(92, 1)
		a.Connect(rdma.ConnectParams{Remote: svc, Private: sent})
		req := r.accept(l)
		if !bytes.Equal(req.Private(), sent) {
			t.Errorf("carried %x, want %x", req.Private(), sent)
		}
		want := rdma.ConnInfo{Device: "b", Port: 1, LocalGID: gb, RemoteGID: ga, PKey: 0x8001, RemoteQPN: a.QP.Num(), Reads: 16}
		if got := req.Info(); got != want || got.RemoteName() != ga.String() || got.LocalName() != gb.String() {
			t.Errorf("request %+v, want %+v", got, want)
		}
		b.Accept(req, nil)
		a.Event(rdma.EventEstablished)
		b.Event(rdma.EventEstablished)
		r.exchange(a, b)
	})
}

func TestReadOfAPeerThatServesNoneEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addr := netip.MustParseAddr
		p := NewProvider(NewFabric(), "memory", DeviceConfig{Name: "a", Addrs: []netip.Addr{addr("192.0.2.1")}},
			DeviceConfig{Name: "b", Addrs: []netip.Addr{addr("192.0.2.2")}, NoReads: true})
		r := newRig(t, Harness{Provider: p, A: p.Device("a"), B: p.Device("b"), AddrA: addr("192.0.2.1"), AddrB: addr("192.0.2.2"), Port: 7})
		a, b := r.pair()
		if n := a.Info().Reads + b.Info().Reads; n != 0 {
			t.Errorf("the ends tell of %d READs", n)
		}
		from, to := r.memory(r.B, 16, rdma.RemoteRead), r.memory(r.A, 16, 0)
		a.Send(remoteWork(1, rdma.OpRead, all(to), from))
		a.Done(rdma.OpRead, rdma.StatusRemoteInvalid)
		a.Event(rdma.EventDisconnected)
		b.Event(rdma.EventDisconnected)
	})
}

func TestServiceIDNeedsInfiniBandItsFormAndAPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gid := ib.GID{0: 0xFE, 1: 0x80, 15: 2}
		id := rdma.ServiceID(7)
		p := NewProvider(NewFabric(), "memory",
			DeviceConfig{Name: "a", GIDs: []ib.GID{{0: 0xFE, 1: 0x80, 15: 1}}, LID: 1, PKeys: []ib.PKey{0x8002}},
			DeviceConfig{Name: "b", GIDs: []ib.GID{gid}, LID: 2},
			DeviceConfig{Name: "eth", GIDs: []ib.GID{{0: 0xFE, 1: 0x80, 15: 3}}})
		r := newRig(t, Harness{Provider: p, A: p.Device("a"), B: p.Device("b"), Port: 7})
		for _, row := range []struct {
			dev *Device
			svc rdma.Service
		}{
			{p.Device("eth"), rdma.Service{ID: id, GID: ib.GID{0: 0xFE, 1: 0x80, 15: 3}}},
			{p.Device("b"), rdma.Service{ID: id}}, {p.Device("b"), rdma.Service{ID: id, GID: ib.GID{15: 9}}},
			{p.Device("b"), rdma.Service{ID: 0x505400FFFE123456, GID: gid}}, {p.Device("b"), rdma.Service{ID: 0x0106_0000 | 7, GID: gid}},
			{p.Device("b"), rdma.Service{ID: rdma.ServiceID(0), GID: gid}},
			{p.Device("b"), rdma.Service{ID: id, GID: gid, Addr: netip.MustParseAddrPort("[::]:7")}},
		} {
			if _, err := row.dev.Listen(row.svc); !errors.Is(err, rdma.ErrInvalid) {
				t.Errorf("%s: %v: %v, want ErrInvalid", row.dev.Name(), row.svc, err)
			}
		}
		svc := rdma.Service{ID: id, GID: gid}
		r.listen(svc)
		a := r.la.NewEnd(config())
		a.Connect(rdma.ConnectParams{Remote: svc})
		if c := a.Event(rdma.EventRejected); c.Reason != rdma.RejectUnsupported {
			t.Errorf("another partition: %+v", c)
		}
	})
}

func TestAFullBacklogLosesRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addr := netip.MustParseAddr
		p := NewProvider(NewFabric(), "memory",
			DeviceConfig{Name: "a", Addrs: []netip.Addr{addr("192.0.2.1")}},
			DeviceConfig{Name: "b", Addrs: []netip.Addr{addr("192.0.2.2")}, Backlog: 1})
		r := newRig(t, Harness{Provider: p, A: p.Device("a"), B: p.Device("b"), AddrA: addr("192.0.2.1"), AddrB: addr("192.0.2.2"), Port: 7})
		svc := r.service()
		r.listen(svc)
		for want := range uint64(3) {
			ends := []*End{r.la.NewEnd(config()), r.la.NewEnd(config())}
			for _, e := range ends {
				e.Connect(r.params(svc, nil))
			}
			for _, e := range ends {
				e.Event(rdma.EventFailed)
			}
			if n := r.B.Stats()["requests_overflowed"]; n != want+1 {
				t.Errorf("%d overflowed, want one in each of %d rounds", n, want+1)
			}
		}
	})
}

func TestOpenTellsWhatIsLeft(t *testing.T) {
	_, a, _ := Pair()
	if s := a.Open(); s != "" {
		t.Errorf("new device: %q", s)
	}
	region, err := a.Register(make([]byte, 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	if s := a.Open(); s != "0 completion queues, 0 shared receive queues, 0 queue pairs, 0 listeners, 1 regions, 0 datagram ports" {
		t.Errorf("with a region: %q", s)
	}
	region.Close()
	if s := a.Open(); s != "" {
		t.Errorf("after Close: %q", s)
	}
}

func TestDevicesComeAndGo(t *testing.T) {
	p, _, b := Pair()
	p.Add(DeviceConfig{Name: "c"})
	if err := p.Remove("b"); err != nil {
		t.Error(err)
	}
	if err := p.Remove("b"); err == nil {
		t.Error("a device was removed twice")
	}
	list, err := p.Devices(t.Context())
	if err != nil || len(list) != 2 || list[0].Name() != "a" || list[1].Name() != "c" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := b.Ports(); err == nil {
		t.Error("a removed device still answers")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
