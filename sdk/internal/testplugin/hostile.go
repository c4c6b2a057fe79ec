package main

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

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
	jams bool // it does nothing but make its doorbell block
	mu   sync.Mutex
	sets map[uint64][]int
	more *sync.Cond
	// arena is all that the process may write of the host.
	arena []byte
}

// serveHostile plays a plugin that breaks the protocol of its rings, each seed in another way.
func serveHostile(seed string) {
	n, _ := strconv.ParseUint(seed, 10, 64)
	h := &hostile{seed: n, jams: seed == "jam", sets: map[uint64][]int{}}
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

func (h *hostile) AttachArena(_ context.Context, r *backstorepb.AttachArenaRequest) (*backstorepb.AttachArenaResponse, error) {
	mem, err := shm.Map(h.take(r.Token)[0], int(r.Size), true)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arena = mem.Bytes()
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
	for h.jams {
		fill(mine)
		own[0x180] = own[0x180]&^1 + 3 // the wake word: it sleeps again, so that it is rung for
		time.Sleep(time.Millisecond)
	}
	honest := rnd.IntN(200)
	es := make([]ring.Entry, 8)
	var kinds int
	for step := 0; ; step++ {
		if step%20_000 == 0 {
			kinds = rnd.IntN(4 << len(lies)) // some of them at a time, or the coarse ones would hide the fine ones
		}
		n, _ := half.Take(es)
		for _, e := range es[:n] {
			for range answers(rnd, kinds>>len(lies)) {
				half.Complete(ring.Completion{Tag: e.Tag, Bytes: e.Length})
			}
		}
		half.Publish()
		peer.Ring()
		if step < honest {
			continue
		}
		if n := rnd.IntN(len(lies)); kinds>>n&1 == 1 {
			lies[n](h, rnd, own)
		}
		if rnd.IntN(1+kinds) == 0 {
			h.jam(rnd, mine, peer)
		}
	}
}

// answers is how often a request is completed: bit 0 of kinds permits twice, bit 1 not at all.
func answers(rnd *rand.Rand, kinds int) int {
	if n := rnd.IntN(500); n < 2 && kinds>>n&1 == 1 {
		return 2 - 2*n
	}
	return 1
}

// lies are what may be done to the plugin's region.
var lies = [...]func(h *hostile, rnd *rand.Rand, own []byte){
	func(_ *hostile, rnd *rand.Rand, own []byte) { own[rnd.IntN(len(own))] = byte(rnd.Uint32()) },
	func(_ *hostile, rnd *rand.Rand, own []byte) { own[0x080+rnd.IntN(4)] = byte(rnd.Uint32()) }, // the tail
	func(_ *hostile, rnd *rand.Rand, own []byte) { heads[rnd.IntN(len(heads))].spoil(rnd, own) },
	func(_ *hostile, rnd *rand.Rand, own []byte) { own[4096+rnd.IntN(512)] ^= 1 << rnd.IntN(8) }, // the first completions
	func(_ *hostile, rnd *rand.Rand, own []byte) {
		n := rnd.IntN((len(own) - 4096) / 32)
		completions[rnd.IntN(len(completions))].spoil(rnd, own[4096+32*n:])
	},
	func(h *hostile, rnd *rand.Rand, _ []byte) { h.scribble(rnd) },
}

// field is where a field lies in the head of the plugin's region, or in a completion.
type field struct{ at, size int }

var (
	// heads are the magic, the version and sizes, taken, the wake word and the heartbeat.
	heads = []field{{0, 8}, {8, 20}, {0x100, 4}, {0x180, 4}, {0x200, 8}}
	// completions have a tag, a generation, a code, the bytes, and what must be zero.
	completions = []field{{0, 8}, {8, 4}, {12, 2}, {14, 2}, {16, 4}, {20, 12}}
)

func (f field) spoil(rnd *rand.Rand, b []byte) { b[f.at+rnd.IntN(f.size)] = byte(rnd.Uint32()) }

// scribble writes into the arena, whoever has it.
func (h *hostile) scribble(rnd *rand.Rand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.arena) > 0 {
		h.arena[rnd.IntN(len(h.arena))] = byte(rnd.Uint32())
	}
}

// fill makes the next ring of a doorbell that blocks wait for a drain. It does not wait itself if it is full already.
func fill(e *shm.Event) {
	_ = unix.SetNonblock(e.FD(), true)
	_, _ = unix.Write(e.FD(), []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	_ = unix.SetNonblock(e.FD(), false)
}

// jam plays with the doorbells: it makes them block, and fills them.
func (h *hostile) jam(rnd *rand.Rand, mine, peer *shm.Event) {
	_ = unix.SetNonblock(peer.FD(), false)
	_ = unix.SetNonblock(mine.FD(), false)
	if rnd.IntN(1000) == 0 {
		fill(mine)
	}
	peer.Drain()
}
