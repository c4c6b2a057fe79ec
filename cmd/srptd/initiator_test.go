package main

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/roce"
	"github.com/gosrpt/gosrpt/core/srp"
	"github.com/gosrpt/gosrpt/core/target/hostile"
)

// computer is a computer with initiators: a provider of its own, at an address of its own.
type computer struct {
	provider *roce.Provider
	dev      rdma.Device
	addr     netip.Addr
}

func newComputer(t testing.TB) *computer {
	t.Helper()
	return newComputerAt(t, loopback())
}

func newComputerAt(t testing.TB, addr netip.Addr) *computer {
	t.Helper()
	h := &computer{addr: addr}
	h.provider = roce.New(roce.Config{Addrs: []netip.Addr{h.addr}, Log: hclog.NewNullLogger()})
	t.Cleanup(h.vanish)
	devs, err := h.provider.Devices(t.Context())
	if err != nil || len(devs) != 1 {
		t.Fatalf("devices of %v: %v, %v", h.addr, devs, err)
	}
	h.dev = devs[0]
	return h
}

// vanish closes the provider. Sessions are told, if they have not been closed.
func (h *computer) vanish() { h.provider.Close() }

// peer is where channels with any bytes come from.
func (h *computer) peer(s *site) hostile.Peer {
	return hostile.Peer{Device: h.dev, Local: h.addr, Target: s.service()}
}

var lastInitiator atomic.Uint64

// newInitiator is a port that nobody else has.
func newInitiator() srp.PortID {
	return srp.MakePortID(0x0200_0000_0000_1000+lastInitiator.Add(1), 0x0200_0000_0000_0b01)
}

func targetID() srp.PortID { return srp.MakePortID(testIDExt, testIOCGUID) }

// config is a login from the host to a daemon.
func (h *computer) config(s *site) initiator.Config {
	return initiator.Config{
		Device: h.dev, Local: h.addr, Remote: s.service(), Initiator: newInitiator(), Target: targetID(), QueueDepth: 32, Timeout: patience,
	}
}

// login logs in and clears the unit attentions of the LUNs named.
func (h *computer) login(t testing.TB, cfg initiator.Config, luns ...uint32) *initiator.Session {
	t.Helper()
	s, err := initiator.Dial(soon(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, n := range luns {
		if err := s.TestUnitReady(soon(t), lunOf(n)); err != nil {
			t.Fatalf("LUN %d: %v", n, err)
		}
	}
	return s
}

// dial is login by a new host with two channels and immediate data.
func dial(t testing.TB, s *site, luns ...uint32) *initiator.Session {
	t.Helper()
	h := newComputer(t)
	cfg := h.config(s)
	cfg.Channels, cfg.Immediate = 2, true
	return h.login(t, cfg, luns...)
}

func lunOf(n uint32) srp.LUN {
	l, _ := srp.MakeLUN(n)
	return l
}

// soon is a context for what must happen within patience.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
