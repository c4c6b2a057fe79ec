package conn

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/ioctx"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// sharedByDefault is the SharedReceives of the plan of rigs.
var sharedByDefault int

// TestWhatHoldsHoldsWithSharedReceives does the tests of channels again over a pool.
func TestWhatHoldsHoldsWithSharedReceives(t *testing.T) {
	sharedByDefault = 64
	defer func() { sharedByDefault = 0 }()
	for name, f := range map[string]func(*testing.T){
		"every descriptor form": TestDataArrivesByEveryDescriptorForm, "malformed commands": TestMalformedCommandsGetTheirAnswer,
		"immediate data": TestImmediateDataIsHeldAgainstWhatCame, "one request too many": TestOneRequestTooManyEndsTheChannel,
		"credits": TestCreditsAreConserved, "small send queue": TestNoResponseIsLostWhenTheSendQueueIsSmall,
		"remote access error": TestRemoteAccessErrorEndsThatChannelOnly, "abort": TestAbortAtEachStage, "abort answered": TestNothingMovesForACommandAfterItsAbortWasAnswered,
		"peer goes": TestPeerThatGoesAtEachStageLeavesNothing, "store takes its time": TestChannelWaitsForItsStoreBeforeItEnds,
		"held": TestHeldChannelRunsNothingUntilAdmitted, "operator": TestOperatorsCloseTellsTheInitiatorWhy, "another nexus": TestAbortOfAnotherNexus,
		"reactor closes": TestReactorsCloseEndsItsChannels, "peer vanishes": TestVanishedPeerIsFoundInTime, "never completes": TestPeerThatNeverCompletesTheConnectionIsDropped,
		"request first": TestRequestBeforeTheEstablishedEventIsAnsweredAfterIt, "no allocation": TestCommandsAllocateNothing,
	} {
		t.Run(name, f)
	}
}

// sharing makes a rig whose channels have 4 credits and 2 more receives, of a pool of n.
func sharing(t testing.TB, n int) *rig {
	return newRig(t, func(g *rig) {
		g.plan.Credits, g.plan.Unsolicited, g.plan.Responses, g.plan.SharedReceives = 4, 2, 8, n
	})
}

func (g *rig) poolStats() (s PoolStats) {
	g.t.Helper()
	g.run(func() { s = g.pool.Stats() })
	return s
}

func TestChannelsShareTheirReceives(t *testing.T) {
	leaktest.Check(t)
	g := sharing(t, 24)
	var peers []*peer
	for range 4 {
		peers = append(peers, g.login(login{}))
	}
	if s := g.poolStats(); s.Promised != 24 || s.Held != 0 {
		t.Errorf("%+v", s)
	}
	for round := range 50 {
		for _, p := range peers {
			for i := range srp.Tag(4) {
				p.read(i, 0, 512, direct(p.desc(0, 512)))
			}
		}
		for i := range peers {
			p := peers[(i+round)%len(peers)]
			for i := range srp.Tag(4) {
				p.rsp(i)
			}
		}
	}
	for _, p := range peers {
		g.settled(p)
	}
	if s := g.peerDev.Stats()["receiver_not_ready"]; s != 0 {
		t.Errorf("%d times a unit found no receive", s)
	}
	for _, p := range peers {
		p.end.Disconnect()
		<-p.done
	}
	g.settled(nil)
}

// TestInitiatorThatSendsTooMuchLosesItsOwnChannel: units that take no credit are bounded by nothing but the channel's share.
func TestInitiatorThatSendsTooMuchLosesItsOwnChannel(t *testing.T) {
	leaktest.Check(t)
	g := sharing(t, 18)
	good := g.login(login{})
	bad := g.login(login{held: true}) // so that nothing is answered
	for range 17 {                    // all that the good one leaves, and more than its share of 6
		bad.trySend(srp.AppendCredRsp(nil, 1))
	}
	s := <-bad.done
	tooMany := s.Cause == channel.CauseTransport && errors.Is(s.Fault.Err, errTooManyUnits)
	if s.Cause != channel.CauseProtocol && !tooMany { // whichever is seen first
		t.Errorf("ended by %v, %v", s.Cause, s.Fault)
	}
	for range 20 {
		good.read(1, 0, 512, direct(good.desc(0, 512)))
		good.rsp(1)
	}
	g.settled(good)
	if s := g.poolStats(); s.Promised != 6 || s.Held != 0 {
		t.Errorf("%+v", s)
	}
	// Nothing is lost: two more channels find all their receives.
	for range 2 {
		p := g.login(login{})
		for i := range srp.Tag(4) {
			p.hold(i)
			g.expectNews("held")
		}
		if s := g.peerDev.Stats()["receiver_not_ready"]; s != 0 {
			t.Errorf("%d times a unit found no receive", s)
		}
		for range 4 {
			g.finishHeld(Result{})
		}
	}
}

func TestRetiredPoolEndsWithItsLastChannel(t *testing.T) {
	leaktest.Check(t)
	g := sharing(t, 16)
	p := g.login(login{})
	g.run(func() {
		g.pool.Retire()
		if g.pool.Free() != 0 || g.pool.dead {
			t.Errorf("%+v", g.pool.Stats())
		}
	})
	p.read(1, 0, 512, direct(p.desc(0, 512)))
	p.rsp(1)
	p.end.Disconnect()
	<-p.done
	g.run(func() {
		if !g.pool.dead || len(g.reactor.queueOf(g.dev).pools) != 0 {
			t.Error("the pool is still there")
		}
	})
}

func TestPoolOfARemovedDeviceKeepsWhatAHandlerReads(t *testing.T) {
	leaktest.Check(t)
	g := sharing(t, 16)
	p := g.login(login{})
	g.run(func() { g.disk.onAbort = func(*Command) {} })
	p.hold(7)
	g.expectNews("held")
	g.run(func() {
		if err := g.reactor.RemoveDevice(g.dev); err != nil {
			t.Error(err)
		}
		c := g.disk.held[0]
		if c.IU.CDB()[0] != opHold || !g.pool.dead {
			t.Errorf("% x", c.IU.CDB())
		}
	})
	g.expectNews("abort")
	g.finishHeld(Result{})
	<-p.done
	g.run(func() {
		if g.pool.promised != 0 || g.pool.ring.Close() != nil {
			t.Errorf("%+v", g.pool.Stats())
		}
	})
	p.end.Close()
}

func TestDeviceWithoutSharedReceivesSaysSo(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	poor := g.provider.Add(rdmatest.DeviceConfig{Name: "poor", NoSRQ: true, Addrs: []netip.Addr{netip.MustParseAddr("10.1.1.1")}})
	small := g.provider.Add(rdmatest.DeviceConfig{Name: "small", MaxSRQWork: 10, Addrs: []netip.Addr{netip.MustParseAddr("10.1.1.2")}})
	for dev, want := range map[*rdmatest.Device]error{poor: rdma.ErrUnsupported, small: rdma.ErrInvalid} {
		if _, err := OpenReceivePool(t.Context(), g.reactor, dev, 16, 64); !errors.Is(err, ErrDevice) {
			t.Errorf("a device that is not served: %v", err)
		}
		g.run(func() {
			if err := g.reactor.AddDevice(dev); err != nil {
				t.Error(err)
			}
		})
		if _, err := OpenReceivePool(t.Context(), g.reactor, dev, 16, 64); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", dev.Name(), err, want)
		}
		if dev.Open() != "1 completion queues, 0 shared receive queues, 0 queue pairs, 0 listeners, 1 regions, 0 datagram ports" { // that of the tables
			t.Errorf("left: %s", dev.Open())
		}
	}
	if _, err := OpenReceivePool(t.Context(), g.reactor, g.dev, 0, 64); !errors.Is(err, ioctx.ErrSize) {
		t.Errorf("no receives: %v", err)
	}
}
