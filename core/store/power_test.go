package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/gosrpt/gosrpt/core/store"
	"github.com/gosrpt/gosrpt/core/store/storetest"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

const poweredSize = 1 << 20

func poweredInfo() backstore.Info {
	return backstore.Info{BlockSize: 512, Blocks: poweredSize / 512, FUA: true, UnmapZeroes: true, MaxCompareAndWrite: 4096}
}

// poweredRig is a guard over a store with every power.
func poweredRig(t *testing.T, cfg store.Config, info backstore.Info) *rig {
	t.Helper()
	r := &rig{t: t, now: epoch}
	p := store.NewPowered(info)
	r.mem = p.Memory
	r.b = storetest.Wrap(store.NewLocal(p, 64))
	cfg.Name = "disk"
	cfg.OnFault = func(err error) { r.faults = append(r.faults, err) }
	g, err := store.Open(r.b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.g = g
	return r
}

func TestPowersReachTheStoreAndAreCounted(t *testing.T) {
	r := poweredRig(t, store.Config{}, poweredInfo())
	mem := r.mem.Bytes()
	for i := range mem {
		mem[i] = byte(i>>9) | 1
	}
	want := bytes.Clone(mem)
	clear(want[:1024])
	clear(want[4096:8192])
	block := bytes.Repeat([]byte("same"), 128)
	for at := 16384; at < 20480; at += 512 {
		copy(want[at:], block)
	}
	caw := append(bytes.Clone(mem[512*60:512*61]), bytes.Repeat([]byte{0xAA}, 512)...)
	copy(want[512*60:], caw[512:])
	r.submit(
		&store.Request{Op: backstore.OpUnmap, N: 1024, Owner: &r.own, User: "unmap"},
		&store.Request{Op: backstore.OpWriteZeroes, Flags: backstore.FUA | backstore.MayUnmap, Off: 4096, N: 4096, Owner: &r.own, User: "zero"},
		&store.Request{Op: backstore.OpWriteSame, Flags: backstore.FUA, Off: 16384, N: 4096, Data: block, Owner: &r.own, User: "same"},
		&store.Request{Op: backstore.OpCompareAndWrite, Flags: backstore.FUA, Off: 512 * 60, Data: caw, Owner: &r.own, User: "caw"},
	)
	r.turn()
	r.wantEnded("unmap:ok", "zero:ok", "same:ok", "caw:ok")
	if !bytes.Equal(mem, want) {
		t.Error("content differs")
	}
	s := r.g.Stats()
	if s.Unmaps != 1 || s.ZeroWrites != 1 || s.SameWrites != 1 || s.CompareAndWrites != 1 ||
		s.BytesUnmapped != 1024 || s.BytesZeroed != 4096 || s.BytesSame != 4096 || s.BytesWritten != 0 {
		t.Errorf("%+v", s)
	}
}

func TestRequestsForPowersAreChecked(t *testing.T) {
	const all = int64(poweredSize)
	arena := make([]byte, poweredSize)
	block, two, odd := arena[:512], arena[:1024], arena[:1023]
	const unmap, zeroes, caw, same = backstore.OpUnmap, backstore.OpWriteZeroes, backstore.OpCompareAndWrite, backstore.OpWriteSame
	tests := []struct {
		name  string
		op    backstore.Op
		flags backstore.Flags
		off   int64
		data  []byte
		n     int64
		want  backstore.Code
	}{
		{"unmap all", unmap, 0, 0, nil, all, backstore.CodeOK},
		{"unmap the last block", unmap, 0, all - 512, nil, 512, backstore.CodeOK},
		{"unmap beyond the end", unmap, 0, all, nil, 512, backstore.CodeRange},
		{"unmap over the end", unmap, 0, all - 512, nil, 1024, backstore.CodeRange},
		{"unmap a length that wraps", unmap, 0, 512, nil, math.MaxInt64 - 511, backstore.CodeRange},
		{"unmap a negative length", unmap, 0, 1024, nil, -512, backstore.CodeRange},
		{"unmap the most negative length", unmap, 0, 0, nil, math.MinInt64, backstore.CodeRange},
		{"unmap at a negative offset", unmap, 0, -512, nil, 512, backstore.CodeRange},
		{"unmap nothing", unmap, 0, 0, nil, 0, backstore.CodeInvalid},
		{"unmap a part of a block", unmap, 0, 0, nil, 100, backstore.CodeInvalid},
		{"unmap inside a block", unmap, 0, 100, nil, 512, backstore.CodeInvalid},
		{"unmap with data", unmap, 0, 0, block, 512, backstore.CodeInvalid},
		{"unmap with FUA", unmap, backstore.FUA, 0, nil, 512, backstore.CodeInvalid},
		{"zeroes", zeroes, backstore.FUA | backstore.MayUnmap, 512, nil, 512, backstore.CodeOK},
		{"zeroes with an unknown flag", zeroes, 4, 0, nil, 512, backstore.CodeInvalid},
		{"zeroes with data", zeroes, 0, 0, block, 512, backstore.CodeInvalid},
		{"zeroes over the end", zeroes, 0, 512, nil, all, backstore.CodeRange},
		{"compare", caw, backstore.FUA, all - 512, two, 0, backstore.CodeOK},
		{"compare the most", caw, 0, 0, arena[:8192], 0, backstore.CodeOK},
		{"compare too much", caw, 0, 0, arena[:9216], 0, backstore.CodeInvalid},
		{"compare an odd length", caw, 0, 0, odd, 0, backstore.CodeInvalid},
		{"compare an odd length of whole blocks", caw, 0, 0, arena[:1025], 0, backstore.CodeInvalid},
		{"compare half blocks", caw, 0, 0, block, 0, backstore.CodeInvalid},
		{"compare nothing", caw, 0, 0, nil, 0, backstore.CodeInvalid},
		{"compare over the end", caw, 0, all - 512, arena[:2048], 0, backstore.CodeRange},
		{"compare with a length", caw, 0, 0, two, 512, backstore.CodeInvalid},
		{"compare with MayUnmap", caw, backstore.MayUnmap, 0, two, 0, backstore.CodeInvalid},
		{"compare with a buffer elsewhere", caw, 0, 0, make([]byte, 1024), 0, backstore.CodeInvalid},
		{"same", same, backstore.FUA, 512, block, all - 512, backstore.CodeOK},
		{"same with two blocks", same, 0, 0, two, 4096, backstore.CodeInvalid},
		{"same without a block", same, 0, 0, nil, 4096, backstore.CodeInvalid},
		{"same for no blocks", same, 0, 0, block, 0, backstore.CodeInvalid},
		{"same over the end", same, 0, 1024, block, all - 512, backstore.CodeRange},
		{"same with a buffer elsewhere", same, 0, 0, make([]byte, 512), 512, backstore.CodeInvalid},
		{"read with a length", backstore.OpRead, 0, 0, block, 512, backstore.CodeInvalid},
		{"write with MayUnmap", backstore.OpWrite, backstore.MayUnmap, 0, block, 0, backstore.CodeInvalid},
		{"flush with a length", backstore.OpFlush, 0, 0, nil, 512, backstore.CodeInvalid},
		{"the operation behind the last", same + 1, 0, 0, block, 512, backstore.CodeInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := poweredRig(t, store.Config{Arena: arena}, poweredInfo())
			seen := 0
			r.b.Plan = func(q *backstore.Request) storetest.Fault { seen++; return storetest.Fault{Skip: true} }
			q := r.request("q", tt.op, tt.off, tt.data)
			q.Flags, q.N = tt.flags, tt.n
			if got := r.g.Submit(q); got != tt.want {
				t.Fatalf("%v, want %v", got, tt.want)
			}
			r.turn()
			if accepted := tt.want == backstore.CodeOK; accepted != (seen == 1) {
				t.Errorf("the backend saw %d", seen)
			}
		})
	}
}

// each is a valid request for each power.
func (r *rig) each() map[backstore.Powers]*store.Request {
	return map[backstore.Powers]*store.Request{
		backstore.PowerUnmap:           {Op: backstore.OpUnmap, Off: 1024, N: 1024, Owner: &r.own, User: "unmap"},
		backstore.PowerWriteZeroes:     {Op: backstore.OpWriteZeroes, Off: 1024, N: 1024, Owner: &r.own, User: "zero"},
		backstore.PowerCompareAndWrite: {Op: backstore.OpCompareAndWrite, Off: 1024, Data: make([]byte, 2048), Owner: &r.own, User: "caw"},
		backstore.PowerWriteSame:       {Op: backstore.OpWriteSame, Off: 1024, N: 1024, Data: make([]byte, 512), Owner: &r.own, User: "same"},
	}
}

func TestWithoutThePowerARequestIsRefused(t *testing.T) {
	r := poweredRig(t, store.Config{}, poweredInfo())
	for power, q := range r.each() {
		r.b.Hide = power
		r.g.Detach(r.now)
		if err := r.g.Attach(r.b); err != nil {
			t.Fatal(err)
		}
		if got := r.g.Submit(q); got != backstore.CodeNotSupported {
			t.Errorf("%v: %v", power, got)
		}
	}
	readOnly := poweredInfo()
	readOnly.ReadOnly = true
	r = poweredRig(t, store.Config{}, readOnly)
	for power, q := range r.each() {
		if got := r.g.Submit(q); got != backstore.CodeReadOnly {
			t.Errorf("read only, %v: %v", power, got)
		}
	}
	noFUA := poweredInfo()
	noFUA.FUA = false
	r = poweredRig(t, store.Config{}, noFUA)
	for power, q := range r.each() {
		if power == backstore.PowerUnmap {
			continue
		}
		if q.Flags = backstore.FUA; r.g.Submit(q) != backstore.CodeNotSupported {
			t.Errorf("%v took FUA that the store does not have", power)
		}
	}
}

func TestWhatBelongsToAPowerIsOnlyThereWithIt(t *testing.T) {
	info := poweredInfo()
	info.UnmapGranularity = 65536
	info.MaxCompareAndWrite = 1500
	r := poweredRig(t, store.Config{}, info)
	if i := r.g.Info(); i.UnmapGranularity != 65536 || !i.UnmapZeroes || i.MaxCompareAndWrite != 1024 {
		t.Errorf("%+v", i)
	}
	r.b.Hide = math.MaxUint32
	r.g.Detach(r.now)
	if err := r.g.Attach(r.b); err != nil {
		t.Fatal(err)
	}
	if i := r.g.Info(); i.UnmapGranularity != 0 || i.UnmapZeroes || i.MaxCompareAndWrite != 0 {
		t.Errorf("without powers: %+v", i)
	}
	r = poweredRig(t, store.Config{}, backstore.Info{BlockSize: 4096, Blocks: 2})
	if i := r.g.Info(); i.UnmapGranularity != 4096 || i.MaxCompareAndWrite != 4096 {
		t.Errorf("defaults: %+v", i)
	}
}

func TestOpenRefusesPowersThatCannotBe(t *testing.T) {
	for name, change := range map[string]func(*backstore.Info){
		"granularity below a block":     func(i *backstore.Info) { i.UnmapGranularity = 256 },
		"granularity no multiple":       func(i *backstore.Info) { i.UnmapGranularity = 700 },
		"granularity no power of two":   func(i *backstore.Info) { i.UnmapGranularity = 1536 },
		"compare and write below block": func(i *backstore.Info) { i.MaxCompareAndWrite = 511 },
	} {
		info := poweredInfo()
		change(&info)
		if _, err := store.Open(described{info: info}, store.Config{}); !errors.Is(err, store.ErrInfo) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestADifferenceIsToldWithItsPlace(t *testing.T) {
	for _, at := range []int{0, 1, 511, 512, 1023} {
		r := poweredRig(t, store.Config{}, poweredInfo())
		q := r.each()[backstore.PowerCompareAndWrite]
		q.Data[at]++
		copy(q.Data[1024:], bytes.Repeat([]byte{7}, 1024))
		r.submit(q)
		r.turn()
		if q.Code != backstore.CodeMiscompare || int(q.At) != at {
			t.Errorf("byte %d: %v at %d", at, q.Code, q.At)
		}
		if bytes.Contains(r.mem.Bytes(), []byte{7}) {
			t.Errorf("byte %d: written all the same", at)
		}
		if s := r.g.Stats(); s.Failed[backstore.CodeMiscompare] != 1 || s.CompareAndWrites != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// A difference where nothing was compared, or beyond what was, is a lie: an error, and counted.
func TestADifferenceThatCannotBeIsAnError(t *testing.T) {
	r := poweredRig(t, store.Config{}, poweredInfo())
	for power, q := range r.each() {
		at := uint32(0)
		if power == backstore.PowerCompareAndWrite {
			at = 1024
		}
		r.b.Plan = always(storetest.Fault{Skip: true, Code: backstore.CodeMiscompare, At: at})
		before := r.g.Stats().UnknownCodes
		r.submit(q)
		r.turn()
		if q.Code != backstore.CodeIO || q.At != 0 || r.g.Stats().UnknownCodes != before+1 {
			t.Errorf("%v: %v at %d", power, q.Code, q.At)
		}
	}
}

// Every operation that changes blocks, given up by its owner, keeps newer requests off its whole extent.
func TestAnAbandonedChangeKeepsOthersOffItsWholeExtent(t *testing.T) {
	for power := range (&rig{}).each() {
		t.Run(power.String(), func(t *testing.T) {
			r := poweredRig(t, store.Config{}, poweredInfo())
			old := r.each()[power]
			old.User = "old"
			r.b.Plan = always(storetest.Fault{Hold: true, Code: backstore.CodeIO})
			r.submit(old)
			r.turn()
			r.g.Cancel(old)
			r.b.Plan = nil
			r.submit(
				r.request("before", backstore.OpRead, 512, make([]byte, 512)),
				r.request("behind", backstore.OpRead, 2048, make([]byte, 512)),
				r.request("last block", backstore.OpRead, 1536, make([]byte, 512)),
			)
			r.turn()
			r.turn()
			r.wantEnded("before:ok", "behind:ok")
			r.b.Release()
			r.turn()
			r.turn()
			r.wantEnded("before:ok", "behind:ok", "old:I/O error", "last block:ok")
		})
	}
}

// And a new one of them waits for an abandoned write somewhere in its extent.
func TestAChangeWaitsForAnAbandonedWriteInItsExtent(t *testing.T) {
	for power := range (&rig{}).each() {
		r := poweredRig(t, store.Config{}, poweredInfo())
		old := r.request("old", backstore.OpWrite, 1536, make([]byte, 512))
		r.b.Plan = always(storetest.Fault{Hold: true})
		r.submit(old)
		r.turn()
		r.g.Cancel(old)
		r.b.Plan = nil
		q := r.each()[power]
		r.submit(q)
		r.turn()
		r.wantEnded()
		r.b.Release()
		r.turn()
		r.turn()
		r.wantEnded("old:ok", fmt.Sprint(q.User, ":ok"))
	}
}

// A compare and write that a backend had is not given to the next one, as it would find its own data; everything else is.
func TestOnlyACompareAndWriteIsNotRepeated(t *testing.T) {
	for power := range (&rig{}).each() {
		r := poweredRig(t, store.Config{Depth: 1}, poweredInfo())
		q, second := r.each()[power], r.each()[power]
		second.User = "waiting"
		r.b.Plan = always(storetest.Fault{Hold: true})
		r.submit(q, second)
		r.turn()
		cancelled := false
		r.own.then = func(done *store.Request) {
			cancelled = cancelled || done.Code == backstore.CodeAborted && r.g.Cancel(done)
		}
		r.g.Detach(r.now)
		if err := r.g.Attach(store.NewLocal(store.NewPowered(poweredInfo()), 4)); err != nil {
			t.Fatal(err)
		}
		r.turn()
		r.turn()
		want := "ok"
		if power == backstore.PowerCompareAndWrite {
			want = "aborted"
		}
		r.wantEnded(fmt.Sprint(q.User, ":", want), "waiting:ok")
		if cancelled || r.g.Stats().Flying != 0 {
			t.Errorf("%v: cancelled %v, %+v", power, cancelled, r.g.Stats())
		}
		// Nothing counts as abandoned that is not there: a request to the same blocks goes at once.
		r.submit(r.request("read", backstore.OpRead, 1024, make([]byte, 512)))
		r.turn()
		r.wantEnded(fmt.Sprint(q.User, ":", want), "waiting:ok", "read:ok")
	}
}

func TestAReplacementWithoutThePowerFailsWhatWaitsForIt(t *testing.T) {
	r := poweredRig(t, store.Config{}, poweredInfo())
	r.g.Detach(r.now)
	for _, q := range r.each() {
		r.submit(q)
	}
	if err := r.g.Attach(store.NewLocal(store.NewMemoryInfo(poweredInfo()), 4)); err != nil {
		t.Fatal(err)
	}
	if got := r.g.Stats().Failed[backstore.CodeNotSupported]; got != 4 || len(r.own.ended) != 4 {
		t.Errorf("%d refused, ended %v", got, r.own.ended)
	}
}

func TestARequestForAPowerAllocatesNothing(t *testing.T) {
	g, err := store.Open(store.NewLocal(store.NewPowered(poweredInfo()), 64), store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	own := &resubmit{}
	for power, q := range (&rig{}).each() {
		q.Owner = own
		n := testing.AllocsPerRun(500, func() {
			g.Submit(q)
			g.Flush()
			g.Poll(epoch)
		})
		if n != 0 || q.Code != backstore.CodeOK {
			t.Errorf("%v: %v allocations, %v", power, n, q.Code)
		}
	}
	if own.done == 0 {
		t.Error("nothing was done")
	}
}

func TestPoweredIsLikeAStoreShouldBe(t *testing.T) {
	info := poweredInfo()
	info.UnmapZeroes, info.UnmapGranularity = false, 4096
	p, ctx := store.NewPowered(info), context.Background()
	mem := p.Bytes()
	for i := range mem {
		mem[i] = 1
	}
	for _, tt := range []struct{ off, n, from, to int64 }{
		{512, 4096, 0, 0},              // no whole unit
		{512, 8192, 4096, 8192},        // one
		{16384, 8192, 16384, 24576},    // two
		{poweredSize - 512, 512, 0, 0}, // less than a unit at the end
	} {
		for i := range mem {
			mem[i] = 1
		}
		if err := p.Unmap(ctx, tt.off, tt.n); err != nil {
			t.Fatal(err)
		}
		if got := int64(bytes.Count(mem, []byte{0})); got != tt.to-tt.from || got > 0 && mem[tt.from] != 0 {
			t.Errorf("%d bytes at %d: %d are zero", tt.n, tt.off, got)
		}
	}
	if code := backstore.CodeOf(p.WriteZeroes(ctx, poweredSize, 512, 0)); code != backstore.CodeRange {
		t.Errorf("beyond the end: %v", code)
	}
}

func TestLocalRefusesPowersThatItsStoreLacks(t *testing.T) {
	l := store.NewLocal(store.NewMemory(4096), 4)
	if got := l.Info().Powers; got != 0 {
		t.Errorf("powers %v", got)
	}
	for power, q := range (&rig{}).each() {
		l.Submit([]backstore.Request{{Op: q.Op, Off: 0, N: 512, Data: q.Data}})
		res := make([]backstore.Result, 1)
		if l.Poll(res); res[0].Code != backstore.CodeNotSupported {
			t.Errorf("%v: %v", power, res[0].Code)
		}
	}
}
