package main

import (
	"context"
	"errors"
	"time"

	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

const (
	// healthEvery is how often a store that can tell is asked how its medium is.
	healthEvery = 30 * time.Second
	// healthTime bounds the answer.
	healthTime = 10 * time.Second
)

// follow keeps an eye on the medium of an open disk, as far as its store can: its size, and how it is.
func (k *disk) follow(p *parts) {
	powers := p.store.Info().Powers
	if powers.Has(backstore.PowerResize) {
		k.work.Go(func() {
			err := p.store.WatchSize(k.ctx, func(i backstore.Info) { k.resized(p, i.Blocks) })
			if k.ctx.Err() == nil && !errors.Is(err, pluginhost.ErrClosed) {
				k.log.Warn("changes of the store's size are not noticed any more", "error", err)
			}
		})
	}
	if powers.Has(backstore.PowerHealth) {
		k.work.Go(func() { k.watchHealth(p) })
	}
}

// resized tells the logical unit, and by it the initiators, of a new size. Before, commands beyond the old end are refused, and after
// it those beyond the new one.
func (k *disk) resized(p *parts, blocks uint64) {
	var err error
	called := k.d.target.Do(k.ctx, func() {
		p.blocks = blocks
		if err = p.resize(); err == nil {
			k.d.target.CapacityChanged(p.device)
		}
	})
	if err := errors.Join(called, err); err != nil {
		if k.ctx.Err() == nil {
			k.log.Error("the store's new size is not used", "blocks", blocks, "error", err)
		}
		return
	}
	k.log.Info("the store has another size: initiators are told", "blocks", blocks)
}

// resize gives guard and device the size that the store has told, if it has. It runs in the reactor's goroutine.
func (p *parts) resize() error {
	if p.blocks == 0 {
		return nil
	}
	if err := p.guard.Resize(p.blocks); err != nil {
		return err
	}
	return p.device.Update(p.guard.Info())
}

// watchHealth asks the store how it is, and tells the log when that changes.
func (k *disk) watchHealth(p *parts) {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for {
		k.askHealth(p)
		select {
		case <-k.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (k *disk) askHealth(p *parts) {
	ctx, cancel := context.WithTimeout(k.ctx, healthTime)
	defer cancel()
	h, err := p.store.Health(ctx)
	if err != nil {
		return // a plugin that is down or hangs is told of elsewhere
	}
	k.mu.Lock()
	old := k.health
	k.health = h
	k.mu.Unlock()
	switch {
	case h == old:
	case h.Condition == backstore.ConditionGood:
		k.log.Info("the store is well again", "text", h.Text)
	default:
		k.log.Warn("the store is not well", "condition", h.Condition, "text", h.Text)
	}
}
