package host

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
)

// ErrPower says that a store does not have a power.
var ErrPower = errors.New("host: the store does not have this power")

func (s *Store) need(p backstore.Powers) error {
	if !s.info.Powers.Has(p) {
		return fmt.Errorf("%w: %v", ErrPower, p)
	}
	return nil
}

// WatchSize calls changed with the store's description after each change of its size, those since it was opened included, until
// ctx ends, the store is closed, or the process ends or breaks the protocol; the error says which. Changes that come fast are
// told as one. There is one watch of a store at a time: another waits for its end. Info stays what it was.
func (s *Store) WatchSize(ctx context.Context, changed func(backstore.Info)) error {
	if err := s.need(backstore.PowerResize); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.p.bridge.RPC().WatchSize(ctx, &backstorepb.WatchSizeRequest{Store: s.id})
	if err != nil {
		return fmt.Errorf("host: watching the store's size: %w", err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return errors.Join(ctx.Err(), fmt.Errorf("host: watching the store's size: %w", err))
		}
		now, err := infoOf(m.Info)
		if err == nil && now.BlockSize != s.info.BlockSize {
			err = fmt.Errorf("host: the plugin says that blocks of %d bytes have become blocks of %d", s.info.BlockSize, now.BlockSize)
		}
		if err != nil {
			return err
		}
		is := s.info
		is.Blocks = now.Blocks
		changed(is)
	}
}

// Health asks the store how it is.
func (s *Store) Health(ctx context.Context) (backstore.Health, error) {
	if err := s.need(backstore.PowerHealth); err != nil {
		return backstore.Health{}, err
	}
	r, err := s.p.bridge.RPC().StoreHealth(ctx, &backstorepb.StoreHealthRequest{Store: s.id})
	if err == nil {
		err = failed("tell the store's health", r.Error)
	}
	if err != nil {
		return backstore.Health{}, err
	}
	c := min(r.Condition, uint32(backstore.ConditionFailing))
	return backstore.Health{Condition: backstore.Condition(c), Text: line(r.Text)}, nil
}

// Sanitize destroys the content of the store, which no queue may be attached to, and returns when it is gone. The end of ctx stops it
// half done. progress, if not nil, is told how far it is, 0 to 1000, rising.
func (s *Store) Sanitize(ctx context.Context, method backstore.SanitizeMethod, progress func(permille int)) error {
	if err := s.need(backstore.PowerSanitize); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.p.bridge.RPC().Sanitize(ctx, &backstorepb.SanitizeRequest{Store: s.id, Method: uint32(method)})
	if err != nil {
		return fmt.Errorf("host: sanitize: %w", err)
	}
	far := -1
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return errors.New("host: sanitize: the plugin does not say how it ended")
		case err != nil:
			return errors.Join(ctx.Err(), fmt.Errorf("host: sanitize: %w", err))
		case m.Ended:
			return failed("sanitize the store", m.Error)
		}
		if n := int(min(m.Permille, 1000)); n > far {
			far = n
			if progress != nil {
				progress(n)
			}
		}
	}
}
