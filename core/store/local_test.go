package store_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/gosrpt/gosrpt/core/store"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func TestLocalTakesWhatItHasRoomFor(t *testing.T) {
	l := store.NewLocal(store.NewMemory(4096), 3)
	reqs := make([]backstore.Request, 5)
	for i := range reqs {
		reqs[i] = backstore.Request{Tag: uint64(i), Op: backstore.OpFlush}
	}
	if n := l.Submit(reqs); n != 3 {
		t.Fatalf("took %d of 5 into 3", n)
	}
	if l.Arm() {
		t.Error("armed over results")
	}
	res := make([]backstore.Result, 2)
	if n := l.Poll(res); n != 2 || res[0].Tag != 0 || res[1].Tag != 1 {
		t.Fatalf("%d: %+v", n, res)
	}
	if n := l.Submit(reqs[3:]); n != 2 {
		t.Fatalf("took %d of 2 into 2", n)
	}
	all := make([]backstore.Result, 8)
	if n := l.Poll(all); n != 3 || all[0].Tag != 2 || all[1].Tag != 3 || all[2].Tag != 4 {
		t.Fatalf("%d: %+v", n, all)
	}
}

func TestLocalAfterCloseTakesNothing(t *testing.T) {
	l := store.NewLocal(store.NewMemory(4096), 3)
	l.Submit([]backstore.Request{{Op: backstore.OpFlush}})
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.Poll(make([]backstore.Result, 4)); n != 0 {
		t.Errorf("%d results", n)
	}
	if n := l.Submit(make([]backstore.Request, 1)); n != 0 {
		t.Errorf("took %d", n)
	}
}

func TestLocalReportsTheStoresErrors(t *testing.T) {
	l := store.NewLocal(store.NewMemoryInfo(backstore.Info{BlockSize: 512, Blocks: 1, ReadOnly: true}), 4)
	buf := make([]byte, 512)
	l.Submit([]backstore.Request{
		{Op: backstore.OpRead, Data: buf}, {Op: backstore.OpRead, Data: buf, Off: 1},
		{Op: backstore.OpWrite, Data: buf}, {Op: 77},
	})
	res := make([]backstore.Result, 4)
	l.Poll(res)
	want := []backstore.Code{backstore.CodeOK, backstore.CodeRange, backstore.CodeReadOnly, backstore.CodeNotSupported}
	for i, c := range want {
		if res[i].Code != c {
			t.Errorf("request %d: %v, want %v", i, res[i].Code, c)
		}
	}
}

func TestMemoryRefusesWhatLiesOutside(t *testing.T) {
	m := store.NewMemory(1024 + 100)
	if got := m.Info().Blocks; got != 2 {
		t.Fatalf("%d blocks", got)
	}
	buf := make([]byte, 512)
	for _, off := range []int64{-1, 513, 1024, 1 << 62} {
		if backstore.CodeOf(m.Read(context.Background(), buf, off)) != backstore.CodeRange ||
			backstore.CodeOf(m.Write(context.Background(), buf, off, 0)) != backstore.CodeRange {
			t.Errorf("offset %d accepted", off)
		}
	}
}

// Random reads and writes through the guard agree with a plain copy of the data.
func TestDataIsWhatWasWritten(t *testing.T) {
	const size = 256 << 10
	r := &rig{t: t, now: epoch, mem: store.NewMemory(size)}
	g, err := store.Open(store.NewLocal(r.mem, 8), store.Config{Depth: 8})
	if err != nil {
		t.Fatal(err)
	}
	r.g = g
	model := make([]byte, size)
	rng := newRand(7)
	for range 2000 {
		off := rng.IntN(size/512-16) * 512
		n := (1 + rng.IntN(16)) * 512
		buf := make([]byte, n)
		if rng.IntN(2) == 0 {
			for i := range buf {
				buf[i] = byte(rng.Uint32())
			}
			copy(model[off:], buf)
			r.submit(r.request("w", backstore.OpWrite, int64(off), buf))
			r.turn()
			continue
		}
		r.submit(r.request("r", backstore.OpRead, int64(off), buf))
		r.turn()
		if !bytes.Equal(buf, model[off:off+n]) {
			t.Fatalf("%d bytes at %d differ", n, off)
		}
	}
	if !bytes.Equal(r.mem.Bytes(), model) {
		t.Error("content differs at the end")
	}
}

// resubmit owns the benchmark's request.
type resubmit struct{ done int }

func (o *resubmit) Completed(*store.Request) { o.done++ }

func benchGuard(tb testing.TB) (*store.Guard, *store.Request, *resubmit) {
	arena := make([]byte, 1<<20)
	g, err := store.Open(store.NewLocal(store.NewMemory(1<<20), 64), store.Config{Arena: arena})
	if err != nil {
		tb.Fatal(err)
	}
	own := &resubmit{}
	return g, &store.Request{Op: backstore.OpRead, Data: arena[:4096], Owner: own}, own
}

func TestARequestAllocatesNothing(t *testing.T) {
	g, q, own := benchGuard(t)
	n := testing.AllocsPerRun(1000, func() {
		g.Submit(q)
		g.Flush()
		g.Poll(epoch)
	})
	if n != 0 || own.done == 0 {
		t.Errorf("%v allocations, %d done", n, own.done)
	}
}

func BenchmarkGuardRead4K(b *testing.B) {
	g, q, own := benchGuard(b)
	b.ReportAllocs()
	b.SetBytes(4096)
	for b.Loop() {
		g.Submit(q)
		g.Flush()
		g.Poll(epoch)
	}
	if own.done == 0 {
		b.Fatal("nothing was read")
	}
}
