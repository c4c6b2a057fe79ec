package store

import (
	"errors"
	"fmt"
)

// Sentinels that the package's errors wrap.
var (
	// ErrInfo: a store describes itself in a way that cannot be.
	ErrInfo = errors.New("impossible description")
	// ErrChanged: a replacement is not the same store.
	ErrChanged = errors.New("not the store that was there before")
	// ErrProtocol: a backend broke the contract; nothing that it says counts any more.
	ErrProtocol = errors.New("backend broke the contract")
	// ErrDeadline: a backend holds a request for longer than Config.Deadline.
	ErrDeadline = errors.New("request is overdue")
	// ErrConfig: the guard's configuration is wrong.
	ErrConfig = errors.New("wrong configuration")
)

// Error is the error type of this package.
type Error struct {
	// Store is the guard's configured name.
	Store string
	// Op is what was done: open, attach, poll or submit.
	Op string
	// Err is the cause, which wraps one of the sentinels.
	Err error
}

// Error tells what happened to whom.
func (e *Error) Error() string { return fmt.Sprintf("store %q: %s: %v", e.Store, e.Op, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func (g *Guard) errorf(op, format string, args ...any) error {
	return &Error{Store: g.cfg.Name, Op: op, Err: fmt.Errorf(format, args...)}
}
