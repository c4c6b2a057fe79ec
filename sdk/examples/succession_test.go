package examples_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// TestKilledPluginsRequestsAreDoneByTheNext kills a process that has been given requests and did nothing about them.
func TestKilledPluginsRequestsAreDoneByTheNext(t *testing.T) {
	each(t, func(t *testing.T, e *example) {
		a := newArena(t, 1<<20)
		c := config(t)
		first := start(t, e.path, a)
		q := attach(t, open(t, first, c), host.QueueOptions{Entries: 32, Hold: patience})
		stop(t, first.PID())
		const n = 16
		var reqs []backstore.Request
		for i := range n {
			data := a.Bytes()[i*4096 : (i+1)*4096]
			copy(data, bytes.Repeat([]byte{byte(i + 1)}, 4096))
			reqs = append(reqs, backstore.Request{Tag: uint64(i), Op: backstore.OpWrite, Off: int64(i) * 4096, Data: data})
		}
		if got := q.Submit(reqs); got != n {
			t.Fatalf("Submit took %d", got)
		}
		q.Flush()

		// The lock of the first process, which lives, keeps the second from the store.
		second := start(t, e.path, a)
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		if _, err := second.Open(ctx, c); err == nil {
			t.Fatal("a store was opened that a living process has")
		}
		first.Kill()
		await(t, first.Dead(), patience, "the death")
		if err := open(t, second, c).Attach(soon(t), q); err != nil {
			t.Fatal(err)
		}
		var res [n]backstore.Result
		for left, end := n, time.Now().Add(patience); left > 0; {
			got := collect(q, res[:], end)
			if got == 0 {
				t.Fatalf("%d requests have no result", left)
			}
			for _, r := range res[:got] {
				if r.Code != backstore.CodeOK {
					t.Errorf("request %d: %v", r.Tag, r.Code)
				}
			}
			left -= got
		}
		if c := q.Counters(); c.Resent != n || c.Expired != 0 {
			t.Errorf("counters %+v", c)
		}
		clear(a.Bytes()[:n*4096])
		for i := range n {
			data := a.Bytes()[i*4096 : (i+1)*4096]
			if c := one(t, q, backstore.Request{Op: backstore.OpRead, Off: int64(i) * 4096, Data: data}); c != backstore.CodeOK {
				t.Fatalf("read: %v", c)
			}
			if data[0] != byte(i+1) || data[4095] != byte(i+1) {
				t.Errorf("block %d was not written", i)
			}
		}
	})
}

// stop stops a process and returns when each of its threads has stopped.
func stop(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); !stopped(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d does not stop", pid)
		}
	}
}

func stopped(pid int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		_, after, _ := bytes.Cut(b, []byte(") "))
		if err == nil && !bytes.HasPrefix(after, []byte("T")) {
			return false
		}
	}
	return len(tasks) > 0
}

// TestKillsAtAnyMomentLoseNothing kills and replaces the process again and again under verified I/O.
func TestKillsAtAnyMomentLoseNothing(t *testing.T) {
	each(t, func(t *testing.T, e *example) {
		const kills = 8
		a := newArena(t, 4<<20)
		c := config(t)
		p := start(t, e.path, a)
		q := attach(t, open(t, p, c), host.QueueOptions{Entries: 32, Hold: patience})
		l := newLoad(q, a.Bytes()[:32*blockSize], 0, 64, 1)
		for i := range kills {
			time.AfterFunc(time.Duration(i)*3*time.Millisecond, p.Kill)
			if err := l.run(1<<30, p.Dead()); err != nil {
				t.Fatal(err)
			}
			p = start(t, e.path, a)
			if err := open(t, p, c).Attach(soon(t), q); err != nil {
				t.Fatal(err)
			}
			// More than what is under way, which may be nothing: the queue notices the new process when it is used.
			if err := errors.Join(l.run(1, nil), l.drain()); err != nil {
				t.Fatalf("kill %d: %v", i, err)
			}
		}
		t.Logf("%d requests, %+v", l.ended, q.Counters())
		if c := q.Counters(); c.Expired != 0 || c.Attached != kills+1 {
			t.Errorf("counters %+v", c)
		}
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
