package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/store"
	"github.com/gosrpt/gosrpt/core/store/storetest"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// The life of a request, and what may happen in each state. Whatever is not here changes nothing.
//
//	state     | Flush: room    | Poll: result | Poll: too old         | Cancel     | Detach        | Attach          | Close
//	----------+----------------+--------------+-----------------------+------------+---------------+-----------------+--------------
//	idle      | -              | -            | -                     | false      | -             | -               | -
//	waiting   | flying, unless | -            | idle, BUSY or UNAVAIL | idle, true | -             | idle if refused | idle, UNAVAIL
//	          | blocked (*)    |              |                       |            |               |                 |
//	flying    | -              | idle, code   | OnFault once          | abandoned  | waiting       | cannot be       | idle, UNAVAIL
//	abandoned | -              | idle, code   | OnFault once          | -          | idle, ABORTED | cannot be       | idle, ABORTED
//
// (*) by an abandoned request that changes the same blocks; it and what is behind it wait.
//
// A compare and write that is flying ends at Detach as an abandoned request does: it is not given to a second backend.
//
// A result for a tag that is not flying, or a count that cannot be, breaks the backend: it is not called again,
// what is flying stays so until Detach, what waits goes on waiting.

// epoch is the time of the first poll in these tests.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// recorder owns requests and notes their ends in order.
type recorder struct {
	ended []string
	then  func(r *store.Request)
}

func (o *recorder) Completed(r *store.Request) {
	o.ended = append(o.ended, fmt.Sprintf("%v:%v", r.User, r.Code))
	if o.then != nil {
		o.then(r)
	}
}

// rig is a guard over a faulty backend over memory.
type rig struct {
	t      *testing.T
	g      *store.Guard
	b      *storetest.Faulty
	mem    *store.Memory
	own    recorder
	faults []error
	now    time.Time
}

func newRig(t *testing.T, cfg store.Config) *rig {
	t.Helper()
	r := &rig{t: t, now: epoch, mem: store.NewMemory(1 << 20)}
	r.b = storetest.Wrap(store.NewLocal(r.mem, 1024))
	cfg.Name = "disk"
	cfg.OnFault = func(err error) { r.faults = append(r.faults, err) }
	g, err := store.Open(r.b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.g = g
	return r
}

func (r *rig) request(name string, op backstore.Op, off int64, data []byte) *store.Request {
	return &store.Request{Op: op, Off: off, Data: data, Owner: &r.own, User: name}
}

func (r *rig) submit(reqs ...*store.Request) {
	r.t.Helper()
	for _, q := range reqs {
		if code := r.g.Submit(q); code != backstore.CodeOK {
			r.t.Fatalf("%v refused: %v", q.User, code)
		}
	}
}

// flushes submits n flush requests named a, b, c...
func (r *rig) flushes(n int) []*store.Request {
	var reqs []*store.Request
	for i := range n {
		reqs = append(reqs, r.request(string(rune('a'+i)), backstore.OpFlush, 0, nil))
	}
	r.submit(reqs...)
	return reqs
}

func (r *rig) turn() bool {
	r.g.Flush()
	return r.g.Poll(r.now)
}

func (r *rig) pass(d time.Duration) { r.now = r.now.Add(d) }

func (r *rig) wantEnded(want ...string) {
	r.t.Helper()
	if fmt.Sprint(r.own.ended) != fmt.Sprint(want) {
		r.t.Fatalf("ended %v, want %v", r.own.ended, want)
	}
}

func (r *rig) wantFaults(want ...error) {
	r.t.Helper()
	ok := len(r.faults) == len(want)
	for i := range want {
		ok = ok && errors.Is(r.faults[i], want[i])
	}
	if !ok {
		r.t.Fatalf("faults %v, want %v", r.faults, want)
	}
}

func TestReadsAndWritesReachTheStore(t *testing.T) {
	r := newRig(t, store.Config{})
	data := bytes.Repeat([]byte("gosrpt! "), 128)
	w := r.request("w", backstore.OpWrite, 512, data)
	w.Flags = backstore.FUA
	r.submit(w)
	r.turn()
	got := make([]byte, 1024)
	r.submit(r.request("r", backstore.OpRead, 512, got), r.request("f", backstore.OpFlush, 0, nil))
	r.turn()
	r.wantEnded("w:ok", "r:ok", "f:ok")
	if !bytes.Equal(got, data) || !bytes.Equal(r.mem.Bytes()[512:1536], data) {
		t.Error("data differs")
	}
	s := r.g.Stats()
	if s.Reads != 1 || s.Writes != 1 || s.Flushes != 1 || s.BytesRead != 1024 || s.BytesWritten != 1024 {
		t.Errorf("%+v", s)
	}
}

func TestRequestsAreCheckedBeforeTheBackendSeesThem(t *testing.T) {
	const size = 1 << 20
	memory := make([]byte, size+8192)
	arena := memory[:size]
	block := arena[:512]
	tests := []struct {
		name  string
		op    backstore.Op
		flags backstore.Flags
		off   int64
		data  []byte
		want  backstore.Code
	}{
		{"last block", backstore.OpRead, 0, size - 512, block, backstore.CodeOK},
		{"all of it", backstore.OpRead, 0, 0, arena, backstore.CodeOK},
		{"one block beyond the end", backstore.OpRead, 0, size, block, backstore.CodeRange},
		{"over the end", backstore.OpRead, 0, size - 512, arena[:1024], backstore.CodeRange},
		{"negative offset", backstore.OpRead, 0, -512, block, backstore.CodeRange},
		{"offset that wraps", backstore.OpRead, 0, math.MaxInt64 - 511, block, backstore.CodeRange},
		{"no data", backstore.OpRead, 0, 0, nil, backstore.CodeInvalid},
		{"part of a block", backstore.OpRead, 0, 0, arena[:100], backstore.CodeInvalid},
		{"inside a block", backstore.OpRead, 0, 100, block, backstore.CodeInvalid},
		{"buffer elsewhere", backstore.OpRead, 0, 0, make([]byte, 512), backstore.CodeInvalid},
		{"buffer behind the arena", backstore.OpRead, 0, 0, memory[size : size+4096], backstore.CodeInvalid},
		{"buffer over the arena's end", backstore.OpRead, 0, 0, memory[size-4096 : size+4096], backstore.CodeInvalid},
		{"buffer not aligned", backstore.OpRead, 0, 0, arena[512:1024], backstore.CodeInvalid},
		{"read with flags", backstore.OpRead, backstore.FUA, 0, block, backstore.CodeInvalid},
		{"write with FUA", backstore.OpWrite, backstore.FUA, 0, block, backstore.CodeOK},
		{"write with unknown flags", backstore.OpWrite, 0x80, 0, block, backstore.CodeInvalid},
		{"flush", backstore.OpFlush, 0, 0, nil, backstore.CodeOK},
		{"flush with data", backstore.OpFlush, 0, 0, block, backstore.CodeInvalid},
		{"flush with offset", backstore.OpFlush, 0, 512, nil, backstore.CodeInvalid},
		{"no operation", 0, 0, 0, nil, backstore.CodeInvalid},
		{"unknown operation", 99, 0, 0, block, backstore.CodeInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, store.Config{Arena: arena})
			seen := 0
			r.b.Plan = func(*backstore.Request) storetest.Fault { seen++; return storetest.Fault{} }
			q := r.request("q", tt.op, tt.off, tt.data)
			q.Flags = tt.flags
			if got := r.g.Submit(q); got != tt.want {
				t.Fatalf("%v, want %v", got, tt.want)
			}
			r.turn()
			if accepted := tt.want == backstore.CodeOK; accepted != (seen == 1) || accepted != (len(r.own.ended) == 1) {
				t.Errorf("backend saw %d, owner was told %v", seen, r.own.ended)
			}
			if got := r.g.Stats().Refused; (got == 1) == (tt.want == backstore.CodeOK) {
				t.Errorf("%d refused", got)
			}
		})
	}
}

func TestCapabilitiesAreHeldTo(t *testing.T) {
	buf := make([]byte, 4096)
	tests := []struct {
		name string
		info backstore.Info
		cfg  store.Config
		req  store.Request
		want backstore.Code
	}{
		{"store is read only", backstore.Info{ReadOnly: true}, store.Config{}, store.Request{Op: backstore.OpWrite, Data: buf}, backstore.CodeReadOnly},
		{"operator says read only", backstore.Info{}, store.Config{ReadOnly: true}, store.Request{Op: backstore.OpWrite, Data: buf}, backstore.CodeReadOnly},
		{"read only is read", backstore.Info{ReadOnly: true}, store.Config{}, store.Request{Op: backstore.OpRead, Data: buf}, backstore.CodeOK},
		{"FUA without the capability", backstore.Info{}, store.Config{}, store.Request{Op: backstore.OpWrite, Flags: backstore.FUA, Data: buf}, backstore.CodeNotSupported},
		{"longer than the limit", backstore.Info{MaxTransfer: 2048}, store.Config{}, store.Request{Op: backstore.OpRead, Data: buf}, backstore.CodeInvalid},
		{"as long as the limit", backstore.Info{MaxTransfer: 4096}, store.Config{}, store.Request{Op: backstore.OpRead, Data: buf}, backstore.CodeOK},
		{"limit is rounded down", backstore.Info{MaxTransfer: 4095}, store.Config{}, store.Request{Op: backstore.OpRead, Data: buf}, backstore.CodeInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.info.BlockSize, tt.info.Blocks = 512, 100
			g, err := store.Open(store.NewLocal(store.NewMemoryInfo(tt.info), 1), tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			tt.req.Owner = &recorder{}
			if got := g.Submit(&tt.req); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// described is a backend that only describes itself.
type described struct {
	store.Backend
	info backstore.Info
}

func (d described) Info() backstore.Info { return d.info }

func TestOpenRefusesWhatCannotBe(t *testing.T) {
	good := backstore.Info{BlockSize: 512, Blocks: 8}
	tests := []struct {
		name   string
		change func(*backstore.Info)
		cfg    store.Config
		want   error
	}{
		{"good", func(*backstore.Info) {}, store.Config{}, nil},
		{"4096", func(i *backstore.Info) { i.BlockSize = 4096 }, store.Config{}, nil},
		{"physical blocks", func(i *backstore.Info) { i.PhysicalBlockSize = 65536 }, store.Config{}, nil},
		{"greatest", func(i *backstore.Info) { i.Blocks = math.MaxInt64 / 512 }, store.Config{}, nil},
		{"block size 0", func(i *backstore.Info) { i.BlockSize = 0 }, store.Config{}, store.ErrInfo},
		{"block size 520", func(i *backstore.Info) { i.BlockSize = 520 }, store.Config{}, store.ErrInfo},
		{"no blocks", func(i *backstore.Info) { i.Blocks = 0 }, store.Config{}, store.ErrInfo},
		{"too many blocks", func(i *backstore.Info) { i.Blocks = math.MaxInt64/512 + 1 }, store.Config{}, store.ErrInfo},
		{"product that wraps", func(i *backstore.Info) { i.Blocks = math.MaxUint64 }, store.Config{}, store.ErrInfo},
		{"physical no multiple", func(i *backstore.Info) { i.PhysicalBlockSize = 768 }, store.Config{}, store.ErrInfo},
		{"physical no power of two", func(i *backstore.Info) { i.PhysicalBlockSize = 1536 }, store.Config{}, store.ErrInfo},
		{"physical below logical", func(i *backstore.Info) { i.PhysicalBlockSize = 256 }, store.Config{}, store.ErrInfo},
		{"limit below a block", func(i *backstore.Info) { i.MaxTransfer = 511 }, store.Config{}, store.ErrInfo},
		{"negative depth", func(*backstore.Info) {}, store.Config{Depth: -1}, store.ErrConfig},
		{"negative deadline", func(*backstore.Info) {}, store.Config{Deadline: -1}, store.ErrConfig},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			info := good
			tt.change(&info)
			tt.cfg.Name = "disk7"
			_, err := store.Open(described{info: info}, tt.cfg)
			if !errors.Is(err, tt.want) {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			var e *store.Error
			if err != nil && (!errors.As(err, &e) || e.Store != "disk7" || e.Op != "open") {
				t.Errorf("error %#v does not say where", err)
			}
		})
	}
}

func TestInfoHasItsDefaultsFilledIn(t *testing.T) {
	r := newRig(t, store.Config{ReadOnly: true})
	i := r.g.Info()
	if i.PhysicalBlockSize != 512 || i.MaxTransfer != math.MaxUint32&^511 || !i.ReadOnly {
		t.Errorf("%+v", i)
	}
}

func TestARequestInUseIsRefused(t *testing.T) {
	r := newRig(t, store.Config{})
	q := r.flushes(1)[0]
	if got := r.g.Submit(q); got != backstore.CodeInvalid {
		t.Errorf("submitted twice: %v", got)
	}
	if !q.Busy() {
		t.Error("not busy while it waits")
	}
	r.turn()
	if q.Busy() {
		t.Error("busy after its end")
	}
	if got := r.g.Submit(&store.Request{Op: backstore.OpFlush}); got != backstore.CodeInvalid {
		t.Errorf("without an owner: %v", got)
	}
}

func TestOwnerMaySubmitTheSameRequestAgain(t *testing.T) {
	r := newRig(t, store.Config{})
	left := 2
	r.own.then = func(q *store.Request) {
		if left--; left >= 0 {
			r.submit(q)
		}
	}
	r.flushes(1)
	for r.turn() {
	}
	r.wantEnded("a:ok", "a:ok", "a:ok")
}

func TestAFullQueueKeepsTheOrder(t *testing.T) {
	for _, tt := range []struct{ depth, room int }{{2, 0}, {128, 3}, {1, 1}, {5, 2}} {
		r := newRig(t, store.Config{Depth: tt.depth})
		r.b.Room = tt.room
		r.flushes(7)
		for range 10 {
			r.turn()
		}
		r.wantEnded("a:ok", "b:ok", "c:ok", "d:ok", "e:ok", "f:ok", "g:ok")
		if s := r.g.Stats(); s.Waiting != 0 || s.Flying != 0 {
			t.Errorf("%+v", s)
		}
	}
}

func TestDepthBoundsWhatTheBackendHolds(t *testing.T) {
	r := newRig(t, store.Config{Depth: 3})
	r.b.Plan = func(*backstore.Request) storetest.Fault { return storetest.Fault{Hold: true} }
	r.flushes(5)
	r.turn()
	if s := r.g.Stats(); s.Flying != 3 || s.Waiting != 2 || r.b.Held() != 3 {
		t.Errorf("%+v, %d held", s, r.b.Held())
	}
}

func TestTheDoorbellRingsOnceABatch(t *testing.T) {
	r := newRig(t, store.Config{})
	r.g.Flush()
	r.flushes(20)
	r.turn()
	r.g.Flush()
	if r.b.Flushes != 1 {
		t.Errorf("%d times", r.b.Flushes)
	}
}

func TestCancelTakesBackOnlyWhatNoBackendHolds(t *testing.T) {
	r := newRig(t, store.Config{Depth: 1})
	r.b.Plan = func(*backstore.Request) storetest.Fault { return storetest.Fault{Hold: true} }
	q := r.flushes(4)
	r.turn()
	if r.g.Cancel(q[0]) {
		t.Error("cancelled what the backend holds")
	}
	if !r.g.Cancel(q[2]) || r.g.Cancel(q[2]) {
		t.Error("c: want one cancel to succeed")
	}
	for range 5 {
		r.b.Release()
		r.turn()
	}
	r.wantEnded("a:ok", "b:ok", "d:ok")
	if r.g.Cancel(q[3]) {
		t.Error("cancelled after its end")
	}
}
