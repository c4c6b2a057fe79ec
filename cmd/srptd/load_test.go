package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/srp"
)

// maxRequest is the longest request of a load, in bytes.
const maxRequest = 1 << 20

// load is verified random I/O on one logical unit by one session. A model knows what every block must hold: how often
// it was written decides its content. Requests that are under way at the same time never overlap, unless all of them
// read.
type load struct {
	s     *initiator.Session
	lun   srp.LUN
	size  int // of a block
	model []uint32
	// busy is 0 for a block that nothing is under way for, else the number of readers, or -1 for a writer.
	busy  []int
	rng   *rand.Rand
	slots []*request
	done  chan *request
	// limit is the longest request, in bytes.
	limit int
	// writes tells whether there are to be any.
	writes bool

	requests int
	// worst is the longest time that a request took.
	worst time.Duration
	err   error
}

// request is one command of a load.
type request struct {
	cmd    initiator.Command
	region rdma.Region
	write  bool
	lba, n int
	begin  time.Time
}

func newLoad(t testing.TB, s *initiator.Session, lun uint32, depth int) *load {
	t.Helper()
	capacity, err := s.ReadCapacity(soon(t), lunOf(lun))
	if err != nil {
		t.Fatal(err)
	}
	l := &load{
		lun: lunOf(lun), size: int(capacity.BlockSize), model: make([]uint32, capacity.Blocks), busy: make([]int, capacity.Blocks),
		rng: rand.New(rand.NewPCG(uint64(lun), uint64(depth))), limit: maxRequest, writes: true,
	}
	l.use(t, s, depth)
	return l
}

// use makes the load go on with another session.
func (l *load) use(t testing.TB, s *initiator.Session, depth int) {
	t.Helper()
	l.s, l.slots, l.done = s, nil, make(chan *request, depth)
	for range depth {
		region, err := s.Register(make([]byte, maxRequest))
		if err != nil {
			t.Fatal(err)
		}
		r := &request{region: region}
		r.cmd = initiator.Command{LUN: l.lun, Done: func(*initiator.Command) { l.done <- r }}
		l.slots = append(l.slots, r)
	}
}

// run keeps all slots busy until stop is closed or n requests have been made, and then waits for the last of them. It
// returns the first thing that was wrong.
func (l *load) run(stop <-chan struct{}, n int) error {
	free := append([]*request(nil), l.slots...)
	for l.err == nil || len(free) < len(l.slots) {
		for l.err == nil && n != 0 && len(free) > 0 {
			r := free[len(free)-1]
			if !l.choose(r) {
				break
			}
			free = free[:len(free)-1]
			n--
			if _, err := l.s.Submit(&r.cmd); err != nil {
				return err
			}
		}
		if len(free) == len(l.slots) {
			return l.err
		}
		select {
		case r := <-l.done:
			l.check(r)
			free = append(free, r)
		case <-stop:
			stop, n = nil, 0
		case <-time.After(patience):
			return fmt.Errorf("no answer in %v: %s", patience, l.stuck(free))
		}
	}
	return l.err
}

// stuck describes the oldest request under way.
func (l *load) stuck(free []*request) string {
	var oldest *request
	for _, r := range l.slots {
		if r.lba >= 0 && (oldest == nil || r.begin.Before(oldest.begin)) {
			oldest = r
		}
	}
	return fmt.Sprintf("%d requests, the oldest since %v: %v", len(l.slots)-len(free), time.Since(oldest.begin), oldest)
}

func (r *request) String() string {
	op := "read"
	if r.write {
		op = "write"
	}
	return fmt.Sprintf("%s of %d blocks at %d, format %d, %d pieces out, %d in", op, r.n, r.lba, r.cmd.Format, len(r.cmd.Out), len(r.cmd.In))
}

// choose makes r a random request; false if every attempt met what is under way.
func (l *load) choose(r *request) bool {
	r.write = l.writes && l.rng.IntN(2) == 0
	for range 100 {
		r.n = max(1, l.limit>>l.rng.IntN(12)/l.size)
		r.n = 1 + l.rng.IntN(r.n)
		r.n = min(r.n, len(l.model))
		r.lba = l.rng.IntN(len(l.model) - r.n + 1)
		if l.claim(r) {
			l.prepare(r)
			return true
		}
	}
	return false
}

func (l *load) claim(r *request) bool {
	for _, b := range l.busy[r.lba : r.lba+r.n] {
		if b < 0 || b > 0 && r.write {
			return false
		}
	}
	for i := range r.n {
		if r.write {
			l.busy[r.lba+i] = -1
			l.model[r.lba+i]++
		} else {
			l.busy[r.lba+i]++
		}
	}
	return true
}

// prepare makes the command, in a random one of the formats that have room for it.
func (l *load) prepare(r *request) {
	n := r.n * l.size
	data := r.region.Bytes()[:n]
	r.cmd.Out, r.cmd.In, r.cmd.Format = nil, nil, initiator.FormatAuto
	r.begin = time.Now()
	sgl := l.cut(r.region, n)
	switch {
	case len(sgl) > 1:
		r.cmd.Format = initiator.FormatIndirect
	case l.rng.IntN(2) == 0:
		r.cmd.Format = initiator.FormatDirect
	}
	if !r.write {
		r.cmd.CDB, r.cmd.In = initiator.Read16(uint64(r.lba), uint32(r.n)), sgl
		clear(data)
		return
	}
	r.cmd.CDB, r.cmd.Out = initiator.Write16(uint64(r.lba), uint32(r.n)), sgl
	for i := range r.n {
		l.fill(data[i*l.size:(i+1)*l.size], r.lba+i)
	}
}

// cut makes one piece of n bytes, or several that are no whole number of blocks.
func (l *load) cut(region rdma.Region, n int) []rdma.SGE {
	var sgl []rdma.SGE
	off := 0
	for range l.rng.IntN(8) {
		if rest := n - off; rest > 64 {
			piece := 4 * (1 + l.rng.IntN(rest/8))
			sgl = append(sgl, rdma.SGE{Region: region, Off: uint64(off), Len: uint64(piece)})
			off += piece
		}
	}
	return append(sgl, rdma.SGE{Region: region, Off: uint64(off), Len: uint64(n - off)})
}

// noise is what blocks are filled with.
var noise = func() []byte {
	b := make([]byte, 64<<10)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rng.Uint64())
	}
	return b
}()

// fill makes the content of block lba as the model has it: zeros if it was never written.
func (l *load) fill(b []byte, lba int) {
	writes := l.model[lba]
	if writes == 0 {
		clear(b)
		return
	}
	off := (uint64(lba)*0x9E37_79B9 + uint64(writes)*0x85EB_CA6B) % uint64(len(noise)-len(b))
	copy(b, noise[off:])
	binary.LittleEndian.PutUint64(b, uint64(lba))
	binary.LittleEndian.PutUint32(b[8:], writes)
}

// check looks at a request that has ended.
func (l *load) check(r *request) {
	l.requests++
	l.worst = max(l.worst, time.Since(r.begin))
	for i := range r.n {
		if r.write {
			l.busy[r.lba+i] = 0
		} else {
			l.busy[r.lba+i]--
		}
	}
	err := r.cmd.Result.Check()
	if err == nil && (r.cmd.Result.In != 0 || r.cmd.Result.Out != 0) {
		err = fmt.Errorf("residuals %d in, %d out", r.cmd.Result.In, r.cmd.Result.Out)
	}
	if err == nil && !r.write {
		err = l.compare(r.region.Bytes()[:r.n*l.size], r.lba)
	}
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("after %d requests: %v, %v under way: %w", l.requests, r, time.Since(r.begin).Round(time.Millisecond), err)
	}
	r.lba = -1
}

// compare holds data from block lba on against the model.
func (l *load) compare(data []byte, lba int) error {
	want := make([]byte, l.size)
	for i := 0; i < len(data); i += l.size {
		n := lba + i/l.size
		l.fill(want, n)
		if got := data[i : i+l.size]; !bytes.Equal(got, want) {
			return fmt.Errorf("block %d, written %d times, holds block %d of write %d: %x..., want %x...", n, l.model[n],
				binary.LittleEndian.Uint64(got), binary.LittleEndian.Uint32(got[8:]), got[:32], want[:32])
		}
	}
	return nil
}

// verifyAll reads every block.
func (l *load) verifyAll(t testing.TB) {
	t.Helper()
	const step = 256 << 10
	buf := make([]byte, step)
	for lba := 0; lba < len(l.model); lba += step / l.size {
		n := min(step/l.size, len(l.model)-lba)
		if err := l.s.Read(soon(t), l.lun, uint64(lba), uint32(n), buf[:n*l.size]); err != nil {
			t.Fatalf("read at %d: %v", lba, err)
		}
		if err := l.compare(buf[:n*l.size], lba); err != nil {
			t.Fatal(err)
		}
	}
}

// background runs the load until the function returned is called, which fails the test for what was wrong.
func (l *load) background(t testing.TB) (end func()) {
	stop, result := make(chan struct{}), make(chan error, 1)
	go func() { result <- l.run(stop, -1) }()
	ended := false
	end = func() {
		t.Helper()
		if ended {
			return
		}
		ended = true
		close(stop)
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	return end
}
