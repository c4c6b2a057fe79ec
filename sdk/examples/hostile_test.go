package examples_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
	"github.com/gosrpt/gosrpt/sdk/internal/ring"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

const (
	arenaSize  = 1 << 20
	entries    = 8
	generation = 7
)

// hostile is a host that does what it likes with a ring.
type hostile struct {
	p          *bridge.Process
	token      uint64
	store      uint64
	host, peer *shm.Mem
	bell, mine *shm.Event
	ring       *ring.Host
	queue      uint64
}

func newHostile(t *testing.T, path string) *hostile {
	t.Helper()
	h := &hostile{p: raw(t, path)}
	arena, err := shm.Create("arena", arenaSize, shm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer arena.Close()
	token := h.send(t, arena.FD())
	r, err := h.p.RPC().AttachArena(soon(t), &backstorepb.AttachArenaRequest{Token: token, Size: arenaSize})
	if err != nil || r.Error != nil {
		t.Fatal(err, r.GetError())
	}
	h.store = openRaw(t, h.p)
	return h
}

func (h *hostile) send(t *testing.T, fds ...int) uint64 {
	t.Helper()
	h.token++
	if err := h.p.Channel().Send(h.token, time.Now().Add(patience), fds...); err != nil {
		t.Fatal(err)
	}
	return h.token
}

// form makes a ring, which change may spoil before the plugin gets it, and asks for its service.
func (h *hostile) form(t *testing.T, change func(host, peer []byte)) *backstorepb.AttachQueueResponse {
	t.Helper()
	var err error
	must := func(e error) {
		t.Helper()
		if e != nil {
			t.Fatal(e)
		}
	}
	h.host, err = shm.Create("host", ring.HostSize(entries), shm.Options{PeerReadOnly: true})
	must(err)
	h.peer, err = shm.Create("peer", ring.PluginSize(entries), shm.Options{})
	must(err)
	h.bell, err = shm.NewEvent()
	must(err)
	h.mine, err = shm.NewEvent()
	must(err)
	t.Cleanup(func() {
		h.host.Close()
		h.peer.Close()
		h.bell.Close()
		h.mine.Close()
	})
	h.ring, err = ring.NewHost(ring.Regions{Host: h.host.Bytes(), Plugin: h.peer.Bytes()}, entries, generation)
	must(err)
	if change != nil {
		change(h.host.Bytes(), h.peer.Bytes())
	}
	token := h.send(t, h.host.FD(), h.peer.FD(), h.bell.FD(), h.mine.FD())
	r, err := h.p.RPC().AttachQueue(soon(t), &backstorepb.AttachQueueRequest{
		Store: h.store, Token: token, Entries: entries, Generation: generation})
	must(err)
	h.queue = r.Queue
	return r
}

func (h *hostile) serve(t *testing.T) {
	t.Helper()
	if r := h.form(t, nil); r.Error != nil || r.Queue == 0 {
		t.Fatal(r)
	}
}

func (h *hostile) publish() {
	h.ring.Publish()
	h.bell.Ring()
}

// done waits for one completion.
func (h *hostile) done(t *testing.T) backstore.Code {
	t.Helper()
	var out [1]ring.Done
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		n, err := h.ring.Pop(out[:])
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			return backstore.Code(out[0].Code)
		}
	}
	t.Fatal("no completion in time")
	return 0
}

// broken waits until Health says why the ring is not served.
func (h *hostile) broken(t *testing.T) string {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		r, err := h.p.RPC().Health(soon(t), &backstorepb.HealthRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range r.Queues {
			if q.Queue == h.queue && q.Broken != "" {
				return q.Broken
			}
		}
	}
	t.Fatal("Health says nothing")
	return ""
}

func (h *hostile) detach(t *testing.T) {
	t.Helper()
	r, err := h.p.RPC().DetachQueue(soon(t), &backstorepb.DetachQueueRequest{Queue: h.queue})
	if err != nil || r.Error != nil {
		t.Errorf("DetachQueue: %v, %v", err, r.GetError())
	}
}

func TestInsaneHostIsNotServedAndIsToldWhy(t *testing.T) {
	need(t)
	read := ring.Entry{Op: 1, Length: 512}
	for _, c := range []struct {
		name string
		push func(*hostile)
		want string
	}{
		{"operation 0", func(h *hostile) { h.ring.Push(1, ring.Entry{Length: 512}) }, "operation"},
		{"an operation that was not offered", func(h *hostile) { h.ring.Push(1, ring.Entry{Op: 99, Length: 512}) }, "operation"},
		{"data that begin outside the arena", func(h *hostile) {
			h.ring.Push(1, ring.Entry{Op: 1, Arena: arenaSize + 4096, Length: 512})
		}, "arena"},
		{"data that end outside the arena", func(h *hostile) {
			h.ring.Push(1, ring.Entry{Op: 2, Arena: arenaSize - 4096, Length: 4608})
		}, "arena"},
		{"data whose end wraps", func(h *hostile) {
			h.ring.Push(1, ring.Entry{Op: 1, Arena: math.MaxUint64 - 4095, Length: 8192})
		}, "arena"},
		{"another generation", func(h *hostile) {
			h.ring.Push(1, read)
			binary.LittleEndian.PutUint32(h.host.Bytes()[4096+ring.SQESize+8:], generation+1)
		}, "generation"},
		{"more requests than the ring has room for", func(h *hostile) {
			binary.LittleEndian.PutUint32(h.host.Bytes()[0x80:], 1+entries+1)
		}, "room"},
		{"a tail that goes back", func(h *hostile) { binary.LittleEndian.PutUint32(h.host.Bytes()[0x80:], 0) }, "room"},
	} {
		for _, e := range []*example{cPlugin, cChecked} {
			t.Run(e.name+"/"+c.name, func(t *testing.T) {
				h := newHostile(t, e.path)
				h.serve(t)
				h.ring.Push(0, read) // the first, which is sane, lies in entry 0
				h.publish()
				if code := h.done(t); code != backstore.CodeOK {
					t.Fatal(code)
				}
				c.push(h)
				h.publish()
				if why := h.broken(t); !strings.Contains(why, c.want) {
					t.Errorf("broken: %q, want %q", why, c.want)
				}
				h.detach(t)
				// The process and the store are as good as before.
				h.serve(t)
				h.ring.Push(3, read)
				h.publish()
				if code := h.done(t); code != backstore.CodeOK {
					t.Error(code)
				}
				h.detach(t)
			})
		}
	}
}

func TestRequestsOutsideTheContractAreAnswered(t *testing.T) {
	need(t)
	const size = 4 << 20
	for _, e := range []*example{cPlugin, cChecked} {
		t.Run(e.name, func(t *testing.T) {
			h := newHostile(t, e.path)
			h.serve(t)
			for i, c := range []struct {
				entry ring.Entry
				want  backstore.Code
			}{
				{ring.Entry{Op: 1, Offset: size, Length: 512}, backstore.CodeRange},
				{ring.Entry{Op: 2, Offset: size - 512, Length: 1024}, backstore.CodeRange},
				{ring.Entry{Op: 1, Offset: math.MaxUint64 - 511, Length: 512}, backstore.CodeRange},
				{ring.Entry{Op: 2, Offset: math.MaxUint64 - 511, Length: 1024}, backstore.CodeRange},
				{ring.Entry{Op: 1, Offset: 1, Length: 512}, backstore.CodeInvalid},
				{ring.Entry{Op: 1, Length: 511}, backstore.CodeInvalid},
				{ring.Entry{Op: 1, Length: 512, Flags: 1}, backstore.CodeInvalid},
				{ring.Entry{Op: 2, Length: 512, Flags: 0x80}, backstore.CodeInvalid},
				{ring.Entry{Op: 1, Length: 0}, backstore.CodeOK},
				{ring.Entry{Op: 1, Offset: size - 512, Length: 512}, backstore.CodeOK},
				{ring.Entry{Op: 3, Offset: math.MaxUint64, Arena: math.MaxUint64}, backstore.CodeOK},
			} {
				h.ring.Push(uint32(i%entries), c.entry)
				h.publish()
				if code := h.done(t); code != c.want {
					t.Errorf("%+v: %v, want %v", c.entry, code, c.want)
				}
			}
			h.detach(t)
		})
	}
}

func TestSpoiledRingsAreRefused(t *testing.T) {
	need(t)
	put := func(peer bool, at int, v uint32) func(host, plugin []byte) {
		return func(host, plugin []byte) {
			b := host
			if peer {
				b = plugin
			}
			binary.LittleEndian.PutUint32(b[at:], v)
		}
	}
	h := newHostile(t, cChecked.path)
	for name, change := range map[string]func(host, peer []byte){
		"magic": put(false, 0, 1), "plugin's magic": put(true, 4, 1), "version": put(false, 8, 2),
		"entries": put(true, 12, entries*2), "generation": put(false, 16, generation+1),
		"size of a submission": put(true, 20, 128), "size of a completion": put(false, 24, 16),
	} {
		if r := h.form(t, change); r.Error.GetCode() != uint32(backstore.CodeInvalid) || r.Queue != 0 {
			t.Errorf("%s: %v", name, r)
		}
	}
	h.serve(t)
	unsealed, err := shm.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	defer unsealed.Close()
	attach := func(name string, entries uint32, store, token uint64) {
		t.Helper()
		r, err := h.p.RPC().AttachQueue(soon(t), &backstorepb.AttachQueueRequest{
			Store: store, Token: token, Entries: entries, Generation: generation})
		if err != nil || r.Error.GetCode() != uint32(backstore.CodeInvalid) || r.Queue != 0 {
			t.Errorf("%s: %v, %v", name, err, r)
		}
	}
	four := func() uint64 { return h.send(t, h.host.FD(), h.peer.FD(), h.bell.FD(), h.mine.FD()) }
	for _, n := range []uint32{0, 3, 8192, math.MaxUint32} {
		attach("entries", n, h.store, four())
	}
	attach("other entries than the memory has room for", entries*2, h.store, four())
	attach("no such store", entries, h.store+100, four())
	attach("two descriptors", entries, h.store, h.send(t, h.host.FD(), h.peer.FD()))
	attach("no memory", entries, h.store, h.send(t, unsealed.FD(), h.peer.FD(), h.bell.FD(), h.mine.FD()))
	attach("no such message", entries, h.store, 0)
	h.detach(t)
}

// TestDescriptorsMayComeAfterTheCall sends the message that a call names when the call is already waiting for it.
func TestDescriptorsMayComeAfterTheCall(t *testing.T) {
	need(t)
	p := raw(t, cChecked.path)
	arena, err := shm.Create("arena", arenaSize, shm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer arena.Close()
	sent := make(chan error, 1)
	time.AfterFunc(200*time.Millisecond, func() { sent <- p.Channel().Send(1, time.Now().Add(patience), arena.FD()) })
	r, err := p.RPC().AttachArena(soon(t), &backstorepb.AttachArenaRequest{Token: 1, Size: arenaSize})
	if err != nil || r.Error != nil {
		t.Error(err, r.GetError())
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func TestDetachedQueueHasCompletedWhatItTook(t *testing.T) {
	need(t)
	for _, e := range []*example{cPlugin, cChecked} {
		t.Run(e.name, func(t *testing.T) {
			h := newHostile(t, e.path)
			for range 20 {
				h.serve(t)
				for i := range uint32(entries) {
					h.ring.Push(i, ring.Entry{Op: 2, Offset: uint64(i) * 65536, Length: 65536})
				}
				h.publish()
				h.detach(t)
				tail, taken := binary.LittleEndian.Uint32(h.peer.Bytes()[0x80:]), binary.LittleEndian.Uint32(h.peer.Bytes()[0x100:])
				if tail != taken {
					t.Fatalf("%d requests were taken and %d completed", taken, tail)
				}
				var out [entries]ring.Done
				if n, err := h.ring.Pop(out[:]); err != nil || n != int(tail) {
					t.Fatalf("%d completions of %d: %v", n, tail, err)
				}
			}
		})
	}
}
