package store

import (
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Request is one operation on a Guard. It is meant to be embedded in the caller's command, so that a request allocates
// nothing. From an accepted Submit until Owner.Completed or a Cancel that says true it belongs to the guard, and Data to
// the guard or the backend.
type Request struct {
	// Op and Flags say what to do; see backstore.Request.
	Op    backstore.Op
	Flags backstore.Flags
	// Off is the byte offset in the store; 0 for backstore.OpFlush.
	Off int64
	// Data is the buffer and N the length in the store, each for the operations that backstore.Request says.
	Data []byte
	N    int64
	// Owner is told the end.
	Owner Owner
	// User is the owner's.
	User any
	// Code is how the request ended, valid from Owner.Completed on.
	Code backstore.Code
	// At is the offset in the compared data of the first byte that differs, if Code is backstore.CodeMiscompare.
	At uint32

	state      requestState
	slot       uint32
	abandoned  bool      // Cancel came too late
	born       time.Time // first seen by Poll
	due        time.Time // when Poll does something about it; zero until Poll has seen it
	prev, next *Request
}

type requestState uint8

const (
	requestIdle    requestState = iota // the caller's
	requestWaiting                     // in the guard's queue
	requestFlying                      // with the backend
)

// Busy tells whether the guard holds the request.
func (r *Request) Busy() bool { return r.state != requestIdle }

// Owner is told the end of its requests, in the goroutine that calls Guard.Poll. It may submit again, also the same
// request, but must not call the guard's Poll, Flush, Attach, Detach or Close.
type Owner interface {
	Completed(r *Request)
}

// list is a queue of requests linked through the requests themselves.
type list struct {
	head, tail *Request
	n          int
}

func (l *list) push(r *Request) {
	r.prev, r.next = l.tail, nil
	if l.tail == nil {
		l.head = r
	} else {
		l.tail.next = r
	}
	l.tail = r
	l.n++
}

func (l *list) remove(r *Request) {
	if r.prev == nil {
		l.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		l.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
	l.n--
}

// prepend puts all of m before l and empties m.
func (l *list) prepend(m *list) {
	if m.n == 0 {
		return
	}
	m.tail.next = l.head
	if l.head == nil {
		l.tail = m.tail
	} else {
		l.head.prev = m.tail
	}
	l.head = m.head
	l.n += m.n
	*m = list{}
}
