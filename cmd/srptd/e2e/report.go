package e2e

import (
	"slices"
	"strings"
)

// Report is what a job reported, by the names of its checks.
type Report struct {
	Passed []string
	Failed map[string]string // reasons
}

// parseReport reads "ok NAME" and "FAIL NAME REASON" lines. A check that passed and failed has failed. A last line without
// its end was cut short and does not count.
func parseReport(text string) Report {
	r := Report{Failed: map[string]string{}}
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, reason, _ := strings.Cut(rest, " ")
		switch {
		case name == "":
		case word == "ok" && !slices.Contains(r.Passed, name):
			r.Passed = append(r.Passed, name)
		case word == "FAIL":
			r.Failed[name] = reason
		}
	}
	r.Passed = slices.DeleteFunc(r.Passed, func(name string) bool {
		_, failed := r.Failed[name]
		return failed
	})
	return r
}

// Reason is "" for a check that passed, and else tells why it did not.
func (r Report) Reason(name string) string {
	if reason, failed := r.Failed[name]; failed {
		return "failed: " + reason
	}
	if !slices.Contains(r.Passed, name) {
		return "did not report"
	}
	return ""
}

// Names lists promises and every other check that reported, each once.
func (r Report) Names(promises []string) []string {
	names := slices.Clone(promises)
	for _, name := range r.Passed {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var failed []string
	for name := range r.Failed {
		if !slices.Contains(names, name) {
			failed = append(failed, name)
		}
	}
	slices.Sort(failed)
	return append(names, failed...)
}
