package initiator

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// busy is a session with a command that is outstanding, one that waits for a credit, and a task
// management function under way.
type busy struct {
	*keep
	sent, waiting, managed chan error
}

func newBusy(b *bed) *busy {
	b.credits = 2
	k := newKeep(b)
	k.answer = func(*conn, srp.TskMgmt) {}
	u := &busy{keep: k, managed: make(chan error, 1)}
	_, u.sent = k.submit(1, lun(0))
	_, u.waiting = k.submit(2, lun(0))
	go func() { u.managed <- k.s.ResetLUN(context.Background(), lun(0)) }()
	synctest.Wait()
	return u
}

// wantEnd checks that the session and all it had to do have ended with the reason.
func (u *busy) wantEnd(t *testing.T, want error) {
	t.Helper()
	synctest.Wait()
	if err := u.s.Err(); !errors.Is(err, want) {
		t.Errorf("the session ended with %v, want %v", err, want)
	}
	wantErr(t, "the command", u.sent, want)
	wantErr(t, "the waiting command", u.waiting, want)
	wantErr(t, "the function", u.managed, want)
	if n, err := u.s.Submit(&Command{}); n != 0 || !errors.Is(err, want) {
		t.Errorf("Submit: %d, %v; want %v", n, err, want)
	}
	if u.s.Channels() != nil {
		t.Error("an ended session has channels")
	}
}

func TestEveryEndOfTheConnectionEndsTheCommands(t *testing.T) {
	rows := map[string]struct {
		end  func(u *busy)
		want error
	}{
		"the target disconnects": {func(u *busy) { u.do(0, func(c *conn) { c.end.QP.Disconnect() }) }, ErrDisconnected},
		"the target closes":      {func(u *busy) { u.do(0, func(c *conn) { c.end.QP.Close() }) }, ErrDisconnected},
		"the transport breaks":   {func(u *busy) { u.a.BreakAll() }, ErrDisconnected},
		"the user closes":        {func(u *busy) { u.s.Close() }, ErrClosed},
		"the target vanishes": {func(u *busy) {
			u.b.Vanish()
			u.s.do(func() { u.s.channels[0].limit += 2 }, nil)
			time.Sleep(time.Minute)
		}, ErrDisconnected},
		"a send fails": {func(u *busy) {
			u.a.FailAfter(0, rdma.OpSend, rdma.StatusRemoteOperation)
			u.s.do(func() { u.s.channels[0].limit += 2 }, nil)
		}, ErrDisconnected},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bed) {
				u := newBusy(b)
				row.end(u)
				u.wantEnd(t, row.want)
			})
		})
	}
}

func TestTargetLogoutTellsTheReason(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		u := newBusy(b)
		out := srp.TLogout{Reason: srp.LogoutMultiChannel}
		u.do(0, func(c *conn) { c.raw(out.Append(c.buffer())) })
		u.wantEnd(t, ErrDisconnected)
		var logout *LogoutError
		if !errors.As(u.s.Err(), &logout) || logout.Reason != srp.LogoutMultiChannel {
			t.Errorf("the session ended with %v", u.s.Err())
		}
	})
}

// TestAHostileTargetEndsTheSession sends what no target may, each to a session of its own.
func TestAHostileTargetEndsTheSession(t *testing.T) {
	response := func(sense, data uint32, length int) []byte {
		b := make([]byte, max(length, srp.RspLen))
		b[0], b[18] = byte(srp.OpRsp), 3
		binary.BigEndian.PutUint32(b[28:], sense)
		binary.BigEndian.PutUint32(b[32:], data)
		return b[:length]
	}
	aer := make([]byte, srp.AerReqLen)
	aer[0] = byte(srp.OpAerReq)
	binary.BigEndian.PutUint32(aer[28:], 1)
	rows := map[string][]byte{
		"empty unit":                     {},
		"one byte":                       {byte(srp.OpRsp)},
		"response too short":             response(0, 0, srp.RspLen-1),
		"sense beyond the unit":          response(1, 0, srp.RspLen),
		"response data beyond the unit":  response(0, 4, srp.RspLen+3),
		"lengths that wrap in 32 bits":   response(1<<32-4, 4, srp.RspLen+8),
		"the greatest lengths":           response(1<<32-1, 1<<32-1, targetIU),
		"credit request too short":       {byte(srp.OpCredReq), 0, 0, 0},
		"event report too short":         {byte(srp.OpAerReq), 0, 0, 0},
		"event sense beyond the unit":    aer,
		"logout too short":               {byte(srp.OpTLogout)},
		"login response on the channel":  make([]byte, 52),
		"a command from the target":      append([]byte{byte(srp.OpCmd)}, make([]byte, 63)...),
		"a type that is none":            {0x7F, 1, 2, 3},
		"the answer to a credit request": append([]byte{byte(srp.OpCredRsp)}, make([]byte, 15)...),
	}
	for name, iu := range rows {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bed) {
				u := newBusy(b)
				u.do(0, func(c *conn) { c.raw(iu) })
				u.wantEnd(t, ErrProtocol)
			})
		})
	}
}

func TestAUnitLongerThanAnnouncedEndsTheSession(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.login = func(_ int, _ rdma.ConnRequest, lr srp.LoginReq) ([]byte, rdma.RejectReason) {
			rsp := srp.LoginRsp{Delta: 2, MaxITIU: 8260, MaxTIIU: 36}
			return rsp.Append(nil), 0
		}
		u := newBusy(b)
		u.do(0, func(c *conn) { c.raw(make([]byte, 37)) })
		u.wantEnd(t, ErrDisconnected)
	})
}

func TestATargetThatAsksWithoutWaitingEndsTheSession(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		u := newBusy(b)
		u.other = func(*conn, []byte) {}
		req := srp.CredReq{Tag: 1}
		u.s.do(func() {
			for range answerSlots {
				if err := u.s.channels[0].unit(req.Append(nil)); err != nil {
					t.Errorf("refused too early: %v", err)
				}
			}
			if err := u.s.channels[0].unit(req.Append(nil)); !errors.Is(err, ErrProtocol) {
				t.Errorf("one too many: %v, want ErrProtocol", err)
			}
		}, nil)
		synctest.Wait()
	})
}

func TestOneLostChannelEndsTheSession(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.cfg.Channels = 2
		u := newBusy(b)
		u.do(1, func(c *conn) { c.end.QP.Disconnect() })
		u.wantEnd(t, ErrDisconnected)
	})
}

func TestLogoutTellsTheTarget(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.cfg.Channels = 3
		said := 0
		b.other = func(c *conn, iu []byte) {
			if _, err := srp.ParseILogout(iu); err != nil {
				t.Errorf("got %x", iu)
			}
			said++
			c.end.QP.Disconnect()
		}
		u := newBusy(b)
		if err := u.s.Logout(t.Context()); err != nil {
			t.Error(err)
		}
		if said != 3 {
			t.Errorf("%d channels logged out, want 3", said)
		}
		u.wantEnd(t, ErrClosed)
		if err := u.s.Logout(t.Context()); err != nil {
			t.Errorf("a second Logout: %v", err)
		}
	})
}

func TestLogoutDoesNotWaitForEver(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.other = func(*conn, []byte) {}
		u := newBusy(b)
		before := time.Now()
		if err := u.s.Logout(t.Context()); !errors.Is(err, ErrProtocol) {
			t.Errorf("Logout: %v, want ErrProtocol", err)
		}
		if d := time.Since(before); d != logoutPatience {
			t.Errorf("waited %v, want %v", d, logoutPatience)
		}
		u.wantEnd(t, ErrClosed)
	})
}

func TestDoReturnsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.command = func(*conn, *srp.Cmd) {}
		s := b.dial()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Do(ctx, lun(0), []byte{0}, make([]byte, 10), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do: %v, want the context's error", err)
		}
	})
}
