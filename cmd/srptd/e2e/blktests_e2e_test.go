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
// BLKTESTS_TARGET=kernel runs them against ib_srpt, to compare. The suite's commands time out after a second, so the guest's
// clock counts instructions, and a busy host does not make commands late: one every 2^BLKTESTS_SHIFT ns, 2 ns by default.
// BLKTESTS_SHIFT=0 is real time, with two CPUs.
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
	shift, err := strconv.Atoi(cmp.Or(os.Getenv("BLKTESTS_SHIFT"), "1"))
	if err != nil || shift < 0 || shift > 10 {
		t.Fatalf("BLKTESTS_SHIFT=%s is not a number from 0 to 10", os.Getenv("BLKTESTS_SHIFT"))
	}
	machine := lab.Machine{MemoryMiB: 4096, InstructionShift: shift}
	if shift > 0 {
		machine.CPUs = 1
	}
	runTarget(t, Job{
		Script: "blktests", Limit: time.Duration(2+20*len(promises)) * time.Minute,
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
