package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/store"
	"github.com/gosrpt/gosrpt/core/store/storetest"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

func always(f storetest.Fault) func(*backstore.Request) storetest.Fault {
	return func(*backstore.Request) storetest.Fault { return f }
}

func TestCodesComeThroughAndUnknownOnesAreIOErrors(t *testing.T) {
	for code := backstore.Code(0); code < 12; code++ {
		r := newRig(t, store.Config{})
		r.b.Plan = always(storetest.Fault{Code: code})
		q := r.flushes(1)[0]
		r.turn()
		want := code
		if code > backstore.CodeInvalid {
			want = backstore.CodeIO
		}
		if q.Code != want {
			t.Errorf("code %d ended as %v", code, q.Code)
		}
		s := r.g.Stats()
		if want != backstore.CodeOK && s.Failed[want] != 1 || s.Failed[backstore.CodeOK] != 0 {
			t.Errorf("code %d: failed %v", code, s.Failed)
		}
		if (s.UnknownCodes == 1) != (code > backstore.CodeInvalid) {
			t.Errorf("code %d: %d unknown", code, s.UnknownCodes)
		}
	}
}

func TestABackendThatBreaksTheContractIsNotBelievedAgain(t *testing.T) {
	tests := []struct {
		name   string
		fault  storetest.Fault
		count  func(int) int
		before []string // what ends before the breach
	}{
		{"result twice", storetest.Fault{Twice: true}, nil, []string{"a:ok"}},
		{"unknown tag", storetest.Fault{BadTag: true}, nil, nil},
		{"took more than offered", storetest.Fault{}, func(n int) int { return n + 1 }, nil},
		{"took fewer than none", storetest.Fault{}, func(int) int { return -1 }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, store.Config{})
			r.b.Plan, r.b.Count = always(tt.fault), tt.count
			r.flushes(3)
			for range 5 {
				r.turn()
			}
			r.wantEnded(tt.before...)
			r.wantFaults(store.ErrProtocol)
			if r.g.Ready() || r.g.Stats().Breaches != 1 {
				t.Errorf("ready %v, %d breaches", r.g.Ready(), r.g.Stats().Breaches)
			}
			if !r.g.Arm() {
				t.Error("a broken backend keeps the reactor awake")
			}

			// The replacement gets what was outstanding, and each request ends once.
			next := storetest.Wrap(store.NewLocal(r.mem, 16))
			r.g.Detach(r.now)
			if err := r.g.Attach(next); err != nil {
				t.Fatal(err)
			}
			r.turn()
			r.wantEnded("a:ok", "b:ok", "c:ok")
			r.wantFaults(store.ErrProtocol)
		})
	}
}

// overfull claims more results than there is room for.
type overfull struct{ store.Backend }

func (overfull) Poll(res []backstore.Result) int { return len(res) + 1 }

func TestAResultCountThatCannotBeBreaksTheBackend(t *testing.T) {
	r := newRig(t, store.Config{})
	r.g.Detach(r.now)
	if err := r.g.Attach(overfull{store.NewLocal(r.mem, 4)}); err != nil {
		t.Fatal(err)
	}
	r.flushes(1)
	r.turn()
	r.wantEnded()
	r.wantFaults(store.ErrProtocol)
	if want := `store "disk": poll: 65 results in room for 64: backend broke the contract`; r.faults[0].Error() != want {
		t.Errorf("%v, want %s", r.faults[0], want)
	}
}

func TestAResultOfAnEarlierBackendMatchesNothing(t *testing.T) {
	r := newRig(t, store.Config{Depth: 1})
	r.b.Plan = always(storetest.Fault{Hold: true})
	r.flushes(1)
	r.turn()
	r.g.Detach(r.now)
	// The old results come out of the new backend, as if a process had kept its queue.
	if err := r.g.Attach(r.b); err != nil {
		t.Fatal(err)
	}
	r.turn()
	if n := r.b.Release(); n != 2 {
		t.Fatalf("%d results held, want the old one and the new one", n)
	}
	r.turn()
	r.wantEnded()
	r.wantFaults(store.ErrProtocol)
}

func TestAnOverdueRequestIsReportedOnceAndKeepsItsBuffer(t *testing.T) {
	r := newRig(t, store.Config{Deadline: time.Second})
	r.b.Plan = always(storetest.Fault{Hold: true})
	q := r.flushes(2)
	r.turn()
	if got := r.g.Deadline(); !got.Equal(epoch.Add(time.Second)) {
		t.Errorf("deadline %v", got)
	}
	r.pass(time.Second - 1)
	r.turn()
	r.wantFaults()
	r.pass(1)
	r.turn()
	r.pass(time.Hour)
	r.turn()
	r.wantFaults(store.ErrDeadline)
	r.wantEnded()
	if !q[0].Busy() || !q[1].Busy() {
		t.Error("the guard gave back what the backend holds")
	}
	if !r.g.Deadline().IsZero() {
		t.Error("a deadline in the past keeps the reactor awake")
	}
	if got := r.g.Stats().Oldest; got != time.Hour+time.Second {
		t.Errorf("oldest %v", got)
	}
	// Late is not never: the result still counts.
	r.b.Release()
	r.turn()
	r.wantEnded("a:ok", "b:ok")
}

func TestALostResultIsOverdue(t *testing.T) {
	r := newRig(t, store.Config{})
	r.b.Plan = always(storetest.Fault{Lose: true})
	r.flushes(1)
	r.turn()
	r.pass(store.DefaultDeadline)
	r.turn()
	r.wantFaults(store.ErrDeadline)
}

func TestWhatWaitsTooLongFailsSoThatItIsRetried(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(r *rig)
		want    backstore.Code
	}{
		{"no backend", func(r *rig) { r.g.Detach(r.now) }, backstore.CodeUnavailable},
		{"backend full", func(r *rig) { r.b.Count = func(int) int { return 0 } }, backstore.CodeBusy},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, store.Config{Patience: time.Second})
			tt.prepare(r)
			if tt.name == "backend full" {
				r.b.Room = 0
				r.b.Plan = always(storetest.Fault{Skip: true, Lose: true})
			}
			q := r.flushes(1)[0]
			r.turn()
			if got := r.g.Deadline(); !got.Equal(epoch.Add(time.Second)) {
				t.Errorf("deadline %v", got)
			}
			r.pass(time.Second - 1)
			r.turn()
			r.wantEnded()
			r.pass(1)
			if !r.turn() {
				t.Error("Poll did not tell that it did something")
			}
			r.wantEnded("a:" + tt.want.String())
			if q.Busy() || r.g.Stats().Expired != 1 {
				t.Errorf("busy %v, %+v", q.Busy(), r.g.Stats())
			}
		})
	}
}

func TestWorkMovesToTheNextBackendInOrder(t *testing.T) {
	r := newRig(t, store.Config{Depth: 2})
	r.b.Plan = always(storetest.Fault{Hold: true})
	r.flushes(4)
	r.turn()
	r.g.Detach(r.now)
	if r.g.FD() != -1 || r.g.Ready() {
		t.Error("there is still a backend")
	}
	if s := r.g.Stats(); s.Waiting != 4 || s.Flying != 0 || s.Resubmitted != 2 {
		t.Errorf("%+v", s)
	}
	if err := r.g.Attach(store.NewLocal(r.mem, 4)); err != nil {
		t.Fatal(err)
	}
	r.turn()
	r.turn()
	r.wantEnded("a:ok", "b:ok", "c:ok", "d:ok")
	if got := r.g.Stats().Generation; got != 2 {
		t.Errorf("generation %d", got)
	}
}

func TestABackendThatKeepsDyingDoesNotKeepARequestForEver(t *testing.T) {
	r := newRig(t, store.Config{Patience: 10 * time.Second})
	r.b.Plan = always(storetest.Fault{Hold: true})
	r.flushes(1)
	for range 11 {
		r.turn()
		r.pass(time.Second)
		r.g.Detach(r.now)
		r.g.Poll(r.now)
		b := storetest.Wrap(store.NewLocal(r.mem, 4))
		b.Plan = always(storetest.Fault{Hold: true})
		if err := r.g.Attach(b); err != nil {
			t.Fatal(err)
		}
	}
	r.wantEnded("a:unavailable")
}

func TestAttachWantsTheSameStore(t *testing.T) {
	same := backstore.Info{BlockSize: 512, Blocks: 2048}
	tests := []struct {
		name   string
		change func(*backstore.Info)
		want   error
	}{
		{"same", func(*backstore.Info) {}, nil},
		{"grown", func(i *backstore.Info) { i.Blocks++ }, nil},
		{"shrunk", func(i *backstore.Info) { i.Blocks-- }, store.ErrChanged},
		{"other blocks", func(i *backstore.Info) { i.BlockSize = 4096 }, store.ErrChanged},
		{"nonsense", func(i *backstore.Info) { i.BlockSize = 7 }, store.ErrInfo},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, store.Config{})
			info := same
			tt.change(&info)
			b := described{Backend: store.NewLocal(r.mem, 1), info: info}
			if err := r.g.Attach(b); !errors.Is(err, store.ErrConfig) {
				t.Errorf("attached beside another: %v", err)
			}
			r.g.Detach(r.now)
			r.g.Detach(r.now)
			if err := r.g.Attach(b); !errors.Is(err, tt.want) {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			if tt.want == nil && r.g.Info().Blocks != info.Blocks {
				t.Errorf("%+v", r.g.Info())
			}
		})
	}
}

func TestANewBackendsLimitsHoldForWhatWaits(t *testing.T) {
	r := newRig(t, store.Config{})
	r.g.Detach(r.now)
	long, short := make([]byte, 4096), make([]byte, 512)
	q := []*store.Request{
		r.request("long", backstore.OpRead, 0, long),
		r.request("short", backstore.OpRead, 0, short),
		r.request("write", backstore.OpWrite, 0, short),
		r.request("flush", backstore.OpFlush, 0, nil),
	}
	r.submit(q...)
	again := r.request("again", backstore.OpFlush, 0, nil)
	r.own.then = func(*store.Request) {
		r.own.then = nil
		r.submit(again)
		if r.g.Cancel(q[0]) {
			t.Error("cancelled what is about to fail")
		}
	}
	info := backstore.Info{BlockSize: 512, Blocks: 2048, MaxTransfer: 512, ReadOnly: true}
	if err := r.g.Attach(store.NewLocal(store.NewMemoryInfo(info), 4)); err != nil {
		t.Fatal(err)
	}
	r.wantEnded("write:read only", "long:invalid")
	r.turn()
	r.wantEnded("write:read only", "long:invalid", "short:ok", "flush:ok", "again:ok")
}

func TestCloseFailsEverythingAndStaysClosed(t *testing.T) {
	r := newRig(t, store.Config{Depth: 1})
	r.b.Plan = always(storetest.Fault{Hold: true})
	r.flushes(2)
	r.turn()
	r.g.Close(r.now)
	r.g.Close(r.now)
	r.wantEnded("a:unavailable", "b:unavailable")
	if got := r.g.Submit(r.request("c", backstore.OpFlush, 0, nil)); got != backstore.CodeUnavailable {
		t.Errorf("after Close: %v", got)
	}
	if err := r.g.Attach(r.b); !errors.Is(err, store.ErrConfig) {
		t.Errorf("attach after Close: %v", err)
	}
	if r.turn() || !r.g.Arm() || !r.g.Deadline().IsZero() {
		t.Error("a closed guard keeps the reactor awake")
	}
}

func TestArmSeesWhatPollHasNotSeen(t *testing.T) {
	r := newRig(t, store.Config{})
	if !r.g.Arm() {
		t.Error("nothing there")
	}
	r.flushes(1)
	if r.g.Arm() {
		t.Error("a request waits for Flush")
	}
	r.g.Flush()
	if r.g.Arm() {
		t.Error("a result waits for Poll")
	}
	r.g.Poll(r.now)
	if !r.g.Arm() {
		t.Error("all is done")
	}
}

// A write that its owner gave up may land at any time until the backend is done with it: nothing newer may be there.
func TestAnAbandonedWriteCannotLandOnNewerData(t *testing.T) {
	r := newRig(t, store.Config{})
	r.b.Plan = always(storetest.Fault{Hold: true})
	old := r.request("old", backstore.OpWrite, 1024, make([]byte, 1024))
	r.submit(old)
	r.turn()
	for range 2 {
		if r.g.Cancel(old) {
			t.Fatal("took back what the backend holds")
		}
	}
	r.b.Plan = nil
	r.submit(
		r.request("before", backstore.OpWrite, 512, make([]byte, 512)),
		r.request("behind", backstore.OpWrite, 2048, make([]byte, 512)),
		r.request("flush", backstore.OpFlush, 0, nil),
		r.request("over", backstore.OpWrite, 1536, make([]byte, 1024)),
		r.request("after", backstore.OpRead, 1536, make([]byte, 512)),
	)
	r.turn()
	r.turn()
	r.wantEnded("before:ok", "behind:ok", "flush:ok")
	r.b.Release()
	r.turn()
	r.turn()
	r.wantEnded("before:ok", "behind:ok", "flush:ok", "old:ok", "over:ok", "after:ok")
}

func TestAnAbandonedReadBlocksNothing(t *testing.T) {
	r := newRig(t, store.Config{})
	r.b.Plan = always(storetest.Fault{Hold: true})
	old := r.request("old", backstore.OpRead, 0, make([]byte, 512))
	elsewhere := r.request("elsewhere", backstore.OpWrite, 4096, make([]byte, 512))
	r.submit(old, elsewhere)
	r.turn()
	r.g.Cancel(old)
	r.g.Cancel(elsewhere)
	r.b.Plan = nil
	r.submit(r.request("new", backstore.OpWrite, 0, make([]byte, 512)))
	r.turn()
	r.wantEnded("new:ok")
}

func TestAnAbandonedRequestGoesToNoOtherBackend(t *testing.T) {
	r := newRig(t, store.Config{})
	r.b.Plan = always(storetest.Fault{Hold: true, Skip: true})
	data := []byte(fmt.Sprintf("%512s", "old data"))
	old, wanted := r.request("old", backstore.OpWrite, 0, data), r.request("wanted", backstore.OpWrite, 512, data)
	r.submit(old, wanted)
	r.turn()
	r.g.Cancel(old)
	r.own.then = func(*store.Request) {
		r.own.then = nil
		r.submit(r.request("new", backstore.OpRead, 0, make([]byte, 512)))
	}
	r.g.Detach(r.now)
	r.wantEnded("old:aborted")
	if err := r.g.Attach(store.NewLocal(r.mem, 4)); err != nil {
		t.Fatal(err)
	}
	r.turn()
	r.wantEnded("old:aborted", "wanted:ok", "new:ok")
	if r.mem.Bytes()[511] != 0 || r.mem.Bytes()[1023] != 'a' {
		t.Error("the new backend did what nobody wants, or not what somebody wants")
	}
}

// Random schedules of everything at once: each accepted request ends exactly once, in whatever way.
func TestEachRequestEndsExactlyOnce(t *testing.T) {
	for seed := range uint64(100) {
		rng := newRand(seed)
		r := poweredRig(t, store.Config{Depth: 1 + rng.IntN(4), Deadline: 5 * time.Second, Patience: 8 * time.Second}, poweredInfo())
		ends := map[any]int{}
		r.own.then = func(q *store.Request) { ends[q.User]++ }
		plan := func(*backstore.Request) storetest.Fault {
			return storetest.Fault{
				Hold: rng.IntN(3) == 0, Twice: rng.IntN(60) == 0, BadTag: rng.IntN(60) == 0, Lose: rng.IntN(40) == 0,
				Code: backstore.Code(max(0, rng.IntN(30)-18)),
			}
		}
		r.b.Plan = plan
		var reqs []*store.Request
		for step := range 200 {
			r.pass(time.Duration(rng.IntN(600)) * time.Millisecond)
			switch rng.IntN(8) {
			case 0, 1, 2:
				q := r.request(fmt.Sprint(step), backstore.OpFlush, 0, nil)
				if power := backstore.Powers(1 << rng.IntN(8)); r.each()[power] != nil {
					q = r.each()[power]
					q.User = fmt.Sprint(step)
				}
				r.submit(q)
				reqs = append(reqs, q)
			case 3:
				if len(reqs) > 0 {
					if q := reqs[rng.IntN(len(reqs))]; r.g.Cancel(q) {
						ends[q.User]++
					}
				}
			case 4:
				r.b.Release()
			case 5:
				if len(r.faults) > 0 || rng.IntN(20) == 0 {
					r.faults = nil
					r.g.Detach(r.now)
					r.b = storetest.Wrap(store.NewLocal(&store.Powered{Memory: r.mem}, 8))
					r.b.Plan, r.b.Room = plan, rng.IntN(3)
					if err := r.g.Attach(r.b); err != nil {
						t.Fatal(err)
					}
				}
			default:
				r.turn()
			}
		}
		r.g.Close(r.now)
		for _, q := range reqs {
			if ends[q.User] != 1 || q.Busy() {
				t.Fatalf("seed %d: request %v ended %d times, busy %v", seed, q.User, ends[q.User], q.Busy())
			}
		}
		if s := r.g.Stats(); s.Waiting != 0 || s.Flying != 0 {
			t.Fatalf("seed %d: %+v", seed, s)
		}
	}
}

// lasting is a backend that is told of what nobody waits for.
type lasting struct {
	store.Backend
	cancelled []uint64
}

func (l *lasting) Cancel(tag uint64) { l.cancelled = append(l.cancelled, tag) }

func TestABackendThatOutlivesItsProcessesIsToldOfCancels(t *testing.T) {
	r := newRig(t, store.Config{})
	r.g.Detach(r.now)
	var tags []uint64
	b := &lasting{Backend: r.b}
	r.b.Plan = func(q *backstore.Request) storetest.Fault {
		tags = append(tags, q.Tag)
		return storetest.Fault{Hold: true}
	}
	if err := r.g.Attach(b); err != nil {
		t.Fatal(err)
	}
	q := r.flushes(2)
	r.turn()
	for range 2 {
		if r.g.Cancel(q[1]) {
			t.Fatal("took back what the backend holds")
		}
	}
	if len(b.cancelled) != 1 || b.cancelled[0] != tags[1] {
		t.Errorf("cancelled %x of %x", b.cancelled, tags)
	}
	r.b.Release()
	r.turn()
	r.wantEnded("a:ok", "b:ok")
}

func TestWhatMustNotBeDoneTwiceGoesToNoOtherBackend(t *testing.T) {
	r := newRig(t, store.Config{})
	r.b.Plan = always(storetest.Fault{Hold: true, Skip: true})
	once, again := r.request("once", backstore.OpWrite, 0, make([]byte, 512)), r.request("again", backstore.OpWrite, 512, make([]byte, 512))
	r.submit(once, again)
	r.turn()
	once.Op = 200 // as an operation would be that the guard knows and that is not repeatable
	r.g.Detach(r.now)
	r.wantEnded("once:aborted")
	if err := r.g.Attach(store.NewLocal(r.mem, 4)); err != nil {
		t.Fatal(err)
	}
	r.turn()
	r.wantEnded("once:aborted", "again:ok")
}
