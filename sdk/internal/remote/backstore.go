package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

const (
	// slots is how many transfers of all stores are under way at once, and slotSize the longest in bytes.
	slots    = 32
	slotSize = 1 << 20
	entries  = 64
	// closeTime bounds the orderly end of a store.
	closeTime = 30 * time.Second
	// healthTime bounds the question why a process does not answer.
	healthTime = 5 * time.Second
)

// Options say which plugin to start.
type Options struct {
	// Path is the executable, Args its arguments, Env its whole environment.
	Path string
	Args []string
	Env  []string
	// Slow keeps the data on the gRPC connection although the plugin serves rings.
	Slow bool
	// Log gets what the plugin logs and prints.
	Log hclog.Logger
}

// Backstore is one plugin process. Its methods may be called from any goroutine.
type Backstore struct {
	process *host.Process
	arena   *host.Arena
	// free holds the arena's slots that no transfer has.
	free chan []byte

	mu    sync.Mutex
	fault error
}

// Start starts a plugin. ctx bounds that. A process that breaks the protocol is killed; Fault then tells why.
func Start(ctx context.Context, o Options) (*Backstore, error) {
	arena, err := host.NewArena(slots * slotSize)
	if err != nil {
		return nil, err
	}
	p, err := host.Start(ctx, host.Options{Path: o.Path, Args: o.Args, Env: o.Env, Arena: arena, Slow: o.Slow, Log: o.Log})
	if err != nil {
		arena.Close()
		return nil, err
	}
	b := &Backstore{process: p, arena: arena, free: make(chan []byte, slots)}
	for i := range slots {
		b.free <- arena.Bytes()[i*slotSize : (i+1)*slotSize : (i+1)*slotSize]
	}
	go b.watch()
	return b, nil
}

// watch ends with the process.
func (b *Backstore) watch() {
	select {
	case err := <-b.process.Faults():
		b.kill(err)
	case <-b.process.Dead():
	}
}

func (b *Backstore) kill(err error) {
	b.mu.Lock()
	if b.fault == nil {
		b.fault = err
	}
	b.mu.Unlock()
	b.process.Kill()
}

// giveUp kills a process that does not answer, and first asks it why.
func (b *Backstore) giveUp(err error) {
	ctx, cancel := context.WithTimeout(context.Background(), healthTime)
	defer cancel()
	b.kill(errors.Join(err, b.process.Health(ctx)))
}

// Fault is why the process was killed: a breach of the protocol, or no answer in time. Nil if it was not.
func (b *Backstore) Fault() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fault
}

// Process is the plugin's.
func (b *Backstore) Process() *host.Process { return b.process }

// Close ends the process in order, and kills it when ctx ends first. Every store has been closed.
func (b *Backstore) Close(ctx context.Context) error {
	b.process.Close(ctx)
	return b.arena.Close()
}

// Open implements backstore.Backstore. The store has a queue of its own.
func (b *Backstore) Open(ctx context.Context, config map[string]string) (backstore.Store, error) {
	inner, err := b.process.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	q, err := inner.NewQueue(ctx, host.QueueOptions{Entries: entries})
	if err != nil {
		return nil, fmt.Errorf("%w; and then: %v", err, inner.Close(ctx))
	}
	return newStore(b, inner, q), nil
}
