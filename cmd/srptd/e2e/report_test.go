package e2e

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAReportHoldsEveryWholeLine(t *testing.T) {
	tests := []struct {
		name, text string
		passed     []string
		failed     map[string]string
	}{
		{"nothing", "", nil, map[string]string{}},
		{"passed", "ok a\nok b\n", []string{"a", "b"}, map[string]string{}},
		{"twice the same", "ok a\nok a\n", []string{"a"}, map[string]string{}},
		{"failed with a reason", "FAIL a status 1: no such disk\n", nil, map[string]string{"a": "status 1: no such disk"}},
		{"failed without a reason", "FAIL a\n", nil, map[string]string{"a": ""}},
		{"passed, then failed", "ok a\nFAIL a late\n", []string{}, map[string]string{"a": "late"}},
		{"failed, then passed", "FAIL a early\nok a\n", []string{}, map[string]string{"a": "early"}},
		{"cut short", "ok a\nok b", []string{"a"}, map[string]string{}},
		{"other words", "note a\nok\n\nFAIL\n", nil, map[string]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := parseReport(tt.text)
			if diff := cmp.Diff(Report{tt.passed, tt.failed}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAPromiseThatDidNotReportHasAReason(t *testing.T) {
	r := parseReport("ok a\nFAIL b broken\nFAIL c\n")
	for name, want := range map[string]string{"a": "", "b": "failed: broken", "c": "failed: ", "d": "did not report"} {
		if got := r.Reason(name); got != want {
			t.Errorf("Reason(%s) = %q, want %q", name, got, want)
		}
	}
}

func TestNamesHasPromisesFirstAndLeavesNothingOut(t *testing.T) {
	r := parseReport("ok setup\nok b\nFAIL z\nFAIL y\nFAIL a\n")
	want := []string{"a", "b", "missing", "setup", "y", "z"}
	if got := r.Names([]string{"a", "b", "missing"}); !slices.Equal(got, want) {
		t.Errorf("Names = %v, want %v", got, want)
	}
}

func TestScriptsAreValidShell(t *testing.T) {
	for _, pattern := range []string{"guest", "jobs"} {
		entries, err := scripts.ReadDir(pattern)
		if err != nil || len(entries) == 0 {
			t.Fatalf("%s: %d scripts, %v", pattern, len(entries), err)
		}
		for _, e := range entries {
			b, err := scripts.ReadFile(pattern + "/" + e.Name())
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("bash", "-n")
			cmd.Stdin = strings.NewReader(string(b))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", e.Name(), err, out)
			}
		}
	}
}
