// Package async hands a provider's asynchronous events to those who watch.
package async

import (
	"context"
	"slices"
	"sync"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// Hub copies events to its watches. The zero value is ready. Its methods may be called from any goroutine and do not block.
type Hub struct {
	// Name is the provider's, for errors.
	Name string

	mu      sync.Mutex
	closed  bool
	watches []*watch
}

// watch is an rdma.Watch.
type watch struct {
	hub     *Hub
	queue   []rdma.AsyncEvent // guarded by Hub.mu, as is closed
	closed  bool
	arrived chan struct{}
	done    chan struct{}
}

func (h *Hub) fail(op string, err error) error { return &rdma.Error{Op: op, Peer: h.Name, Err: err} }

// Watch begins to keep events.
func (h *Hub) Watch() (rdma.Watch, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, h.fail("watch", rdma.ErrClosed)
	}
	w := &watch{hub: h, arrived: make(chan struct{}, 1), done: make(chan struct{})}
	h.watches = append(h.watches, w)
	return w, nil
}

// Post tells every watch of an event, unless it is about to hear of the same one.
func (h *Hub) Post(ev rdma.AsyncEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.watches {
		if !slices.Contains(w.queue, ev) {
			w.queue = append(w.queue, ev)
			w.announce()
		}
	}
}

// Close ends every watch.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, w := range h.watches {
		w.end()
	}
	h.watches = nil
}

// Count is how many watches there are.
func (h *Hub) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watches)
}

func (w *watch) announce() {
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// Next waits for an event.
func (w *watch) Next(ctx context.Context) (rdma.AsyncEvent, error) {
	for {
		if ev, ok, err := w.next(); ok || err != nil {
			return ev, err
		}
		select {
		case <-w.arrived:
		case <-w.done:
		case <-ctx.Done():
			return rdma.AsyncEvent{}, ctx.Err()
		}
	}
}

func (w *watch) next() (ev rdma.AsyncEvent, ok bool, err error) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if w.closed {
		return ev, false, w.hub.fail("watch", rdma.ErrClosed)
	}
	if len(w.queue) == 0 {
		return ev, false, nil
	}
	ev = w.queue[0]
	w.queue = slices.Delete(w.queue, 0, 1)
	if len(w.queue) > 0 {
		w.announce()
	}
	return ev, true, nil
}

// Close ends the watch.
func (w *watch) Close() error {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.end()
	w.hub.watches = slices.DeleteFunc(w.hub.watches, func(o *watch) bool { return o == w })
	return nil
}

func (w *watch) end() {
	if !w.closed {
		w.closed, w.queue = true, nil
		close(w.done)
	}
}
