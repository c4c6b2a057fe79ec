package examples_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

const blockSize = 4096

// load is random verified I/O on a range of blocks over one queue. One goroutine uses it. No block has two requests at once, so
// that each read has one right answer.
type load struct {
	q       *host.Queue
	first   int      // block
	version []uint64 // of each block; 0 is what was never written
	busy    []bool
	lanes   []lane
	free    []int
	rnd     *rand.Rand
	res     []backstore.Result
	ended   int
}

// lane is a request that can be under way, and its memory.
type lane struct {
	data  []byte
	block int
	write bool
}

// newLoad has as many requests under way as memory has blocks. The blocks of the range are zeroes.
func newLoad(q *host.Queue, memory []byte, first, blocks int, seed uint64) *load {
	l := &load{q: q, first: first, version: make([]uint64, blocks), busy: make([]bool, blocks),
		rnd: rand.New(rand.NewPCG(seed, 0)), res: make([]backstore.Result, 64)}
	for i := range len(memory) / blockSize {
		l.lanes = append(l.lanes, lane{data: memory[i*blockSize : (i+1)*blockSize : (i+1)*blockSize]})
		l.free = append(l.free, i)
	}
	return l
}

// run ends when n more requests have ended, or stop is closed.
func (l *load) run(n int, stop <-chan struct{}) error {
	for end := l.ended + n; l.ended < end && !isClosed(stop); {
		for len(l.free) > 0 {
			l.submit()
		}
		l.q.Flush()
		if err := l.reap(stop); err != nil {
			return err
		}
	}
	return nil
}

// drain waits for what is under way.
func (l *load) drain() error {
	for len(l.free) < len(l.lanes) {
		if err := l.reap(nil); err != nil {
			return err
		}
	}
	return nil
}

func (l *load) submit() {
	at := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	n := &l.lanes[at]
	for n.block = l.rnd.IntN(len(l.busy)); l.busy[n.block]; {
		n.block = (n.block + 1) % len(l.busy)
	}
	l.busy[n.block] = true
	n.write = l.rnd.IntN(2) == 0
	r := backstore.Request{Tag: uint64(at), Op: backstore.OpRead, Off: int64(l.first+n.block) * blockSize, Data: n.data}
	if n.write {
		r.Op = backstore.OpWrite
		l.version[n.block]++
		l.stamp(n.data, n.block)
	}
	l.q.Submit([]backstore.Request{r})
}

// stamp fills data with what the block's version holds.
func (l *load) stamp(data []byte, block int) {
	clear(data)
	if v := l.version[block]; v != 0 {
		for i := 0; i < len(data); i += 16 {
			binary.LittleEndian.PutUint64(data[i:], v)
			binary.LittleEndian.PutUint64(data[i+8:], uint64(l.first+block)<<32|uint64(i))
		}
	}
}

// reap takes results, and waits for the bell, and nothing but the bell, if there are none.
func (l *load) reap(stop <-chan struct{}) error {
	n := l.q.Poll(l.res)
	for _, r := range l.res[:n] {
		if err := l.end(r); err != nil {
			return err
		}
	}
	if n > 0 || !l.q.Arm() {
		return nil
	}
	for end := time.Now().Add(patience); !isClosed(stop); {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(l.q.FD()), Events: unix.POLLIN}}, 100)
		if ready > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d requests are under way and the bell has not been rung for %v", len(l.lanes)-len(l.free), patience)
		}
	}
	return nil
}

func (l *load) end(r backstore.Result) error {
	n := &l.lanes[r.Tag]
	if r.Code != backstore.CodeOK {
		return fmt.Errorf("block %d: %v", l.first+n.block, r.Code)
	}
	if !n.write {
		want := make([]byte, blockSize)
		l.stamp(want, n.block)
		if string(want) != string(n.data) {
			return fmt.Errorf("block %d does not hold its version %d", l.first+n.block, l.version[n.block])
		}
	}
	l.busy[n.block] = false
	l.free = append(l.free, int(r.Tag))
	l.ended++
	return nil
}

func TestManyRequestsOnManyQueuesKeepApartAndLoseNoWakeUp(t *testing.T) {
	each(t, func(t *testing.T, e *example) {
		const queues, depth, blocks = 4, 64, 128
		ops := 25000
		if e == pythonPlugin {
			ops = 2500 // it is there to be right, not to be fast
		}
		a := newArena(t, queues*depth*blockSize)
		c := config(t)
		p := start(t, e.path, a)
		s := open(t, p, c)
		var wg sync.WaitGroup
		for i := range queues {
			q := attach(t, s, host.QueueOptions{Entries: depth})
			l := newLoad(q, a.Bytes()[i*depth*blockSize:(i+1)*depth*blockSize], i*blocks, blocks, uint64(i))
			wg.Go(func() {
				if err := errors.Join(l.run(ops, nil), l.drain()); err != nil {
					t.Errorf("queue %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		if err := p.Health(soon(t)); err != nil {
			t.Error(err)
		}
	})
}

// TestRequestsAtAnyMomentLoseNoWakeUp sends the second of two requests while the plugin falls asleep after the first: nothing
// that comes later would wake it.
func TestRequestsAtAnyMomentLoseNoWakeUp(t *testing.T) {
	each(t, func(t *testing.T, e *example) {
		if e == pythonPlugin {
			t.Skip("it serves no ring, and does not sleep on one")
		}
		a := newArena(t, 2*blockSize)
		q := attach(t, open(t, start(t, e.path, a), config(t)), host.QueueOptions{Entries: 2})
		rnd := rand.New(rand.NewPCG(3, 3))
		var res [2]backstore.Result
		for round := range 20000 {
			for i := range uint64(2) {
				q.Submit([]backstore.Request{{Tag: i, Op: backstore.OpRead, Data: a.Bytes()[i*blockSize : (i+1)*blockSize]}})
				q.Flush()
				for until := time.Now().Add(time.Duration(rnd.IntN(40)) * time.Microsecond); i == 0 && time.Now().Before(until); {
				}
			}
			for left, end := 2, time.Now().Add(patience); left > 0; {
				n := collect(q, res[:], end)
				if n == 0 {
					t.Fatalf("round %d: %d requests have no result", round, left)
				}
				left -= n
			}
		}
	})
}

// TestOneRequestAtATimeLosesNoWakeUp has both sides fall asleep between any two requests.
func TestOneRequestAtATimeLosesNoWakeUp(t *testing.T) {
	each(t, func(t *testing.T, e *example) {
		a := newArena(t, blockSize)
		q := attach(t, open(t, start(t, e.path, a), config(t)), host.QueueOptions{Entries: 1})
		ops := 10000
		if e == pythonPlugin {
			ops = 500
		}
		if err := newLoad(q, a.Bytes()[:blockSize], 0, 16, 1).run(ops, nil); err != nil {
			t.Error(err)
		}
	})
}
