package initiator

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosrpt/gosrpt/core/ib"
	"github.com/gosrpt/gosrpt/core/internal/leaktest"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/rdmatest"
	"github.com/gosrpt/gosrpt/core/srp"
)

// bubble runs a test in a synctest bubble and checks that the session left nothing on the device.
func bubble(t *testing.T, run func(t *testing.T, b *bed)) {
	t.Helper()
	leaktest.Check(t)
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		t.Cleanup(func() {
			if left := b.a.Open(); left != "" {
				t.Errorf("left open: %s", left)
			}
		})
		run(t, b)
	})
}

func TestLoginAsksForWhatTheConfigurationSays(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.cfg.Immediate, b.cfg.Channels = true, 3
		s := b.dial()
		if n := len(s.Channels()); n != 3 {
			t.Errorf("%d channels, want 3", n)
		}
		for i, req := range b.reqs {
			want := srp.LoginReq{Tag: srp.Tag(i), MaxITIU: 8260, Formats: 6, Flags: srp.LoginImmediate, ImmediateOffset: 68,
				Initiator: initiatorID, Target: targetID}
			if i > 0 {
				want.Flags |= srp.LoginFlags(srp.ActionMulti)
			}
			if req != want {
				t.Errorf("channel %d asked %+v, want %+v", i, req, want)
			}
		}
	})
}

func TestLoginWithoutImmediateDataAsksForLess(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		s := b.dial()
		want := srp.LoginReq{MaxITIU: 276, Formats: 6, Initiator: initiatorID, Target: targetID}
		if b.reqs[0] != want {
			t.Errorf("asked %+v, want %+v", b.reqs[0], want)
		}
		got := s.Channels()[0]
		if got != (ChannelInfo{MaxITIU: 276, MaxTIIU: targetIU, Credits: b.credits}) {
			t.Errorf("settled %+v", got)
		}
	})
}

func TestLoginWithoutIPAddressingTakesTheLongForm(t *testing.T) {
	leaktest.Check(t)
	p := rdmatest.NewProvider(rdmatest.NewFabric(), "memory",
		rdmatest.DeviceConfig{Name: "a", LID: 1, GIDs: []ib.GID{{0: 0xFE, 1: 0x80, 15: 1}}},
		rdmatest.DeviceConfig{Name: "b", LID: 2, GIDs: []ib.GID{{0: 0xFE, 1: 0x80, 15: 2}}})
	defer p.Close()
	s := newScript(t, p.Device("b"))
	byID := rdma.Service{ID: rdma.ServiceID(5555), GID: ib.GID{0: 0xFE, 1: 0x80, 15: 2}}
	s.listen(byID)
	session, err := Dial(t.Context(), Config{Device: p.Device("a"), Service: byID, Initiator: initiatorID, Target: targetID})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if s.reqs[0].Initiator != initiatorID || s.reqs[0].Target != targetID {
		t.Errorf("asked %+v", s.reqs[0])
	}
}

func TestARefusedLoginTellsTheReason(t *testing.T) {
	rej := srp.LoginRej{Reason: srp.RejNexus, Formats: 6}
	rows := []struct {
		name    string
		reason  rdma.RejectReason
		private []byte
		want    RejectError
	}{
		{"SRP_LOGIN_REJ", rdma.RejectConsumer, rej.Append(nil), RejectError{CM: rdma.RejectConsumer, Login: srp.RejNexus}},
		{"connection manager", rdma.RejectNoResources, nil, RejectError{CM: rdma.RejectNoResources}},
		{"consumer without data", rdma.RejectConsumer, nil, RejectError{CM: rdma.RejectConsumer}},
		{"consumer with other data", rdma.RejectConsumer, []byte("nonsense"), RejectError{CM: rdma.RejectConsumer}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bed) {
				b.login = func(int, rdma.ConnRequest, srp.LoginReq) ([]byte, rdma.RejectReason) { return row.private, row.reason }
				b.listen(service)
				_, err := Dial(t.Context(), b.cfg)
				var got *RejectError
				if !errors.As(err, &got) || *got != row.want || !errors.Is(err, ErrRejected) {
					t.Errorf("Dial: %v, want %v", err, &row.want)
				}
			})
		})
	}
}

func TestAMalformedLoginResponseFailsTheLogin(t *testing.T) {
	good := srp.LoginRsp{Delta: 10, MaxITIU: 8260, MaxTIIU: 512, Formats: 6}
	with := func(change func(*srp.LoginRsp)) []byte {
		rsp := good
		change(&rsp)
		return rsp.Append(nil)
	}
	rows := []struct {
		name    string
		private []byte
	}{
		{"nothing", []byte{0}},
		{"another type", append([]byte{0xC1}, good.Append(nil)[1:]...)},
		{"another tag", with(func(r *srp.LoginRsp) { r.Tag = 77 })},
		{"units too short to be sent", with(func(r *srp.LoginRsp) { r.MaxITIU = 63 })},
		{"no units to be sent", with(func(r *srp.LoginRsp) { r.MaxITIU = 0 })},
		{"units too short for a response", with(func(r *srp.LoginRsp) { r.MaxTIIU = 35 })},
		{"units too long to be received", with(func(r *srp.LoginRsp) { r.MaxTIIU = 1<<32 - 1 })},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bed) {
				b.login = func(int, rdma.ConnRequest, srp.LoginReq) ([]byte, rdma.RejectReason) { return row.private, 0 }
				b.listen(service)
				if _, err := Dial(t.Context(), b.cfg); !errors.Is(err, ErrProtocol) {
					t.Errorf("Dial: %v, want ErrProtocol", err)
				}
			})
		})
	}
}

func TestNobodyThereIsUnreachable(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.b.Hold(rdmatest.Requests)
		b.listen(service)
		before := time.Now()
		if _, err := Dial(t.Context(), b.cfg); !errors.Is(err, ErrUnreachable) {
			t.Errorf("Dial: %v, want ErrUnreachable", err)
		}
		if d := time.Since(before); d != defaultTimeout {
			t.Errorf("given up after %v, want %v", d, defaultTimeout)
		}
	})
}

func TestDialEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.b.Hold(rdmatest.Requests)
		b.listen(service)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := Dial(ctx, b.cfg); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Dial: %v, want the context's error", err)
		}
	})
}

func TestARefusedFurtherChannelIsDoneWithout(t *testing.T) {
	for _, how := range []string{"rejected", "malformed"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bed) {
				b.cfg.Channels = 3
				b.login = func(n int, _ rdma.ConnRequest, _ srp.LoginReq) ([]byte, rdma.RejectReason) {
					switch {
					case n == 0:
						return nil, 0
					case how == "malformed":
						return []byte{1}, 0
					}
					rej := srp.LoginRej{Reason: srp.RejChannelLimit}
					return rej.Append(nil), rdma.RejectConsumer
				}
				s := b.dial()
				if n := len(s.Channels()); n != 1 {
					t.Errorf("%d channels, want 1", n)
				}
				if _, err := s.Do(t.Context(), srp.LUN{}, []byte{0}, nil, nil); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAnImpossibleConfigurationIsRefused(t *testing.T) {
	_, a, _ := rdmatest.Pair()
	good := Config{Device: a, Remote: service.Addr}
	rows := map[string]func(*Config){
		"no device":         func(c *Config) { c.Device = nil },
		"no address":        func(c *Config) { c.Remote = netip.AddrPort{} },
		"no port":           func(c *Config) { c.Remote = netip.AddrPortFrom(c.Remote.Addr(), 0) },
		"negative depth":    func(c *Config) { c.QueueDepth = -1 },
		"depth beyond tags": func(c *Config) { c.QueueDepth = 1 << 15 },
		"depth beyond work": func(c *Config) { c.QueueDepth = a.Attr().MaxQPWork },
		"units too short":   func(c *Config) { c.IULen = 63 },
		"units too long":    func(c *Config) { c.IULen = 1 << 30 },
	}
	for name, change := range rows {
		t.Run(name, func(t *testing.T) {
			cfg := good
			change(&cfg)
			if s, err := Dial(t.Context(), cfg); !errors.Is(err, ErrInvalid) {
				t.Errorf("Dial: %v, %v; want ErrInvalid", s, err)
			}
		})
	}
	if left := a.Open(); left != "" {
		t.Errorf("left open: %s", left)
	}
}
