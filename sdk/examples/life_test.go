package examples_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/host"
	"github.com/gosrpt/gosrpt/sdk/internal/bridge"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
	pluginpb "github.com/gosrpt/gosrpt/sdk/proto/plugin/v1"
)

// raw starts a plugin without a host's care.
func raw(t testing.TB, path string) *bridge.Process {
	t.Helper()
	p, err := bridge.Start(soon(t), bridge.Options{Path: path, Log: logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		p.Stop(ctx)
	})
	return p
}

// openRaw opens a new store.
func openRaw(t testing.TB, p *bridge.Process) uint64 {
	t.Helper()
	r, err := p.RPC().Open(soon(t), &backstorepb.OpenRequest{Config: config(t)})
	if err != nil || r.Error != nil {
		t.Fatal(err, r.GetError())
	}
	return r.Store
}

func TestPluginsSayWhatTheyAreAndTake(t *testing.T) {
	each(t, func(t *testing.T, e *example) {
		p := raw(t, e.path)
		d, err := p.RPC().Describe(soon(t), &backstorepb.DescribeRequest{})
		if err != nil {
			t.Fatal(err)
		}
		about := d.Description
		if about.GetName() == "" || about.GetVersion() == "" || about.GetSummary() == "" || d.Runtime == "" {
			t.Errorf("%v", d)
		}
		// What is declared is what Open says that there is.
		r, err := p.RPC().Open(soon(t), &backstorepb.OpenRequest{Config: map[string]string{"nonsense": ""}})
		if err != nil {
			t.Fatal(err)
		}
		_, said, _ := strings.Cut(r.Error.GetText(), "there are ")
		var declared []string
		for _, s := range about.GetSettings() {
			declared = append(declared, s.Key)
		}
		if !slices.Equal(declared, strings.Split(said, ", ")) {
			t.Errorf("declared are %q; Open says %q", declared, r.Error.GetText())
		}
		if i := slices.IndexFunc(about.Settings, func(s *pluginpb.Setting) bool { return s.Required }); i != 0 {
			t.Errorf("setting %d is required, and not path alone", i)
		}
	})
}

func TestBadConfigurationsAreRefusedWithTheReason(t *testing.T) {
	each(t, func(t *testing.T, e *example) {
		p := raw(t, e.path)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "small"), make([]byte, 511), 0o600); err != nil {
			t.Fatal(err)
		}
		long := strings.Repeat("ü", 4000)
		for _, c := range []struct {
			key, value, path, want string
		}{
			{"size", "64XiB", "new", "64MiB"}, {"size", "-1", "new", "64MiB"}, {"size", "0", "new", "64MiB"},
			{"size", "99999999999999999999", "new", "64MiB"}, {"size", "9223372036854775807TiB", "new", "64MiB"},
			{"block_size", "1024", "new", "512"}, {"read_only", "perhaps", "new", "read_only"},
			{"block_size", "512", "missing", "missing"}, {"block_size", "512", "small", "block"},
			{"block_size", "512", "/dev/null", "regular file"}, {"block_size", "512", "..", "directory"}, {long, "", "new", "üüü"}, {"size", long, "new", "üüü"},
			{"size", "x" + long, "new", "üüü"},
		} {
			path := c.path
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			config := map[string]string{"path": path, c.key: c.value}
			r, err := p.RPC().Open(soon(t), &backstorepb.OpenRequest{Config: config})
			if err != nil || r.Store != 0 || r.Error.GetCode() == 0 || !strings.Contains(r.Error.GetText(), c.want) {
				t.Errorf("%.20s=%.20s: %v, %.200v", c.key, c.value, err, r)
			}
		}
		if found, _ := filepath.Glob(filepath.Join(dir, "*")); len(found) != 1 {
			t.Errorf("refused configurations left %q", found)
		}
	})
}

func TestUnservedMethodsAreRefusedAtOnce(t *testing.T) {
	each(t, func(t *testing.T, e *example) {
		p := raw(t, e.path)
		desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
		// A stream whose request has no end.
		s, err := p.Conn().NewStream(soon(t), desc, "/plugin.GRPCBroker/StartStream")
		if err == nil {
			err = s.RecvMsg(&emptypb.Empty{})
		}
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("a stream: %v", err)
		}
		err = p.Conn().Invoke(soon(t), "/gosrpt.backstore.v1.Backstore/Sanitize", &emptypb.Empty{}, &emptypb.Empty{})
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("a call: %v", err)
		}
	})
}

func TestCallsForWhatIsNotThereAreRefused(t *testing.T) {
	each(t, func(t *testing.T, e *example) {
		rpc := raw(t, e.path).RPC()
		for _, id := range []uint64{0, 1, 1 << 63} {
			c, err := rpc.CloseStore(soon(t), &backstorepb.CloseStoreRequest{Store: id})
			if err != nil || c.Error.GetCode() != uint32(backstore.CodeInvalid) {
				t.Errorf("CloseStore of %d: %v, %v", id, err, c)
			}
			if e == pythonPlugin {
				r, err := rpc.Read(soon(t), &backstorepb.ReadRequest{Store: id, Length: 512})
				if err != nil || r.Error.GetCode() != uint32(backstore.CodeInvalid) {
					t.Errorf("Read of %d: %v, %v", id, err, r)
				}
				continue
			}
			d, err := rpc.DetachQueue(soon(t), &backstorepb.DetachQueueRequest{Queue: id})
			if err != nil || d.Error.GetCode() != uint32(backstore.CodeInvalid) {
				t.Errorf("DetachQueue of %d: %v, %v", id, err, d)
			}
		}
	})
}

func TestOpenThatIsGivenUpLeavesNothingBehind(t *testing.T) {
	each(t, func(t *testing.T, e *example) {
		p := start(t, e.path, newArena(t, 1<<20))
		c := config(t)
		f, err := os.Create(c["path"])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		if _, err := p.Open(ctx, c); err == nil {
			t.Fatal("a store was opened that somebody else has")
		}
		if err := p.Health(soon(t)); err != nil {
			t.Errorf("while an Open waits: %v", err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		if err := open(t, p, c).Close(soon(t)); err != nil {
			t.Error(err)
		}
	})
}

func TestEndOfTheHostEndsThePlugin(t *testing.T) {
	each(t, func(t *testing.T, e *example) {
		p := raw(t, e.path)
		openRaw(t, p)
		if err := p.Channel().Close(); err != nil {
			t.Fatal(err)
		}
		await(t, p.Dead(), 10*time.Second, "the end")
		if p.Ending() != "exit status 0" {
			t.Errorf("ending %q", p.Ending())
		}
	})
}

func TestSignalsForTheHostsGroupAreIgnored(t *testing.T) {
	each(t, func(t *testing.T, e *example) {
		p := start(t, e.path, newArena(t, 1<<20))
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGPIPE} {
			if err := syscall.Kill(p.PID(), s); err != nil {
				t.Fatal(err)
			}
		}
		if err := open(t, p, config(t)).Close(soon(t)); err != nil {
			t.Error(err)
		}
		p.Close(soon(t))
		if p.Ending() != "exit status 0" {
			t.Errorf("ending %q", p.Ending())
		}
	})
}

func TestStrayLinesOnStdoutAreTolerated(t *testing.T) {
	each(t, func(t *testing.T, e *example) {
		script := `echo stray; (echo 1 more) & exec "$0"`
		p := start(t, "/bin/sh", newArena(t, 1<<20), "-c", script, e.path)
		q := attach(t, open(t, p, config(t)), host.QueueOptions{})
		if c := one(t, q, backstore.Request{Op: backstore.OpFlush}); c != backstore.CodeOK {
			t.Errorf("flush: %v", c)
		}
	})
}

func TestProcessThatNoHostStartedSaysSo(t *testing.T) {
	each(t, func(t *testing.T, e *example) {
		for _, c := range []struct {
			env  []string
			want string
		}{
			{nil, "gosrpt"},
			{[]string{"GOSRPT_PLUGIN=1c9f7a52"}, "version 1"},
			{[]string{"GOSRPT_PLUGIN=1c9f7a52", "PLUGIN_PROTOCOL_VERSIONS=2,3"}, "version 1"},
		} {
			cmd := exec.CommandContext(soon(t), e.path)
			cmd.Env = append([]string{"HOME=/"}, c.env...)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), c.want) {
				t.Errorf("%q: %v, %q", c.env, err, out)
			}
		}
	})
}
