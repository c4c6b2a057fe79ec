package lab

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fill is a build that makes one file.
func fill(_ context.Context, dir string, _ io.Writer) error {
	return os.WriteFile(filepath.Join(dir, rootFile), []byte("image"), 0o644)
}

func TestAGuestIsBuiltOnceHoweverManyAskForIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vm-1")
	var builds atomic.Int32
	build := func(ctx context.Context, half string, log io.Writer) error {
		builds.Add(1)
		return fill(ctx, half, log)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			g, err := ensureIn(t.Context(), dir, io.Discard, build)
			if err != nil {
				t.Error(err)
				return
			}
			if b, err := os.ReadFile(g.file(rootFile)); string(b) != "image" {
				t.Errorf("root image %q, %v", b, err)
			}
		})
	}
	wg.Wait()
	if builds.Load() != 1 {
		t.Errorf("%d builds, want 1", builds.Load())
	}
}

func TestAFailedBuildIsNotTakenForAGuest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vm-1")
	broken := errors.New("no mirror")
	_, err := ensureIn(t.Context(), dir, io.Discard, func(ctx context.Context, half string, log io.Writer) error {
		return errors.Join(fill(ctx, half, log), broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the guest is there: %v", err)
	}
	if _, err := ensureIn(t.Context(), dir, io.Discard, fill); err != nil {
		t.Errorf("the next build: %v", err)
	}
}

func TestWhatAnInterruptedBuildLeftIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vm-1")
	stale := filepath.Join(dir+".half", "stale")
	if err := os.MkdirAll(stale, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := ensureIn(t.Context(), dir, io.Discard, fill); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "stale")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the guest has the interrupted build's files: %v", err)
	}
}

func TestWaitingForAnotherBuildEndsWithTheContext(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vm-1")
	unlock, err := lock(t.Context(), dir+".lock", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	gaveUp := errors.New("gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gaveUp)
	var log bytes.Buffer
	if _, err := ensureIn(ctx, dir, &log, fill); !errors.Is(err, gaveUp) {
		t.Errorf("error %v, want %v", err, gaveUp)
	}
	if !bytes.Contains(log.Bytes(), []byte("waiting")) {
		t.Errorf("the log does not tell that it waits: %q", log.String())
	}
}

func TestOnlyGuestsUnusedForLongAreRemoved(t *testing.T) {
	root := t.TempDir()
	now := time.Now()
	ages := map[string]time.Duration{"vm-old": 48 * time.Hour, "vm-old.half": 48 * time.Hour, "vm-new": time.Hour, "other": 48 * time.Hour}
	for name, age := range ages {
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	removeUnused(root, now.Add(-24*time.Hour))
	for name, kept := range map[string]bool{"vm-old": false, "vm-old.half": false, "vm-new": true, "other": true} {
		if _, err := os.Stat(filepath.Join(root, name)); (err == nil) != kept {
			t.Errorf("%s: kept %v, want %v", name, err == nil, kept)
		}
	}
}

func TestUseKeepsAGuestFromBeingRemoved(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(dir, old, old); err != nil {
		t.Fatal(err)
	}
	if !used(dir) {
		t.Fatal("the directory is not there")
	}
	if info, err := os.Stat(dir); err != nil || time.Since(info.ModTime()) > time.Hour {
		t.Errorf("not marked as used: %v, %v", info.ModTime(), err)
	}
	if used(filepath.Join(dir, "missing")) {
		t.Error("a directory that is not there counts as used")
	}
}

func TestRecipeHasOneIdentity(t *testing.T) {
	a, err := recipeID()
	if err != nil || len(a) != 16 {
		t.Fatalf("recipeID = %q, %v", a, err)
	}
	if b, _ := recipeID(); a != b {
		t.Errorf("two identities: %s, %s", a, b)
	}
}

func TestCacheRootFollowsTheEnvironment(t *testing.T) {
	t.Setenv("GOSRPT_CACHE", "/somewhere")
	if got, err := cacheRoot(); got != "/somewhere" || err != nil {
		t.Errorf("cacheRoot = %s, %v", got, err)
	}
	t.Setenv("GOSRPT_CACHE", "")
	t.Setenv("XDG_CACHE_HOME", "/cache")
	if got, err := cacheRoot(); got != "/cache/gosrpt" || err != nil {
		t.Errorf("cacheRoot = %s, %v", got, err)
	}
}
