package backstoretest

import (
	"bytes"
	"fmt"
	"math"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/internal/power"
)

// powers are the checks of the powers that have requests. These are method calls, whichever way reads and writes go beside them.
var powers = []check{
	{"an unmap gives up its range and nothing else", checkUnmap},
	{"an unmap of parts of units harms nothing", checkPartialUnmap},
	{"zeroes are written to their range and nothing else", checkWriteZeroes},
	{"zeroes are written to more than a transfer at once", checkManyZeroes},
	{"one block is written to its range and nothing else", checkWriteSame},
	{"compare-and-write writes if everything is as expected", checkCompareMatch},
	{"compare-and-write tells the first difference and writes nothing", checkCompareDiffers},
	{"compare-and-write is one step for others like it", checkCompareAtomic},
	{"compare-and-write is one step for writes", checkCompareWrites},
	{"powers outside the store are refused", checkPowerRange},
}

// powers are the store's: a stand-in for another process's store has every method, and says in Info which of them count.
func (r *run) powers() backstore.Powers {
	if r.info.Powers != 0 {
		return r.info.Powers
	}
	return backstore.PowersOf(r.able)
}

// need skips the check unless the store has a power.
func (r *run) need(p backstore.Powers) {
	r.Helper()
	if !r.powers().Has(p) {
		r.Skipf("the store does not have the power %v", p)
	}
}

// power runs a request by the method of its power.
func (r *run) power(q backstore.Request) error {
	return power.Run(r.ctx, r.able, q)
}

func (r *run) mustPower(what string, q backstore.Request) {
	r.Helper()
	if err := r.power(q); err != nil {
		r.Fatalf("%s: %v", what, err)
	}
}

// area is blocks of a pattern at the store's start, in which a check changes a part.
type area struct {
	r     *run
	b     *buffer
	n     int
	round byte
}

// paint writes the pattern over n bytes.
func (r *run) paint(n int, round byte) *area {
	r.Helper()
	a := &area{r: r, b: newBuffer(r, n), n: n, round: round}
	fill(a.b.data(n), 0, round)
	r.must("Write", r.write(a.b.data(n), 0))
	return a
}

// see reads the area and fails unless what is outside off..off+n is as painted. It returns what is inside.
func (a *area) see(off, n int) []byte {
	a.r.Helper()
	all := a.b.data(a.n)
	clear(all)
	a.r.must("Read", a.r.read(all, 0))
	if !holds(all[:off], 0, a.round) {
		a.r.Fatal("what lies before the range has changed")
	}
	if !holds(all[off+n:], int64(off+n), a.round) {
		a.r.Fatal("what lies after the range has changed")
	}
	return all[off : off+n]
}

func zeroes(p []byte) bool { return bytes.Count(p, []byte{0}) == len(p) }

// unit is what Unmap gives back at least, or the check is skipped: it needs some of them.
func (r *run) unit() int {
	unit := int(max(r.info.UnmapGranularity, r.info.BlockSize))
	if int64(unit) > r.size/4 {
		r.Skipf("the store of %d bytes is too small for units of %d", r.size, unit)
	}
	return unit
}

// gone checks what is read where the store has unmapped.
func (r *run) gone(a *area, off, n int) {
	r.Helper()
	first := bytes.Clone(a.see(off, n))
	if r.info.UnmapZeroes && !zeroes(first) {
		r.Fatal("what was unmapped does not read as zeroes, and Info.UnmapZeroes says so")
	}
	for range 3 {
		if !bytes.Equal(a.see(off, n), first) {
			r.Fatal("what was unmapped reads as something else each time")
		}
	}
}

func checkUnmap(r *run) {
	r.need(backstore.PowerUnmap)
	unit := r.unit()
	a := r.paint(4*unit, 1)
	for range 2 { // what is unmapped can be unmapped
		r.mustPower("Unmap", backstore.Request{Op: backstore.OpUnmap, Off: int64(unit), N: int64(2 * unit)})
		r.gone(a, unit, 2*unit)
	}
	b := newBuffer(r, 2*unit)
	fill(b.data(2*unit), int64(unit), 1)
	r.must("Write", r.write(b.data(2*unit), int64(unit)))
	a.see(0, 0)
	r.mustPower("Unmap of everything", backstore.Request{Op: backstore.OpUnmap, N: r.size})
	r.gone(a, 0, 4*unit)
}

func checkPartialUnmap(r *run) {
	r.need(backstore.PowerUnmap)
	unit := r.unit()
	a := r.paint(4*unit, 1)
	for _, part := range [][2]int{{unit - r.bs, 2 * r.bs}, {unit, r.bs}, {2*unit - r.bs, unit}} {
		off, n := part[0], part[1]
		r.mustPower(fmt.Sprintf("Unmap of %d bytes at %d", n, off), backstore.Request{Op: backstore.OpUnmap, Off: int64(off), N: int64(n)})
		r.gone(a, off, n)
		b := newBuffer(r, n)
		fill(b.data(n), int64(off), 1)
		r.must("Write", r.write(b.data(n), int64(off)))
		a.see(0, 0)
	}
}

// flags are the sets of flags that a write of the store may have.
func (r *run) flags(more ...backstore.Flags) []backstore.Flags {
	sets := append([]backstore.Flags{0}, more...)
	if !r.info.FUA {
		return sets
	}
	for _, f := range sets {
		sets = append(sets, f|backstore.FUA)
	}
	return sets
}

func checkWriteZeroes(r *run) {
	r.need(backstore.PowerWriteZeroes)
	for _, f := range r.flags(backstore.MayUnmap) {
		a := r.paint(16*r.bs, byte(f)+1)
		for _, part := range [][2]int{{0, r.bs}, {3 * r.bs, r.bs}, {7 * r.bs, 5 * r.bs}} {
			off, n := part[0], part[1]
			r.mustPower(fmt.Sprintf("WriteZeroes with flags %d", f),
				backstore.Request{Op: backstore.OpWriteZeroes, Flags: f, Off: int64(off), N: int64(n)})
			if !zeroes(a.see(off, n)) {
				r.Fatalf("flags %d: %d bytes at %d are not zeroes", f, n, off)
			}
			b := newBuffer(r, n)
			fill(b.data(n), int64(off), a.round)
			r.must("Write", r.write(b.data(n), int64(off)))
			a.see(0, 0)
		}
	}
}

// most bounds how much of a store a check reads.
const most = 8 << 20

func checkManyZeroes(r *run) {
	r.need(backstore.PowerWriteZeroes)
	n := int(min(r.size, most))
	for _, f := range []backstore.Flags{0, backstore.MayUnmap} {
		a := r.paint(n, byte(f)+1)
		r.mustPower("WriteZeroes of the whole store", backstore.Request{Op: backstore.OpWriteZeroes, Flags: f, N: r.size})
		if !zeroes(a.see(0, n)) {
			r.Fatalf("flags %d: not everything is zeroes", f)
		}
	}
}

func checkWriteSame(r *run) {
	r.need(backstore.PowerWriteSame)
	block := newBuffer(r, r.bs)
	n := int(min(r.size, most))
	for _, f := range r.flags() {
		for _, part := range [][2]int{{0, r.bs}, {3 * r.bs, 5 * r.bs}, {r.bs, n - 2*r.bs}} {
			off, length := part[0], part[1]
			a := r.paint(n, byte(f)+1)
			fill(block.data(r.bs), int64(length), 9)
			r.mustPower("WriteSame", backstore.Request{
				Op: backstore.OpWriteSame, Flags: f, Off: int64(off), N: int64(length), Data: block.data(r.bs),
			})
			block.intact(r, r.bs)
			got := a.see(off, length)
			for at := 0; at < length; at += r.bs {
				if !holds(got[at:at+r.bs], int64(length), 9) {
					r.Fatalf("flags %d: the block at %d of %d is not what was to be written", f, at, length)
				}
			}
		}
	}
}

// checkPowerRange asks for what no host asks for.
func checkPowerRange(r *run) {
	bs, top := int64(r.bs), int64(math.MaxInt64)/int64(r.bs)*int64(r.bs)
	b := newBuffer(r, 4*r.bs)
	asked := 0
	for power, q := range map[backstore.Powers]backstore.Request{
		backstore.PowerUnmap:           {Op: backstore.OpUnmap, N: 2 * bs},
		backstore.PowerWriteZeroes:     {Op: backstore.OpWriteZeroes, N: 2 * bs},
		backstore.PowerWriteSame:       {Op: backstore.OpWriteSame, N: 2 * bs, Data: b.data(r.bs)},
		backstore.PowerCompareAndWrite: {Op: backstore.OpCompareAndWrite, Data: b.data(4 * r.bs)},
	} {
		if !r.powers().Has(power) {
			continue
		}
		asked++
		for _, off := range []int64{r.size - bs, r.size, r.size + bs, top - bs, -bs} {
			q.Off = off
			if err := r.power(q); err == nil {
				r.Errorf("%v of two blocks at %d, in a store of %d bytes, succeeded", power, off, r.size)
			}
		}
		if q.N != 0 {
			q.Off, q.N = bs, top
			if err := r.power(q); err == nil {
				r.Errorf("%v of %d bytes, in a store of %d bytes, succeeded", power, top, r.size)
			}
		}
	}
	if asked == 0 {
		r.Skip("the store has no power that has requests")
	}
	r.reopenSize()
}
