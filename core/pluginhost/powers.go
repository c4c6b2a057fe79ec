package pluginhost

import (
	"context"
	"fmt"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// now is the store in the running process, or nil. It is ErrClosed after Close.
func (s *Store) now() (*host.Store, error) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if _, ok := s.p.stores[s]; !ok {
		return nil, fmt.Errorf("pluginhost: %s: store: %w", s.p.cfg.Name, ErrClosed)
	}
	return s.open, nil
}

// must is now, or ErrDown.
func (s *Store) must() (*host.Store, error) {
	open, err := s.now()
	if err == nil && open == nil {
		err = fmt.Errorf("pluginhost: %s: %w", s.p.cfg.Name, ErrDown)
	}
	return open, err
}

// Health asks the store how it is.
func (s *Store) Health(ctx context.Context) (backstore.Health, error) {
	open, err := s.must()
	if err != nil {
		return backstore.Health{}, err
	}
	return open.Health(ctx)
}

// Sanitize destroys the content of the store, as host.Store.Sanitize does. Its queues must have been closed; none can be
// made until it returns. If the plugin dies meanwhile it has failed, and is not begun again.
func (s *Store) Sanitize(ctx context.Context, method backstore.SanitizeMethod, progress func(permille int)) error {
	open, err := s.must()
	if err != nil {
		return err
	}
	return open.Sanitize(ctx, method, progress)
}

// settle is how long WatchSize waits before it looks again for a process with the store open.
const settle = 200 * time.Millisecond

// WatchSize calls changed with the store's description, Blocks as they are now, after each change of its size, until ctx ends or the
// store or the plugin is closed; the error says which. It goes on in each new process of the plugin. A size that changed while there
// was none is told when the store is open again.
func (s *Store) WatchSize(ctx context.Context, changed func(backstore.Info)) error {
	w := watch{store: s, blocks: s.info.Blocks, changed: changed}
	var seen *host.Store
	for {
		open, err := s.now()
		if err != nil {
			return err
		}
		if open != nil && open != seen {
			w.tell(open.Info().Blocks)
		}
		if seen = open; open != nil && open.Info().Powers.Has(backstore.PowerResize) {
			err := open.WatchSize(ctx, func(i backstore.Info) { w.tell(i.Blocks) })
			s.p.cfg.Log.Debug("the watch of a store's size has ended", "plugin", s.p.cfg.Name, "reason", err)
		}
		t := time.NewTimer(settle)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
}

// watch tells of sizes, each change once.
type watch struct {
	store   *Store
	blocks  uint64
	changed func(backstore.Info)
}

func (w *watch) tell(blocks uint64) {
	if blocks == w.blocks {
		return
	}
	w.blocks = blocks
	i := w.store.info
	i.Blocks = blocks
	w.changed(i)
}

// samePowers holds a store's powers against what initiators were told of it.
func samePowers(was, is backstore.Info) error {
	switch lost := was.Powers &^ is.Powers; {
	case lost != 0:
		return fmt.Errorf("it cannot do this any more: %v: %w", lost, ErrChanged)
	case was.UnmapZeroes && !is.UnmapZeroes:
		return fmt.Errorf("what it unmaps does not read as zeroes any more: %w", ErrChanged)
	case is.MaxCompareAndWrite < was.MaxCompareAndWrite:
		return fmt.Errorf("it compares and writes %d bytes at once, were %d: %w", is.MaxCompareAndWrite, was.MaxCompareAndWrite, ErrChanged)
	}
	return nil
}
