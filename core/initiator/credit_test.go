package initiator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/gosrpt/gosrpt/core/srp"
)

// Credits (SRP r16a 5.2.1). limit is the request limit, n the commands submitted beforehand.
//
//	event                            limit      sent
//	login with delta d               d          min(n, d-1): one credit is kept
//	response with delta 1            same       one more command
//	response with delta 0            one less   none
//	response with delta -1           two less   none
//	response to an unknown tag       plus delta as credits allow
//	SRP_CRED_REQ with delta d        plus d     as credits allow, and SRP_CRED_RSP
//	SRP_AER_REQ with delta d         plus d     as credits allow, and SRP_AER_RSP
//	task management with limit 1     0          the function
//	task management with limit 0     0          nothing

// hoard makes a target that keeps the commands it gets, and a session with n commands submitted.
func hoard(b *bed, n int) (s *Session, tags func() []srp.Tag) {
	var got []srp.Tag
	b.command = func(c *conn, cmd *srp.Cmd) { got = append(got, cmd.Tag()) }
	s = b.dial()
	for range n {
		if _, err := s.Submit(&Command{}); err != nil {
			b.Fatal(err)
		}
	}
	return s, func() (list []srp.Tag) {
		synctest.Wait()
		b.loop.Do(func() { list = append(list, got...) })
		return list
	}
}

func TestCreditsBoundWhatIsSent(t *testing.T) {
	for _, row := range []struct{ credits, sent int }{{-5, 0}, {0, 0}, {1, 0}, {2, 1}, {3, 2}, {10, 9}, {30, 20}} {
		bubble(t, func(t *testing.T, b *bed) {
			b.credits = int32(row.credits)
			_, tags := hoard(b, 20)
			if n := len(tags()); n != row.sent {
				t.Errorf("%d credits: %d commands sent, want %d", row.credits, n, row.sent)
			}
		})
	}
}

func TestTheQueueDepthBoundsWhatIsSent(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.cfg.QueueDepth = 4
		_, tags := hoard(b, 20)
		if n := len(tags()); n != 4 {
			t.Errorf("%d commands sent, want 4", n)
		}
	})
}

func TestAResponseReturnsItsDelta(t *testing.T) {
	for _, row := range []struct{ delta, more, limit int }{
		{1, 1, 1}, {0, 0, 1}, {-1, 0, 0}, {3, 3, 1}, {-1 << 31, 0, -1<<31 + 1}, {1<<31 - 1, 6, 1<<31 - 1 + 1 - 6},
	} {
		bubble(t, func(t *testing.T, b *bed) {
			b.credits = 5
			s, tags := hoard(b, 10)
			before := tags()
			b.do(0, func(c *conn) { c.respond(&srp.RspFields{Tag: before[0], Delta: int32(row.delta)}) })
			if n := len(tags()) - len(before); n != row.more {
				t.Errorf("delta %d: %d more commands, want %d", row.delta, n, row.more)
			}
			if got := s.Channels()[0].Credits; row.delta < 1<<31-1 && got != int32(row.limit) {
				t.Errorf("delta %d: limit %d, want %d", row.delta, got, row.limit)
			}
		})
	}
}

func TestAnUnknownTagIsCountedAndItsDeltaTaken(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.credits = 2
		s, tags := hoard(b, 3)
		first := tags()[0]
		for _, tag := range []srp.Tag{0, first + 1<<slotBits, first | tagTask, 0xFFFF, 60, 1<<64 - 1} {
			b.do(0, func(c *conn) { c.respond(&srp.RspFields{Tag: tag}) })
		}
		b.do(0, func(c *conn) { c.respond(&srp.RspFields{Tag: 12345, Delta: 1}) })
		if n := len(tags()); n != 2 {
			t.Errorf("%d commands sent, want 2", n)
		}
		if n := s.Stats().UnknownTags; n != 7 {
			t.Errorf("%d unknown tags, want 7", n)
		}
		b.do(0, func(c *conn) { c.respond(&srp.RspFields{Tag: first, Delta: 1}) })
		b.do(0, func(c *conn) { c.respond(&srp.RspFields{Tag: first}) })
		tags()
		if n := s.Stats().UnknownTags; n != 8 {
			t.Errorf("%d unknown tags, want 8: a tag is answered once", n)
		}
	})
}

func TestRequestsOfTheTargetMoveCreditsAndAreAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.credits = 2
		var answers [][]byte
		b.other = func(c *conn, iu []byte) { answers = append(answers, append([]byte(nil), iu...)) }
		s, tags := hoard(b, 10)
		cred := srp.CredReq{Delta: 2, Tag: 0x1122334455667788}
		b.do(0, func(c *conn) { c.raw(cred.Append(c.buffer())) })
		if n := len(tags()); n != 3 {
			t.Errorf("%d commands sent after SRP_CRED_REQ, want 3", n)
		}
		aer := srp.AerReq{Delta: 1, Tag: 99, Sense: []byte{0x70, 0, 6, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0x2A, 9}}
		b.do(0, func(c *conn) { c.raw(aer.Append(c.buffer())) })
		if n := len(tags()); n != 4 {
			t.Errorf("%d commands sent after SRP_AER_REQ, want 4", n)
		}
		if len(answers) != 2 {
			t.Fatalf("answers %x", answers)
		}
		if tag, err := srp.ParseCredRsp(answers[0]); err != nil || tag != cred.Tag {
			t.Errorf("answer to SRP_CRED_REQ: %x", answers[0])
		}
		if tag, err := srp.ParseAerRsp(answers[1]); err != nil || tag != aer.Tag {
			t.Errorf("answer to SRP_AER_REQ: %x", answers[1])
		}
		if n := s.Stats().TargetRequests; n != 2 {
			t.Errorf("%d requests counted", n)
		}
	})
}

func TestOneCreditIsKeptForTaskManagement(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.credits = 3
		got := 0
		b.task = func(c *conn, _ srp.TskMgmt) { got++ }
		s, tags := hoard(b, 10)
		tags()
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			go func() {
				if err := s.ResetLUN(ctx, srp.LUN{}); !errors.Is(err, context.Canceled) {
					t.Errorf("ResetLUN: %v, want the context's error", err)
				}
			}()
		}
		if n := len(tags()); n != 2 || got != 1 {
			t.Errorf("%d commands and %d functions sent, want 2 and 1", n, got)
		}
		if n := s.Channels()[0].Credits; n != 0 {
			t.Errorf("%d credits left, want 0", n)
		}
		cancel()
	})
}
