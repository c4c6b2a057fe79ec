package host

import (
	"context"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/internal/ring"
)

// link carries a queue's requests to one store in one process. The queue's goroutine makes the
// calls up to broke; the rest comes after them or, for pulse, from any goroutine. A link never has more requests than the queue has slots.
type link interface {
	// push takes a request, whose data lies at the arena's byte arena.
	push(slot uint32, r *backstore.Request, arena uint64)
	// flush sends what was pushed.
	flush()
	// poll returns what has ended. An error is for ever: the plugin broke the protocol, or the connection broke.
	poll(out []ring.Done) (int, error)
	// sleep asks for a ring of the queue's bell; false if poll has something.
	sleep() bool
	// awake ends sleep; it tells whether the bell may have been rung.
	awake() bool
	// mapped is the store in whose process data is read and written in place; nil if none is.
	mapped() *Store
	// broke tells the process's owner why the link is not used any more. It does not block.
	broke(err error)
	// detach has the plugin let go of the data.
	detach(ctx context.Context) error
	// quiesce returns when nothing in this process touches the data any more, nor waits for the plugin. The plugin's process is
	// dead, or has let go.
	quiesce()
	// release frees what the link holds. No other call follows.
	release()
	// pulse is for a watchdog, in any goroutine: what must move while requests wait.
	pulse() pulse
}

// pulse is a sample of a link's life.
type pulse struct {
	// waiting: there are requests that the plugin has not taken.
	waiting bool
	// beat and taken move as the plugin works.
	beat  uint64
	taken uint32
	// bellStuck: the plugin has made its own doorbell block.
	bellStuck bool
}
