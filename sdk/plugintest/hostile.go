package plugintest

import (
	"context"
	"errors"
	"time"

	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
	"github.com/gosrpt/gosrpt/sdk/internal/ring"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// Places in the host's region that a hostile host writes itself: see sdk/PROTOCOL.md.
const (
	ringHead = 4096
	ringTail = 0x080
)

// hostile is a host that writes rings by hand.
type hostile struct {
	*bridge.Process
	r     *run
	arena *shm.Mem
	info  *backstorepb.Info
	store uint64
	token uint64
}

// hostile starts a process and opens the check's store.
func (r *run) hostile() *hostile {
	r.Helper()
	ctx := r.within(startTime)
	config := r.config(r.TB)
	b, err := bridge.Start(ctx, bridge.Options{Path: r.o.Path, Args: r.o.Args, Env: r.o.Env, Log: r.o.Log})
	if err != nil {
		r.Fatal(err)
	}
	r.onAbort(r.TB, b.Kill)
	h := &hostile{Process: b, r: r}
	r.Cleanup(func() {
		end, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		b.Stop(end)
	})
	if h.arena, err = shm.Create("gosrpt-arena", 1<<20, shm.Options{}); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { h.arena.Close() })
	token := h.send(h.arena.FD())
	a, err := b.RPC().AttachArena(ctx, &backstorepb.AttachArenaRequest{Token: token, Size: uint64(len(h.arena.Bytes()))})
	if err == nil {
		err = refusal(a.Error)
	}
	if err != nil {
		r.Fatalf("AttachArena: %v", err)
	}
	o, err := b.RPC().Open(ctx, &backstorepb.OpenRequest{Config: config})
	if err == nil {
		err = refusal(o.Error)
	}
	if err != nil {
		r.Fatalf("Open: %v", err)
	}
	h.store, h.info = o.Store, o.Info
	return h
}

func refusal(e *backstorepb.Error) error {
	if e == nil {
		return nil
	}
	return errors.New(e.Text)
}

func (h *hostile) send(fds ...int) uint64 {
	h.r.Helper()
	h.token++
	if err := h.Channel().Send(h.token, time.Now().Add(startTime), fds...); err != nil {
		h.r.Fatalf("the descriptor channel: %v", err)
	}
	return h.token
}

func (h *hostile) dead() bool {
	select {
	case <-h.Dead():
		return true
	default:
		return false
	}
}

// broken is what Health says of a queue.
func (h *hostile) broken(queue uint64) string {
	a, err := h.RPC().Health(h.r.within(startTime), &backstorepb.HealthRequest{})
	if err != nil {
		return ""
	}
	for _, q := range a.Queues {
		if q.Queue == queue {
			return q.Broken
		}
	}
	return ""
}

// hostileQueue is the host's end of a ring.
type hostileQueue struct {
	h            *hostile
	id           uint64
	ring         *ring.Host
	host, plugin *shm.Mem
	bell, own    *shm.Event
	next         uint32
}

// make makes the memory of a queue, of generation 1.
func (h *hostile) make(entries uint32) *hostileQueue {
	h.r.Helper()
	q := &hostileQueue{h: h}
	h.r.Cleanup(q.release)
	var errs [4]error
	q.host, errs[0] = shm.Create("gosrpt-ring", ring.HostSize(entries), shm.Options{PeerReadOnly: true})
	q.plugin, errs[1] = shm.Create("gosrpt-ring", ring.PluginSize(entries), shm.Options{})
	q.bell, errs[2] = shm.NewEvent()
	q.own, errs[3] = shm.NewEvent()
	err := errors.Join(errs[:]...)
	if err == nil {
		q.ring, err = ring.NewHost(ring.Regions{Host: q.host.Bytes(), Plugin: q.plugin.Bytes()}, entries, 1)
	}
	if err != nil {
		h.r.Fatal(err)
	}
	return q
}

func (q *hostileQueue) release() {
	if q.host != nil {
		q.host.Close()
	}
	if q.plugin != nil {
		q.plugin.Close()
	}
	if q.bell != nil {
		q.bell.Close()
	}
	if q.own != nil {
		q.own.Close()
	}
}

func (h *hostile) attach(q *hostileQueue, store uint64, entries, generation uint32) error {
	token := h.send(q.host.FD(), q.plugin.FD(), q.bell.FD(), q.own.FD())
	a, err := h.RPC().AttachQueue(h.r.within(startTime), &backstorepb.AttachQueueRequest{
		Store: store, Token: token, Entries: entries, Generation: generation,
	})
	if err != nil {
		return err
	}
	q.id = a.Queue
	return refusal(a.Error)
}

// queue attaches an honest queue.
func (h *hostile) queue(entries uint32) *hostileQueue {
	h.r.Helper()
	q := h.make(entries)
	if err := h.attach(q, h.store, entries, 1); err != nil {
		h.r.Fatalf("AttachQueue: %v", err)
	}
	return q
}

func (q *hostileQueue) push(e ring.Entry) {
	q.ring.Push(q.next, e)
	q.next++
}

func (q *hostileQueue) publish() {
	if q.ring.Publish() {
		q.bell.Ring()
	}
}

// pop takes one answer, if there is one.
func (q *hostileQueue) pop() (code uint16, ok bool) {
	var d [1]ring.Done
	n, err := q.ring.Pop(d[:])
	if err != nil {
		q.h.r.Errorf("the answer breaks the protocol: %v", err)
	}
	if n == 0 {
		return 0, false
	}
	q.next = d[0].Slot // free again
	return d[0].Code, true
}

// do sends one request and waits for its answer.
func (q *hostileQueue) do(e ring.Entry) (code uint16, ok bool) {
	q.push(e)
	q.publish()
	ok = eventually(q.h.r.TB, 10*time.Second, func() bool {
		code, ok = q.pop()
		return ok || q.h.dead()
	}) && ok
	return code, ok
}

func (q *hostileQueue) detach() error {
	a, err := q.h.RPC().DetachQueue(q.h.r.within(endTime), &backstorepb.DetachQueueRequest{Queue: q.id})
	if err != nil {
		return err
	}
	return refusal(a.Error)
}
