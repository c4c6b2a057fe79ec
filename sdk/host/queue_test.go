package host_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// The states of a queue are drawn in succession.go. Here: what a caller sees of them.

func TestEveryCodeOfAStoreArrives(t *testing.T) {
	a := newArena(t, 1<<20)
	for _, slow := range []bool{false, true} {
		p := start(t, a, func(o *host.Options) { o.Slow = slow })
		for code := backstore.CodeIO; code <= backstore.CodeInvalid+1; code++ {
			want := min(code, backstore.CodeInvalid+1)
			if want > backstore.CodeInvalid { // not in the list
				want = backstore.CodeIO
			}
			config := map[string]string{"fail": string('0' + rune(code%10))}
			if code > 9 {
				config["fail"] = "77"
			}
			q := queue(t, open(t, p, config), host.QueueOptions{Entries: 4})
			if c := one(t, q, backstore.Request{Op: backstore.OpWrite, Data: a.Bytes()[:512]}); c != want {
				t.Errorf("slow %v: %v, want %v", slow, c, want)
			}
		}
	}
}

func TestWallRefusesWhatTheStoreNeverSees(t *testing.T) {
	a := newArena(t, 1<<20)
	b := a.Bytes()
	config := map[string]string{"read-only": "true", "fail": "1"} // whatever reaches the store is an I/O error
	for _, way := range []string{"ring", "stream", "unary"} {
		p := start(t, a, func(o *host.Options) { o.Slow = way != "ring" })
		if way == "unary" {
			p.Unary()
		}
		q := queue(t, open(t, p, config), host.QueueOptions{Entries: 16})
		size := int64(2048 * 512)
		for _, c := range []struct {
			name string
			r    backstore.Request
			want backstore.Code
		}{
			{"inside", backstore.Request{Op: backstore.OpRead, Off: size - 512, Data: b[:512]}, backstore.CodeIO},
			{"half outside", backstore.Request{Op: backstore.OpRead, Off: size - 512, Data: b[:1024]}, backstore.CodeRange},
			{"at the end", backstore.Request{Op: backstore.OpRead, Off: size, Data: b[:512]}, backstore.CodeRange},
			{"far outside", backstore.Request{Op: backstore.OpRead, Off: 1<<62 + 512, Data: b[:512]}, backstore.CodeRange},
			{"negative", backstore.Request{Op: backstore.OpRead, Off: -512, Data: b[:512]}, backstore.CodeInvalid},
			{"part of a block", backstore.Request{Op: backstore.OpRead, Data: b[:100]}, backstore.CodeInvalid},
			{"between blocks", backstore.Request{Op: backstore.OpRead, Off: 7, Data: b[:512]}, backstore.CodeInvalid},
			{"a write", backstore.Request{Op: backstore.OpWrite, Data: b[:512]}, backstore.CodeReadOnly},
			{"memory of somebody else", backstore.Request{Op: backstore.OpRead, Data: make([]byte, 512)}, backstore.CodeInvalid},
			{"memory that ends outside", backstore.Request{Op: backstore.OpRead, Data: beyond(b)}, backstore.CodeInvalid},
		} {
			if got := one(t, q, c.r); got != c.want {
				t.Errorf("%s: %s: %v, want %v", way, c.name, got, c.want)
			}
		}
	}
}

func TestQueueOfAnotherArenaIsNotAttached(t *testing.T) {
	a, b := newArena(t, 4096), newArena(t, 4096)
	st := open(t, start(t, a, nil), nil)
	q, err := host.NewQueue(st.Info(), b, host.QueueOptions{Entries: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if err := st.Attach(soon(t), q); err == nil {
		t.Error("it was attached: the plugin would read and write other memory than the queue's")
	}
	if _, err := host.NewQueue(st.Info(), a, host.QueueOptions{Entries: 5}); err == nil {
		t.Error("a queue of five entries was made")
	}
	if _, err := host.NewArena(0); err == nil {
		t.Error("an empty arena was made")
	}
}

func TestFullQueueTakesNoMoreAndThenMore(t *testing.T) {
	a := newArena(t, 1<<20)
	q := queue(t, open(t, start(t, a, nil), nil), host.QueueOptions{Entries: 4})
	reqs := make([]backstore.Request, 6)
	for i := range reqs {
		reqs[i] = backstore.Request{Tag: uint64(i), Op: backstore.OpFlush}
	}
	if n := q.Submit(reqs); n != 4 {
		t.Fatalf("took %d of 6, has 4 entries", n)
	}
	if n := q.Submit(reqs[4:]); n != 0 {
		t.Fatalf("took %d, is full", n)
	}
	q.Flush()
	collect(t, q, 4)
	if n := q.Submit(reqs[4:]); n != 2 {
		t.Fatalf("took %d of 2", n)
	}
	q.Flush()
	collect(t, q, 2)
}

func TestRequestsExpireWithoutAProcess(t *testing.T) {
	a := newArena(t, 4096)
	info := backstore.Info{BlockSize: 512, Blocks: 8}
	q, err := host.NewQueue(info, a, host.QueueOptions{Entries: 4, Hold: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if q.Info() != info || !q.Deadline().IsZero() {
		t.Errorf("info %+v, deadline %v of an idle queue", q.Info(), q.Deadline())
	}
	began := time.Now()
	q.Submit([]backstore.Request{{Tag: 9, Op: backstore.OpFlush}})
	q.Flush()
	if d := q.Deadline(); d.IsZero() || time.Until(d) > 50*time.Millisecond {
		t.Errorf("deadline %v", d)
	}
	if c := collect(t, q, 1)[9]; c != backstore.CodeUnavailable || time.Since(began) < 30*time.Millisecond {
		t.Errorf("%v after %v", c, time.Since(began))
	}
	// From now on there is no waiting.
	q.Submit([]backstore.Request{{Tag: 10, Op: backstore.OpFlush}})
	res := make([]backstore.Result, 1)
	if q.Arm() {
		t.Error("Arm says that there is nothing")
	}
	if n := q.Poll(res); n != 1 || res[0] != (backstore.Result{Tag: 10, Code: backstore.CodeUnavailable}) {
		t.Errorf("Poll = %d, %+v", n, res[0])
	}
}

func TestCloseWaitsForTheDataAndEndsWithoutResults(t *testing.T) {
	a := newArena(t, 1<<20)
	path := filepath.Join(t.TempDir(), "store")
	p := start(t, a, nil)
	st := open(t, p, map[string]string{"delay": "200ms", "path": path})
	q := queue(t, st, host.QueueOptions{Entries: 4})
	q.Submit([]backstore.Request{{Op: backstore.OpRead, Data: a.Bytes()[:512]}})
	q.Flush()
	began := time.Now()
	for q.Untaken() {
		if time.Since(began) > patience {
			t.Fatal("the plugin does not take the request")
		}
		time.Sleep(time.Millisecond)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d < 100*time.Millisecond {
		t.Errorf("Close returned after %v, the request takes 200 ms", d)
	}
	if err := q.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := st.Attach(soon(t), q); err == nil {
		t.Error("a closed queue was attached")
	}
	if err := st.Close(soon(t)); err != nil {
		t.Errorf("closing the store: %v", err)
	}
	if err := st.Close(soon(t)); err == nil {
		t.Error("a store was closed twice")
	}
	if _, err := p.Open(soon(t), map[string]string{"path": path}); err != nil {
		t.Errorf("opening again what was closed: %v", err)
	}
	if err := p.Health(soon(t)); err != nil {
		t.Errorf("health: %v", err)
	}
}

func TestManyQueuesOfOneStore(t *testing.T) {
	a := newArena(t, 1<<20)
	for _, mode := range []string{"call", "submit"} {
		st := open(t, start(t, a, nil), map[string]string{"mode": mode})
		const queues, each = 4, 32
		done := make(chan bool)
		for k := range queues {
			q := queue(t, st, host.QueueOptions{Entries: 8})
			go func() {
				defer func() { done <- true }()
				data := a.Bytes()[k*4096 : k*4096+512]
				for i := range each {
					data[0] = byte(i)
					if c := one(t, q, backstore.Request{Op: backstore.OpWrite, Off: int64(k) * 512, Data: data}); c != backstore.CodeOK {
						t.Errorf("write: %v", c)
					}
					data[0] = 0xff
					if c := one(t, q, backstore.Request{Op: backstore.OpRead, Off: int64(k) * 512, Data: data}); c != backstore.CodeOK || data[0] != byte(i) {
						t.Errorf("read: %v, %d", c, data[0])
					}
				}
			}()
		}
		for range queues {
			<-done
		}
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	a := newArena(t, 1<<20)
	q := queue(t, open(t, start(t, a, nil), map[string]string{"mode": "submit"}), host.QueueOptions{Entries: 8})
	reqs := make([]backstore.Request, 4)
	for i := range reqs {
		reqs[i] = backstore.Request{Tag: uint64(i), Op: backstore.OpRead, Data: a.Bytes()[i*4096 : i*4096+512]}
	}
	res := make([]backstore.Result, 4)
	turn := func() {
		q.Submit(reqs)
		q.Flush()
		for n := 0; n < len(reqs); {
			n += q.Poll(res)
			q.Arm()
		}
	}
	turn()
	if n := testing.AllocsPerRun(200, turn); n != 0 {
		t.Errorf("%v allocations for four requests", n)
	}
}

func TestOffsetIsInsideTheArenaOrNot(t *testing.T) {
	all := make([]byte, 3*4096)
	arena := all[4096 : 2*4096]
	for _, c := range []struct {
		name string
		p    []byte
		at   uint64
		ok   bool
	}{
		{"all", arena, 0, true},
		{"the end", arena[4095:], 4095, true},
		{"nothing", nil, 0, true},
		{"before", all[:4096], 0, false},
		{"half before", all[4000:5000], 0, false},
		{"half after", all[8000:8200], 0, false},
		{"after", all[8192:], 0, false},
	} {
		if at, ok := host.Offset(arena, c.p); at != c.at || ok != c.ok {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, at, ok, c.at, c.ok)
		}
	}
}
