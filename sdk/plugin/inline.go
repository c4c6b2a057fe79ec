package plugin

import (
	"sync/atomic"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

const (
	// maxInline is the longest request in bytes that runs in the loop itself: the loop takes nothing else meanwhile.
	maxInline = 64 << 10
	// slowCall is how long a call may hold up the loop. Between once and twice of it another goroutine goes on with the loop.
	slowCall = 20 * time.Millisecond
)

// inline runs calls in the loop's goroutine, and gives the loop to another one when a call takes long: a medium that
// hangs must not hold up requests for others.
type inline struct {
	// turn is odd during a call. Whoever makes it even, the caller or the guard, has the loop from then on.
	turn  atomic.Uint64
	armed atomic.Bool
	guard *time.Timer
	loop  func()
	seen  uint64 // of the guard
}

// newInline makes the guard of a loop that loop goes on with.
func newInline(loop func()) *inline {
	i := &inline{loop: loop}
	i.guard = time.AfterFunc(time.Hour, i.check)
	i.guard.Stop()
	return i
}

// call runs a request. It returns false if the loop is no longer the caller's.
func (i *inline) call(st *store, r *backstore.Request) (res backstore.Result, mine bool) {
	turn := i.turn.Add(1)
	if !i.armed.Load() {
		i.arm()
	}
	res = st.call(r)
	return res, i.turn.CompareAndSwap(turn, turn+1)
}

// arm starts the guard, which keeps running as long as there are calls: starting it for each would cost more.
func (i *inline) arm() {
	if i.armed.CompareAndSwap(false, true) {
		i.guard.Reset(slowCall)
	}
}

// check is the guard. It finds the same call again if that is slow.
func (i *inline) check() {
	turn := i.turn.Load()
	same := turn == i.seen
	i.seen = turn
	switch {
	case !same:
		i.guard.Reset(slowCall)
		return
	case turn&1 == 1 && i.turn.CompareAndSwap(turn, turn+1):
		go i.loop()
	}
	i.armed.Store(false)
	if i.turn.Load() != turn {
		i.arm() // a call began before it could see that nobody watches
	}
}

// stop ends the guard. No call is in progress.
func (i *inline) stop() { i.guard.Stop() }
