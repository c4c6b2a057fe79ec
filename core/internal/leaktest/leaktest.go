// Package leaktest fails a test that leaves goroutines or open descriptors behind.
package leaktest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long an ending test is given to let go of what it opened.
const patience = 3 * time.Second

// Check notes the goroutines and descriptors there are, and fails t if more are there when t and
// the cleanups registered after Check have ended. It opens a test: call it first, outside a
// synctest bubble, and not in tests that run in parallel with others.
func Check(t testing.TB) {
	t.Helper()
	openNetpoller()
	known := goleak.IgnoreCurrent()
	before, err := descriptors()
	if err != nil {
		t.Fatalf("leaktest: %v", err)
	}
	t.Cleanup(func() {
		if err := findUntil(time.Now().Add(patience), known); err != nil {
			t.Errorf("leaktest: %v", err)
		}
		if left := remaining(before, time.Now().Add(patience)); len(left) > 0 {
			t.Errorf("leaktest: descriptors left open: %s", strings.Join(left, ", "))
		}
	})
}

// findUntil looks for goroutines beyond those known. One look of goleak lasts about a second if
// there are some.
func findUntil(deadline time.Time, known goleak.Option) error {
	for {
		err := goleak.Find(known)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// openNetpoller makes the runtime open the descriptors of its own, which it then keeps.
func openNetpoller() {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	r.Close()
	w.Close()
}

// descriptors counts the open descriptors by what they refer to.
func descriptors() (map[string]int, error) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	count := make(map[string]int)
	for _, name := range names {
		if name == fmt.Sprint(dir.Fd()) {
			continue
		}
		if target, err := os.Readlink("/proc/self/fd/" + name); err == nil {
			count[target]++
		}
	}
	return count, nil
}

// remaining names what is open beyond before, once nothing is or the deadline has passed.
func remaining(before map[string]int, deadline time.Time) []string {
	for pause := time.Millisecond; ; pause *= 2 {
		left := excess(before)
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(pause)
	}
}

func excess(before map[string]int) []string {
	now, err := descriptors()
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	for _, target := range slices.Sorted(maps.Keys(now)) {
		if n := now[target] - before[target]; n > 0 {
			left = append(left, fmt.Sprintf("%s (%d)", target, n))
		}
	}
	return left
}
