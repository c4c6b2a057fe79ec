package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gosrpt/gosrpt/core/srp"
)

// granted is what a login gets.
func granted(t testing.TB, s *site) srp.LoginRsp {
	t.Helper()
	p := newPeer(t, s)
	r := loginRequest()
	r.MaxITIU = 1024
	rep := p.login(&r)
	rsp, err := srp.ParseLoginRsp(rep.Private())
	if err != nil {
		t.Fatal(err)
	}
	p.leave(rep)
	return rsp
}

// planned makes a site with a LUN and the ioctx plugin.
func planned(t testing.TB, config string, args ...string) *site {
	t.Helper()
	s := newSite(t, append([]string{"--lun", "lun=0,name=disk,path=DIR/disk,size=8MiB", "--ioctx-plugin", "ioctx", "--ioctx-config", config}, args...)...)
	s.installAs(t, "ioctx", "ioctx")
	return s
}

func TestNumbersOfTheIOCtxPluginAreWhatALoginGets(t *testing.T) {
	t.Parallel()
	s := planned(t, "credits=37,max_request_iu=2KiB,max_response_iu=256B,max_transfer=1MiB,arena_size=12MiB",
		"--lun", "lun=1,name=own,path=DIR/own,size=8MiB,arena=20MiB")
	s.start(t)
	if rsp := granted(t, s); rsp.Delta != 37 || rsp.MaxITIU != 2048 || rsp.MaxTIIU != 256 {
		t.Errorf("a login gets %+v", rsp)
	}
	counters := s.status(t).Counters
	if n := counters["arena_disk_bytes"]; n != 12<<20 {
		t.Errorf("the arena has %d bytes, the plan says 12 MiB", n)
	}
	if n := counters["arena_own_bytes"]; n != 20<<20 {
		t.Errorf("the arena has %d bytes, the LUN's configuration says 20 MiB", n)
	}
	// No initiator is told of more than the plan lets a command move.
	h := newComputer(t)
	page, err := h.login(t, h.config(s), 0).VPD(soon(t), lunOf(0), 0xb0)
	if err != nil || len(page) < 12 {
		t.Fatalf("% x, %v", page, err)
	}
	if blocks := uint32(page[8])<<24 | uint32(page[9])<<16 | uint32(page[10])<<8 | uint32(page[11]); blocks != 1<<20/512 {
		t.Errorf("the longest transfer is %d blocks, want 1 MiB", blocks)
	}
	if p := s.pluginNamed(t, "ioctx"); p.Kind != "ioctx" || p.State != "running" || p.Pid == 0 {
		t.Errorf("the plugin: %v", p)
	}
}

func TestReceivesAreSharedAsTheConfigurationOrThePluginSays(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		site    *site
		credits int32 // an eighth of the receives, but for the unsolicited ones
		depth   uint64
	}{
		"configuration": {newSite(t, "--lun", "lun=0,path=DIR/disk,size=8MiB", "--login-shared-receives", "256"), 256/8 - 4, 256},
		"plugin":        {planned(t, "shared_receives=64,unsolicited=3", "--login-shared-receives", "256"), 64/8 - 3, 64},
		"neither":       {planned(t, "shared_receives=0", "--login-shared-receives", "256"), 128, 0},
	} {
		s := row.site
		s.start(t)
		if rsp := granted(t, s); rsp.Delta != row.credits {
			t.Errorf("%s: a login gets %d credits, want %d", name, rsp.Delta, row.credits)
		}
		l := newLoad(t, dial(t, s, 0), 0, 8)
		if err := l.run(nil, 100); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		l.verifyAll(t)
		var depth, promised uint64
		for key, n := range s.status(t).Counters {
			switch {
			case !strings.HasPrefix(key, "shared_receives_"):
			case strings.HasSuffix(key, "_promised"):
				promised += n
			case !strings.HasSuffix(key, "_held"):
				depth += n
			}
		}
		if depth != row.depth || promised > depth || depth > 0 && promised == 0 {
			t.Errorf("%s: %d receives are shared, %d promised, want %d", name, depth, promised, row.depth)
		}
	}
}

func TestWithoutAUsablePlanThatOfTheConfigurationHolds(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"credit=37":              "credit: no such setting",
		"credits=64,responses=8": "responses",
	} {
		d := planned(t, config, "--login-queue-depth", "21").start(t)
		if rsp := granted(t, d.site); rsp.Delta != 21 {
			t.Errorf("%s: a login gets %d, the configuration says 21", config, rsp.Delta)
		}
		d.line(t, "the one in force stays in force", want)
	}
}

func TestPlanOfAPluginThatComesLateHoldsFromThenOn(t *testing.T) {
	t.Parallel()
	s := planned(t, "credits=19")
	if err := os.Remove(s.plugin("ioctx")); err != nil {
		t.Fatal(err)
	}
	d := s.start(t)
	if rsp := granted(t, s); rsp.Delta != 128 {
		t.Errorf("a login gets %d, the configuration says 128", rsp.Delta)
	}
	d.line(t, "the one in force stays in force", "cannot be started")
	s.installAs(t, "ioctx", "ioctx")
	eventually(t, "a login gets what the plugin plans", func() bool { return granted(t, s).Delta == 19 })
}

func TestPlanThatInitiatorsWereNotToldOfWaitsForARestart(t *testing.T) {
	t.Parallel()
	s := planned(t, "credits=19,max_transfer=1MiB")
	if err := os.Remove(s.plugin("ioctx")); err != nil {
		t.Fatal(err)
	}
	d := s.start(t)
	s.installAs(t, "ioctx", "ioctx")
	d.line(t, "the one in force stays in force", "transfers of 1048576 bytes, initiators were told of 4194304: restart")
	if rsp := granted(t, s); rsp.Delta != 128 {
		t.Errorf("a login gets %d of a plan that was refused", rsp.Delta)
	}
	d.stop(t)
	s.start(t)
	if rsp := granted(t, s); rsp.Delta != 19 {
		t.Errorf("after the restart a login gets %d, want 19", rsp.Delta)
	}
}

func TestKilledIOCtxPluginDisturbsNothing(t *testing.T) {
	t.Parallel()
	s := planned(t, "credits=41")
	s.start(t)
	l := newLoad(t, dial(t, s, 0), 0, 16)
	l.limit = 64 << 10
	end := l.background(t)
	pid := s.process(t, "ioctx")
	if err := os.Remove(s.plugin("ioctx")); err != nil { // it cannot be restarted for a while
		t.Fatal(err)
	}
	kill(t, pid, syscall.SIGKILL)
	eventually(t, "the plugin is down", func() bool { return s.pluginNamed(t, "ioctx").State == "down" })
	if rsp := granted(t, s); rsp.Delta != 41 {
		t.Errorf("without the plugin a login gets %d, want 41 as before", rsp.Delta)
	}
	writes := s.lun(t, 0).Counters["writes"]
	eventually(t, "the session goes on", func() bool { return s.lun(t, 0).Counters["writes"] > writes+20 })
	s.installAs(t, "ioctx", "ioctx")
	eventually(t, "the plugin is back", func() bool { return s.pluginNamed(t, "ioctx").State == "running" })
	if rsp := granted(t, s); rsp.Delta != 41 {
		t.Errorf("with the plugin back a login gets %d, want 41 as before", rsp.Delta)
	}
	end()
	l.verifyAll(t)
}

func TestPlannerIsAskedAgainUnderPressureAndAfterItsRestart(t *testing.T) {
	t.Parallel()
	long(t)
	// An arena in which the requests of the load do not have room together.
	s := faulty(t, "ioctx", "--session-max-transfer", "512KiB", "--lun", "lun=1,name=tight,path=DIR/tight,size=8MiB,arena=1MiB")
	d := s.start(t)
	l := newLoad(t, dial(t, s, 1), 1, 32)
	l.limit = 512 << 10
	end := l.background(t)
	d.line(t, "another plan is in force", "credits=64") // half of what was in force
	end()
	if l.verifyAll(t); granted(t, s).Delta > 64 {
		t.Error("logins get what they got before")
	}
	kill(t, s.process(t, "testcontrol"), syscall.SIGKILL)
	d.line(t, "another plan is in force", "credits=128") // as it plans without pressure
	if strings.Contains(d.out.String(), "no usable plan") {
		t.Error("a plan was refused")
	}
}
