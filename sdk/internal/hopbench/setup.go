package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
	"github.com/gosrpt/gosrpt/sdk/internal/shm"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

const (
	small  = 4 << 10
	large  = 256 << 10
	deep   = 32
	patchy = 20 * time.Second // for each control call
)

// setup is what is measured.
type setup struct {
	arena *host.Arena
	ring  *host.Process
	grpc  *bridge.Process
	// by touch
	queues [2]*ringHop
	stores [2]uint64
	local  [2]backstore.Store
}

func index(touch bool) int {
	if touch {
		return 1
	}
	return 0
}

func setUp(ctx context.Context) (*setup, error) {
	ctx, cancel := context.WithTimeout(ctx, patchy)
	defer cancel()
	s := &setup{}
	if err := s.start(ctx); err != nil {
		s.tearDown()
		return nil, err
	}
	return s, nil
}

func (s *setup) start(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if s.arena, err = host.NewArena(deep * large); err != nil {
		return err
	}
	env := []string{pluginEnv + "=1", "GOMAXPROCS=2"}
	quiet := hclog.NewNullLogger()
	if s.ring, err = host.Start(ctx, host.Options{Path: self, Env: env, Arena: s.arena, Log: quiet}); err != nil {
		return err
	}
	if s.grpc, err = bridge.Start(ctx, bridge.Options{Path: self, Env: env, Log: quiet}); err != nil {
		return err
	}
	for _, touch := range []bool{false, true} {
		if err := s.open(ctx, touch); err != nil {
			return err
		}
	}
	return nil
}

func (s *setup) open(ctx context.Context, touch bool) error {
	config := map[string]string{"touch": fmt.Sprint(touch)}
	st, err := s.ring.Open(ctx, config)
	if err != nil {
		return err
	}
	q, err := st.NewQueue(ctx, host.QueueOptions{Entries: deep, EdgeTriggered: true})
	if err != nil {
		return err
	}
	w, err := shm.NewWaiter(shm.EventFrom(q.FD()))
	if err != nil {
		return err
	}
	s.queues[index(touch)] = &ringHop{q: q, w: w, arena: s.arena.Bytes(), arm: q.Arm}
	r, err := s.grpc.RPC().Open(ctx, &backstorepb.OpenRequest{Config: config})
	if err != nil || r.Error != nil {
		return errors.Join(err, errors.New(r.GetError().GetText()))
	}
	s.stores[index(touch)] = r.Store
	s.local[index(touch)], err = nullStores{}.Open(ctx, config)
	return err
}

func (s *setup) tearDown() {
	ctx, cancel := context.WithTimeout(context.Background(), patchy)
	defer cancel()
	for _, h := range s.queues {
		if h != nil {
			h.w.Close()
			h.q.Close()
		}
	}
	if s.ring != nil {
		s.ring.Close(ctx)
	}
	if s.grpc != nil {
		s.grpc.Stop(ctx)
	}
	if s.arena != nil {
		s.arena.Close()
	}
}
