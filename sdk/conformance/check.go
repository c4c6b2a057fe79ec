package conformance

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Check is one promise.
type Check struct {
	// Name says it. What follows a slash is the way in which it is asked for.
	Name string
	// Run holds the subject to it. Of t it may use everything but Setenv, Chdir and what go test alone has.
	Run func(t testing.TB)
}

// Test runs every check as a subtest.
func Test(t *testing.T, checks []Check) {
	for _, c := range checks {
		t.Run(c.Name, func(t *testing.T) { c.Run(t) })
	}
}

// Status is how a check ended.
type Status string

// The ends.
const (
	Passed  Status = "passed"
	Skipped Status = "skipped"
	Failed  Status = "failed"
)

// Result is the end of a check.
type Result struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Reason is why it was skipped, or what failed, a line each.
	Reason []string `json:"reason,omitempty"`
	// Log is what it said besides.
	Log []string `json:"log,omitempty"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
}

// Runner runs checks without go test.
type Runner struct {
	// Limit is how long a check may take. Then its context ends, and it has failed.
	Limit time.Duration
	// Grace is how much longer it is waited for. Then it is left behind.
	Grace time.Duration
	// Abort, if set, is called at the limit, to end what the check may wait for.
	Abort func()
}

// Run runs a check and its cleanups. A panic is a failure. ctx ends it early.
func (r Runner) Run(ctx context.Context, c Check) Result {
	ctx, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	rec := newRecorder(ctx, c.Name)
	begin := time.Now()
	go rec.run(c.Run)
	select {
	case <-rec.ended:
	case <-ctx.Done():
		r.abort(rec)
	}
	return rec.result(time.Since(begin))
}

// abort ends a check that is over its limit.
func (r Runner) abort(rec *recorder) {
	rec.Errorf("it was not over within %v", r.Limit)
	if r.Abort != nil {
		r.Abort()
	}
	select {
	case <-rec.ended:
	case <-time.After(r.Grace):
		rec.Errorf("it still hangs after another %v", r.Grace)
	}
}

// Count is how many results there are of each end.
type Count struct {
	Run     int `json:"run"`
	Passed  int `json:"passed"`
	Skipped int `json:"skipped"`
	Failed  int `json:"failed"`
}

// CountOf counts.
func CountOf(results []Result) Count {
	c := Count{Run: len(results)}
	for _, r := range results {
		switch r.Status {
		case Passed:
			c.Passed++
		case Skipped:
			c.Skipped++
		default:
			c.Failed++
		}
	}
	return c
}

// String is the last line of a report.
func (c Count) String() string {
	return fmt.Sprintf("%d run, %d passed, %d skipped, %d failed", c.Run, c.Passed, c.Skipped, c.Failed)
}
