package target

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// knocker logs in with raw requests.
type knocker struct {
	g      *rig
	loop   *rdmatest.Loop
	dev    *rdmatest.Device
	remote rdma.Service
	region rdma.Region // for ready
}

func (g *rig) knocker(dev *rdmatest.Device) *knocker {
	return &knocker{g: g, dev: dev, remote: rdma.Service{Addr: g.remote()}, loop: rdmatest.NewLoop(g.t, dev, rdma.CQConfig{Depth: 4096})}
}

// request is a login request that is in order.
func request() srp.LoginReq {
	return srp.LoginReq{Tag: 0x1122334455667788, MaxITIU: 8260, Formats: 6, Flags: srp.LoginImmediate,
		ImmediateOffset: 68, Initiator: initiatorID, Target: targetID}
}

// knock sends private data and returns the queue pair and what came of it.
func (k *knocker) knock(private []byte) (*rdmatest.End, rdma.Completion) {
	k.g.t.Helper()
	e := k.loop.NewEnd(rdma.QPConfig{SendDepth: 32, RecvDepth: 32})
	e.Connect(rdma.ConnectParams{Remote: k.remote, Private: private, Timeout: time.Minute})
	return e, e.Next()
}

// accepted logs in and returns the queue pair and the response.
func (k *knocker) accepted(r srp.LoginReq) (*rdmatest.End, srp.LoginRsp) {
	k.g.t.Helper()
	e, c := k.knock(r.AppendRDMA(nil))
	if c.Event != rdma.EventEstablished {
		k.g.t.Fatalf("%+v", c)
	}
	rsp, err := srp.ParseLoginRsp(c.Data)
	if err != nil {
		k.g.t.Fatal(err)
	}
	return e, rsp
}

// refused logs in and returns the reason that it is refused with.
func (k *knocker) refused(private []byte) srp.LoginRej {
	k.g.t.Helper()
	e, c := k.knock(private)
	e.Close()
	if c.Event != rdma.EventRejected || c.Reason != rdma.RejectConsumer {
		k.g.t.Fatalf("%+v", c)
	}
	rej, err := srp.ParseLoginRej(c.Data)
	if err != nil {
		k.g.t.Fatal(err)
	}
	return rej
}

func TestLoginFormFollowsFromTheAddressing(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	ip := g.knocker(g.peer)
	req := request()
	e, c := ip.knock(req.AppendRDMA(nil))
	want := "c000000000000010" + "1122334455667788" + "00002054" + "00000200" + "0006" + "90" + strings.Repeat("00", 25)
	if got := hex.EncodeToString(c.Data[:srp.LoginRspLen]); got != want {
		t.Errorf("RDMA/CM form: answered\n%s, want\n%s", got, want)
	}
	e.Disconnect()
	g.empty()
	native := g.knockerByID()
	e, c = native.knock(req.Append(nil))
	if got := hex.EncodeToString(c.Data[:min(len(c.Data), srp.LoginRspLen)]); got != want {
		t.Errorf("IB CM form: answered\n%s, want\n%s", got, want)
	}
	e.Disconnect()
	for _, b := range [][]byte{nil, make([]byte, 56)} { // an empty request is padded with zeros
		if rej := ip.refused(b); rej.Reason != srp.RejITIULength {
			t.Errorf("zeros: %v", rej.Reason)
		}
	}
	wrong := req.AppendRDMA(nil)
	wrong[11] = 2
	if rej := ip.refused(wrong); rej.Reason != srp.RejNoReason || rej.Tag != req.Tag {
		t.Errorf("type 2: %v", rej)
	}
	g.empty()
}

// gid is a GID of the default subnet.
func gid(n byte) ib.GID { return ib.GID{0: 0xFE, 1: 0x80, 15: n} }

// knockerByID logs in by service id, at a device with an InfiniBand port and no address.
func (g *rig) knockerByID() *knocker {
	g.t.Helper()
	g.plugIB("ib0", 1)
	k := g.knocker(g.provider.Add(rdmatest.DeviceConfig{Name: "ib9", LID: 9, GIDs: []ib.GID{gid(9)}}))
	k.remote = rdma.Service{ID: rdma.ServiceID(listenPort), GID: gid(1)}
	return k
}

// plugIB gives the target a device with an InfiniBand port.
func (g *rig) plugIB(name string, n byte) *rdmatest.Device {
	g.t.Helper()
	d := g.provider.Add(rdmatest.DeviceConfig{Name: name, LID: ib.LID(n), GIDs: []ib.GID{gid(n)}})
	if err := g.target.AddDevice(g.t.Context(), d); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(g.shutdown)
	return d
}

func TestRefusedLoginSaysWhyAndLeavesNothing(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	k := g.knocker(g.peer)
	cases := []struct {
		name   string
		change func(*srp.LoginReq)
		reason srp.RejReason
	}{
		{"IU of 63", func(r *srp.LoginReq) { r.MaxITIU = 63 }, srp.RejITIULength},
		{"IU of one too many", func(r *srp.LoginReq) { r.MaxITIU = 8277 }, srp.RejITIULength},
		{"all ones", func(r *srp.LoginReq) { r.MaxITIU = 1<<32 - 1 }, srp.RejITIULength},
		{"no format", func(r *srp.LoginReq) { r.Formats = 0 }, srp.RejFormat},
		{"unknown format", func(r *srp.LoginReq) { r.Formats = 0x0e }, srp.RejFormat},
		{"other target", func(r *srp.LoginReq) { r.Target[3] ^= 1 }, srp.RejNexus},
		{"no initiator", func(r *srp.LoginReq) { r.Initiator = srp.PortID{} }, srp.RejNexus},
		{"action 2", func(r *srp.LoginReq) { r.Flags |= 2 }, srp.RejNoReason},
		{"reserved flag", func(r *srp.LoginReq) { r.Flags |= 4 }, srp.RejNoReason},
	}
	for i := range 1000 {
		c := cases[i%len(cases)]
		r := request()
		c.change(&r)
		r.Tag += srp.Tag(i)
		if rej := k.refused(r.AppendRDMA(nil)); rej.Reason != c.reason || rej.Tag != r.Tag || rej.Formats != 6 {
			t.Fatalf("%s: %+v", c.name, rej)
		}
	}
	g.empty()
	s := g.stats()
	total := uint64(0)
	for _, n := range s.RefusedBy {
		total += n
	}
	if s.Refused != 1000 || total != 1000 || s.Accepted != 0 || len(s.RefusedBy) != 4 {
		t.Errorf("%+v", s)
	}
	if !strings.Contains(g.log.String(), "login refused") {
		t.Error("nothing was logged")
	}
}

// The port id of ib_srp over siw is zero, unless somebody gives it another.
func TestLoginWithoutAPortIDIsToldWhatIsMissing(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	r := request()
	r.Initiator = srp.PortID{}
	if rej := g.knocker(g.peer).refused(r.AppendRDMA(nil)); rej.Reason != srp.RejNexus {
		t.Errorf("%+v", rej)
	}
	g.waitFor("the log has the cause", func() bool { return strings.Contains(g.log.String(), "give it an initiator_ext") })
}

// TestLoginWithoutRDMAReadsIsRefused: an initiator whose request has no responder resources, or a device that makes no READs.
func TestLoginWithoutRDMAReadsIsRefused(t *testing.T) {
	leaktest.Check(t)
	addr := netip.MustParseAddr("192.0.2.50")
	for name, row := range map[string]struct {
		adjust func(g *rig)
		says   string
	}{
		"the initiator serves none": {func(g *rig) {
			g.peer = g.provider.Add(rdmatest.DeviceConfig{Name: "readless", Addrs: []netip.Addr{addr}, NoReads: true})
		}, "responder resources of 1 or more"},
		"the device makes none": {func(g *rig) {
			g.dev = g.provider.Add(rdmatest.DeviceConfig{Name: "readless", Addrs: []netip.Addr{addr}, NoReads: true})
			g.cfg.Devices = []rdma.Device{g.dev}
		}, "the device readless makes no RDMA READs"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, row.adjust)
			r := request()
			if rej := g.knocker(g.peer).refused(r.AppendRDMA(nil)); rej.Reason != srp.RejResources || rej.Tag != r.Tag {
				t.Errorf("%+v", rej)
			}
			g.empty()
			if !strings.Contains(g.log.String(), row.says) {
				t.Errorf("the log does not say %q:\n%s", row.says, g.log)
			}
		})
	}
}

// One READ at a time is enough.
func TestLoginWithOneRDMAReadIsServed(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t, func(g *rig) {
		g.peer = g.provider.Add(rdmatest.DeviceConfig{Name: "slow", Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.50")}, MaxReads: 1})
	})
	_, rsp := g.knocker(g.peer).accepted(request())
	if rsp.Delta == 0 {
		t.Errorf("%+v", rsp)
	}
}

func TestLoginBoundsThatAreAccepted(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	k := g.knocker(g.peer)
	for _, c := range []struct {
		name      string
		change    func(*srp.LoginReq)
		immediate bool
	}{
		{"IU of 64", func(r *srp.LoginReq) { r.MaxITIU = 64 }, true},
		{"largest IU", func(r *srp.LoginReq) { r.MaxITIU = 8276 }, true},
		{"direct only", func(r *srp.LoginReq) { r.Formats = 2 }, true},
		{"immediate not asked for", func(r *srp.LoginReq) { r.Flags = 0 }, false},
		{"immediate offset 51", func(r *srp.LoginReq) { r.ImmediateOffset = 51 }, false},
		{"immediate offset 52", func(r *srp.LoginReq) { r.ImmediateOffset = 52 }, true},
		{"immediate offset 513", func(r *srp.LoginReq) { r.ImmediateOffset = 513 }, false},
	} {
		r := request()
		c.change(&r)
		e, rsp := k.accepted(r)
		if got := rsp.Flags&srp.LoginRspImmediate != 0; got != c.immediate {
			t.Errorf("%s: immediate %v", c.name, got)
		}
		e.Disconnect()
		g.empty()
	}
}

func (g *rig) waitLog(what string) {
	g.t.Helper()
	g.waitFor("log of "+what, func() bool { return strings.Contains(g.log.String(), what) })
}

func TestLoginsBeyondThoseExaminedAtOneTimeWaitForTheirTurn(t *testing.T) {
	leaktest.Check(t)
	entered, leave := make(chan bool, 10), make(chan bool)
	g := newRig(t, func(g *rig) {
		g.cfg.Limits = Limits{Logins: 2}
		g.cfg.Authorizer = judge(func(ctx context.Context, _ Login) (Grant, error) {
			entered <- true
			select {
			case <-leave:
			case <-ctx.Done():
			}
			return Grant{}, ctx.Err()
		})
	})
	k := g.knocker(g.peer)
	r := request()
	r.Flags |= srp.LoginFlags(srp.ActionMulti)
	var logins []*rdmatest.End
	for range 4 {
		e := k.loop.NewEnd(rdma.QPConfig{SendDepth: 1, RecvDepth: 1})
		e.Connect(rdma.ConnectParams{Remote: rdma.Service{Addr: g.remote()}, Private: r.AppendRDMA(nil), Timeout: time.Minute})
		logins = append(logins, e)
	}
	<-entered
	<-entered
	select {
	case <-entered:
		t.Error("a third login is examined beside two others")
	default:
	}
	logins[3].Close() // it gives up
	close(leave)
	for i, e := range logins[:3] {
		if c := e.Next(); c.Event != rdma.EventEstablished {
			t.Errorf("login %d: %+v", i, c)
		}
	}
	g.waitFor("all are answered", func() bool { return len(g.target.logins) == 0 && g.target.counts.accepted.Load() == 3 })
	if s := g.stats(); s.Refused != 0 || s.Pending != 0 {
		t.Errorf("%+v", s)
	}
	k.loop.Close()
	g.empty()
}

func TestShutdownGivesUpLoginsUnderWay(t *testing.T) {
	leaktest.Check(t)
	entered := make(chan bool, 1)
	g := newRig(t, func(g *rig) {
		g.cfg.Authorizer = judge(func(ctx context.Context, _ Login) (Grant, error) {
			entered <- true
			<-ctx.Done()
			return Grant{}, ctx.Err()
		})
	})
	k := g.knocker(g.peer)
	r := request()
	e := k.loop.NewEnd(rdma.QPConfig{SendDepth: 1, RecvDepth: 1})
	e.Connect(rdma.ConnectParams{Remote: rdma.Service{Addr: g.remote()}, Private: r.AppendRDMA(nil), Timeout: time.Minute})
	<-entered
	g.shutdown()
	if c := e.Next(); c.Event != rdma.EventRejected {
		t.Errorf("%+v", c)
	}
}

func FuzzLogin(f *testing.F) {
	r := request()
	f.Add(r.AppendRDMA(nil))
	f.Add(r.Append(nil))
	f.Fuzz(func(t *testing.T, private []byte) {
		g := newRig(t)
		k := g.knocker(g.peer)
		private = private[:min(len(private), srp.LoginReqRDMALen)]
		e, c := k.knock(private)
		defer e.Close()
		switch c.Event {
		case rdma.EventEstablished:
			if len(c.Data) < srp.LoginRspLen || c.Data[0] != byte(srp.OpLoginRsp) {
				t.Fatalf("accepted with % x", c.Data)
			}
		case rdma.EventRejected:
			reason := uint32(0)
			if len(c.Data) >= srp.LoginRejLen {
				reason = binary.BigEndian.Uint32(c.Data[4:])
			}
			if c.Reason != rdma.RejectConsumer || c.Data[0] != byte(srp.OpLoginRej) || reason < 0x10000 || reason > 0x10006 {
				t.Fatalf("refused with %d, % x", c.Reason, c.Data)
			}
		default:
			t.Fatalf("%+v", c)
		}
		e.Close()
		g.empty()
	})
}
