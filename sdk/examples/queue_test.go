package examples_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// attach makes a queue and attaches it.
func attach(t testing.TB, s *host.Store, o host.QueueOptions) *host.Queue {
	t.Helper()
	q, err := s.NewQueue(soon(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

// collect polls, and waits as a reactor does, until at least one result is there. It returns how many; 0 when time is over.
func collect(q *host.Queue, res []backstore.Result, end time.Time) int {
	for time.Now().Before(end) {
		if n := q.Poll(res); n > 0 {
			return n
		}
		if q.Arm() {
			ms := min(time.Until(end).Milliseconds()+1, 1000)
			if d := q.Deadline(); !d.IsZero() {
				ms = min(ms, max(time.Until(d).Milliseconds()+1, 0))
			}
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(q.FD()), Events: unix.POLLIN}}, int(ms))
		}
	}
	return 0
}

// one runs a request that is alone.
func one(t testing.TB, q *host.Queue, r backstore.Request) backstore.Code {
	t.Helper()
	q.Submit([]backstore.Request{r})
	q.Flush()
	var res [1]backstore.Result
	if collect(q, res[:], time.Now().Add(patience)) == 0 {
		t.Fatal("no result in time")
	}
	return res[0].Code
}
