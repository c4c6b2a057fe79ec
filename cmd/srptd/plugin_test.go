package main

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/rdma"
)

// Every LUN of these tests has an executable of its own, so that its process can be told.

// lunWithPlugin is the specification of LUN n with the plugin named.
func lunWithPlugin(n int, plugin string) []string {
	return []string{"--lun", fmt.Sprintf("lun=%d,name=%s,plugin=%s,path=DIR/%s.img,size=16MiB", n, plugin, plugin, plugin)}
}

func TestKilledPluginsLoseNothingUnderLoad(t *testing.T) {
	t.Parallel()
	luns, kills := 1, 5
	if !testing.Short() {
		luns, kills = 5, 25
	}
	var args, names []string
	for n := range luns {
		names = append(names, fmt.Sprintf("plugin%d", n))
		args = append(args, lunWithPlugin(n, names[n])...)
	}
	s := newSite(t, args...)
	for _, name := range names {
		s.install(t, name)
	}
	s.start(t)
	session := dial(t, s)
	var loads []*load
	for n := range luns {
		if err := session.TestUnitReady(soon(t), lunOf(uint32(n))); err != nil {
			t.Fatal(err)
		}
		l := newLoad(t, session, uint32(n), 32)
		l.limit = 128 << 10
		loads = append(loads, l)
	}
	var ends []func()
	for _, l := range loads {
		ends = append(ends, l.background(t))
	}
	for k := range kills {
		n := uint32(k % luns)
		old := s.process(t, names[n])
		before := s.lun(t, n).Counters["writes"]
		eventually(t, "writes go on", func() bool { return s.lun(t, n).Counters["writes"] > before })
		kill(t, old, syscall.SIGKILL)
		eventually(t, "a new process has opened the store", func() bool {
			l := s.lun(t, n)
			return l.Counters["plugin_restarts"] == uint64(k/luns)+1 && l.State == "ready"
		})
	}
	for _, end := range ends {
		end()
	}
	for n, l := range loads {
		l.verifyAll(t)
		st := s.lun(t, uint32(n))
		if st.State != "ready" || st.Counters["store_expired"] != 0 || st.Counters["check_conditions"] > 1 {
			t.Errorf("LUN %d after %d requests: %v", n, l.requests, st)
		}
	}
}

func TestFrozenPluginHoldsUpNoOtherLUNAndGoesOnWhenItThaws(t *testing.T) {
	t.Parallel()
	s := newSite(t, append(lunWithPlugin(0, "ice"), lunWithPlugin(1, "free")...)...)
	s.install(t, "ice")
	s.install(t, "free")
	s.start(t)
	session := dial(t, s, 0, 1)
	frozen, other := newLoad(t, session, 0, 16), newLoad(t, session, 1, 32)
	end := frozen.background(t)
	pid := s.process(t, "ice")
	freeze(t, pid)
	eventually(t, "commands wait for the plugin", func() bool { return s.lun(t, 0).Counters["store_flying"] > 0 })
	eventually(t, "the operator sees what waits, and for how long", func() bool {
		p := s.pluginNamed(t, "ice")
		return p.RequestsFlying > 0 && p.OldestMs > 0 && p.StalledMs >= 1000 && p.State == "running" && p.Pid == uint32(pid)
	})
	if err := other.run(nil, requests(100, 500)); err != nil {
		t.Errorf("the other LUN: %v", err)
	}
	if p := s.pluginNamed(t, "free"); p.StalledMs != 0 {
		t.Errorf("the other plugin is shown as stalled: %v", p)
	}
	kill(t, pid, syscall.SIGCONT)
	writes := s.lun(t, 0).Counters["writes"]
	eventually(t, "the frozen LUN goes on", func() bool { return s.lun(t, 0).Counters["writes"] > writes+10 })
	end()
	frozen.verifyAll(t)
	if l := s.lun(t, 0); l.Counters["plugin_restarts"] != 0 || l.State != "ready" {
		t.Errorf("LUN 0: %v", l)
	}
}

// A command that a plugin holds can be aborted no sooner than the plugin has let go of it: until then it may still write.
// So plugin.call_timeout, after which the plugin is replaced, bounds the answer.
func TestTaskManagementIsAnsweredThoughThePluginIsFrozen(t *testing.T) {
	t.Parallel()
	long(t)
	const callTimeout, slack = 2 * time.Second, 20 * time.Second
	s := newSite(t, append(lunWithPlugin(0, "ice"), lunWithPlugin(1, "free")...)...)
	s.args = append(s.args, "--plugin-call-timeout", callTimeout.String(), "--plugin-restart-wait", "1s")
	s.install(t, "ice")
	s.install(t, "free")
	s.start(t)
	session := dial(t, s, 0, 1)
	for _, c := range []struct {
		name string
		end  func(*initiator.Command) error
	}{
		{"abort task", func(c *initiator.Command) error { return session.Abort(soon(t), c) }},
		{"LUN reset", func(c *initiator.Command) error { return session.ResetLUN(soon(t), c.LUN) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			freeze(t, s.process(t, "ice"))
			done := make(chan struct{})
			region, err := session.Register(make([]byte, 4096))
			if err != nil {
				t.Fatal(err)
			}
			cmd := &initiator.Command{LUN: lunOf(0), CDB: initiator.Write16(8, 8), Done: func(*initiator.Command) { close(done) }}
			cmd.Out = []rdma.SGE{{Region: region, Len: 4096}}
			if _, err := session.Submit(cmd); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the command waits for the plugin", func() bool { return s.lun(t, 0).Counters["store_flying"] == 1 })
			begin := time.Now()
			if err := c.end(cmd); err != nil {
				t.Errorf("%v", err)
			}
			if d := time.Since(begin); d > callTimeout+slack {
				t.Errorf("answered after %v, want %v and a little", d, callTimeout)
			}
			<-done
			if err := cmd.Result.Err; !errors.Is(err, initiator.ErrAborted) {
				t.Errorf("the command ended with %v, %02xh", err, cmd.Result.Status)
			}
			if err := session.TestUnitReady(soon(t), lunOf(1)); err != nil {
				t.Errorf("the other LUN: %v", err)
			}
			if err := session.Read(soon(t), lunOf(0), 16, 8, make([]byte, 4096)); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			eventually(t, "the LUN is ready", func() bool { return s.lun(t, 0).State == "ready" })
			if err := region.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
