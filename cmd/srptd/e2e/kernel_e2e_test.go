//go:build e2e

package e2e

import (
	"testing"
	"time"
)

// The lab itself: if this fails, no other result of this package means anything.
func TestLabKernelTargetLogsIn(t *testing.T) {
	run(t, Job{
		Script: "kernel_target",
		Limit:  5 * time.Minute,
		Promises: []string{
			"logs_in", "opens_two_channels", "holds_a_file_system", "returns_what_was_written", "logs_out",
		},
	})
}

func TestLabStopsAJobThatHangs(t *testing.T) {
	skipIfAsked(t)
	const limit = 45 * time.Second
	start := time.Now()
	console := &testLog{t: t}
	report, err := Run(interrupted, guest, Job{Script: "hang", Limit: limit}, t.ArtifactDir(), console)
	console.flush()
	if err == nil {
		t.Error("no error")
	}
	if took := time.Since(start); took > limit+10*time.Second {
		t.Errorf("it took %v to stop", took)
	}
	if reason := report.Reason("begins"); reason != "" {
		t.Errorf("the check before the hang: %s", reason)
	}
	if reason := report.Reason("ends"); reason != "did not report" {
		t.Errorf("the check after the hang: %q", reason)
	}
}
