package plugin

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"google.golang.org/grpc"

	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
)

// serveControl serves a plugin that has a control plane only: end is called once, when the host has said so or is gone.
func serveControl(register func(grpc.ServiceRegistrar), end func()) {
	// The reasons are those of ServeBackstore.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGTERM)
	end = sync.OnceFunc(end)
	c, err := bridge.Channel()
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	if c != nil {
		go func() {
			untilGone(c)
			end()
			os.Exit(0)
		}()
	}
	bridge.ServeServices(register)
	end()
}

// untilGone returns when the host has closed its end of the descriptor channel, over which nothing comes.
func untilGone(c *shm.Channel) {
	for {
		_, fds, err := c.Receive()
		if err != nil {
			return
		}
		shm.CloseAll(fds)
	}
}

// opened is what an Opener has opened, and the calls that are in it.
type opened[T interface{ Close() error }] struct {
	mu    sync.Mutex
	state openState
	value T
	calls sync.WaitGroup
	// ctx ends the calls at the end of the process.
	ctx  context.Context
	stop context.CancelFunc
}

type openState uint8

const (
	notOpen openState = iota
	opening
	isOpen
	ended
)

// errOrder says that the host broke the order of calls.
var errOrder = errors.New("the plugin is opened once, and asked only when it is open")

func newOpened[T interface{ Close() error }]() *opened[T] {
	o := &opened[T]{}
	o.ctx, o.stop = context.WithCancel(context.Background())
	return o
}

// open calls f, once. An opening that failed may be tried again.
func (o *opened[T]) open(f func() (T, error)) error {
	o.mu.Lock()
	if o.state != notOpen {
		defer o.mu.Unlock()
		return o.refusal()
	}
	o.state = opening
	o.calls.Add(1)
	o.mu.Unlock()
	defer o.calls.Done()
	value, err := f()
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err != nil && o.state == opening:
		o.state = notOpen
	case err == nil && o.state == ended:
		err = errors.Join(errEnded, value.Close())
	case err == nil:
		o.state, o.value = isOpen, value
	}
	return err
}

func (o *opened[T]) refusal() error {
	if o.state == ended {
		return errEnded
	}
	return errOrder
}

// enter begins a call, whose context is ctx cut short by the end of the process. leave ends it.
func (o *opened[T]) enter(ctx context.Context) (in context.Context, value T, leave func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != isOpen {
		return nil, value, nil, o.refusal()
	}
	o.calls.Add(1)
	in, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(o.ctx, cancel)
	return in, o.value, func() { unhook(); cancel(); o.calls.Done() }, nil
}

// end refuses further calls, cancels those under way, and closes when they have returned. Calls that do not
// return keep the value open, and the end of the process ends both.
func (o *opened[T]) end() {
	o.mu.Lock()
	was := o.state
	o.state = ended
	o.mu.Unlock()
	o.stop()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if was == ended || !waited(ctx, &o.calls) || was != isOpen {
		return
	}
	if err := o.value.Close(); err != nil {
		os.Stderr.WriteString("closing: " + err.Error() + "\n")
	}
}

func waited(ctx context.Context, wg *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// maxPending is how many changes wait for the host to take them.
const maxPending = 64

// feed carries changes to the host. When more wait than there is room for, one takes the place of all.
type feed[T any] struct {
	every T
	mu    sync.Mutex
	items []T
	more  chan struct{} // has room for one: something waits
}

func newFeed[T any](every T) *feed[T] { return &feed[T]{every: every, more: make(chan struct{}, 1)} }

// put does not block.
func (f *feed[T]) put(item T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.items) >= maxPending {
		f.items, item = f.items[:0], f.every
	}
	f.items = append(f.items, item)
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// take waits for what was put. An error is ctx's.
func (f *feed[T]) take(ctx context.Context) ([]T, error) {
	select {
	case <-f.more:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	items := f.items
	f.items = nil
	return items, nil
}
