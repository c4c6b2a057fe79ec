package plugin

import (
	"context"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/backstore/backstoretest"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// tardy opens a store although nobody waits for it any more.
type tardy struct {
	giveUp func()
	closed bool
}

func (o *tardy) Open(context.Context, map[string]string) (backstore.Store, error) {
	o.giveUp()
	return tardyStore{backstoretest.NewMemory(backstore.Info{BlockSize: 512, Blocks: 8}), o}, nil
}

type tardyStore struct {
	*backstoretest.Memory
	o *tardy
}

func (s tardyStore) Close() error {
	s.o.closed = true
	return s.Memory.Close()
}

func TestOpenThatWasGivenUpLeavesNoStore(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	o := &tardy{giveUp: cancel}
	s := newServer(o)
	r, err := s.Open(ctx, &backstorepb.OpenRequest{})
	if err != nil || r.Error == nil || r.Store != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if !o.closed || len(s.stores) != 0 {
		t.Errorf("closed: %v, stores: %d", o.closed, len(s.stores))
	}
}
