package plugintest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

// arenaSize is the memory that the data of a check's requests lies in.
const arenaSize = 32 << 20

// process is a backstore process that is killed when it breaks the protocol, as core/pluginhost does it.
type process struct {
	*host.Process
	arena *host.Arena

	mu    sync.Mutex
	fault error
}

// startProcess starts one. The arena is the caller's.
func startProcess(ctx context.Context, o *Options, slow bool, arena *host.Arena) (*process, error) {
	hp, err := host.Start(ctx, host.Options{Path: o.Path, Args: o.Args, Env: o.Env, Arena: arena, Slow: slow, Log: o.Log})
	if err != nil {
		return nil, err
	}
	p := &process{Process: hp, arena: arena}
	go p.watch()
	return p, nil
}

func (p *process) watch() {
	select {
	case err := <-p.Faults():
		p.mu.Lock()
		p.fault = fmt.Errorf("the plugin broke the protocol: %w", err)
		p.mu.Unlock()
		p.Kill()
	case <-p.Dead():
	}
}

// trouble tells how the process broke the protocol or ended.
func (p *process) trouble() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.Dead():
		return errors.Join(p.fault, fmt.Errorf("the plugin's process has ended: %s", p.Ending()))
	default:
		return p.fault
	}
}

func (p *process) end() {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	p.Close(ctx)
}

// arena makes the memory of a check's processes.
func (r *run) arena() *host.Arena {
	r.Helper()
	a, err := host.NewArena(arenaSize)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { a.Close() })
	return a
}

// start starts a process that ends with the check.
func (r *run) start(a *host.Arena) *process {
	r.Helper()
	p, err := startProcess(r.within(startTime), &r.o, r.o.Slow, a)
	if err != nil {
		r.Fatal(err)
	}
	r.onAbort(r.TB, p.Kill)
	r.Cleanup(p.end)
	return p
}

// open opens a store that closes with the check.
func (r *run) open(p *process, config map[string]string) *remote {
	r.Helper()
	s, err := openRemote(r.within(startTime), p, config)
	if err != nil {
		r.Fatalf("Open: %v", err)
	}
	r.Cleanup(func() {
		if err := s.Close(); err != nil {
			r.Errorf("closing the store: %v", err)
		}
	})
	return s
}

// shared opens the stores of one process for the contract's kit, and starts another when it has died.
type shared struct {
	*kit
	slow bool

	mu    sync.Mutex
	p     *process
	arena *host.Arena
}

// Open implements backstore.Backstore.
func (s *shared) Open(ctx context.Context, config map[string]string) (backstore.Store, error) {
	p, err := s.process()
	if err != nil {
		return nil, err
	}
	r, err := openRemote(ctx, p, config)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// describedShared is one whose plugin describes itself.
type describedShared struct{ *shared }

// Describe implements schema.Describer.
func (s describedShared) Describe() schema.Description { return s.about.Description }

func (s *shared) process() (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.p != nil && s.p.trouble() == nil {
		return s.p, nil
	}
	if s.p != nil {
		s.p.end()
		s.p = nil
	}
	if s.arena == nil {
		a, err := host.NewArena(arenaSize)
		if err != nil {
			return nil, err
		}
		s.arena = a
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	p, err := startProcess(ctx, &s.o, s.slow, s.arena)
	s.p = p
	return p, err
}

func (s *shared) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.p != nil {
		s.p.Kill()
	}
}

func (s *shared) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.p != nil {
		s.p.end()
	}
	if s.arena != nil {
		s.arena.Close()
	}
}

// eventually asks until ok, or until d is over.
func eventually(t testing.TB, d time.Duration, ok func() bool) bool {
	for end := time.Now().Add(d); ; {
		if ok() {
			return true
		}
		if time.Now().After(end) || t.Context().Err() != nil {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
}
