package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// flat is a table in which every case has the same figures, but for the ring and the plugin behind it.
func flat(ring figures) *table {
	t := &table{groups: groups(true), rounds: map[point][]figures{}, calls: map[point][]float64{}}
	for _, p := range slices.Concat(t.groups...) {
		f := figures{p50: 100, p99: 200, iops: 1000, cpu: 100}
		if p.transport == ringT || p.transport == filePluginT {
			f = ring
		}
		t.rounds[p] = []figures{f, f, f}
	}
	t.setCalls(4, 0.1)
	return t
}

func (t *table) setCalls(one, many float64) {
	t.calls[at(ringT, 1, small)] = []float64{one, one, one}
	t.calls[at(ringT, deep, small)] = []float64{many, many, many}
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
		if err := printGates(&out, flat(c.ring)); (err == nil) != c.met {
			t.Errorf("%s: %v", name, err)
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
	if err := printGates(&bytes.Buffer{}, tab); err != nil {
		t.Errorf("a gate fails by one round of three: %v", err)
	}
}

func TestGateOfTheMostFailsAboveItsBound(t *testing.T) {
	tab := flat(figures{p50: 1, p99: 1, iops: 1e6, cpu: 1})
	for calls, met := range map[float64]bool{6.5: true, 6.6: false} {
		tab.setCalls(calls, 0.1)
		if err := printGates(&bytes.Buffer{}, tab); (err == nil) != met {
			t.Errorf("%v calls: %v", calls, err)
		}
	}
}

func TestWhatCannotBeMeasuredIsNotMetAndSaysWhy(t *testing.T) {
	tab := flat(figures{p50: 1, p99: 1, iops: 1e6, cpu: 1})
	tab.noCalls, tab.calls = errors.New("nobody may count"), nil
	tab.noFile = errors.New("the disk is made of wood")
	var out bytes.Buffer
	err := printGates(&out, tab)
	if err == nil || !strings.Contains(err.Error(), "T9a") || !strings.Contains(err.Error(), "T11b") || strings.Contains(err.Error(), "T8") {
		t.Errorf("%v", err)
	}
	if s := out.String(); strings.Count(s, "not measured") != 7 || !strings.Contains(s, "nobody may count") || !strings.Contains(s, "wood") {
		t.Errorf("%s", s)
	}
}

func TestSystemCallsAreCountedTruly(t *testing.T) {
	const n = 1000
	c, err := countCalls(os.Getpid())
	if err != nil {
		t.Skipf("this machine does not let system calls be counted: %v", err)
	}
	defer c.close()
	before, err := c.count()
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		unix.Getppid()
	}
	after, err := c.count()
	if d := after - before; err != nil || d < n || d > 2*n {
		t.Errorf("%d calls counted of %d, %v", d, n, err)
	}
	if _, err := countCalls(1 << 30); err == nil {
		t.Error("a process that cannot be was counted")
	}
}

func TestDescriptorsAreReadWhole(t *testing.T) {
	r, w := net.Pipe()
	defer r.Close()
	go func() {
		defer w.Close()
		w.Write(make([]byte, descriptor/2))
		w.Write(make([]byte, descriptor))
		w.Write(make([]byte, descriptor/2))
	}()
	var buf [4 * descriptor]byte
	for range 2 {
		if n, err := readDescriptors(r, buf[:]); n != descriptor || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	if _, err := readDescriptors(r, buf[:]); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

func TestMeterStopsAtItsEnd(t *testing.T) {
	m := newMeter()
	m.start(time.Hour)
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
	out, err := exec.Command(bin, "-rounds", "1", "-time", "5ms", "-dir", t.TempDir()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"gRPC unary", "direct call", "T8 ", "unix socket", "T11b"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if err := exec.Command(bin, "-rounds", "0").Run(); err == nil {
		t.Error("no rounds are accepted")
	}
}
