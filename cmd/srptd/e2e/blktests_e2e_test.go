//go:build e2e

package e2e

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/cmd/srptd/e2e/lab"
)

// blktests are the SRP tests that can run on current kernels: 003 and 004 want a device mapper of long ago, 015 is not there.
const blktests = "001 002 005 006 007 008 009 010 011 012 013 014 016"

// TestBlktestsPassAsWithTheKernelsTarget runs the checkout that BLKTESTS names; BLKTESTS_RUN="001 016" is a choice of tests,
// BLKTESTS_TARGET=kernel runs them against ib_srpt, to compare. BLKTESTS_SHIFT=1 lets the guest's clock count instructions, one
// every 2 ns (lab.Machine.InstructionShift): the suite's commands time out after a second of that clock, whatever else the host does.
func TestBlktestsPassAsWithTheKernelsTarget(t *testing.T) {
	checkout := os.Getenv("BLKTESTS")
	if checkout == "" {
		t.Skip("BLKTESTS does not name a checkout of the suite")
	}
	tests := cmp.Or(os.Getenv("BLKTESTS_RUN"), blktests)
	var promises []string
	for _, n := range strings.Fields(tests) {
		promises = append(promises, "srp_"+n)
	}
	machine, each := lab.Machine{MemoryMiB: 4096}, 7*time.Minute
	if shift := os.Getenv("BLKTESTS_SHIFT"); shift != "" {
		n, err := strconv.Atoi(shift)
		if err != nil || n < 1 || n > 10 {
			t.Fatalf("BLKTESTS_SHIFT=%s is not a number from 1 to 10", shift)
		}
		machine.CPUs, machine.InstructionShift, each = 1, n, 20*time.Minute
	}
	runTarget(t, Job{
		Script: "blktests", Limit: 2*time.Minute + time.Duration(len(promises))*each,
		Machine: machine, Promises: promises, Suite: suite(t, checkout),
		Env: map[string]string{"TESTS": tests, "TARGET": os.Getenv("BLKTESTS_TARGET"), "TIMEOUT": os.Getenv("BLKTESTS_TIMEOUT")},
	})
}

// suite is a copy of the checkout with the one program that the SRP tests need, built to run in the guest.
func suite(t *testing.T, checkout string) string {
	t.Helper()
	dir := t.TempDir()
	for _, part := range []string{"check", "common", "src", "tests/srp"} {
		from, to := filepath.Join(checkout, part), filepath.Join(dir, part)
		if out, err := exec.Command("sh", "-c", `mkdir -p "$(dirname "$2")" && cp -a "$1" "$2"`, "sh", from, to).CombinedOutput(); err != nil {
			t.Fatalf("BLKTESTS=%s does not look like the suite: %s", checkout, out)
		}
	}
	out, err := exec.Command("g++", "-O2", "-static", "-o", dir+"/src/discontiguous-io", dir+"/src/discontiguous-io.cpp").CombinedOutput()
	if err != nil {
		t.Fatalf("build discontiguous-io: %v\n%s", err, out)
	}
	return dir
}
