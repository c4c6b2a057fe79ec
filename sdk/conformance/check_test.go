package conformance_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosrpt/gosrpt/sdk/conformance"
)

func TestEveryEndOfACheckIsTold(t *testing.T) {
	var nothing []int
	for name, c := range map[string]struct {
		run  func(testing.TB)
		want conformance.Status
		text string
	}{
		"passes":            {func(t testing.TB) { t.Log("well") }, conformance.Passed, ""},
		"skips":             {func(t testing.TB) { t.Skipf("no %s", "power"); t.Error("went on") }, conformance.Skipped, "no power"},
		"fails and goes on": {func(t testing.TB) { t.Error("one"); t.Errorf("two") }, conformance.Failed, "one|two"},
		"stops":             {func(t testing.TB) { t.Fatal("one"); t.Error("went on") }, conformance.Failed, "one"},
		"panics":            {func(testing.TB) { _ = nothing[7] }, conformance.Failed, "panic: runtime error"},
		"panics at the end": {func(t testing.TB) { t.Cleanup(func() { panic("late") }) }, conformance.Failed, "panic: late"},
		"fails at the end":  {func(t testing.TB) { t.Cleanup(func() { t.Error("late") }); t.Skip("never mind") }, conformance.Failed, "never mind|late"},
	} {
		r := conformance.Runner{Limit: time.Minute}.Run(t.Context(), conformance.Check{Name: name, Run: c.run})
		got := strings.Join(r.Reason, "|")
		if r.Status != c.want || !strings.HasPrefix(got, c.text) || strings.Contains(got, "went on") || r.Name != name {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestCleanupsRunTheLastFirstAndTheDirectoryGoes(t *testing.T) {
	var order []int
	var dir string
	conformance.Runner{Limit: time.Minute}.Run(t.Context(), conformance.Check{Run: func(t testing.TB) {
		dir = t.TempDir()
		t.Cleanup(func() { order = append(order, 1) })
		t.Cleanup(func() { order = append(order, 2); t.Cleanup(func() { order = append(order, 3) }) })
		t.FailNow()
	}})
	if len(order) != 3 || order[0] != 2 || order[1] != 3 || order[2] != 1 {
		t.Errorf("order %v", order)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s: %v", dir, err)
	}
}

func TestACheckThatHangsIsEndedAndThenLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		hang := conformance.Check{Run: func(testing.TB) { <-stuck }}
		r := conformance.Runner{Limit: time.Second, Grace: time.Second}.Run(t.Context(), hang)
		if text := strings.Join(r.Reason, "|"); r.Status != conformance.Failed || !strings.Contains(text, "still hangs") || r.Seconds != 2 {
			t.Errorf("left behind: %+v", r)
		}
		abort := func() { close(stuck) }
		r = conformance.Runner{Limit: time.Second, Grace: time.Second, Abort: abort}.Run(t.Context(), hang)
		if text := strings.Join(r.Reason, "|"); r.Status != conformance.Failed || strings.Contains(text, "still hangs") {
			t.Errorf("aborted: %+v", r)
		}
	})
}

func TestTheLastLineCounts(t *testing.T) {
	got := conformance.CountOf([]conformance.Result{{Status: conformance.Passed}, {Status: conformance.Skipped}, {Status: conformance.Failed}})
	if got.String() != "3 run, 1 passed, 1 skipped, 1 failed" {
		t.Error(got)
	}
}
