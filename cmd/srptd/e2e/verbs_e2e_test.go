//go:build e2e

package e2e

import (
	"maps"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/cmd/srptd/e2e/lab"
)

// GOSRPT_E2E_SUITE is a pattern of the suite's tests, as for go test -run; all without.
func TestVerbsPassesTheSuiteOfProviders(t *testing.T) {
	runTarget(t, Job{
		Script: "verbs", Limit: 20 * time.Minute, Env: map[string]string{"SUITE": os.Getenv("GOSRPT_E2E_SUITE")},
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

// everyPlace asks for each job in each place, which takes long; without, a job has one of its own, or none.
var everyPlace = os.Getenv("GOSRPT_E2E_PLACES") == "all"

// The suite runs on two devices; everyPlace adds one device, and IPv6.
func TestVerbsOverIWARP(t *testing.T) {
	promises := []string{
		"device_is_shown_as_iwarp", "login_without_a_name_is_refused", "logs_in", "reads_what_was_written", "file_holds_the_same_bytes",
		"logs_out", "target_freed_the_session", "srptd_ends_when_asked", "suite_on_two_devices", "nothing_is_left",
	}
	env := map[string]string{"SUITE": os.Getenv("GOSRPT_E2E_SUITE")}
	if everyPlace {
		env["PLACES"] = "all"
		promises = append(promises, "suite_on_one_device", "suite_over_ipv6")
	}
	runTarget(t, Job{Script: "iwarp", Limit: 20 * time.Minute, Machine: lab.Machine{DisksMiB: disks}, Env: env, Promises: promises})
}

// inPlaces runs a job in a place, or in all.
func inPlaces(t *testing.T, usual string, job Job) {
	for _, p := range verbsPlaces {
		if everyPlace || p.name == usual {
			env := maps.Clone(p.env)
			maps.Copy(env, job.Env)
			job := job
			job.Env = env
			t.Run(p.name, func(t *testing.T) { runTarget(t, job) })
		}
	}
}

func TestVerbsFileSystemsSurviveLogoutAndLogin(t *testing.T) {
	if !everyPlace {
		t.Skip("GOSRPT_E2E_PLACES=all asks for it")
	}
	inPlaces(t, "",
		Job{Script: "filesystems", Limit: 15 * time.Minute, Machine: lab.Machine{DisksMiB: disks}, Promises: filesystemPromises})
}

// On verbs the channels share receives; on roce, by TestEveryBlockSizeAndDepthReadsBackWhatWasWritten, each has its own.
func TestVerbsEveryBlockSizeAndDepthReadsBackWhatWasWritten(t *testing.T) {
	inPlaces(t, "OnAnotherDevice", Job{
		Script: "verify", Limit: 15 * time.Minute, Machine: lab.Machine{DisksMiB: disks}, Env: map[string]string{"LOGIN_LIMITS": sharedReceives},
		Promises: append(verifyPromises(), "receives_are_shared"),
	})
}

// On the initiator's device nothing goes over a network that could lose it.
func TestVerbsLossAndReorderingReachNoFileSystem(t *testing.T) {
	if !everyPlace {
		t.Skip("GOSRPT_E2E_PLACES=all asks for it")
	}
	runTarget(t, Job{
		Script: "loss", Limit: 20 * time.Minute, Machine: lab.Machine{DisksMiB: disks}, Env: map[string]string{"PROVIDER": "verbs"},
		Promises: []string{
			"loss_both_ways_reaches_no_file_system", "their_loss_is_counted", "loss_both_ways_left_the_right_bytes", "logs_out_again",
		},
	})
}

func TestVerbsResetsAndLogoutsLoseNothing(t *testing.T) {
	if !everyPlace {
		t.Skip("GOSRPT_E2E_PLACES=all asks for it")
	}
	inPlaces(t, "", resetsJob("receives_are_shared"))
}

func TestVerbsAnswersDiscoveryUnlessTheKernelsTargetDoes(t *testing.T) {
	runTarget(t, Job{
		Script: "discovery", Limit: 8 * time.Minute, Machine: lab.Machine{DisksMiB: disks}, Env: map[string]string{"PROVIDER": "verbs"},
		Promises: append([]string{
			"starts_beside_the_kernels_target", "conflict_is_named", "logins_are_taken_meanwhile", "answers_once_the_kernels_target_is_gone",
		}, discoveryPromises...),
	})
}

// GOSRPT_E2E_REMOVALS asks for it, fifty being the full number, a quarter of a minute each.
func TestVerbsDeviceIsPulledOutUnderLoad(t *testing.T) {
	asked := os.Getenv("GOSRPT_E2E_REMOVALS")
	if asked == "" {
		t.Skip("GOSRPT_E2E_REMOVALS does not say how often")
	}
	removals, err := strconv.ParseUint(asked, 10, 16)
	if err != nil || removals == 0 {
		t.Fatalf("GOSRPT_E2E_REMOVALS: %d, %v", removals, err)
	}
	runTarget(t, Job{
		Script: "removal", Limit: 12*time.Minute + time.Duration(removals)*40*time.Second, Machine: lab.Machine{DisksMiB: disks},
		Env: map[string]string{"PROVIDER": "verbs", "REMOVALS": strconv.FormatUint(removals, 10)},
		Promises: []string{
			"logs_in_to_the_lasting_device", "first_removal", "every_removal_is_survived", "no_object_is_left_in_the_kernel",
			"no_descriptor_is_left", "no_memory_is_left", "the_other_session_is_undisturbed", "the_other_session_read_what_it_wrote",
			"logs_out", "no_queue_pair_is_left_without_sessions", "srptd_ends_when_asked", "nothing_is_left_in_the_end",
		},
	})
}
