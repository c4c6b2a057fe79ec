//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/cmd/srptd/e2e/lab"
)

func TestVerbsPassesTheSuiteOfProviders(t *testing.T) {
	runTarget(t, Job{
		Script: "verbs", Limit: 20 * time.Minute,
		Promises: []string{"suite_on_two_devices", "suite_on_one_device", "suite_over_ipv6", "nothing_is_left"},
	})
}

// verbsPlaces are where srptd is on the provider verbs, seen from the kernel's initiator.
var verbsPlaces = []struct {
	name string
	env  map[string]string
}{
	{"OnAnotherDevice", map[string]string{"PROVIDER": "verbs"}},
	{"OnTheInitiatorsDevice", map[string]string{"PROVIDER": "verbs", "SAME_DEVICE": "yes"}},
}

func TestVerbsFileSystemsSurviveLogoutAndLogin(t *testing.T) {
	for _, p := range verbsPlaces {
		t.Run(p.name, func(t *testing.T) {
			runTarget(t, Job{Script: "filesystems", Limit: 15 * time.Minute, Machine: lab.Machine{DisksMiB: disks}, Env: p.env, Promises: filesystemPromises})
		})
	}
}

func TestVerbsEveryBlockSizeAndDepthReadsBackWhatWasWritten(t *testing.T) {
	for _, p := range verbsPlaces {
		t.Run(p.name, func(t *testing.T) {
			runTarget(t, Job{Script: "verify", Limit: 15 * time.Minute, Machine: lab.Machine{DisksMiB: disks}, Env: p.env, Promises: verifyPromises()})
		})
	}
}
