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
	arena  *host.Arena
	ring   *host.Process
	grpc   *bridge.Process
	socket *socketPeer
	file   *fileSide // nil with noFile
	// noFile is why the file backstore is not measured.
	noFile error
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

// setUp starts everything. dir holds what buildFile made, unless noFile says why it could not.
func setUp(ctx context.Context, dir string, noFile error) (*setup, error) {
	ctx, cancel := context.WithTimeout(ctx, patchy)
	defer cancel()
	s := &setup{noFile: noFile}
	if err := s.start(ctx); err != nil {
		s.tearDown()
		return nil, err
	}
	if s.noFile == nil {
		s.file, s.noFile = startFile(ctx, dir)
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
	if s.socket, err = startSocket(self); err != nil {
		return err
	}
	for _, touch := range []bool{false, true} {
		if err := s.open(ctx, touch); err != nil {
			return err
		}
	}
	return nil
}

func (s *setup) open(ctx context.Context, touch bool) (err error) {
	config, i := map[string]string{"touch": fmt.Sprint(touch)}, index(touch)
	if s.queues[i], err = openHop(ctx, s.ring, s.arena, config); err != nil {
		return err
	}
	r, err := s.grpc.RPC().Open(ctx, &backstorepb.OpenRequest{Config: config})
	if err != nil || r.Error != nil {
		return errors.Join(err, errors.New(r.GetError().GetText()))
	}
	s.stores[i] = r.Store
	s.local[i], err = nullStores{}.Open(ctx, config)
	return err
}

func (s *setup) tearDown() {
	ctx, cancel := context.WithTimeout(context.Background(), patchy)
	defer cancel()
	for _, h := range s.queues {
		if h != nil {
			h.close()
		}
	}
	if s.file != nil {
		s.file.tearDown(ctx)
	}
	if s.socket != nil {
		s.socket.close()
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
