package rdmatest

import (
	"sync"
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// endPatience bounds how long End.Next waits.
const endPatience = 20 * time.Second

// End is a queue pair of a Loop, for the test goroutine: it keeps the completions until they are
// asked for.
type End struct {
	Loop *Loop
	// QP is the queue pair; it is the owner's.
	QP rdma.QP
	// Handle, if not nil, sees each completion first, in the owner goroutine, and keeps it from
	// Next by returning true. Set it inside Do, or before the End is connected.
	Handle func(c *rdma.Completion) bool

	mu   sync.Mutex
	kept []rdma.Completion
	more chan struct{}
}

// NewEnd makes a queue pair. cfg.User is chosen by the loop.
func (l *Loop) NewEnd(cfg rdma.QPConfig) *End {
	l.tb.Helper()
	e := &End{Loop: l, more: make(chan struct{}, 1)}
	var err error
	l.Do(func() {
		l.lastUser++
		cfg.User = l.lastUser
		if e.QP, err = l.cq.NewQP(cfg); err == nil {
			l.ends[cfg.User] = e
		}
	})
	if err != nil {
		l.tb.Fatalf("NewQP: %v", err)
	}
	return e
}

func (e *End) keep(c rdma.Completion) {
	e.mu.Lock()
	e.kept = append(e.kept, c)
	e.mu.Unlock()
	select {
	case e.more <- struct{}{}:
	default:
	}
}

// TryNext returns the oldest completion that has not been returned, if there is one.
func (e *End) TryNext() (c rdma.Completion, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.kept) == 0 {
		return c, false
	}
	c, e.kept = e.kept[0], e.kept[1:]
	return c, true
}

// Next waits for a completion. If none comes in time, the test ends.
func (e *End) Next() rdma.Completion {
	e.Loop.tb.Helper()
	timer := time.NewTimer(endPatience)
	defer timer.Stop()
	for {
		if c, ok := e.TryNext(); ok {
			return c
		}
		select {
		case <-e.more:
		case <-timer.C:
			e.Loop.tb.Fatalf("no completion on queue pair %#x within %v", e.QP.Num(), endPatience)
		}
	}
}

// Event waits for a completion that has to be the given event.
func (e *End) Event(want rdma.EventKind) rdma.Completion {
	e.Loop.tb.Helper()
	c := e.Next()
	if c.Op != rdma.OpEvent || c.Event != want {
		e.Loop.tb.Fatalf("got %+v, want event %v", c, want)
	}
	return c
}

// Done waits for a completion that has to be of the operation and status.
func (e *End) Done(op rdma.Op, status rdma.Status) rdma.Completion {
	e.Loop.tb.Helper()
	c := e.Next()
	if c.Op != op || c.Status != status {
		e.Loop.tb.Fatalf("got %+v (%v), want operation %d with status %v", c, c.Status, op, status)
	}
	return c
}

// Send posts to the send queue and flushes. All of it has to be taken.
func (e *End) Send(work ...rdma.Work) {
	e.Loop.tb.Helper()
	var n int
	var err error
	e.Loop.Do(func() {
		n, err = e.QP.PostSend(work)
		e.Loop.cq.Flush()
	})
	if n != len(work) || err != nil {
		e.Loop.tb.Fatalf("PostSend took %d of %d: %v", n, len(work), err)
	}
}

// Receive posts receive buffers and flushes, so that they are there for what is sent from now on. All have to be taken.
func (e *End) Receive(work ...rdma.Work) {
	e.Loop.tb.Helper()
	var n int
	var err error
	e.Loop.Do(func() {
		n, err = e.QP.PostRecv(work)
		e.Loop.cq.Flush()
	})
	if n != len(work) || err != nil {
		e.Loop.tb.Fatalf("PostRecv took %d of %d: %v", n, len(work), err)
	}
}

// Connect starts a connection.
func (e *End) Connect(p rdma.ConnectParams) {
	e.Loop.tb.Helper()
	var err error
	e.Loop.Do(func() { err = e.QP.Connect(p) })
	if err != nil {
		e.Loop.tb.Fatalf("Connect: %v", err)
	}
}

// Accept answers a request.
func (e *End) Accept(req rdma.ConnRequest, private []byte) {
	e.Loop.tb.Helper()
	var err error
	e.Loop.Do(func() { err = e.QP.Accept(req, private) })
	if err != nil {
		e.Loop.tb.Fatalf("Accept: %v", err)
	}
}

// Disconnect ends the connection.
func (e *End) Disconnect() {
	e.Loop.tb.Helper()
	var err error
	e.Loop.Do(func() { err = e.QP.Disconnect() })
	if err != nil {
		e.Loop.tb.Fatalf("Disconnect: %v", err)
	}
}

// Close destroys the queue pair. Completions that were kept can still be asked for.
func (e *End) Close() {
	e.Loop.tb.Helper()
	var err error
	e.Loop.Do(func() {
		err = e.QP.Close()
		for user, o := range e.Loop.ends {
			if o == e {
				delete(e.Loop.ends, user)
			}
		}
	})
	if err != nil {
		e.Loop.tb.Fatalf("QP.Close: %v", err)
	}
}

// Info is the connection's.
func (e *End) Info() (info rdma.ConnInfo) {
	e.Loop.Do(func() { info = e.QP.Info() })
	return info
}
