package main

import (
	"context"
	"sync"
	"time"
)

// retryOpen is the pause between attempts to open a LUN, or to start a plugin, that has failed.
const retryOpen = 5 * time.Second

// persist calls attempt until it succeeds or ctx ends. tried is called after the first attempt, failed after each that fails.
func persist(ctx context.Context, attempt func() error, tried func(), failed func(error)) {
	tried = sync.OnceFunc(tried)
	for {
		err := attempt()
		if err == nil || ctx.Err() != nil {
			tried()
			return
		}
		failed(err)
		tried()
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryOpen):
		}
	}
}
