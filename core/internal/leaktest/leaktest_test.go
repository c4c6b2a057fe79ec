package leaktest

import (
	"os"
	"strings"
	"testing"
	"time"
)

// recorder is a test that notes its failures instead of failing.
type recorder struct {
	testing.TB
	cleanups []func()
	failures []string
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, format)
}

func (r *recorder) end() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

func TestATestThatClosesEverythingPasses(t *testing.T) {
	r := &recorder{TB: t}
	Check(r)
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { <-done }()
	close(done)
	f.Close()
	r.end()
	if len(r.failures) != 0 {
		t.Errorf("failed with %q", r.failures)
	}
}

func TestWhatEndsALittleLateIsNoLeak(t *testing.T) {
	r := &recorder{TB: t}
	Check(r)
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { f.Close() })
	r.end()
	if len(r.failures) != 0 {
		t.Errorf("failed with %q", r.failures)
	}
}

func TestALeftGoroutineFails(t *testing.T) {
	r := &recorder{TB: t}
	Check(r)
	done := make(chan struct{})
	go func() { <-done }()
	r.end()
	close(done)
	if len(r.failures) != 1 {
		t.Errorf("failures: %q, want one", r.failures)
	}
}

func TestALeftDescriptorIsNamed(t *testing.T) {
	before, err := descriptors()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp(t.TempDir(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	left := remaining(before, time.Now())
	if len(left) != 1 || !strings.Contains(left[0], f.Name()) {
		t.Errorf("left = %q, want %s", left, f.Name())
	}
}
