package pluginhost_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/pluginhost"
	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

// sizes watches a store until the test ends.
func sizes(t *testing.T, s *pluginhost.Store) <-chan uint64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	got, ended := make(chan uint64, 64), make(chan error, 1)
	go func() { ended <- s.WatchSize(ctx, func(i backstore.Info) { got <- i.Blocks }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the watch ended: %v", err)
		}
	})
	return got
}

func waitFor(t *testing.T, sizes <-chan uint64, want uint64) {
	t.Helper()
	select {
	case n := <-sizes:
		if n != want {
			t.Fatalf("%d blocks, want %d", n, want)
		}
	case <-time.After(patience):
		t.Fatalf("nobody tells of %d blocks", want)
	}
}

func TestWatchOfASizeGoesOnAfterARestart(t *testing.T) {
	f := start(t, nil)
	path := filepath.Join(t.TempDir(), "store")
	s, err := f.Open(soon(t), map[string]string{"path": path, "powers": "true"})
	if err != nil {
		t.Fatal(err)
	}
	got := sizes(t, s)
	if err := os.WriteFile(path+".blocks", []byte("3000"), 0o600); err != nil {
		t.Fatal(err)
	}
	renew(t, f)
	waitFor(t, got, 3000) // what grew while there was no process
	if err := os.WriteFile(path+".blocks", []byte("3001"), 0o600); err != nil {
		t.Fatal(err)
	}
	renew(t, f)
	waitFor(t, got, 3001) // each change once
	if h, err := s.Health(soon(t)); err != nil || h.Condition != backstore.ConditionDegraded {
		t.Errorf("%+v, %v", h, err)
	}
	if err := s.Sanitize(soon(t), backstore.SanitizeOverwrite, nil); err != nil {
		t.Error(err)
	}
	if s.Info().Blocks != 2048 {
		t.Errorf("Info has %d blocks", s.Info().Blocks)
	}
}

// renew ends the process and waits for its successor.
func renew(t *testing.T, f fixture) {
	t.Helper()
	was := f.Status()
	proc, err := os.FindProcess(was.PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := proc.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if now := f.Status(); now.State == pluginhost.StateRunning && now.Restarts > was.Restarts && now.Waiting == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", f.Status())
		}
	}
}

func TestClosedStoreIsNotWatched(t *testing.T) {
	f := start(t, nil)
	s, err := f.Open(soon(t), map[string]string{"powers": "true"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.WatchSize(soon(t), func(backstore.Info) {}) }()
	if err := s.Close(soon(t)); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, pluginhost.ErrClosed) {
		t.Errorf("%v", err)
	}
	if _, err := s.Health(soon(t)); !errors.Is(err, pluginhost.ErrClosed) {
		t.Errorf("%v", err)
	}
}

func TestConfigurationIsCheckedBeforeThePluginIsAsked(t *testing.T) {
	f := start(t, func(c *pluginhost.Config) { c.Args = []string{"describe"} })
	if d, ok := f.Description(); !ok || d.Name != "test" {
		t.Errorf("%v, %+v", ok, d)
	}
	_, err := f.Open(soon(t), map[string]string{"blocks": "many", "colour": "blue"})
	var e *schema.Error
	if !errors.Is(err, pluginhost.ErrSettings) || !errors.As(err, &e) || len(e.Problems) != 3 ||
		!strings.HasPrefix(err.Error(), "pluginhost: test: ") || !strings.Contains(err.Error(), "path: must be set: the file") {
		t.Errorf("%v", err)
	}
	s, err := f.Open(soon(t), map[string]string{"path": filepath.Join(t.TempDir(), "store"), "blocks": "4096"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Info().Blocks != 4096 {
		t.Errorf("%+v", s.Info())
	}
}
