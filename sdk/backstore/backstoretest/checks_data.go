package backstoretest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// data are the checks that run with calls and again, where the store has them, with Submit and with an Engine.
var data = []check{
	{"every place can be written and read", checkPlaces},
	{"every length can be written and read", checkLengths},
	{"a write changes its own blocks only", checkNeighbours},
	{"a read changes its own buffer only", checkCanaries},
	{"the last write wins", checkOverwrite},
	{"a flush succeeds before and after writes", checkFlush},
	{"FUA is honoured where it is declared", checkFUA},
	{"what lies outside the store is refused", checkRange},
	{"many requests at once keep apart", checkConcurrent},
	{"random requests match a model", checkModel},
}

func (r *run) places() []int64 {
	bs := int64(r.bs)
	return []int64{0, bs, r.size / 2 / bs * bs, r.size - 2*bs, r.size - bs}
}

func checkPlaces(r *run) {
	b := newBuffer(r, r.bs)
	for _, off := range r.places() {
		fill(b.data(r.bs), off, 3)
		r.must(fmt.Sprintf("Write at %d", off), r.write(b.data(r.bs), off))
	}
	for _, off := range r.places() {
		clear(b.data(r.bs))
		r.must(fmt.Sprintf("Read at %d", off), r.read(b.data(r.bs), off))
		if !holds(b.data(r.bs), off, 3) {
			r.Errorf("at %d is not what was written", off)
		}
	}
}

func checkLengths(r *run) {
	most := minBytes / 2
	if r.info.MaxTransfer != 0 {
		most = min(most, int(r.info.MaxTransfer))
	}
	b := newBuffer(r, most)
	for _, n := range []int{r.bs, 2 * r.bs, 3 * r.bs, 7 * r.bs, 64 << 10, 64<<10 + r.bs, most} {
		if n > most {
			continue
		}
		off := int64(r.bs)
		fill(b.data(n), off, byte(n/r.bs))
		r.must(fmt.Sprintf("Write of %d bytes", n), r.write(b.data(n), off))
		clear(b.data(n))
		r.must(fmt.Sprintf("Read of %d bytes", n), r.read(b.data(n), off))
		if !holds(b.data(n), off, byte(n/r.bs)) {
			r.Errorf("%d bytes are not what was written", n)
		}
	}
}

func checkNeighbours(r *run) {
	b := newBuffer(r, 16*r.bs)
	fill(b.data(16*r.bs), 0, 1)
	r.must("Write", r.write(b.data(16*r.bs), 0))
	mid := newBuffer(r, 3*r.bs)
	off := int64(5 * r.bs)
	fill(mid.data(3*r.bs), off, 2)
	r.must("Write", r.write(mid.data(3*r.bs), off))
	r.must("Read", r.read(b.data(16*r.bs), 0))
	got := b.data(16 * r.bs)
	switch {
	case !holds(got[:off], 0, 1):
		r.Error("the blocks before the write have changed")
	case !holds(got[off:off+int64(3*r.bs)], off, 2):
		r.Error("the written blocks are not what was written")
	case !holds(got[8*r.bs:], int64(8*r.bs), 1):
		r.Error("the blocks after the write have changed")
	}
}

func checkCanaries(r *run) {
	for _, blocks := range []int{1, 3, 8} {
		b := newBuffer(r, 16*r.bs)
		r.must("Read", r.read(b.data(blocks*r.bs), int64(r.bs)))
		b.intact(r, blocks*r.bs)
	}
}

func checkOverwrite(r *run) {
	b := newBuffer(r, 4*r.bs)
	for round := byte(1); round <= 5; round++ {
		fill(b.data(4*r.bs), 0, round)
		r.must("Write", r.write(b.data(4*r.bs), 0))
		clear(b.data(4 * r.bs))
		r.must("Read", r.read(b.data(4*r.bs), 0))
		if !holds(b.data(4*r.bs), 0, round) {
			r.Fatalf("round %d: an older write is read", round)
		}
	}
}

func checkFlush(r *run) {
	r.must("Flush of an untouched store", r.flush())
	b := newBuffer(r, r.bs)
	r.must("Write", r.write(b.data(r.bs), 0))
	r.must("Flush", r.flush())
	r.must("Flush again", r.flush())
}

func checkFUA(r *run) {
	if !r.info.FUA {
		r.Skip("the store does not declare FUA")
	}
	b := newBuffer(r, r.bs)
	fill(b.data(r.bs), 0, 4)
	r.must("Write with FUA", r.do(backstore.Request{
		Op: backstore.OpWrite, Flags: backstore.FUA, Data: b.data(r.bs),
	}))
	clear(b.data(r.bs))
	r.must("Read", r.read(b.data(r.bs), 0))
	if !holds(b.data(r.bs), 0, 4) {
		r.Error("what was written with FUA is not read back")
	}
}

// checkRange asks for what no host asks for. A store that says nil has not done what it says.
func checkRange(r *run) {
	b := newBuffer(r, 2*r.bs)
	bs := int64(r.bs)
	top := int64(math.MaxInt64) / bs * bs
	for _, off := range []int64{r.size - bs, r.size, r.size + bs, top - bs, -bs} {
		n := 2 * r.bs
		if c := r.read(b.data(n), off); c == backstore.CodeOK {
			r.Errorf("a read of two blocks at %d, in a store of %d bytes, succeeded", off, r.size)
		}
		if c := r.write(b.data(n), off); c == backstore.CodeOK {
			r.Errorf("a write of two blocks at %d, in a store of %d bytes, succeeded", off, r.size)
		}
	}
	r.reopenSize()
}

// reopenSize makes sure that refused writes have not made the store longer.
func (r *run) reopenSize() {
	before := r.info
	if r.Volatile {
		return
	}
	r.must("Flush", r.flush())
	r.close()
	r.reopen(r.config)
	if r.info.Blocks != before.Blocks {
		r.Errorf("a refused write changed the store from %d to %d blocks", before.Blocks, r.info.Blocks)
	}
}

// checkConcurrent has as many requests in the store as it allows, each on blocks of its own.
func checkConcurrent(r *run) {
	const lanes, rounds = 32, 8
	n := 2 * r.bs
	b := newBuffer(r, lanes*n)
	lane := func(i int) []byte { return b.data(lanes * n)[i*n : (i+1)*n : (i+1)*n] }
	for round := byte(1); round <= rounds; round++ {
		for _, op := range []backstore.Op{backstore.OpWrite, backstore.OpRead} {
			reqs := make([]backstore.Request, lanes)
			for i := range reqs {
				off := int64(i * n)
				if op == backstore.OpWrite {
					fill(lane(i), off, round)
				} else {
					clear(lane(i))
				}
				reqs[i] = backstore.Request{Op: op, Off: off, Data: lane(i)}
			}
			r.together(reqs)
		}
		for i := range lanes {
			if !holds(lane(i), int64(i*n), round) {
				r.Fatalf("round %d: lane %d is not what was written", round, i)
			}
		}
	}
}

// together runs requests at once, within the store's concurrency.
func (r *run) together(reqs []backstore.Request) {
	r.Helper()
	if r.sub != nil {
		for _, c := range r.all(reqs) {
			r.must("request", c)
		}
		return
	}
	limit := r.info.Concurrency
	if limit == 0 {
		limit = len(reqs)
	}
	slots := make(chan struct{}, limit)
	var wg sync.WaitGroup
	for i := range reqs {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := r.call(&reqs[i]); err != nil {
				r.Errorf("request %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

// checkModel compares the store with a slice of bytes over a random walk, the same on every run.
func checkModel(r *run) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const blocks = 64
	b := newBuffer(r, blocks*r.bs)
	model := make([]byte, blocks*r.bs)
	r.must("Read", r.read(b.data(blocks*r.bs), 0))
	copy(model, b.data(blocks*r.bs))
	for step := range 300 {
		at := rnd.IntN(blocks)
		n := (1 + rnd.IntN(blocks-at)) * r.bs
		off := at * r.bs
		p := b.data(n)
		if rnd.IntN(2) == 0 {
			fill(p, int64(off), byte(step))
			copy(model[off:], p)
			r.must("Write", r.write(p, int64(off)))
			continue
		}
		clear(p)
		r.must("Read", r.read(p, int64(off)))
		if string(p) != string(model[off:off+n]) {
			r.Fatalf("step %d: %d bytes at %d differ from the model", step, n, off)
		}
	}
}
