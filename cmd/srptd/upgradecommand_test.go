package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOperatorUpgradesAPluginUnderLoad: the executable is replaced and handed over to by command, and then a broken one is refused.
func TestOperatorUpgradesAPluginUnderLoad(t *testing.T) {
	t.Parallel()
	s := newSite(t, append(lunWithPlugin(0, "one"), lunWithPlugin(1, "other")...)...)
	s.install(t, "one")
	s.install(t, "other")
	s.start(t)
	session := dial(t, s, 0, 1)
	l := newLoad(t, session, 0, 16)
	end := l.background(t)
	old := s.process(t, "one")
	s.install(t, "one")
	out, code := s.ctl(t, "plugin", "upgrade", s.lun(t, 0).Name)
	if code != 0 || !strings.Contains(out, "paused for") {
		t.Fatalf("upgrade ended with %d:\n%s", code, out)
	}
	now := s.process(t, "one")
	if now == old {
		t.Error("it is the same process")
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, code := s.ctl(t, "plugin", "upgrade", s.lun(t, 0).Name, "--path", broken); code != exitFailed || !strings.Contains(out, broken) {
		t.Errorf("upgrade to a broken executable ended with %d:\n%s", code, out)
	}
	if out, code := s.ctl(t, "plugin", "upgrade", "nobody"); code != exitFailed || !strings.Contains(out, "plugin list") {
		t.Errorf("upgrade of nobody ended with %d:\n%s", code, out)
	}
	if s.process(t, "one") != now {
		t.Error("the process is another one after a refused upgrade")
	}
	end()
	l.verifyAll(t)
	if st := s.lun(t, 0); st.State != "ready" || st.Counters["plugin_restarts"] > 1 || st.Counters["store_expired"] != 0 {
		t.Errorf("%v", st)
	}
}
