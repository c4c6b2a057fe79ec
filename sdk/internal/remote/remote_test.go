package remote_test

import (
	"context"
	"errors"
	"maps"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/backstore/backstoretest"
	"github.com/gosrpt/gosrpt/sdk/internal/remote"
)

const patience = 2 * time.Minute

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// build makes the file plugin.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backstore-file")
	cmd := exec.Command("go", "build", "-o", path, "github.com/gosrpt/gosrpt/plugins/backstore-file")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func start(t *testing.T, o remote.Options) *remote.Backstore {
	t.Helper()
	o.Log = hclog.NewNullLogger()
	b, err := remote.Start(soon(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return b
}

func config(t testing.TB) map[string]string {
	return map[string]string{"path": filepath.Join(t.TempDir(), "store"), "size": "4MiB"}
}

func TestProcessPassesTheKitAsABackstore(t *testing.T) {
	path := build(t)
	for name, slow := range map[string]bool{"ring": false, "slow path": true} {
		t.Run(name, func(t *testing.T) {
			b := start(t, remote.Options{Path: path, Slow: slow})
			backstoretest.Test(t, backstoretest.Subject{
				Backstore: b, Config: config,
				ReadOnly: func(c map[string]string) map[string]string {
					c = maps.Clone(c)
					c["read_only"] = "true"
					return c
				},
			})
			if err := b.Fault(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCallsEndWhenTheProcessDies(t *testing.T) {
	b := start(t, remote.Options{Path: build(t)})
	s, err := b.Open(soon(t), config(t))
	if err != nil {
		t.Fatal(err)
	}
	long := make([]byte, 2<<20)
	if c := backstore.CodeOf(s.Read(soon(t), long, 0)); c != backstore.CodeInvalid {
		t.Errorf("a transfer that is too long: %v", c)
	}
	b.Process().Kill()
	<-b.Process().Dead()
	for range 2 {
		if c := backstore.CodeOf(s.Read(soon(t), long[:4096], 0)); c != backstore.CodeUnavailable {
			t.Errorf("a read of a dead process: %v", c)
		}
	}
	if err := s.Close(); err == nil {
		t.Error("a dead process has closed its store")
	}
}

func TestCallThatIsNotAnsweredEndsTheProcess(t *testing.T) {
	b := start(t, remote.Options{Path: build(t)})
	s, err := b.Open(soon(t), config(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(b.Process().PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := s.Flush(ctx); backstore.CodeOf(err) != backstore.CodeUnavailable || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a flush by a stopped process: %v", err)
	}
	<-b.Process().Dead()
	if b.Fault() == nil {
		t.Error("the process was killed and nobody says why")
	}
	if err := s.Close(); err == nil {
		t.Error("a dead process has closed its store")
	}
}

func TestWhatIsNoPluginIsNotStarted(t *testing.T) {
	if _, err := remote.Start(soon(t), remote.Options{Path: "/bin/true", Log: hclog.NewNullLogger()}); err == nil {
		t.Error("/bin/true is a plugin")
	}
}
