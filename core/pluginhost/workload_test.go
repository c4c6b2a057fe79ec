package pluginhost_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

const (
	lanes    = 16
	laneSize = 4096
)

// workload keeps lanes requests in flight, one to each 4 KiB of the store, and knows what each must hold.
type workload struct {
	q     *host.Queue
	rnd   *rand.Rand
	lanes [lanes]lane
}

type lane struct {
	data    []byte
	version uint64 // last acknowledged write
	next    uint64 // of the write in flight
	busy    bool
	op      backstore.Op
}

func newWorkload(q *host.Queue, a *host.Arena) *workload {
	w := &workload{q: q, rnd: rand.New(rand.NewPCG(7, 8))}
	for i := range w.lanes {
		w.lanes[i].data = a.Bytes()[i*laneSize : (i+1)*laneSize]
	}
	return w
}

// run does steps requests and drains, calling at with each step's number.
func (w *workload) run(t *testing.T, steps int, at func(int)) {
	t.Helper()
	res := make([]backstore.Result, 8)
	inFlight := 0
	for step := 0; step < steps || inFlight > 0; {
		for i := range w.lanes {
			if !w.lanes[i].busy && step < steps {
				at(step)
				w.submit(t, i)
				step++
				inFlight++
			}
		}
		w.q.Flush()
		for range turnAll(t, w, res) {
			inFlight--
		}
	}
}

// runUntil goes on until done is closed.
func (w *workload) runUntil(t *testing.T, done <-chan struct{}) {
	t.Helper()
	for {
		select {
		case <-done:
			w.run(t, 0, nil)
			return
		default:
			w.run(t, 4*lanes, func(int) {})
		}
	}
}

func turnAll(t *testing.T, w *workload, res []backstore.Result) []backstore.Result {
	t.Helper()
	n := turn(t, w.q, res)
	for _, r := range res[:n] {
		w.check(t, r)
	}
	return res[:n]
}

func (w *workload) submit(t *testing.T, i int) {
	t.Helper()
	l := &w.lanes[i]
	l.op = backstore.OpRead
	if w.rnd.IntN(2) == 0 {
		l.op = backstore.OpWrite
		l.next = l.version + 1
		for b := l.data; len(b) > 0; b = b[8:] {
			binary.LittleEndian.PutUint64(b, l.next<<8|uint64(i))
		}
	} else {
		clear(l.data)
	}
	l.busy = true
	r := backstore.Request{Tag: uint64(i), Op: l.op, Off: int64(i) * laneSize, Data: l.data}
	if n := w.q.Submit([]backstore.Request{r}); n != 1 {
		t.Fatal("the queue is full")
	}
}

func (w *workload) check(t *testing.T, r backstore.Result) {
	t.Helper()
	if r.Tag >= lanes || !w.lanes[r.Tag].busy {
		t.Fatalf("a result of nothing: %+v", r)
	}
	l := &w.lanes[r.Tag]
	l.busy = false
	if r.Code != backstore.CodeOK {
		t.Fatalf("lane %d: %v", r.Tag, r.Code)
	}
	if l.op == backstore.OpWrite {
		l.version = l.next
		return
	}
	want := l.version<<8 | r.Tag
	if l.version == 0 {
		want = 0
	}
	for b := l.data; len(b) > 0; b = b[8:] {
		if got := binary.LittleEndian.Uint64(b); got != want {
			t.Fatalf("lane %d: read %#x, want %#x", r.Tag, got, want)
		}
	}
}
