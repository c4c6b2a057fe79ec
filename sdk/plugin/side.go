package plugin

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// side is what goes on in a store beside its requests: the watch of its size, questions about its health, a sanitize. It
// ends before the store is closed.
type side struct {
	ctx  context.Context
	stop context.CancelFunc

	mu    sync.Mutex
	over  bool
	calls sync.WaitGroup

	// resized has room for one: the size has changed since the host was told last.
	resized chan struct{}
	// moved: the size has changed since the store was opened.
	moved atomic.Bool
	// watching holds a token while a stream tells of changes.
	watching chan struct{}
}

// start begins to watch the store's size, if it can be watched.
func (d *side) start(s *store) {
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.resized, d.watching = make(chan struct{}, 1), make(chan struct{}, 1)
	r, ok := s.inner.(backstore.Resizer)
	if !ok {
		return
	}
	d.calls.Go(func() {
		err := r.WatchSize(d.ctx, s.changed)
		if d.ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "the store does not watch its size any more: %v\n", err)
		}
	})
}

// changed takes a new size. It counts for requests at once.
func (s *store) changed(i backstore.Info) {
	if err := checkInfo(i); err != nil || i.BlockSize != s.info.BlockSize {
		fmt.Fprintf(os.Stderr, "the store tells of a change to %d blocks of %d bytes, which cannot be: %v\n", i.Blocks, i.BlockSize, err)
		return
	}
	s.size.Store(i.Blocks * uint64(i.BlockSize))
	s.side.moved.Store(true)
	s.side.tell()
}

// tell has the host told of the size, again if need be.
func (d *side) tell() {
	select {
	case d.resized <- struct{}{}:
	default:
	}
}

// now is the store's description with the size that it has.
func (s *store) now() backstore.Info {
	i := s.info
	i.Blocks = s.size.Load() / uint64(i.BlockSize)
	return i
}

// enter begins a call whose context is ctx cut short by the end of the store. leave ends it.
func (d *side) enter(ctx context.Context) (in context.Context, leave func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return nil, nil, invalid("the store is being closed")
	}
	d.calls.Add(1)
	in, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(d.ctx, cancel)
	return in, func() { unhook(); cancel(); d.calls.Done() }, nil
}

// end cancels everything and waits for it until ctx ends.
func (d *side) end(ctx context.Context) error {
	d.mu.Lock()
	d.over = true
	d.mu.Unlock()
	d.stop()
	if !waited(ctx, &d.calls) {
		return fmt.Errorf("what goes on beside requests has not ended: %w", ctx.Err())
	}
	return nil
}
