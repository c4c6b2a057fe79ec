package host_test

import (
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// stuck starts a process whose requests never end, and gives it a read, a write and a flush.
func stuck(t *testing.T, a *host.Arena, slow bool, o host.QueueOptions) (*host.Process, *host.Store, *host.Queue, [][]byte) {
	t.Helper()
	p := start(t, a, func(o *host.Options) { o.Slow = slow })
	s := open(t, p, map[string]string{"delay": "1h"})
	q := queue(t, s, o)
	data := [][]byte{a.Bytes()[:4096], a.Bytes()[8192 : 8192+512]}
	q.Submit([]backstore.Request{
		{Tag: 1, Op: backstore.OpRead, Data: data[0]}, {Tag: 2, Op: backstore.OpWrite, Data: data[1]}, {Tag: 3, Op: backstore.OpFlush},
	})
	q.Flush()
	return p, s, q, data
}

func TestDeadProcessTaintsWhatItHadUntilTheFence(t *testing.T) {
	for _, c := range []struct {
		name string
		slow bool
		// end makes the requests end, or gives them up.
		end  func(t *testing.T, p *host.Process, q *host.Queue)
		want bool
	}{
		{"answered at the bound", false, func(t *testing.T, p *host.Process, q *host.Queue) {
			p.Kill()
			for tag, code := range collect(t, q, 3) {
				if code != backstore.CodeUnavailable {
					t.Errorf("request %d: %v", tag, code)
				}
			}
		}, true},
		{"cancelled", false, func(t *testing.T, p *host.Process, q *host.Queue) {
			for tag := range uint64(4) {
				q.Cancel(tag)
			}
			if n := q.Poll(make([]backstore.Result, 4)); n != 0 {
				t.Errorf("%d results while the process has the requests", n)
			}
			p.Kill()
			for tag, code := range collect(t, q, 3) {
				if code != backstore.CodeAborted {
					t.Errorf("request %d: %v", tag, code)
				}
			}
		}, true},
		{"queue closed after the death", false, func(t *testing.T, p *host.Process, q *host.Queue) {
			p.Kill()
			await(t, p.Dead(), "death")
			q.Close()
		}, true},
		{"queue closed, which kills", false, func(t *testing.T, p *host.Process, q *host.Queue) {
			stop(t, p.PID())
			q.Close()
			await(t, p.Dead(), "death")
		}, true},
		{"slow path, where nothing is mapped", true, func(t *testing.T, p *host.Process, q *host.Queue) {
			p.Kill()
			collect(t, q, 3)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := newArena(t, 1<<20)
			hold := time.Duration(0)
			if c.name == "cancelled" {
				hold = patience
			}
			p, s, q, data := stuck(t, a, c.slow, host.QueueOptions{Entries: 8, Hold: hold})
			if a.Tainted(data[0]) {
				t.Error("tainted while the process lives")
			}
			c.end(t, p, q)
			for i, b := range data {
				if a.Tainted(b) != c.want || a.Tainted(b[len(b)-1:]) != c.want {
					t.Errorf("buffer %d: tainted %v, want %v", i, a.Tainted(b), c.want)
				}
			}
			if a.Tainted(a.Bytes()[4096:8192]) || a.Tainted(a.Bytes()[8192+512:]) || a.Tainted(nil) {
				t.Error("what the process never had is tainted")
			}
			before := a.Lifted()
			s.Lift()
			if a.Tainted(data[0]) || a.Tainted(data[1]) || a.Lifted() == before {
				t.Error("still tainted after the fence")
			}
		})
	}
}

func TestProcessThatLetsGoOfAQueueTaintsNothing(t *testing.T) {
	a := newArena(t, 1<<20)
	p := start(t, a, nil)
	q := queue(t, open(t, p, map[string]string{"delay": "200ms"}), host.QueueOptions{Entries: 8})
	data := a.Bytes()[:4096]
	q.Submit([]backstore.Request{{Tag: 1, Op: backstore.OpRead, Data: data}})
	q.Flush()
	q.Close()
	if a.Tainted(data) {
		t.Error("tainted")
	}
}

// The order: write A is under way when the process dies, and the initiator gives A up; then it writes B to the same blocks,
// and has an answer. A must not come after B.
func TestCancelledWriteIsNeverSentAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		cancel func(q *host.Queue, p *host.Process)
	}{
		{"before the death", func(q *host.Queue, p *host.Process) { q.Cancel(2); p.Kill() }},
		{"after it", func(q *host.Queue, p *host.Process) {
			p.Kill()
			<-p.Dead()
			q.Poll(nil) // reads the news
			q.Cancel(2)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newArena(t, 1<<20)
			path := t.TempDir() + "/store"
			p := start(t, a, nil)
			q := queue(t, open(t, p, map[string]string{"delay": "1h", "path": path}), host.QueueOptions{Entries: 8, Hold: patience})
			older, newer := a.Bytes()[:512], a.Bytes()[4096:4096+512]
			copy(older, "A")
			copy(newer, "B")
			q.Submit([]backstore.Request{{Tag: 2, Op: backstore.OpWrite, Data: older}})
			q.Flush()
			c.cancel(q, p)
			if got := collect(t, q, 1)[2]; got != backstore.CodeAborted {
				t.Fatalf("the cancelled write: %v", got)
			}
			q.Submit([]backstore.Request{{Tag: 5, Op: backstore.OpWrite, Data: newer}})
			if err := open(t, start(t, a, nil), map[string]string{"path": path}).Attach(soon(t), q); err != nil {
				t.Fatal(err)
			}
			if got := collect(t, q, 1)[5]; got != backstore.CodeOK {
				t.Fatalf("the write after it: %v", got)
			}
			clear(newer)
			if got := one(t, q, backstore.Request{Tag: 6, Op: backstore.OpRead, Data: newer}); got != backstore.CodeOK || newer[0] != 'B' {
				t.Errorf("%v, the store has %q", got, newer[:1])
			}
			if n := q.Counters(); n.Resent != 0 || n.Dropped != 1 {
				t.Errorf("counters %+v", n)
			}
		})
	}
}

func TestWhatMustNotBeDoneTwiceIsNotSentAgain(t *testing.T) {
	for op, want := range map[backstore.Op]bool{0: false, backstore.OpRead: true, backstore.OpWrite: true, backstore.OpFlush: true,
		backstore.OpUnmap: true, backstore.OpWriteZeroes: true, backstore.OpWriteSame: true, backstore.OpCompareAndWrite: false, 255: false} {
		if op.Repeatable() != want {
			t.Errorf("op %d: %v", op, op.Repeatable())
		}
	}
	a := newArena(t, 1<<20)
	p := start(t, a, nil)
	q := queue(t, open(t, p, map[string]string{"delay": "1h", "powers": "true"}), host.QueueOptions{Entries: 8, Hold: patience})
	q.Submit([]backstore.Request{
		{Tag: 1, Op: backstore.OpWrite, Data: a.Bytes()[:512]}, {Tag: 2, Op: backstore.OpCompareAndWrite, Data: a.Bytes()[4096 : 4096+1024]},
	})
	q.Flush()
	p.Kill()
	if got := collect(t, q, 1)[2]; got != backstore.CodeAborted || !a.Tainted(a.Bytes()[4096:4097]) {
		t.Errorf("compare and write: %v", got)
	}
	if err := open(t, start(t, a, nil), map[string]string{"powers": "true"}).Attach(soon(t), q); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, q, 1)[1]; got != backstore.CodeOK {
		t.Errorf("write: %v", got)
	}
}
