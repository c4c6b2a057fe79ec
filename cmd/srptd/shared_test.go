package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// sharing is the specification of LUN n, whose process is that of all such LUNs.
func sharing(n int, more string) []string {
	return []string{"--lun", fmt.Sprintf("lun=%d,name=disk%d,plugin=both,process=shared,path=DIR/disk%d,size=16MiB%s", n, n, n, more)}
}

func TestKilledProcessThatLUNsShareLosesNothingOfAny(t *testing.T) {
	t.Parallel()
	kills := 2
	if !testing.Short() {
		kills = 7
	}
	s := newSite(t, append(append(sharing(0, ",arena=16MiB"), sharing(1, ",arena=24MiB")...), lunWithPlugin(2, "own")...)...)
	s.install(t, "both")
	s.install(t, "own")
	s.start(t)
	session := dial(t, s, 0, 1, 2)
	var loads []*load
	var ends []func()
	for n := range uint32(3) {
		l := newLoad(t, session, n, 16)
		l.limit = 128 << 10
		loads, ends = append(loads, l), append(ends, l.background(t))
	}
	for k := range kills {
		pid := s.process(t, "both") // one for both
		for n := range uint32(2) {
			before := s.lun(t, n).Counters["writes"]
			eventually(t, "writes go on", func() bool { return s.lun(t, n).Counters["writes"] > before })
		}
		kill(t, pid, syscall.SIGKILL)
		eventually(t, "a new process has opened both stores", func() bool {
			a, b := s.lun(t, 0), s.lun(t, 1)
			return a.Counters["plugin_restarts"] == uint64(k)+1 && a.State == "ready" && b.State == "ready"
		})
	}
	for _, end := range ends {
		end()
	}
	for n, l := range loads {
		l.verifyAll(t)
		if st := s.lun(t, uint32(n)); st.State != "ready" || st.Counters["store_expired"] != 0 || st.Counters["check_conditions"] > 1 {
			t.Errorf("LUN %d after %d requests: %v", n, l.requests, st)
		}
	}
	if p := s.pluginNamed(t, "both"); !slices.Equal(p.Luns, []uint32{0, 1}) || p.Restarts != uint64(kills) {
		t.Errorf("the process is shown as %v", p)
	}
	if p := s.pluginNamed(t, "own"); p.Restarts != 0 {
		t.Errorf("the process of the other LUN is shown as %v", p)
	}
	if n := s.status(t).Counters["arena_both_bytes"]; n != 24<<20 {
		t.Errorf("the arena has %d bytes, want the larger of 16 and 24 MiB", n)
	}
}

func TestLUNThatCannotBeOpenedLeavesTheProcessToTheOthers(t *testing.T) {
	t.Parallel()
	// The second one's file cannot be opened until there is a directory.
	s := newSite(t, append(sharing(0, ""), "--lun", "lun=1,name=disk1,plugin=both,process=shared,path=DIR/absent/disk1,size=8MiB")...)
	s.install(t, "both")
	d := s.start(t)
	if l := s.lun(t, 1); !strings.Contains(l.State, "absent") || s.lun(t, 0).State != "ready" {
		t.Errorf("LUN 1 is %q, LUN 0 %q", l.State, s.lun(t, 0).State)
	}
	session := dial(t, s, 0)
	l := newLoad(t, session, 0, 8)
	if err := l.run(nil, 200); err != nil {
		t.Fatal(err)
	}
	pid := s.process(t, "both")
	if err := os.Mkdir(s.file("absent"), 0o755); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other LUN is ready", func() bool { return s.lun(t, 1).State == "ready" })
	if now := s.process(t, "both"); now != pid {
		t.Errorf("it is served by process %d, the first by %d", now, pid)
	}
	if err := session.TestUnitReady(soon(t), lunOf(0)); err != nil { // takes the news of the other LUN
		t.Fatal(err)
	}
	if err := l.run(nil, 200); err != nil {
		t.Fatal(err)
	}
	l.verifyAll(t)
	d.stop(t)
	if n := strings.Count(d.out.String(), "plugin process exited"); n != 1 {
		t.Errorf("%d processes ended, want 1", n)
	}
}
