package discover

import (
	"errors"
	"fmt"
	"time"

	"github.com/gosrpt/gosrpt/core/mad/sa"
)

// Sentinels that an Error wraps, besides those of package rdma.
var (
	// ErrSilent: the agent has not answered.
	ErrSilent = errors.New("no answer")
	// ErrLimit: the discovery took longer than Config.Limit.
	ErrLimit = errors.New("the discovery takes longer than its limit")
)

// Query is what is asked with one datagram: a mad.Query or an sa.PathQuery.
type Query interface {
	fmt.Stringer
	// Append appends the request, ib.MADSize bytes. Its transaction id ends in tid.
	Append(dst []byte, tid uint32) []byte
	// Parse returns the data of the answer to the request with tid, a part of b. Errors wrap mad.ErrMismatch if b is not that
	// answer.
	Parse(b []byte, tid uint32) ([]byte, error)
}

// Error says which query could not be put, or was not answered.
type Error struct {
	Query Query
	// To is the agent's address.
	To string
	// Err is the cause.
	Err error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %v to %s: %v", className(e.Query), e.Query, e.To, e.Err)
}

func className(q Query) string {
	if _, path := q.(sa.PathQuery); path {
		return "subnet administration"
	}
	return "device management"
}

func (e *Error) Unwrap() error { return e.Err }

// Event is what happened in a Step.
type Event uint8

// The events of a query, in the order in which they may come.
const (
	// Sent: a datagram has left, for the first time if Try is 1.
	Sent Event = iota
	// Strange: a datagram came that is no answer; Err says why. The wait goes on.
	Strange
	// Answered: the agent answered, or refused with the StatusError of its class in Err.
	Answered
	// GivenUp: no try was answered.
	GivenUp
)

// Step is one step of a discovery.
type Step struct {
	Query Query
	// Try counts from 1.
	Try   int
	Event Event
	// After is the time since the try was sent.
	After time.Duration
	Err   error
}

// String says it in a line. It holds nothing that the agent wrote.
func (s Step) String() string {
	switch s.Event {
	case Sent:
		if s.Try > 1 {
			return fmt.Sprintf("%v: try %d", s.Query, s.Try)
		}
		return s.Query.String()
	case Strange:
		return fmt.Sprintf("%v: ignored a datagram: %v", s.Query, s.Err)
	case Answered:
		if s.Err == nil {
			return fmt.Sprintf("%v: answered in %v", s.Query, s.After.Round(time.Microsecond))
		}
	}
	return s.Err.Error()
}

func (a *asker) trace(e Event, err error) {
	if a.cfg.Trace != nil {
		a.cfg.Trace(Step{Query: a.query, Try: a.try, Event: e, After: time.Since(a.begin), Err: err})
	}
}
