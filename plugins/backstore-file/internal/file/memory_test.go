package file

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/backstore/backstoretest"
)

// tmpfs mounts one, or skips the test.
func tmpfs(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("t", dir, "tmpfs", 0, "size=64M"); err != nil {
		t.Skipf("mounting a tmpfs needs root: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, 0) })
	return dir
}

func TestFileInMemoryPassesTheKit(t *testing.T) {
	tmpfs(t) // or skip as a whole
	backstoretest.Test(t, subject(func(t testing.TB) map[string]string {
		return map[string]string{"path": filepath.Join(tmpfs(t), "disk"), "size": "4MiB"}
	}))
}

func TestFileInMemoryHasPlainCallsUnlessAskedOtherwise(t *testing.T) {
	path := filepath.Join(tmpfs(t), "disk")
	s := openStore(t, map[string]string{"path": path, "size": "4MiB"})
	if _, ok := s.(memoryStore); !ok {
		t.Errorf("engine: auto: %T", s)
	}
	s.Close()
	for _, engine := range engines(t) {
		s := openStore(t, map[string]string{"path": path, "engine": engine})
		if _, ok := s.(memoryStore); ok {
			t.Errorf("engine: %s: plain calls", engine)
		}
		s.Close()
	}
}

// TestPlainCallsAreAnsweredOnceInBatches: results that Poll had no room for come with the next, before those of a later batch.
func TestPlainCallsAreAnsweredOnceInBatches(t *testing.T) {
	s := openStore(t, map[string]string{"path": filepath.Join(tmpfs(t), "disk"), "size": "1MiB"}).(memoryStore)
	engine, _ := newEngine(t, s, 4)
	data, got := pattern(4096, 1), pattern(4096, 2)
	res := make([]backstore.Result, 3)
	engine.Submit([]backstore.Request{
		{Tag: 1, Op: backstore.OpWrite, Data: data, Off: 4096},
		{Tag: 2, Op: backstore.OpRead, Data: got, Off: 4096},
		{Tag: 3, Op: backstore.OpRead, Data: got, Off: 1 << 20},
	})
	if n := engine.Poll(res[:1]); n != 1 || res[0] != (backstore.Result{Tag: 1}) {
		t.Fatalf("%d results: %+v", n, res[:n])
	}
	engine.Submit([]backstore.Request{{Tag: 4, Op: backstore.OpFlush}, {Tag: 5, Op: backstore.OpUnmap}})
	want := []backstore.Result{{Tag: 2}, {Tag: 3, Code: backstore.CodeRange}, {Tag: 4}, {Tag: 5, Code: backstore.CodeNotSupported}}
	for len(want) > 0 {
		n := engine.Poll(res)
		if n == 0 {
			t.Fatalf("missing: %+v", want)
		}
		for i, r := range res[:n] {
			if r != want[i] {
				t.Errorf("%+v, want %+v", r, want[i])
			}
		}
		want = want[n:]
	}
	if n := engine.Poll(res); n != 0 || string(got) != string(data) {
		t.Errorf("%d results more, or other data", n)
	}
}
