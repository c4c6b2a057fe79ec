package bridge

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

func TestOnlyTheHandshakeReachesGoPlugin(t *testing.T) {
	const line = "1|1|unix|/tmp/socket|grpc|\n"
	long := strings.Repeat("x", 3*maxHandshake)
	for name, c := range map[string]struct{ in, out, noise string }{
		"alone":         {line, line, ""},
		"noise before":  {"hello\n" + line, line, "hello\n"},
		"noise after":   {line + "bye\n", line, "bye\n"},
		"long before":   {long + "\n" + line, line, long + "\n"},
		"long after":    {line + long, line, long},
		"second":        {line + line, line, line},
		"none":          {"hello\n", "", "hello\n"},
		"nothing":       {"", "", ""},
		"half":          {"1|1|unix|/tmp", "", "1|1|unix|/tmp"},
		"other network": {"1|1|carrier-pigeon|x|grpc\n", "", "1|1|carrier-pigeon|x|grpc\n"},
		"tcp":           {"1|2|tcp|127.0.0.1:1234|grpc|\n", "1|2|tcp|127.0.0.1:1234|grpc|\n", ""},
	} {
		var out, noise bytes.Buffer
		err := filter(bufio.NewReaderSize(strings.NewReader(c.in), maxHandshake), &out, &noise)
		if err != nil || out.String() != c.out || noise.String() != c.noise {
			t.Errorf("%s: %q and %d bytes of noise, %v", name, out.String(), noise.Len(), err)
		}
	}
}

func FuzzFilter(f *testing.F) {
	f.Add([]byte("hello\n1|1|unix|/x|grpc|\nmore"))
	f.Add([]byte("\x00|\n|\n1|1|"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out, noise bytes.Buffer
		if err := filter(bufio.NewReaderSize(bytes.NewReader(in), maxHandshake), &out, &noise); err != nil {
			t.Fatal(err)
		}
		if out.Len()+noise.Len() != len(in) {
			t.Fatalf("%d and %d bytes of %d", out.Len(), noise.Len(), len(in))
		}
		if out.Len() > 0 && (!handshakeLine.Match(out.Bytes()) || bytes.Count(out.Bytes(), []byte("\n")) != 1) {
			t.Fatalf("go-plugin got %q", out.Bytes())
		}
	})
}

func TestNoiseIsBoundedInLengthAndRate(t *testing.T) {
	var log bytes.Buffer
	n := newNoise(hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: &log}))
	now := time.Unix(1000, 0)
	n.now = func() time.Time { return now }
	fmt.Fprint(n, "two ")
	fmt.Fprintf(n, "parts\n%s\n\xff\xfe\n", strings.Repeat("y", 100_000))
	for range 100 {
		fmt.Fprint(n, "again\n")
	}
	got := log.String()
	if !strings.Contains(got, "two parts") || strings.Count(got, noiseLogging) != noiseRate {
		t.Errorf("%d lines were logged, want %d:\n%s", strings.Count(got, noiseLogging), noiseRate, got)
	}
	if len(got) > noiseRate*2*noiseLine {
		t.Errorf("%d bytes were logged", len(got))
	}
	log.Reset()
	now = now.Add(time.Second)
	fmt.Fprint(n, "later\n")
	if got := log.String(); !strings.Contains(got, "lines=83") || !strings.Contains(got, "later") {
		t.Errorf("the next second: %q", got)
	}
}

func runnerOf(t *testing.T, script string) *runner {
	t.Helper()
	r := newRunner()
	if err := r.prepare(exec.Command("/bin/sh", "-c", script), io.Discard); err != nil {
		t.Fatal(err)
	}
	return r
}

func await(t *testing.T, r *runner) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = r.Wait(ctx)
	if ctx.Err() != nil {
		t.Fatal("the process does not end")
	}
}

func TestRunnerTellsHowTheProcessEnded(t *testing.T) {
	for script, want := range map[string]string{"exit 0": "exit status 0", "exit 3": "exit status 3", "kill -9 $$": "signal: killed"} {
		r := runnerOf(t, script)
		if r.ID() != "" {
			t.Error("an identity before the start")
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		await(t, r)
		if got := r.state.String(); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
		if err := r.Kill(t.Context()); err != nil {
			t.Errorf("killing what is gone: %v", err)
		}
	}
}

func TestRunnerKilledBeforeItsStartIsNotStarted(t *testing.T) {
	r := runnerOf(t, "sleep 60")
	if err := r.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context()); err == nil {
		_ = r.Kill(t.Context())
		t.Fatal("it was started")
	}
}

func TestRunnerReportsWhatCannotBeStarted(t *testing.T) {
	r := newRunner()
	if err := r.prepare(exec.Command("/no/such/file"), io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
}

// A grandchild that keeps the pipes open must not keep go-plugin's readers for ever.
func TestPipesEndSoonAfterTheProcess(t *testing.T) {
	r := runnerOf(t, "sleep 20 & exit 0")
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	await(t, r)
	_, _ = io.ReadAll(r.Stdout())
	_, _ = io.ReadAll(r.Stderr())
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("the readers were held for %v", d)
	}
}
