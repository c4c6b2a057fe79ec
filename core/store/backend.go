package store

import (
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Backend is the unguarded way to one store: a ring to a plugin process, a gRPC stream, or a store
// in this process. One goroutine, the reactor's, makes all calls but Close and none of them blocks.
//
// The Data of a request lies in the arena that the backend was opened with, and belongs to the
// backend from Submit until its Result has been returned by Poll, or until Close has returned. What a process behind it had
// when it died may be touched for longer: whoever lends the arena's memory out sees to that (ioctx.Fence).
type Backend interface {
	// Info describes the store.
	Info() backstore.Info
	// Submit takes requests in order and returns how many; fewer than all means that the queue is full.
	Submit(reqs []backstore.Request) int
	// Flush rings the doorbell once for everything submitted since the last Flush.
	Flush()
	// Poll fills res with finished requests and returns how many.
	Poll(res []backstore.Result) int
	// Arm asks for a wake-up by FD or the wake function it was opened with. It returns false if
	// something is there already.
	Arm() bool
	// FD polls readable when Poll should be called; -1 means that only the wake function is used. It stays the backend's.
	FD() int
	// Deadline is when Poll must be called at the latest; the zero time means never.
	Deadline() time.Time
	// Close ends the backend. It may be called twice. Outstanding requests get no Result.
	Close() error
}

// Canceller is a Backend that outlives the processes behind it, and may give a request to one after another.
type Canceller interface {
	// Cancel says that nobody waits for the request of a tag. It still ends by a Result, and soon if no process has it.
	Cancel(tag uint64)
}
