package main

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
	"github.com/gosrpt/gosrpt/sdk/internal/ring"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// hostile answers every control call and then writes what it likes into its rings.
type hostile struct {
	backstorepb.UnimplementedBackstoreServer
	seed uint64
	mu   sync.Mutex
	sets map[uint64][]int
	more *sync.Cond
}

// serveHostile plays a plugin that breaks the protocol of its rings, each seed in another way.
func serveHostile(seed string) {
	n, _ := strconv.ParseUint(seed, 10, 64)
	h := &hostile{seed: n, sets: map[uint64][]int{}}
	h.more = sync.NewCond(&h.mu)
	c, err := bridge.Channel()
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			token, fds, err := c.Receive()
			if err != nil {
				return
			}
			h.mu.Lock()
			h.sets[token] = fds
			h.more.Broadcast()
			h.mu.Unlock()
		}
	}()
	bridge.Serve(h)
}

func (h *hostile) take(token uint64) []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.sets[token] == nil {
		h.more.Wait()
	}
	return h.sets[token]
}

func (h *hostile) Describe(context.Context, *backstorepb.DescribeRequest) (*backstorepb.DescribeResponse, error) {
	return &backstorepb.DescribeResponse{Ring: true}, nil
}

func (h *hostile) AttachArena(context.Context, *backstorepb.AttachArenaRequest) (*backstorepb.AttachArenaResponse, error) {
	return &backstorepb.AttachArenaResponse{}, nil
}

func (h *hostile) Open(context.Context, *backstorepb.OpenRequest) (*backstorepb.OpenResponse, error) {
	return &backstorepb.OpenResponse{Store: 1, Info: &backstorepb.Info{BlockSize: 512, Blocks: 2048, Powers: ^uint32(0)}}, nil
}

func (h *hostile) AttachQueue(_ context.Context, r *backstorepb.AttachQueueRequest) (*backstorepb.AttachQueueResponse, error) {
	fds := h.take(r.Token)
	host, err := shm.Map(fds[0], ring.HostSize(r.Entries), false)
	if err != nil {
		return nil, err
	}
	own, err := shm.Map(fds[1], ring.PluginSize(r.Entries), true)
	if err != nil {
		return nil, err
	}
	// An honest half works on the same memory, so that the lies fall into a ring that moves.
	half, err := ring.NewPlugin(ring.Regions{Host: host.Bytes(), Plugin: own.Bytes()}, r.Entries, r.Generation, 1<<40)
	if err != nil {
		return nil, err
	}
	go h.lie(half, own.Bytes(), shm.EventFrom(fds[2]), shm.EventFrom(fds[3]))
	return &backstorepb.AttachQueueResponse{Queue: 1}, nil
}

// lie serves some requests honestly, and then changes bytes at random.
func (h *hostile) lie(half *ring.Plugin, own []byte, mine, peer *shm.Event) {
	rnd := rand.New(rand.NewPCG(h.seed, 1))
	honest := rnd.IntN(200)
	es := make([]ring.Entry, 8)
	for step := 0; ; step++ {
		n, _ := half.Take(es)
		for _, e := range es[:n] {
			half.Complete(ring.Completion{Tag: e.Tag, Bytes: e.Length})
		}
		half.Publish()
		peer.Ring()
		if step < honest {
			continue
		}
		switch at := rnd.IntN(len(own)); rnd.IntN(4) {
		case 0:
			own[at] = byte(rnd.Uint32())
		case 1:
			own[0x080+rnd.IntN(4)] = byte(rnd.Uint32()) // the tail
		case 2:
			own[4096+at%512] ^= 1 << rnd.IntN(8) // the first completions
		case 3:
			h.jam(rnd, mine, peer)
		}
	}
}

// jam plays with the doorbells: it makes them block, and fills them.
func (h *hostile) jam(rnd *rand.Rand, mine, peer *shm.Event) {
	_ = unix.SetNonblock(peer.FD(), false)
	_ = unix.SetNonblock(mine.FD(), false)
	if rnd.IntN(1000) == 0 {
		_, _ = unix.Write(mine.FD(), []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	}
	peer.Drain()
}
