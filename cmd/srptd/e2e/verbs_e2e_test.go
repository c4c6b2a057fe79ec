//go:build e2e

package e2e

import (
	"testing"
	"time"
)

func TestVerbsPassesTheSuiteOfProviders(t *testing.T) {
	runTarget(t, Job{
		Script: "verbs", Limit: 20 * time.Minute,
		Promises: []string{"suite_on_two_devices", "suite_on_one_device", "suite_over_ipv6", "nothing_is_left"},
	})
}
