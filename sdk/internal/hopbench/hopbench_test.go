package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// flat is a table in which every case has the same figures, but for the ring.
func flat(ring figures) *table {
	t := &table{points: points(), rounds: map[point][]figures{}}
	for _, p := range t.points {
		f := figures{p50: 100, p99: 200, iops: 1000, cpu: 100}
		if p.transport == ringT {
			f = ring
		}
		t.rounds[p] = []figures{f, f, f}
	}
	return t
}

func TestGatesAreHeldAgainstTheMedianRatio(t *testing.T) {
	for name, c := range map[string]struct {
		ring figures
		met  bool
		fail string
	}{
		"far better":  {figures{p50: 1, p99: 1, iops: 1e6, cpu: 1}, true, ""},
		"the same":    {figures{p50: 100, p99: 200, iops: 1000, cpu: 100}, false, "T1"},
		"slow alone":  {figures{p50: 100, p99: 200, iops: 1e6, cpu: 1}, false, "T2"},
		"costs CPU":   {figures{p50: 1, p99: 1, iops: 1e6, cpu: 100}, false, "T7"},
		"few at once": {figures{p50: 1, p99: 1, iops: 20_000, cpu: 1}, false, "T8"},
	} {
		var out bytes.Buffer
		if met := printGates(&out, flat(c.ring)); met != c.met {
			t.Errorf("%s: met %v", name, met)
		}
		failed := false
		for line := range strings.Lines(out.String()) {
			failed = failed || strings.HasPrefix(line, c.fail) && strings.Contains(line, "FAIL")
		}
		if failed != !c.met {
			t.Errorf("%s: %q\n%s", name, c.fail, out.String())
		}
	}
}

func TestOneBadRoundDoesNotDecide(t *testing.T) {
	tab := flat(figures{p50: 1, p99: 1, iops: 1e6, cpu: 1})
	p := at(ringT, 1, small)
	tab.rounds[p][1] = figures{p50: 1000, p99: 1000, iops: 1, cpu: 1000}
	if !printGates(&bytes.Buffer{}, tab) {
		t.Error("a gate fails by one round of three")
	}
}

func TestMeterStopsAtItsEnd(t *testing.T) {
	m := newMeter(time.Hour)
	now := time.Now()
	if !m.add(now, now.Add(time.Millisecond)) || m.add(now, now.Add(2*time.Hour)) {
		t.Error("it goes on after its end, or stops before")
	}
	if len(m.took) != 2 || m.took[0] != time.Millisecond {
		t.Errorf("took %v", m.took)
	}
}

func TestUsageOfThisProcessGrows(t *testing.T) {
	before, err := usageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
	}
	after, err := usageOf(os.Getpid())
	if err != nil || after.sub(before).cpu <= 0 {
		t.Errorf("%+v, then %+v, %v", before, after, err)
	}
	if _, err := usageOf(1 << 30); err == nil {
		t.Error("a process that cannot be was measured")
	}
}

// The whole program runs, briefly. Its figures mean nothing then, so gates are not checked.
func TestProgramRuns(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "hopbench")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(bin, "-rounds", "1", "-time", "5ms").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"gRPC unary", "direct call", "T8 "} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if err := exec.Command(bin, "-rounds", "0").Run(); err == nil {
		t.Error("no rounds are accepted")
	}
}
