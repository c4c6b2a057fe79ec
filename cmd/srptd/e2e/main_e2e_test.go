//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/cmd/srptd/e2e/lab"
)

// interrupted ends when the test process is told to stop, so that no machine outlives it.
var interrupted context.Context

var guest *lab.Guest

// skipped is what somebody who cannot run a virtual machine asks for; nothing else skips a test.
var skipped = os.Getenv("GOSRPT_E2E") == "skip"

func TestMain(m *testing.M) { os.Exit(prepareAndRun(m)) }

func prepareAndRun(m *testing.M) int {
	if skipped {
		return m.Run()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	interrupted = ctx
	var err error
	if guest, err = lab.Ensure(ctx, os.Stdout); err != nil {
		fmt.Printf("e2e: %v\n", err)
		return 1
	}
	defer func() { os.RemoveAll(binDir) }()
	return m.Run()
}

var binDir string

// built compiles the programs once for all tests, unless GOSRPT_E2E_BIN has them.
var built = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("GOSRPT_E2E_BIN"); dir != "" {
		return dir, nil
	}
	dir, err := os.MkdirTemp("", "gosrpt-e2e-bin-")
	if err != nil {
		return "", err
	}
	binDir = dir
	return dir, Build(interrupted, dir)
})

// runTarget runs a job that uses srptd.
func runTarget(t *testing.T, job Job) {
	t.Helper()
	skipIfAsked(t)
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	job.Bin = bin
	run(t, job)
}

// run boots the guest for the job and turns each check into a subtest.
func run(t *testing.T, job Job) {
	t.Helper()
	skipIfAsked(t)
	dir := t.ArtifactDir()
	start := time.Now()
	console := &testLog{t: t}
	report, err := Run(interrupted, guest, job, dir, console)
	console.flush()
	t.Logf("job %s: %.0f s", job.Script, time.Since(start).Seconds())
	os.RemoveAll(filepath.Join(dir, "bin"))
	for _, name := range report.Names(job.Promises) {
		t.Run(name, func(t *testing.T) {
			if reason := report.Reason(name); reason != "" {
				t.Error(reason)
			}
		})
	}
	if err != nil {
		t.Error(err)
	}
	if t.Failed() {
		showEnd(t, filepath.Join(dir, "out"), "srptd.log")
		showEnd(t, filepath.Join(dir, "out"), "dmesg.log")
	}
}

func skipIfAsked(t *testing.T) {
	if skipped {
		t.Skip("GOSRPT_E2E=skip")
	}
}

// showEnd logs the last lines of a job's log file, if the job has left one.
func showEnd(t *testing.T, dir, name string) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Logf("no %s: %v", name, err)
		return
	}
	lines := strings.SplitAfter(string(b), "\n")
	t.Logf("end of %s:\n%s", name, strings.Join(lines[max(0, len(lines)-60):], ""))
}

// testLog passes whole lines of the console to the test's log.
type testLog struct {
	t    *testing.T
	rest []byte
}

func (l *testLog) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.t.Log(string(bytes.TrimRight(line, "\r")))
		l.rest = rest
	}
}

func (l *testLog) flush() {
	if len(l.rest) > 0 {
		l.t.Log(string(l.rest))
	}
}
