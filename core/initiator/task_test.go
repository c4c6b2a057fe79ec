package initiator

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/gosrpt/gosrpt/core/srp"
)

// Task management and the commands it meets.
//
//	function            answer          command                         its end
//	ABORT TASK          complete        sent                            ErrAborted
//	ABORT TASK          complete        answered before the function    its status
//	ABORT TASK          failed          sent                            stays
//	ABORT TASK          (not sent)      not sent yet                    ErrAborted
//	ABORT TASK          (not sent)      done                            its status
//	LUN RESET and sets  complete        of that LUN, sent before        ErrAborted
//	LUN RESET and sets  complete        of another LUN, or sent after   stays
//	any                 failed          any                             stays
//	any                 no code         any                             stays

func lun(n byte) srp.LUN { return srp.LUN{0, n} }

// keep is a target that keeps commands and records functions.
type keep struct {
	*bed
	s     *Session
	tags  map[byte]srp.Tag
	funcs []srp.TskMgmt
	// answer is what functions are answered with.
	answer func(c *conn, t srp.TskMgmt)
}

func newKeep(b *bed) *keep {
	k := &keep{bed: b, tags: make(map[byte]srp.Tag)}
	b.command = func(c *conn, cmd *srp.Cmd) { k.tags[cmd.CDB()[1]] = cmd.Tag() }
	b.script.task = func(c *conn, t srp.TskMgmt) {
		k.funcs = append(k.funcs, append(srp.TskMgmt(nil), t...))
		if k.answer != nil {
			k.answer(c, t)
			return
		}
		c.respondTask(t.Tag(), srp.RspComplete)
	}
	k.s = b.dial()
	return k
}

// submit sends a command that the target knows by its number.
func (k *keep) submit(number byte, l srp.LUN) (*Command, chan error) {
	c := &Command{LUN: l, CDB: [16]byte{0, number}}
	done := k.start(k.s, c)
	synctest.Wait()
	return c, done
}

// respond answers a command with status GOOD.
func (k *keep) respond(number byte) {
	k.do(0, func(c *conn) { c.respond(&srp.RspFields{Tag: k.tags[number], Delta: 1}) })
	synctest.Wait()
}

func wantErr(t *testing.T, what string, done chan error, want error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		if !errors.Is(err, want) {
			t.Errorf("%s ended with %v, want %v", what, err, want)
		}
	default:
		t.Errorf("%s has not ended", what)
	}
}

func wantOpen(t *testing.T, what string, done chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		t.Errorf("%s ended with %v", what, err)
	default:
	}
}

func TestAbortEndsTheCommand(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		k := newKeep(b)
		c, done := k.submit(1, lun(3))
		if err := k.s.Abort(t.Context(), c); err != nil {
			t.Error(err)
		}
		wantErr(t, "the command", done, ErrAborted)
		f := k.funcs[0]
		if f.Function() != srp.FuncAbortTask || f.Managed() != k.tags[1] || f.LUN() != lun(3) || f.Tag()&tagTask == 0 {
			t.Errorf("function %x", []byte(f))
		}
		k.respond(1)
		if n := k.s.Stats().UnknownTags; n != 1 {
			t.Errorf("%d unknown tags, want the late response", n)
		}
		c, done = k.submit(2, lun(3))
		k.respond(2)
		wantErr(t, "the next command", done, nil)
		if err := k.s.Abort(t.Context(), c); err != nil || len(k.funcs) != 1 {
			t.Errorf("Abort of a done command: %v, %d functions sent", err, len(k.funcs))
		}
	})
}

func TestAResponseBeforeTheAbortStands(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		k := newKeep(b)
		k.answer = func(c *conn, f srp.TskMgmt) {
			c.respond(&srp.RspFields{Tag: k.tags[1], Delta: 1, Status: 8})
			c.respondTask(f.Tag(), srp.RspComplete)
		}
		c, done := k.submit(1, lun(0))
		if err := k.s.Abort(t.Context(), c); err != nil {
			t.Error(err)
		}
		var status *StatusError
		if err := <-done; !errors.As(err, &status) || status.Status != 8 {
			t.Errorf("the command ended with %v, want status 8", err)
		}
	})
}

func TestAbortOfACommandThatWaitsSendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		b.credits = 2
		k := newKeep(b)
		_, first := k.submit(1, lun(0))
		c, second := k.submit(2, lun(0))
		_, third := k.submit(3, lun(0))
		if err := k.s.Abort(t.Context(), c); err != nil {
			t.Error(err)
		}
		wantErr(t, "the waiting command", second, ErrAborted)
		k.respond(1)
		k.respond(3)
		wantErr(t, "the first", first, nil)
		wantErr(t, "the third", third, nil)
		if len(k.funcs) != 0 || k.tags[2] != 0 {
			t.Errorf("%d functions sent, command 2 has tag %v", len(k.funcs), k.tags[2])
		}
	})
}

func TestAFunctionOnAUnitEndsItsCommandsAlone(t *testing.T) {
	for _, f := range []srp.TaskFunction{srp.FuncLUNReset, srp.FuncAbortTaskSet, srp.FuncClearTaskSet} {
		bubble(t, func(t *testing.T, b *bed) {
			b.cfg.Channels = 2
			k := newKeep(b)
			_, mine := k.submit(1, lun(1))
			_, mine2 := k.submit(2, lun(1))
			_, other := k.submit(3, lun(2))
			var late chan error
			k.answer = func(c *conn, f srp.TskMgmt) {
				late = k.start(k.s, &Command{LUN: lun(1), Channel: 1})
				go func() {
					synctest.Wait()
					k.do(0, func(c *conn) { c.respondTask(f.Tag(), srp.RspComplete) })
				}()
			}
			if err := k.s.Manage(t.Context(), f, lun(1)); err != nil {
				t.Error(err)
			}
			wantErr(t, "a command of the unit", mine, ErrAborted)
			wantErr(t, "one on the other channel", mine2, ErrAborted)
			wantOpen(t, "a command of another unit", other)
			wantOpen(t, "a command sent after the function", late)
			if got := k.funcs[0]; got.Function() != f || got.LUN() != lun(1) {
				t.Errorf("function %x", []byte(got))
			}
		})
	}
}

func TestAFailedFunctionEndsNothing(t *testing.T) {
	for _, code := range []srp.RspCode{srp.RspFieldsInvalid, srp.RspNotSupported, srp.RspFailed, 0xFF} {
		bubble(t, func(t *testing.T, b *bed) {
			k := newKeep(b)
			k.answer = func(c *conn, f srp.TskMgmt) { c.respondTask(f.Tag(), code) }
			_, done := k.submit(1, lun(0))
			err := k.s.ResetLUN(t.Context(), lun(0))
			var task *TaskError
			if !errors.As(err, &task) || task.Code != code || task.NoCode || task.Function != srp.FuncLUNReset {
				t.Errorf("ResetLUN: %v, want code %d", err, code)
			}
			wantOpen(t, "the command", done)
		})
	}
}

func TestAnAnswerWithoutACodeIsNoSuccess(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		k := newKeep(b)
		k.answer = func(c *conn, f srp.TskMgmt) { c.respond(&srp.RspFields{Tag: f.Tag(), Delta: 1}) }
		_, done := k.submit(1, lun(0))
		var task *TaskError
		if err := k.s.ResetLUN(t.Context(), lun(0)); !errors.As(err, &task) || !task.NoCode {
			t.Errorf("ResetLUN: %v, want NoCode", err)
		}
		wantOpen(t, "the command", done)
	})
}

func TestAbortNeedsACommand(t *testing.T) {
	bubble(t, func(t *testing.T, b *bed) {
		if err := b.dial().Manage(t.Context(), srp.FuncAbortTask, lun(0)); !errors.Is(err, ErrInvalid) {
			t.Errorf("Manage: %v, want ErrInvalid", err)
		}
	})
}
