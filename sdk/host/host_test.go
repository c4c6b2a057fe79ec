package host_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
)

// testPlugin and testControl are the executables of sdk/internal/testplugin and testcontrol.
var testPlugin, testControl string

func TestMain(m *testing.M) {
	host.RunLauncher()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if dir := os.Getenv("HOST_TEST_BUILT"); dir != "" { // a helper of a test that has built them
		testPlugin, testControl = filepath.Join(dir, "testplugin"), filepath.Join(dir, "testcontrol")
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "gosrpt-host-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	testPlugin, testControl = filepath.Join(dir, "testplugin"), filepath.Join(dir, "testcontrol")
	build := exec.Command("go", "build", "-o", dir, "github.com/gosrpt/gosrpt/sdk/internal/testplugin",
		"github.com/gosrpt/gosrpt/sdk/internal/testcontrol")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the test plugins: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

const patience = 30 * time.Second

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func logger(t testing.TB) hclog.Logger {
	level := hclog.Off
	if testing.Verbose() {
		level = hclog.Debug
	}
	return hclog.New(&hclog.LoggerOptions{Name: t.Name(), Level: level, Output: os.Stderr})
}

func newArena(t testing.TB, size int) *host.Arena {
	t.Helper()
	a, err := host.NewArena(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func start(t testing.TB, a *host.Arena, change func(*host.Options)) *host.Process {
	t.Helper()
	o := host.Options{Path: testPlugin, Arena: a, Log: logger(t)}
	if change != nil {
		change(&o)
	}
	p, err := host.Start(soon(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		p.Close(ctx)
	})
	return p
}

func open(t testing.TB, p *host.Process, config map[string]string) *host.Store {
	t.Helper()
	s, err := p.Open(soon(t), config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func queue(t testing.TB, s *host.Store, o host.QueueOptions) *host.Queue {
	t.Helper()
	q, err := s.NewQueue(soon(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

// collect polls, and waits as a reactor does, until n results are there.
func collect(t testing.TB, q *host.Queue, n int) map[uint64]backstore.Code {
	t.Helper()
	got := map[uint64]backstore.Code{}
	res := make([]backstore.Result, 16)
	end := time.Now().Add(patience)
	for len(got) < n {
		k := q.Poll(res)
		for _, r := range res[:k] {
			if _, twice := got[r.Tag]; twice {
				t.Fatalf("tag %d has two results", r.Tag)
			}
			got[r.Tag] = r.Code
		}
		if k == 0 && q.Arm() {
			wait(t, q, end)
		}
	}
	return got
}

func wait(t testing.TB, q *host.Queue, end time.Time) {
	t.Helper()
	ms := time.Until(end).Milliseconds()
	if ms <= 0 {
		t.Fatal("no result in time")
	}
	if d := q.Deadline(); !d.IsZero() {
		ms = min(ms, max(time.Until(d).Milliseconds()+1, 0))
	}
	_, err := unix.Poll([]unix.PollFd{{Fd: int32(q.FD()), Events: unix.POLLIN}}, int(ms))
	if err != nil && err != unix.EINTR {
		t.Fatal(err)
	}
}

func one(t testing.TB, q *host.Queue, r backstore.Request) backstore.Code {
	t.Helper()
	if n := q.Submit([]backstore.Request{r}); n != 1 {
		t.Fatalf("Submit took %d", n)
	}
	q.Flush()
	return collect(t, q, 1)[r.Tag]
}

// ways are the data paths and the kinds of store.
var ways = []struct {
	name   string
	slow   bool
	config map[string]string
}{
	{"ring, calls", false, map[string]string{"mode": "call"}},
	{"ring, one call at a time", false, map[string]string{"mode": "call", "concurrency": "1"}},
	{"ring, submit", false, map[string]string{"mode": "submit"}},
	{"grpc, calls", true, map[string]string{"mode": "call"}},
	{"grpc, submit", true, map[string]string{"mode": "submit"}},
}

func TestWhatWasWrittenIsReadBack(t *testing.T) {
	a := newArena(t, 1<<20)
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			p := start(t, a, func(o *host.Options) { o.Slow = way.slow })
			q := queue(t, open(t, p, way.config), host.QueueOptions{Entries: 64})
			b := a.Bytes()
			const n = 48
			var reqs []backstore.Request
			for i := range n {
				data := b[i*4096 : i*4096+1024]
				copy(data, bytes.Repeat([]byte{byte(i + 1)}, 1024))
				reqs = append(reqs, backstore.Request{Tag: uint64(i), Op: backstore.OpWrite, Off: int64(i) * 1024, Data: data})
			}
			submit(t, q, reqs)
			if c := one(t, q, backstore.Request{Tag: 99, Op: backstore.OpFlush}); c != backstore.CodeOK {
				t.Errorf("flush: %v", c)
			}
			clear(b[:n*4096])
			for i := range reqs {
				reqs[i].Op = backstore.OpRead
			}
			submit(t, q, reqs)
			for i := range n {
				if want := bytes.Repeat([]byte{byte(i + 1)}, 1024); !bytes.Equal(reqs[i].Data, want) {
					t.Errorf("request %d read %x...", i, reqs[i].Data[:4])
				}
			}
		})
	}
}

// submit sends everything and wants nothing but success.
func submit(t testing.TB, q *host.Queue, reqs []backstore.Request) {
	t.Helper()
	if n := q.Submit(reqs); n != len(reqs) {
		t.Fatalf("Submit took %d of %d", n, len(reqs))
	}
	q.Flush()
	for tag, c := range collect(t, q, len(reqs)) {
		if c != backstore.CodeOK {
			t.Errorf("request %d: %v", tag, c)
		}
	}
}
