package initiator

import (
	"errors"
	"fmt"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

func isFull(err error) bool { return errors.Is(err, rdma.ErrFull) }

// errorOf makes an error of a failed piece of work.
func errorOf(status rdma.Status) error { return fmt.Errorf("%w: %v", ErrDisconnected, status) }

// event handles a connection event.
func (ch *channel) event(c *rdma.Completion) {
	switch c.Event {
	case rdma.EventEstablished:
		ch.outcome(ch.established(c.Data))
	case rdma.EventRejected:
		ch.outcome(rejection(c))
	case rdma.EventFailed:
		ch.outcome(ErrUnreachable)
	case rdma.EventDisconnected:
		ch.disconnected()
	}
}

// outcome reports how the login has ended.
func (ch *channel) outcome(err error) {
	select {
	case ch.login <- err:
	default:
	}
}

// rejection makes an error of a refused connection.
func rejection(c *rdma.Completion) error {
	e := &RejectError{CM: c.Reason}
	if c.Reason == rdma.RejectConsumer {
		if rej, err := srp.ParseLoginRej(c.Data); err == nil {
			e.Login = rej.Reason
		}
	}
	return e
}

// established takes what the login response settles.
func (ch *channel) established(data []byte) error {
	cfg := &ch.s.cfg
	rsp, err := srp.ParseLoginRsp(data)
	switch {
	case err != nil:
		return violation("login response: %v", err)
	case rsp.Tag != srp.Tag(ch.index):
		return violation("login response with tag %v, want %v", rsp.Tag, srp.Tag(ch.index))
	case rsp.MaxITIU < srp.MinITIU:
		return violation("login response allows units of %d bytes, the least is %d", rsp.MaxITIU, srp.MinITIU)
	case rsp.MaxTIIU < srp.RspLen || rsp.MaxTIIU > maxIULen:
		return violation("login response announces units of %d bytes", rsp.MaxTIIU)
	}
	ch.maxITIU, ch.maxTIIU = min(rsp.MaxITIU, cfg.IULen), rsp.MaxTIIU
	ch.immediate = cfg.Immediate && rsp.Flags&srp.LoginRspImmediate != 0 && ch.maxITIU > immediateOffset
	if err := ch.makeSlots(); err != nil {
		return err
	}
	if err := ch.makeReceives(); err != nil {
		return err
	}
	ch.grant(rsp.Delta)
	ch.up = true
	return nil
}

// disconnected handles the end of the connection.
func (ch *channel) disconnected() {
	if !ch.up {
		ch.outcome(ErrDisconnected)
		return
	}
	ch.up = false
	if !ch.s.leaving {
		ch.s.stop(ch.s.fail("session", ErrDisconnected))
		return
	}
	for _, o := range ch.s.channels {
		if o.up {
			return
		}
	}
	ch.s.stop(ch.s.fail("session", fmt.Errorf("%w: logged out", ErrClosed)))
}

// received handles a unit of the target, and posts its buffer again.
func (ch *channel) received(c *rdma.Completion) {
	off := c.ID * uint64(ch.maxTIIU)
	if err := ch.unit(ch.recvMem.Bytes()[off : off+uint64(c.Bytes)]); err != nil {
		ch.s.stop(ch.s.fail("session", err))
		return
	}
	if err := ch.receive(c.ID); err != nil {
		ch.s.stop(ch.s.fail("post receive", err))
	}
}

// unit handles what the target has sent (SRP r16a 6).
func (ch *channel) unit(b []byte) error {
	if len(b) == 0 {
		return violation("an empty unit")
	}
	switch op := srp.Opcode(b[0]); op {
	case srp.OpRsp:
		rsp, err := srp.ParseRsp(b)
		if err != nil {
			return violation("%v", err)
		}
		ch.grant(rsp.Delta())
		ch.answered(rsp)
		return nil
	case srp.OpCredReq:
		req, err := srp.ParseCredReq(b)
		if err != nil {
			return violation("%v", err)
		}
		ch.grant(req.Delta)
		ch.s.stats.targetRequests.Add(1)
		return ch.answer(srp.AppendCredRsp, req.Tag)
	case srp.OpAerReq:
		req, err := srp.ParseAerReq(b)
		if err != nil {
			return violation("%v", err)
		}
		ch.grant(req.Delta)
		ch.s.stats.targetRequests.Add(1)
		key, asc, ascq, _ := senseOf(req.Sense)
		ch.s.log.Info("asynchronous event", "lun", req.LUN.String(), "key", key, "asc", asc, "ascq", ascq)
		if f := ch.s.cfg.Event; f != nil {
			f(req.LUN, req.Sense)
		}
		return ch.answer(srp.AppendAerRsp, req.Tag)
	case srp.OpTLogout:
		out, err := srp.ParseTLogout(b)
		if err != nil {
			return violation("%v", err)
		}
		return &LogoutError{Reason: out.Reason}
	default:
		return violation("a unit of type %v", op)
	}
}

// answer sends the answer to a request of the target, which takes no credit. A target that asks
// again before its answers have gone out has broken the rule of one request at a time.
func (ch *channel) answer(build func([]byte, srp.Tag) []byte, tag srp.Tag) error {
	for _, sl := range ch.answers {
		if sl.free() {
			sl.iu = build(sl.iu[:0], tag)
			ch.send(sl)
			return nil
		}
	}
	return violation("more than %d requests without waiting for an answer", answerSlots)
}

// answered finds what a response belongs to. A tag that is not in use is counted and otherwise
// ignored, since the answer to a task that was aborted may still come.
func (ch *channel) answered(rsp srp.Rsp) {
	tag := rsp.Tag()
	i := uint64(tag) & (1<<slotBits - 1)
	if i >= uint64(len(ch.slots)) || ch.slots[i].tag != tag {
		ch.s.stats.unknownTags.Add(1)
		return
	}
	sl := &ch.slots[i]
	switch {
	case sl.cmd != nil:
		c := sl.cmd
		sl.cmd = nil
		ch.recycle(sl)
		c.Result.take(rsp)
		c.finish()
	case sl.task != nil:
		ch.taskAnswered(sl, rsp)
	default:
		ch.s.stats.unknownTags.Add(1)
	}
}
