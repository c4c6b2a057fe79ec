package backstoretest

import (
	"context"
	"fmt"
	"sync"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// collector takes the results of a batch and notices one that comes twice or was never asked for.
type collector struct {
	mu    sync.Mutex
	codes []backstore.Code
	seen  []bool
	left  int
	wrong error
	all   chan struct{}
}

func newCollector(n int) *collector {
	c := &collector{codes: make([]backstore.Code, n), seen: make([]bool, n), left: n, all: make(chan struct{})}
	if n == 0 {
		close(c.all)
	}
	return c
}

func (c *collector) done(r backstore.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.Tag >= uint64(len(c.codes)):
		c.wrong = fmt.Errorf("a result for tag %#x, which no request had", r.Tag)
	case c.seen[r.Tag]:
		c.wrong = fmt.Errorf("request %d was completed twice", r.Tag)
	case r.Code > backstore.CodeInvalid:
		c.wrong = fmt.Errorf("request %d ended with %v, which is not in the list", r.Tag, r.Code)
		fallthrough
	default:
		c.codes[r.Tag], c.seen[r.Tag] = r.Code, true
		if c.left--; c.left == 0 {
			close(c.all)
		}
	}
}

// wait waits for every result.
func (c *collector) wait(ctx context.Context) ([]backstore.Code, error) {
	select {
	case <-c.all:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left > 0 {
		return nil, fmt.Errorf("%d requests of %d were not completed: %w", c.left, len(c.codes), ctx.Err())
	}
	return c.codes, c.wrong
}

// misused tells what went wrong, also after wait.
func (c *collector) misused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wrong
}
