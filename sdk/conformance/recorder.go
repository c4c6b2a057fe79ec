package conformance

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder is a testing.TB that writes down what a check says. The embedded nil stands for what a check may not use.
type recorder struct {
	testing.TB
	name  string
	ctx   context.Context
	ended chan struct{}

	mu       sync.Mutex
	failed   bool
	skipped  bool
	reasons  []string
	log      []string
	cleanups []func()
}

func newRecorder(ctx context.Context, name string) *recorder {
	return &recorder{ctx: ctx, name: name, ended: make(chan struct{})}
}

// run runs the check, then its cleanups, the last first. FailNow and SkipNow end only what calls them.
func (r *recorder) run(f func(testing.TB)) {
	defer close(r.ended)
	r.guard(func() { f(r) })
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		if n == 0 {
			r.mu.Unlock()
			return
		}
		last := r.cleanups[n-1]
		r.cleanups = r.cleanups[:n-1]
		r.mu.Unlock()
		r.guard(last)
	}
}

// guard calls f in a goroutine that f may exit, and makes a failure of a panic.
func (r *recorder) guard(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		f()
	}()
	<-done
}

func (r *recorder) result(took time.Duration) Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := Result{Name: r.name, Status: Passed, Seconds: took.Seconds()}
	out.Reason = append(out.Reason, r.reasons...)
	out.Log = append(out.Log, r.log...)
	switch {
	case r.failed:
		out.Status = Failed
	case r.skipped:
		out.Status = Skipped
	}
	return out
}

func (r *recorder) fail(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	r.reasons = append(r.reasons, strings.TrimSuffix(s, "\n"))
}

// The methods of testing.TB.

func (r *recorder) Helper()                   {}
func (r *recorder) Name() string              { return r.name }
func (r *recorder) Context() context.Context  { return r.ctx }
func (r *recorder) Errorf(f string, a ...any) { r.fail(fmt.Sprintf(f, a...)) }
func (r *recorder) Error(a ...any)            { r.fail(fmt.Sprintln(a...)) }
func (r *recorder) Fatal(a ...any)            { r.Error(a...); runtime.Goexit() }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); runtime.Goexit() }
func (r *recorder) FailNow()                  { r.Fail(); runtime.Goexit() }
func (r *recorder) Logf(f string, a ...any)   { r.note(fmt.Sprintf(f, a...)) }
func (r *recorder) Log(a ...any)              { r.note(fmt.Sprintln(a...)) }
func (r *recorder) Skip(a ...any)             { r.skip(fmt.Sprintln(a...)) }
func (r *recorder) Skipf(f string, a ...any)  { r.skip(fmt.Sprintf(f, a...)) }
func (r *recorder) SkipNow()                  { r.skip("") }

func (r *recorder) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Skipped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.skipped
}

func (r *recorder) note(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, strings.TrimSuffix(s, "\n"))
}

func (r *recorder) skip(s string) {
	r.mu.Lock()
	r.skipped = true
	if s = strings.TrimSuffix(s, "\n"); s != "" {
		r.reasons = append(r.reasons, s)
	}
	r.mu.Unlock()
	runtime.Goexit()
}

// Cleanup registers f.
func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// TempDir makes a directory that is removed after the check.
func (r *recorder) TempDir() string {
	dir, err := os.MkdirTemp("", "gosrpt-check-")
	if err != nil {
		r.Fatalf("a temporary directory: %v", err)
	}
	r.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			r.Errorf("removing the temporary directory: %v", err)
		}
	})
	return dir
}
