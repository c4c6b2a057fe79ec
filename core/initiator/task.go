package initiator

import (
	"context"
	"fmt"

	"github.com/gosrpt/gosrpt/core/srp"
)

// task is a task management function, from Manage until its answer.
type task struct {
	function srp.TaskFunction
	lun      srp.LUN
	// cmd is the command to abort, for FuncAbortTask, and tag the tag it was sent with.
	cmd *Command
	tag srp.Tag
	// done is called once, in the session's goroutine.
	done func(code srp.RspCode, err error)
}

// Manage carries out a task management function on a logical unit and waits for the answer. It
// returns nil if the target says that the function is complete, else a TaskError, why the session
// has ended, or the context's error; then the function may still take effect.
//
// Commands that a completed function aborts end with ErrAborted. Use Abort for FuncAbortTask.
func (s *Session) Manage(ctx context.Context, f srp.TaskFunction, lun srp.LUN) error {
	if f == srp.FuncAbortTask {
		return s.fail(f.String(), fmt.Errorf("%w: it needs a command", ErrInvalid))
	}
	return s.manage(ctx, &task{function: f, lun: lun})
}

// ResetLUN carries out LOGICAL UNIT RESET; see Manage.
func (s *Session) ResetLUN(ctx context.Context, lun srp.LUN) error {
	return s.Manage(ctx, srp.FuncLUNReset, lun)
}

// Abort aborts a command with ABORT TASK, or before it was sent. It returns nil as well if the
// command ended by itself meanwhile; Command.Done is called in any case.
func (s *Session) Abort(ctx context.Context, c *Command) error {
	return s.manage(ctx, &task{function: srp.FuncAbortTask, cmd: c})
}

func (s *Session) manage(ctx context.Context, t *task) error {
	outcome := make(chan error, 1)
	t.done = func(code srp.RspCode, err error) {
		if err == nil && code != srp.RspComplete {
			err = &TaskError{Function: t.function, Code: code}
		}
		outcome <- err
	}
	s.do(func() { s.startTask(t) }, func(err error) { t.done(0, err) })
	select {
	case err := <-outcome:
		if err != nil {
			return s.fail(t.function.String(), err)
		}
		return nil
	case <-ctx.Done():
		return s.fail(t.function.String(), ctx.Err())
	}
}

// startTask queues the function: ABORT TASK at the channel of its command, all else at the first.
func (s *Session) startTask(t *task) {
	if s.stopping != nil {
		t.done(0, s.stopping)
		return
	}
	ch := s.channels[0]
	if c := t.cmd; c != nil {
		switch {
		case c.ch == nil || c.ch.s != s:
			t.done(srp.RspComplete, nil)
			return
		case c.slot == nil:
			c.ch.waiting.remove(func(o *Command) bool { return o == c })
			c.fail(s.fail("command", ErrAborted))
			t.done(srp.RspComplete, nil)
			return
		}
		ch, t.tag, t.lun = c.ch, c.slot.tag, c.LUN
	}
	ch.tasks.push(t)
}

// sendTask encodes a function into the slot for it.
func (ch *channel) sendTask(t *task) {
	sl := ch.taskSlot
	sl.newTag()
	sl.tag |= tagTask
	f := srp.TskMgmtFields{Tag: sl.tag, LUN: t.lun, Function: t.function, Managed: t.tag}
	sl.iu = f.Append(sl.iu[:0])
	sl.task = t
	ch.limit--
	ch.s.stats.tasks.Add(1)
	ch.send(sl)
}

// taskAnswered ends a function, and the commands that it has aborted.
func (ch *channel) taskAnswered(sl *slot, rsp srp.Rsp) {
	t := sl.task
	sl.task = nil
	code, ok := rsp.Code()
	if !ok {
		t.done(0, &TaskError{Function: t.function, NoCode: true})
		return
	}
	if code == srp.RspComplete {
		for _, o := range ch.s.channels {
			o.abort(t, sl.seq)
		}
	}
	t.done(code, nil)
}

// abort ends the commands of the channel that a function has aborted: those sent before it.
func (ch *channel) abort(t *task, seq uint64) {
	for i := range ch.slots {
		sl := &ch.slots[i]
		if sl.cmd == nil || sl.seq > seq || !t.covers(sl) {
			continue
		}
		c := sl.cmd
		sl.cmd = nil
		ch.recycle(sl)
		c.fail(ch.s.fail("command", ErrAborted))
	}
}

// covers tells whether the function aborts the command of a slot.
func (t *task) covers(sl *slot) bool {
	switch t.function {
	case srp.FuncAbortTask:
		return sl.cmd == t.cmd && sl.tag == t.tag
	case srp.FuncAbortTaskSet, srp.FuncClearTaskSet, srp.FuncLUNReset:
		return sl.cmd.LUN == t.lun
	}
	return false
}
