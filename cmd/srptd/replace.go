package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gosrpt/gosrpt/sdk/host"
)

// fault is told by the guard, in the reactor's goroutine, that the queue holds a request for too long or breaks the
// contract: it is replaced, which ends a plugin that does not let go. Meanwhile commands wait with the guard, up to their bound.
func (k *disk) fault(p *parts, err error) {
	k.work.Go(func() {
		k.log.Error("the plugin's queue is replaced", "error", err)
		k.setState("replaces the plugin's queue: " + err.Error())
		if err := k.replaceQueue(p); err == nil {
			k.setState("ready")
			k.log.Info("the plugin's queue was replaced")
		} else if k.ctx.Err() == nil {
			k.setState("failed: " + err.Error())
			k.log.Error("the queue cannot be replaced; restart the daemon", "error", err)
		}
	})
}

func (k *disk) replaceQueue(p *parts) error {
	t := k.d.target
	if err := t.Unwatch(k.ctx, p.guard); err != nil {
		return err
	}
	// An error is about the queue's own descriptors: by then nothing of the plugin touches what was in the queue.
	closed := p.store.CloseQueue(p.queue)
	if err := t.Do(k.ctx, func() { p.guard.Detach(time.Now()) }); err != nil {
		return errors.Join(closed, err)
	}
	if err := errors.Join(closed, t.Watch(k.ctx, p.guard)); err != nil {
		return err
	}
	q, err := k.newQueue(p)
	if err != nil {
		return err
	}
	k.mu.Lock()
	p.queue = q
	k.mu.Unlock()
	return k.attach(p, q)
}

// attach gives the guard its new queue, and tells the logical unit what the store is now.
func (k *disk) attach(p *parts, q *host.Queue) error {
	var err error
	called := k.d.target.Do(k.ctx, func() {
		if err = p.guard.Attach(q); err == nil {
			err = p.device.Update(p.guard.Info())
		}
		if err == nil {
			err = p.resize() // the queue knows the size at the opening
		}
	})
	return errors.Join(called, err)
}

// newQueue makes a queue. It tries until it succeeds or the disk is closed: the plugin that held the old one may be dying.
func (k *disk) newQueue(p *parts) (*host.Queue, error) {
	for pause := retryQueue; ; pause = min(2*pause, retryOpen) {
		q, err := p.store.NewQueue(k.ctx, k.queueOptions())
		if err == nil {
			return q, nil
		}
		k.setState("replaces the plugin's queue: " + err.Error())
		select {
		case <-k.ctx.Done():
			return nil, fmt.Errorf("%w: %w", context.Cause(k.ctx), err)
		case <-time.After(pause):
		}
	}
}
