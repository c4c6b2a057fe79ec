package target

import (
	"context"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
	"github.com/gosrpt/gosrpt/core/target/hostile"
)

// portsDevice is a device with the ports given, which listens to service ids but where it is told not to.
type portsDevice struct {
	*rdmatest.Device
	ports  []rdma.Port
	refuse map[ib.GID]error
	heard  []rdma.Service
}

func (d *portsDevice) Ports() ([]rdma.Port, error) { return d.ports, nil }

func (d *portsDevice) Listen(svc rdma.Service) (rdma.Listener, error) {
	if svc.ID == 0 {
		return d.Device.Listen(svc)
	}
	if err := d.refuse[svc.GID]; err != nil {
		return nil, &rdma.Error{Op: "listen", Peer: svc.String(), Err: err}
	}
	d.heard = append(d.heard, svc)
	return &quietListener{svc: svc, dev: d, Listener: d.silence(svc)}, nil
}

// silence is a listener that gets no requests.
func (d *portsDevice) silence(svc rdma.Service) rdma.Listener {
	l, err := d.Device.Listen(rdma.Service{Addr: netip.AddrPortFrom(netip.Addr{}, 6000+uint16(svc.GID[15]))})
	if err != nil {
		panic(err)
	}
	return l
}

type quietListener struct {
	rdma.Listener
	svc rdma.Service
	dev *portsDevice
}

func (l *quietListener) Service() rdma.Service { return l.svc }

func (l *quietListener) Close() error {
	l.dev.heard = slices.DeleteFunc(l.dev.heard, func(s rdma.Service) bool { return s == l.svc })
	return l.Listener.Close()
}

func port(num int, link ib.LinkLayer, gids ...ib.GID) rdma.Port {
	return rdma.Port{Num: num, Link: link, GIDs: gids, PKeys: []ib.PKey{0xFFFF, 0, 0x8001}}
}

func byID(g ib.GID) rdma.Service { return rdma.Service{ID: 0x013F_15B3, GID: g} }

// It covers the choice of ports, their changes, and a port that cannot be listened at.
func TestServiceIDIsListenedToAtEveryInfiniBandPort(t *testing.T) {
	leaktest.Check(t)
	g := newRig(t)
	d := &portsDevice{Device: g.plug("mixed", "192.0.2.40"), refuse: map[ib.GID]error{gid(3): rdma.ErrInUse}}
	d.ports = []rdma.Port{
		port(1, ib.LinkInfiniBand, gid(1), gid(11)), port(2, ib.LinkEthernet, gid(2)), port(3, ib.LinkInfiniBand, gid(3)), port(4, ib.LinkInfiniBand),
	}
	if err := g.target.AddDevice(t.Context(), d); err != nil {
		t.Fatalf("a port that cannot be listened at keeps the device from being served: %v", err)
	}
	want := func(services ...rdma.Service) {
		t.Helper()
		if !slices.Equal(d.heard, services) {
			t.Errorf("listens to %v, want %v", d.heard, services)
		}
	}
	want(byID(gid(1)))
	again := func() {
		t.Helper()
		if err := g.target.ListenAgain(d); err != nil {
			t.Error(err)
		}
	}
	again()
	const refusal = "no logins by service id at a port"
	if log := g.log.String(); strings.Count(log, refusal) != 1 || !strings.Contains(log, "port=3") || !strings.Contains(log, "in use") ||
		!strings.Contains(log, "service id 00000000013f15b3 at "+gid(3).String()) {
		t.Errorf("want one line of port 3 and its reason:\n%s", log)
	}
	if w := g.target.Waiting(); len(w) != 0 {
		t.Errorf("waits for %v", w)
	}
	list := slices.DeleteFunc(g.target.Listening(), func(l Listening) bool { return l.ID == 0 })
	if len(list) != 1 || list[0].Service != byID(gid(1)) || list[0].Device != "mixed" || !slices.Equal(list[0].PKeys, d.ports[0].PKeys) {
		t.Errorf("listening %+v", list)
	}

	delete(d.refuse, gid(3))
	d.ports[3] = port(4, ib.LinkInfiniBand, gid(4))
	again()
	want(byID(gid(1)), byID(gid(3)), byID(gid(4)))

	d.ports[0].GIDs[0] = gid(21) // the subnet manager has given another prefix
	again()
	want(byID(gid(3)), byID(gid(4)), byID(gid(21)))
	if err := g.target.RemoveDevice(t.Context(), d); err != nil {
		t.Error(err)
	}
	want()
}

// The bytes on the wire, and what is known of the peer, where there is no IP addressing: the whole way from the request to data.
func TestLoginByServiceIDFromTheRequestToData(t *testing.T) {
	leaktest.Check(t)
	asked := make(chan Login, 4)
	g := newRig(t, func(g *rig) {
		g.cfg.Authorizer = judge(func(_ context.Context, l Login) (Grant, error) { asked <- l; return Grant{}, nil })
	})
	k := g.knockerByID()
	e, c := k.knock(hostile.LoginBytes(true, 0, ""))
	if got, want := hex.EncodeToString(c.Data[:srp.LoginRspLen]), hostile.Accepted("0102030405060708", "90"); got != want {
		t.Errorf("answered\n%s, want\n%s", got, want)
	}
	l := <-asked
	if l.Info.IPAddressed || l.Info.RemoteGID != gid(9) || l.Info.LocalGID != gid(1) || l.Info.PKey != 0xFFFF || l.Info.Remote.IsValid() {
		t.Errorf("the authoriser is told of %+v", l.Info)
	}
	g.waitFor("the log names the peer by its GID", func() bool { return strings.Contains(g.log.String(), "address="+gid(9).String()) })
	sessions, err := g.target.Sessions(t.Context())
	if err != nil || len(sessions) != 1 {
		t.Fatalf("%v, %v", sessions, err)
	}
	if info := sessions[0].Channels[0].Info; info.RemoteName() != gid(9).String() || info.LocalName() != gid(1).String() {
		t.Errorf("the session is shown as of %s at %s", info.RemoteName(), info.LocalName())
	}
	// The form of the other family is no login: it begins with the tag, where the type is looked for.
	if rej := k.refused(hostile.LoginBytes(false, 0, "tag=0900000000000000")); rej.Reason != srp.RejNoReason {
		t.Errorf("the form of 56 bytes: %v", rej.Reason)
	}
	e.Disconnect()
	g.empty()
	s := g.ready(func(c *initiator.Config) {
		c.Device, c.Remote, c.Service = k.dev, netip.AddrPort{}, byID(gid(1))
	})
	<-asked
	works(t, s)
}

func TestAllowListTakesAGIDWhereThereIsNoAddress(t *testing.T) {
	for _, row := range []struct {
		name string
		info rdma.ConnInfo
		ok   bool
	}{
		{"by GID", rdma.ConnInfo{RemoteGID: gid(9)}, true},
		{"another GID", rdma.ConnInfo{RemoteGID: gid(8)}, false},
		{"an address, behind a GID of that name", rdma.ConnInfo{IPAddressed: true, Remote: netip.MustParseAddrPort("[fd00::1]:1"), RemoteGID: gid(9)}, false},
		{"by address", rdma.ConnInfo{IPAddressed: true, Remote: netip.MustParseAddrPort("[fe80::9%ib0]:1")}, true},
		{"nothing known", rdma.ConnInfo{}, false},
	} {
		list, err := NewAllowList([]string{gid(9).String()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = list.Authorize(t.Context(), Login{Initiator: initiatorID, Info: row.info})
		if (err == nil) != row.ok {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}
