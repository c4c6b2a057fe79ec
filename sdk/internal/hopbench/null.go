package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// touched is how long the memory is that a touching store copies from and to.
const touched = 1 << 20

// nullStores opens stores without a medium. With touch=true each transfer copies its payload once.
type nullStores struct{}

func (nullStores) Open(_ context.Context, config map[string]string) (backstore.Store, error) {
	s := &nullStore{}
	for k, v := range config {
		if k != "touch" {
			return nil, fmt.Errorf("there is no key %q", k)
		}
		if v == "true" {
			s.memory = make([]byte, touched)
		}
	}
	return s, nil
}

type nullStore struct {
	memory []byte
	mu     sync.Mutex
}

func (*nullStore) Info() backstore.Info { return backstore.Info{BlockSize: 4096, Blocks: 1 << 20} }

func (s *nullStore) Read(_ context.Context, p []byte, _ int64) error {
	if s.memory != nil {
		s.mu.Lock()
		copy(p, s.memory)
		s.mu.Unlock()
	}
	return nil
}

func (s *nullStore) Write(_ context.Context, p []byte, _ int64, _ backstore.Flags) error {
	if s.memory != nil {
		s.mu.Lock()
		copy(s.memory, p)
		s.mu.Unlock()
	}
	return nil
}

func (*nullStore) Flush(context.Context) error { return nil }

func (*nullStore) Close() error { return nil }

func (s *nullStore) Submit(reqs []backstore.Request, done func(backstore.Result)) {
	ctx := context.Background()
	for i := range reqs {
		if reqs[i].Op == backstore.OpRead {
			_ = s.Read(ctx, reqs[i].Data, reqs[i].Off)
		} else if reqs[i].Op == backstore.OpWrite {
			_ = s.Write(ctx, reqs[i].Data, reqs[i].Off, 0)
		}
		done(backstore.Result{Tag: reqs[i].Tag})
	}
}
