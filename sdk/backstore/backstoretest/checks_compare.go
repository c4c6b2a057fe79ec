package backstoretest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"sync"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// compared is how much the longest compare-and-write of a check has, in bytes of data to write.
func (r *run) compared() int {
	return int(min(max(int64(r.info.MaxCompareAndWrite), int64(r.bs)), 1<<20, r.size/2/int64(r.bs)*int64(r.bs)))
}

// pair is a buffer of what is expected, the pattern of one round, and what is to be written, that of another.
func (r *run) pair(n int, off int64, expect, write byte) *buffer {
	b := newBuffer(r, 2*n)
	fill(b.data(2 * n)[:n], off, expect)
	fill(b.data(2 * n)[n:], off, write)
	return b
}

func checkCompareMatch(r *run) {
	r.need(backstore.PowerCompareAndWrite)
	for _, n := range []int{r.bs, r.compared()} {
		for _, f := range r.flags() {
			off := r.bs
			a := r.paint(n+2*r.bs, 1)
			b := r.pair(n, int64(off), 1, 2)
			r.mustPower("CompareAndWrite", backstore.Request{Op: backstore.OpCompareAndWrite, Flags: f, Off: int64(off), Data: b.data(2 * n)})
			if !holds(a.see(off, n), int64(off), 2) {
				r.Fatalf("flags %d: %d bytes are not what was to be written", f, n)
			}
			if b.intact(r, 2*n); !holds(b.data(2 * n)[:n], int64(off), 1) || !holds(b.data(2 * n)[n:], int64(off), 2) {
				r.Fatal("the request's data have changed")
			}
		}
	}
}

func checkCompareDiffers(r *run) {
	r.need(backstore.PowerCompareAndWrite)
	n := r.compared()
	a := r.paint(n, 1)
	for _, at := range []int{0, 1, r.bs / 2, r.bs - 1, n - r.bs, n/2 + 3, n - 1} {
		b := r.pair(n, 0, 1, 2)
		b.data(2 * n)[at] ^= 0x80
		b.data(2 * n)[n-1] ^= 0x80 // of two differences the first counts
		if at == n-1 {
			b.data(2 * n)[at] ^= 0x80
		}
		err := r.power(backstore.Request{Op: backstore.OpCompareAndWrite, Data: b.data(2 * n)})
		var e *backstore.Error
		if !errors.As(err, &e) || e.Code != backstore.CodeMiscompare {
			r.Fatalf("byte %d of %d differs: %v, want %v", at, n, err, backstore.CodeMiscompare)
		}
		if int(e.At) != at {
			r.Errorf("byte %d of %d differs, and the store says %d", at, n, e.At)
		}
		a.see(0, 0)
	}
}

// checkCompareAtomic counts in one block from many sides at once.
func checkCompareAtomic(r *run) {
	r.need(backstore.PowerCompareAndWrite)
	const sides, rounds = 8, 25
	r.must("Write", r.write(newCounter(r, 0), 0))
	room := make(chan struct{}, cmpConcurrency(r.info.Concurrency))
	var wg sync.WaitGroup
	for range sides {
		wg.Go(func() {
			for range rounds {
				if !r.increment(room) {
					return
				}
			}
		})
	}
	wg.Wait()
	b := newBuffer(r, r.bs)
	r.must("Read", r.read(b.data(r.bs), 0))
	if got := binary.LittleEndian.Uint64(b.data(r.bs)); got != sides*rounds {
		r.Errorf("%d increments have made %d", sides*rounds, got)
	}
}

// cmpConcurrency is how many calls a check makes at once.
func cmpConcurrency(n int) int {
	if n == 0 {
		return 8
	}
	return n
}

// newCounter is a block that counts.
func newCounter(r *run, n uint64) []byte {
	b := newBuffer(r, r.bs).data(r.bs)
	fill(b, 0, 7)
	binary.LittleEndian.PutUint64(b, n)
	return b
}

// increment adds one to the counter at the store's start.
func (r *run) increment(room chan struct{}) bool {
	both := newBuffer(r, 2*r.bs).data(2 * r.bs)
	for r.ctx.Err() == nil {
		room <- struct{}{}
		is := both[:r.bs:r.bs]
		if c := r.read(is, 0); c != backstore.CodeOK {
			<-room
			r.Errorf("Read: %v", c)
			return false
		}
		copy(both[r.bs:], is)
		binary.LittleEndian.PutUint64(both[r.bs:], binary.LittleEndian.Uint64(is)+1)
		err := r.power(backstore.Request{Op: backstore.OpCompareAndWrite, Data: both})
		<-room
		if err == nil {
			return true
		}
		if backstore.CodeOf(err) != backstore.CodeMiscompare {
			r.Errorf("CompareAndWrite: %v", err)
			return false
		}
		runtime.Gosched()
	}
	r.Error("no increment succeeds any more")
	return false
}

// checkCompareWrites has a write and a compare-and-write of one block at once. Whichever comes first, the write's data stay: either
// they come last, or the comparison finds them.
func checkCompareWrites(r *run) {
	r.need(backstore.PowerCompareAndWrite)
	if r.info.Concurrency == 1 {
		r.Skip("the store takes one call at a time")
	}
	n := r.bs
	zero, other, got := newBuffer(r, n).data(n), newBuffer(r, n).data(n), newBuffer(r, n).data(n)
	clear(zero)
	fill(other, 0, 3)
	both := r.pair(n, 0, 0, 4).data(2 * n)
	clear(both[:n])
	for round := range 200 {
		r.must("Write", r.write(zero, 0))
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := r.power(backstore.Request{Op: backstore.OpCompareAndWrite, Data: both}); err != nil && backstore.CodeOf(err) != backstore.CodeMiscompare {
				r.Errorf("CompareAndWrite: %v", err)
			}
		})
		for range round % 8 {
			runtime.Gosched()
		}
		c := r.write(other, 0)
		wg.Wait()
		r.must("Write", c)
		r.must("Read", r.read(got, 0))
		if !bytes.Equal(got, other) {
			r.Fatalf("round %d: a write that came between the comparison and its write is lost", round)
		}
	}
}
