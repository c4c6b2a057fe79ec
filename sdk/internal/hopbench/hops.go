package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// meter takes the latencies of one measurement.
type meter struct {
	end  time.Time
	mu   sync.Mutex
	took []time.Duration
}

func newMeter() *meter { return &meter{} }

// start gives the measurement, or a further part of it, its time.
func (m *meter) start(d time.Duration) { m.end = time.Now().Add(d) }

// add records a request from its start to now, and tells whether to go on. Callers take turns, or hold mu.
func (m *meter) add(start, now time.Time) bool {
	m.took = append(m.took, now.Sub(start))
	return now.Before(m.end)
}

// ringHop drives a queue as a reactor does: it completes and submits again in one goroutine.
type ringHop struct {
	q     *host.Queue
	w     *shm.Waiter
	arena []byte
	arm   func() bool
	// blocks is how many blocks of the request's size the store has to read at random; 0 to read the first.
	blocks int64
	random *rand.Rand
	reqs   [deep]backstore.Request
	since  [deep]time.Time
	res    [deep]backstore.Result
}

func (h *ringHop) run(depth, size int, m *meter) error {
	now := time.Now()
	for i := range depth {
		h.reqs[i] = backstore.Request{Tag: uint64(i), Op: backstore.OpRead, Data: h.arena[i*size : (i+1)*size]}
		h.aim(i, size)
		h.since[i] = now
	}
	h.q.Submit(h.reqs[:depth])
	h.q.Flush()
	for left := depth; left > 0; {
		n := h.q.Poll(h.res[:])
		if n == 0 {
			if err := h.w.Wait(h.arm); err != nil {
				return err
			}
			continue
		}
		for _, r := range h.res[:n] {
			if r.Code != backstore.CodeOK {
				return fmt.Errorf("ring: %v", r.Code)
			}
			now := time.Now()
			if !m.add(h.since[r.Tag], now) {
				left--
				continue
			}
			h.since[r.Tag] = now
			h.aim(int(r.Tag), size)
			h.q.Submit(h.reqs[r.Tag : r.Tag+1])
		}
		h.q.Flush()
	}
	return nil
}

// openHop opens a store and a queue to it.
func openHop(ctx context.Context, p *host.Process, arena *host.Arena, config map[string]string) (*ringHop, error) {
	st, err := p.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	q, err := st.NewQueue(ctx, host.QueueOptions{Entries: deep, EdgeTriggered: true})
	if err != nil {
		return nil, err
	}
	w, err := shm.NewWaiter(shm.EventFrom(q.FD()))
	if err != nil {
		q.Close()
		return nil, err
	}
	return &ringHop{q: q, w: w, arena: arena.Bytes(), arm: q.Arm, random: rand.New(rand.NewPCG(1, 2))}, nil
}

func (h *ringHop) close() {
	h.w.Close()
	h.q.Close()
}

// aim chooses where request i reads.
func (h *ringHop) aim(i, size int) {
	if h.blocks > 0 {
		h.reqs[i].Off = h.random.Int64N(h.blocks) * int64(size)
	}
}

// unary makes single calls from depth goroutines.
func unary(p *bridge.Process, store uint64, arena []byte, depth, size int, m *meter) error {
	return each(depth, func(i int) error {
		data := arena[i*size : (i+1)*size]
		for {
			start := time.Now()
			r, err := p.RPC().Read(context.Background(), &backstorepb.ReadRequest{Store: store, Length: uint32(size)})
			if err != nil || r.Error != nil {
				return errors.Join(err, errors.New(r.GetError().GetText()))
			}
			copy(data, r.Data)
			m.mu.Lock()
			more := m.add(start, time.Now())
			m.mu.Unlock()
			if !more {
				return nil
			}
		}
	})
}

func each(depth int, f func(i int) error) error {
	errs := make([]error, depth)
	var wg sync.WaitGroup
	for i := range depth {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// stream keeps depth requests in one stream.
func stream(p *bridge.Process, store uint64, arena []byte, depth, size int, m *meter) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := p.RPC().Transfer(ctx)
	if err != nil {
		return err
	}
	since := make([]time.Time, depth)
	send := func(i int) error {
		since[i] = time.Now()
		return s.Send(&backstorepb.TransferRequest{Tag: uint64(i), Op: &backstorepb.TransferRequest_Read{
			Read: &backstorepb.ReadRequest{Store: store, Length: uint32(size)},
		}})
	}
	for i := range depth {
		if err := send(i); err != nil {
			return err
		}
	}
	for left := depth; left > 0; {
		r, err := s.Recv()
		if err != nil || r.Error != nil {
			return errors.Join(err, errors.New(r.GetError().GetText()))
		}
		i := int(r.Tag)
		copy(arena[i*size:(i+1)*size], r.Data)
		if !m.add(since[i], time.Now()) {
			left--
			continue
		}
		if err := send(i); err != nil {
			return err
		}
	}
	return nil
}

// channel hands each request to another goroutine of this process and takes it back.
func channel(st backstore.Store, arena []byte, depth, size int, m *meter) error {
	in, out := make(chan int, depth), make(chan int, depth)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(in)
	wg.Go(func() {
		for i := range in {
			_ = st.Read(context.Background(), arena[i*size:(i+1)*size], 0)
			out <- i
		}
	})
	exchange(in, out, depth, m)
	return nil
}

// exchange keeps depth requests under way through two channels.
func exchange(in, out chan int, depth int, m *meter) {
	since := make([]time.Time, depth)
	for i := range depth {
		since[i] = time.Now()
		in <- i
	}
	for left := depth; left > 0; {
		i := <-out
		now := time.Now()
		if !m.add(since[i], now) {
			left--
			continue
		}
		since[i] = now
		in <- i
	}
}

// direct calls the store.
func direct(st backstore.Store, arena []byte, size int, m *meter) error {
	for {
		start := time.Now()
		if err := st.Read(context.Background(), arena[:size], 0); err != nil {
			return err
		}
		if !m.add(start, time.Now()) {
			return nil
		}
	}
}
