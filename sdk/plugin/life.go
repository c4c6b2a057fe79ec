package plugin

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
)

// shutdownTime bounds the end of a process: requests under way finish, stores close.
const shutdownTime = 10 * time.Second

// maxUnclaimed is how many messages may wait on the descriptor channel for the call that names them.
const maxUnclaimed = 64

// inbox holds what came over the descriptor channel until a call names it.
type inbox struct {
	mu   sync.Mutex
	sets map[uint64][]int
	more chan struct{} // closed and replaced at each arrival
	err  error
}

func newInbox() *inbox { return &inbox{sets: map[uint64][]int{}, more: make(chan struct{})} }

// openChannel starts receiving descriptors; gone is called once when the host has closed its end.
func (s *server) openChannel(gone func(*server)) error {
	c, err := bridge.Channel()
	if c == nil || err != nil {
		return err
	}
	s.inbox = newInbox()
	go func() {
		s.inbox.fill(c)
		gone(s)
	}()
	return nil
}

func (b *inbox) fill(c *shm.Channel) {
	for {
		token, fds, err := c.Receive()
		if !b.put(token, fds, err) {
			return
		}
	}
}

func (b *inbox) put(token uint64, fds []int, err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && len(b.sets) >= maxUnclaimed {
		err = errors.New("too many descriptors that no call has named")
	}
	if err == nil {
		shm.CloseAll(b.sets[token])
		b.sets[token] = fds
	} else {
		shm.CloseAll(fds)
		b.err = err
	}
	close(b.more)
	b.more = make(chan struct{})
	return err == nil
}

// take returns the descriptors of a token, which become the caller's, and waits for them if need be.
func (b *inbox) take(ctx context.Context, token uint64) ([]int, error) {
	for {
		fds, more, err := b.look(token)
		if fds != nil || err != nil {
			return fds, err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (b *inbox) look(token uint64) ([]int, chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if fds, ok := b.sets[token]; ok {
		delete(b.sets, token)
		return fds, nil, nil
	}
	return nil, b.more, b.err
}

// shutdown ends every ring and store, once; a second caller waits for the first.
func (s *server) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	s.mu.Lock()
	s.ended = true
	var all []*store
	for _, st := range s.stores {
		all = append(all, st)
	}
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, st := range all {
		wg.Go(func() {
			// A store that another caller closes at this moment is closed all the same; a request that does not
			// end keeps its store open, and the end of the process ends both.
			_ = s.closeStore(ctx, st)
			st.waitClosed(ctx)
		})
	}
	wg.Wait()
}
