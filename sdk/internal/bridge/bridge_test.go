package bridge

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/sdk/internal/isolation"
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
		err := new(stdout).filter(bufio.NewReaderSize(strings.NewReader(c.in), maxHandshake), &out, &noise)
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
		if err := new(stdout).filter(bufio.NewReaderSize(bytes.NewReader(in), maxHandshake), &out, &noise); err != nil {
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

// safeBuffer is written by a timer's goroutine too.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *safeBuffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Reset()
}

func logTo(out io.Writer) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: out})
}

func TestNoiseIsBoundedInLengthAndRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log safeBuffer
		n := newNoise(logTo(&log), newBudget(logTo(&log)), &evidence{})
		fmt.Fprint(n, "two ")
		fmt.Fprintf(n, "parts\n%s\n\xff\xfe\n", strings.Repeat("y", 100_000))
		for range 5 * lineBurst {
			fmt.Fprint(n, "again\n")
		}
		got := log.String()
		if !strings.Contains(got, "two parts") || strings.Count(got, noiseLogging) != lineBurst {
			t.Errorf("%d lines were logged, want %d", strings.Count(got, noiseLogging), lineBurst)
		}
		if strings.Contains(got, strings.Repeat("y", noiseLine+1)) {
			t.Error("a line was not cut")
		}
		log.Reset()
		time.Sleep(tellAfter)
		synctest.Wait()
		if got := log.String(); !strings.Contains(got, fmt.Sprintf("lines=%d", 4*lineBurst+3)) || strings.Count(got, "\n") != 1 {
			t.Errorf("the number of dropped lines: %q", got)
		}
		log.Reset()
		for range 2 * lineRate {
			fmt.Fprint(n, "later\n")
		}
		if got := strings.Count(log.String(), "later"); got != lineRate {
			t.Errorf("%d lines a second later, want %d", got, lineRate)
		}
		time.Sleep(2 * tellAfter)
	})
}

func TestLogEntriesPassWholeAndLongOnesAreCut(t *testing.T) {
	var out bytes.Buffer
	e := &evidence{}
	l := newErrors(&out, hclog.NewNullLogger(), newBudget(hclog.NewNullLogger()), e)
	entry := `{"@level":"info","@message":"` + strings.Repeat("m", 4000) + `"}`
	fmt.Fprintln(l, entry)
	fmt.Fprintln(l, strings.Repeat("x", 10*stderrLine))
	fmt.Fprint(l, "the last, without an end")
	l.flush()
	want := entry + "\n" + strings.Repeat("x", stderrLine) + "...\nthe last, without an end\n"
	if out.String() != want {
		t.Errorf("%d bytes, want %d", out.Len(), len(want))
	}
	if s := e.String(); !strings.Contains(s, "the last, without an end") || len(s) > 4*shownLines*shownBytes {
		t.Errorf("evidence %q", s)
	}
}

func TestEntriesBelowTheLevelUseUpNoBudget(t *testing.T) {
	var out safeBuffer
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: &out})
	b := newBudget(log)
	l, n := newErrors(&out, log, b, &evidence{}), newNoise(log, b, &evidence{})
	for range 2 * lineBurst {
		fmt.Fprintln(l, `{"@level":"debug","@message":"chatter"}`)
		fmt.Fprintln(n, "chatter")
	}
	fmt.Fprintln(l, `{"@level":"error","@message":"important"}`)
	if got := out.String(); strings.Contains(got, "chatter") || !strings.Contains(got, "important") {
		t.Errorf("%q", got)
	}
}

func runnerOf(t *testing.T, script string) *runner {
	t.Helper()
	return runnerFor(t, exec.Command("/bin/sh", "-c", script))
}

func runnerFor(t *testing.T, cmd *exec.Cmd) *runner {
	t.Helper()
	r, b, e := newRunner(), newBudget(hclog.NewNullLogger()), &evidence{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.prepare(cmd, newNoise(hclog.NewNullLogger(), b, e), b, e, runOptions{name: cmd.Path}); err != nil {
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
	r := runnerFor(t, exec.Command("/no/such/file"))
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

func TestIsolationNeedsAProgramThatCanBeTheLauncher(t *testing.T) {
	_, err := Start(t.Context(), Options{
		Path: "/bin/true", Log: hclog.NewNullLogger(), Isolation: isolation.Spec{Deny: []string{"mount"}},
	})
	if err == nil || !strings.Contains(err.Error(), "must call RunLauncher") || !strings.Contains(err.Error(), "/bin/true") {
		t.Errorf("%v", err)
	}
}
