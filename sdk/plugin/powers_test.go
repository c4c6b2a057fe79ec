package plugin

import (
	"context"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/backstore/backstoretest"
	"github.com/gosrpt/gosrpt/sdk/internal/ring"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// slowEngine has an engine, and unmaps when it is let.
type slowEngine struct {
	backstoretest.EngineMemory
	let chan struct{}
}

func (s slowEngine) Unmap(ctx context.Context, off, n int64) error {
	<-s.let
	return s.EngineMemory.Unmap(ctx, off, n)
}

// pushUnmap asks for the unmap of a block.
func (b *bench) pushUnmap(block int) {
	b.host.Push(b.next, ring.Entry{Op: uint8(backstore.OpUnmap), Offset: uint64(block) * 512, Extent: 512})
	b.next++
}

func TestEngineGoesOnWhileMorePowersWaitThanCallsMayBeInTheStore(t *testing.T) {
	s := slowEngine{backstoretest.EngineMemory{Memory: memory(2)}, make(chan struct{})}
	b := newBench(t, s, 32)
	for i := range 10 {
		b.pushUnmap(i)
	}
	for range 3 {
		for i := range 8 {
			b.push(backstore.OpRead, i)
		}
		b.publish()
		for slot, c := range b.take(8) {
			if c != backstore.CodeOK || slot < 10 {
				t.Errorf("slot %d: %v", slot, c)
			}
		}
	}
	// The queue is not let go of before the powers' requests have ended.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := b.q.stop(ctx); err == nil {
		t.Error("the queue has ended with requests under way")
	}
	close(s.let)
	for slot, c := range b.take(10) {
		if c != backstore.CodeOK {
			t.Errorf("slot %d: %v", slot, c)
		}
	}
}

// wrong tells of a difference wherever it is asked.
type wrong struct {
	*backstoretest.Memory
	at int
}

func (s wrong) Read(context.Context, []byte, int64) error { return backstore.Miscompare(s.at) }

func (s wrong) CompareAndWrite(context.Context, []byte, []byte, int64, backstore.Flags) error {
	return backstore.Miscompare(s.at)
}

func TestDifferenceThatCannotBeIsAnIOError(t *testing.T) {
	for _, c := range []struct {
		at   int
		op   backstore.Op
		want backstore.Code
	}{
		{511, backstore.OpCompareAndWrite, backstore.CodeMiscompare}, {512, backstore.OpCompareAndWrite, backstore.CodeIO},
		{-1, backstore.OpCompareAndWrite, backstore.CodeIO}, {0, backstore.OpRead, backstore.CodeIO},
	} {
		st := wrong{memory(0), c.at}
		b := newBench(t, st, 4)
		b.host.Push(b.next, ring.Entry{Op: uint8(c.op), Length: 1024})
		b.next++
		b.publish()
		if got := b.collect(1)[0]; got != c.want {
			t.Errorf("operation %d, byte %d: %v, want %v", c.op, c.at, got, c.want)
		}
		s, id := serve(t, st)
		r, err := s.CompareAndWrite(t.Context(), &backstorepb.CompareAndWriteRequest{Store: id, Expect: make([]byte, 512), Data: make([]byte, 512)})
		if want := c.want; c.op == backstore.OpCompareAndWrite && (err != nil || backstore.Code(r.Error.GetCode()) != want) {
			t.Errorf("slow path, byte %d: %v, %v", c.at, r, err)
		}
	}
}

func TestSlowPathOfPowersRefusesWhatCannotBe(t *testing.T) {
	s, id := serve(t, memory(0))
	ctx := t.Context()
	code := func(e *backstorepb.Error, err error) backstore.Code {
		if err != nil {
			t.Error(err)
		}
		return backstore.Code(e.GetCode())
	}
	for name, got := range map[string]struct{ is, want backstore.Code }{
		"the longest unmap": {func() backstore.Code {
			r, err := s.Unmap(ctx, &backstorepb.UnmapRequest{Store: id, Length: ^uint64(0)})
			return code(r.Error, err)
		}(), backstore.CodeRange},
		"nothing": {func() backstore.Code {
			r, err := s.WriteZeroes(ctx, &backstorepb.WriteZeroesRequest{Store: id})
			return code(r.Error, err)
		}(), backstore.CodeInvalid},
		"two blocks to write": {func() backstore.Code {
			r, err := s.WriteSame(ctx, &backstorepb.WriteSameRequest{Store: id, Length: 1024, Block: make([]byte, 1024)})
			return code(r.Error, err)
		}(), backstore.CodeInvalid},
		"more expected than written": {func() backstore.Code {
			r, err := s.CompareAndWrite(ctx, &backstorepb.CompareAndWriteRequest{Store: id, Expect: make([]byte, 512)})
			return code(r.Error, err)
		}(), backstore.CodeInvalid},
		"an empty transfer": {backstore.Code(s.transfer(&backstorepb.TransferRequest{}).Error.GetCode()), backstore.CodeNotSupported},
		"a hollow transfer": {backstore.Code(s.transfer(&backstorepb.TransferRequest{Op: &backstorepb.TransferRequest_Unmap{}}).Error.GetCode()), backstore.CodeInvalid},
	} {
		if got.is != got.want {
			t.Errorf("%s: %v, want %v", name, got.is, got.want)
		}
	}
}

func TestPowersAllocateNothing(t *testing.T) {
	b := newBench(t, memory(4), 8)
	sleep, done := b.host.Sleep, make([]ring.Done, 8)
	turn := func() {
		for i := range 8 {
			b.pushUnmap(i)
		}
		b.publish()
		for n := 0; n < 8; {
			k, err := b.host.Pop(done)
			if err != nil {
				t.Fatal(err)
			}
			if n += k; k == 0 {
				if err := b.wake.Wait(sleep); err != nil {
					t.Fatal(err)
				}
				b.host.Awake()
			}
		}
		b.next = 0
	}
	for range 50 { // until every worker is there
		turn()
	}
	if a := testing.AllocsPerRun(200, turn); a > 0 {
		t.Errorf("%v allocations for 8 requests", a)
	}
}

func TestInfoOfPowersIsChecked(t *testing.T) {
	for name, change := range map[string]func(*backstore.Info){
		"granularity below a block": func(i *backstore.Info) { i.UnmapGranularity = 256 },
		"odd granularity":           func(i *backstore.Info) { i.UnmapGranularity = 1536 },
		"part of a block":           func(i *backstore.Info) { i.MaxCompareAndWrite = 100 },
		"a huge compare":            func(i *backstore.Info) { i.MaxCompareAndWrite = 1 << 31 },
	} {
		i := memory(0).Info()
		change(&i)
		if _, err := newStore(&closing{info: i}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	i := memory(0).Info()
	i.Powers = backstore.PowerUnmap
	st, err := newStore(&closing{info: i})
	if err != nil || st.info.Powers != 0 {
		t.Errorf("powers that it says and does not have: %v, %v", st.info.Powers, err)
	}
}
