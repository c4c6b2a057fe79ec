package target

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// channelOf is the login of a host's channel that is not its first.
func channelOf(host byte) srp.LoginReq {
	r := request()
	r.Flags, r.Initiator[0] = srp.LoginFlags(srp.ActionMulti), host
	return r
}

// limited expects a refusal with the bytes of a login reject, up to its tag.
func limited(t *testing.T, what string, c rdma.Completion, reason srp.RejReason) {
	t.Helper()
	want := fmt.Sprintf("c2000000%08x", uint32(reason)) + "1122334455667788"
	if c.Event != rdma.EventRejected || c.Reason != rdma.RejectConsumer || hex.EncodeToString(c.Data[:16]) != want {
		t.Errorf("%s: %+v, want REJ 28 with %s", what, c, want)
	}
}

// ready carries out TEST UNIT READY on a channel, whatever it says.
func (k *knocker) ready(e *rdmatest.End) {
	k.g.t.Helper()
	mem := k.region
	f := srp.CmdFields{Tag: 1, CDB: make([]byte, 6)}
	n := copy(mem.Bytes(), f.Append(nil))
	e.Receive(rdma.Work{ID: 9, Op: rdma.OpRecv, SGL: []rdma.SGE{{Region: mem, Off: 1024, Len: 512}}})
	e.Send(rdma.Work{Op: rdma.OpSend, SGL: []rdma.SGE{{Region: mem, Len: uint64(n)}}})
	if c := e.Next(); c.Op != rdma.OpRecv || c.Status != rdma.StatusOK || mem.Bytes()[1024] != byte(srp.OpRsp) {
		k.g.t.Errorf("%+v", c)
	}
}

// TestManyChannelsOfOneHostKeepNoOtherOut is case B03.1 and B03.2.
func TestManyChannelsOfOneHostKeepNoOtherOut(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, func(g *rig) {
		g.cfg.Limits = Limits{Channels: 64, ChannelsPerPort: 20, ChannelsPerNexus: 8, Reserve: 4}
	})
	k := g.knocker(g.peer)
	k.region = g.registered(4096)
	for _, host := range []byte{1, 2} {
		var granted []*rdmatest.End
		refused := 0
		for range 44 {
			r := channelOf(host)
			e, c := k.knock(r.AppendRDMA(nil))
			if c.Event == rdma.EventEstablished {
				granted = append(granted, e)
				continue
			}
			limited(t, fmt.Sprintf("host %d", host), c, srp.RejChannelLimit)
			e.Close()
			refused++
		}
		if len(granted) != 8 || refused != 36 {
			t.Errorf("host %d: %d channels granted and %d refused, want 8 and 36", host, len(granted), refused)
		}
		for _, e := range granted {
			k.ready(e)
		}
	}
	// 16 of 20 are in use, 4 are reserved: for first channels only.
	for host := byte(3); host < 7; host++ {
		first, _ := k.accepted(channelOf(host))
		k.ready(first)
		r := channelOf(host)
		e, c := k.knock(r.AppendRDMA(nil))
		if e.Close(); host < 6 {
			limited(t, fmt.Sprintf("second channel of host %d", host), c, srp.RejChannelLimit)
		} else {
			limited(t, "second channel on a port that is full", c, srp.RejResources)
		}
	}
	r := channelOf(7)
	e, c := k.knock(r.AppendRDMA(nil))
	e.Close()
	limited(t, "a host beyond the limit", c, srp.RejResources)
	log := g.log.String()
	for _, want := range []string{"port 1 of a has 17 of 20, 4 are reserved", "port 1 of a has 20 of 20", "3 sessions, initiator " + channelOf(1).Initiator.String() + " has 8"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not say %q", want)
		}
	}
	k.loop.Close()
	g.empty()
}

func TestEachPortHasItsOwnLimit(t *testing.T) {
	leaktest.Check(t)
	var second *rdmatest.Device
	g := newRig(t, func(g *rig) {
		second = g.provider.Add(rdmatest.DeviceConfig{Name: "a2", Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.9")}})
		g.cfg.Devices = append(g.cfg.Devices, second)
		g.cfg.Limits = Limits{Channels: 10, ChannelsPerPort: 6, ChannelsPerNexus: 8, Reserve: 2}
	})
	k := g.knocker(g.peer)
	there := g.knocker(g.peer)
	there.remote = rdma.Service{Addr: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.9"), listenPort)}
	refuses := func(k *knocker, what string, r srp.LoginReq, reason srp.RejReason) {
		t.Helper()
		e, c := k.knock(r.AppendRDMA(nil))
		e.Close()
		limited(t, what, c, reason)
	}
	for range 4 {
		k.accepted(channelOf(1))
	}
	refuses(k, "a fifth channel", channelOf(1), srp.RejChannelLimit)
	k.accepted(channelOf(2))
	k.accepted(channelOf(3))
	refuses(k, "a fourth host on a port that is full", channelOf(4), srp.RejResources)
	there.accepted(channelOf(4))
	there.accepted(channelOf(4))
	refuses(there, "a third channel where the target has room for first ones alone", channelOf(4), srp.RejChannelLimit)
	there.accepted(channelOf(5))
	there.accepted(channelOf(6))
	refuses(there, "a host beyond the target's limit", channelOf(7), srp.RejResources)
	want := []ChannelUse{
		{InUse: 10, Limit: 10, Reserved: 2}, {Device: "a", Port: 1, InUse: 6, Limit: 6, Reserved: 2}, {Device: "a2", Port: 1, InUse: 4, Limit: 6, Reserved: 2},
	}
	if s := g.stats(); fmt.Sprint(s.Use) != fmt.Sprint(want) {
		t.Errorf("in use %+v, want %+v", s.Use, want)
	}
	again := channelOf(2)
	again.Flags = srp.LoginFlags(srp.ActionSingle)
	if _, rsp := k.accepted(again); rsp.Flags&srp.ResultMask != srp.ResultTerminated {
		t.Errorf("a host that comes back to a full port: result %x", rsp.Flags)
	}
	if list, err := g.target.Sessions(t.Context()); err != nil || len(list) == 0 || list[0].ChannelLimit != 8 {
		t.Errorf("sessions %+v, %v", list, err)
	}
	k.loop.Close()
	there.loop.Close()
	g.empty()
	if s := g.stats(); len(s.Use) != 1 || s.Use[0].InUse != 0 {
		t.Errorf("in use by nobody: %+v", s.Use)
	}
}

// TestConnectingAndRefusingAThousandTimesLeavesNothing is case B03.3.
func TestConnectingAndRefusingAThousandTimesLeavesNothing(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, func(g *rig) { g.cfg.Limits = Limits{Channels: 4, ChannelsPerNexus: 2, Reserve: 1} })
	k := g.knocker(g.peer)
	cycle := func() {
		t.Helper()
		first, _ := k.accepted(channelOf(1))
		further, _ := k.accepted(channelOf(1))
		if rej := k.refused(func() []byte { r := channelOf(1); return r.AppendRDMA(nil) }()); rej.Reason != srp.RejChannelLimit {
			t.Fatalf("%v", rej.Reason)
		}
		for _, e := range []*rdmatest.End{first, further} {
			e.Disconnect()
			e.Event(rdma.EventDisconnected)
			e.Close()
		}
		g.waitFor("the channels end", func() bool { return g.target.links == 0 })
	}
	type count struct {
		open, peers             string
		goroutines, descriptors int
	}
	counted := func() count {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return count{g.dev.Open(), g.peer.Open(), runtime.NumGoroutine(), len(fds)}
	}
	cycle()
	g.empty()
	before := counted()
	for range 1000 {
		cycle()
	}
	g.empty()
	// A login's goroutine ends a moment after its answer.
	g.waitFor("the goroutines end", func() bool { return runtime.NumGoroutine() <= before.goroutines })
	if after := counted(); after != before {
		t.Errorf("%+v, before %+v", after, before)
	}
}
