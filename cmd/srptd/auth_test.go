package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/core/admin/adminpb"
	"github.com/gosrpt/gosrpt/core/initiator"
	"github.com/gosrpt/gosrpt/core/srp"
)

func TestWhoIsNotListedIsRefusedAndTheLogSaysWhatWouldHaveMatched(t *testing.T) {
	t.Parallel()
	s := guarded(t, everything("web", newInitiator()))
	d := s.start(t)
	h, id := newComputer(t), newInitiator()
	h.refused(t, s, id, srp.RejNexus)
	d.line(t, "login refused", id.String(), h.addr.String(), "no rule of the access list names it",
		"port_id:"+id.String(), "address:"+h.addr.String(), "gid:")
	if st := s.status(t); st.RefusedLogins[srp.RejNexus.String()] != 1 || st.Sessions != 0 {
		t.Errorf("%v, %d sessions", st.RefusedLogins, st.Sessions)
	}
	// What the log offers works as it is.
	s.permit(t, fmt.Sprintf("{name: it, initiators: ['address:%v'], luns: all}", h.addr))
	h.admits(t, s, id)
}

func TestListedInitiatorSeesExactlyItsLUNsAndWritesWhereItMay(t *testing.T) {
	t.Parallel()
	id, all := newInitiator(), newInitiator()
	s := guarded(t, everything("backup", all)+fmt.Sprintf(
		"{name: web, initiators: ['port_id:%v'], channels: 4, queue_depth: 9, luns: [{lun: 0, name: disk1}, {lun: 5, name: disk0, read_only: true}, {lun: 6, name: typo}]}", id))
	d := s.start(t)
	h := newComputer(t)
	session, other := h.loginAs(t, s, id, 0, 5), h.loginAs(t, s, all, 0, 1)
	for _, c := range []struct {
		s    *initiator.Session
		want []srp.LUN
	}{{session, []srp.LUN{lunOf(0), lunOf(5)}}, {other, []srp.LUN{lunOf(0), lunOf(1)}}} {
		if luns, err := c.s.ReportLUNs(soon(t)); err != nil || !slices.Equal(luns, c.want) {
			t.Errorf("REPORT LUNS: %v, %v, want %v", luns, err, c.want)
		}
	}
	expectSense(t, "a LUN of others", session.TestUnitReady(soon(t), lunOf(1)), 5, 0x25, 0)
	block := []byte(strings.Repeat("b", 512))
	if err := other.Write(soon(t), lunOf(0), 7, 1, block); err != nil {
		t.Fatal(err)
	}
	expectSense(t, "a write to a LUN for reading", session.Write(soon(t), lunOf(5), 7, 1, make([]byte, 512)), 7, 0x27, 0)
	got := make([]byte, 512)
	if err := session.Read(soon(t), lunOf(5), 7, 1, got); err != nil || string(got) != string(block) {
		t.Errorf("%v, %.8q", err, got)
	}
	if err := session.Write(soon(t), lunOf(0), 7, 1, make([]byte, 512)); err != nil {
		t.Errorf("a write to a LUN for writing: %v", err)
	}
	h.loginAs(t, s, id, 0) // the name that there is not is said once
	list := s.sessions(t)
	i := slices.IndexFunc(list, func(s *adminpb.Session) bool { return s.InitiatorPortId == id.String() })
	if len(list) != 2 || i < 0 {
		t.Fatalf("sessions: %v", list)
	}
	shown := list[i]
	if shown.Permission != "host web by port_id:"+id.String() || shown.AllLuns || len(shown.Luns) != 2 || !shown.Luns[1].ReadOnly ||
		shown.MaxChannels != 4 || shown.QueueDepth != 9 {
		t.Errorf("the operator sees %v", shown)
	}
	if out, code := s.ctl(t, "sessions"); code != 0 || !strings.Contains(out, "host web by port_id:"+id.String()) ||
		!strings.Contains(out, "0=disk1 5=disk0 (read-only)") || !strings.Contains(out, "host backup by") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	d.stop(t)
	if n := strings.Count(d.out.String(), "typo"); n != 1 {
		t.Errorf("the name that there is not is said %d times", n)
	}
}

func TestKilledAuthPluginRefusesLoginsAndDisturbsNoSession(t *testing.T) {
	t.Parallel()
	id, late := newInitiator(), newInitiator()
	s := guarded(t, everything("one", id)+everything("two", late))
	d := s.start(t)
	h := newComputer(t)
	l := newLoad(t, h.loginAs(t, s, id, 0), 0, 16)
	l.limit = 64 << 10
	end := l.background(t)
	pid := s.process(t, "auth")
	if err := os.Remove(s.plugin("auth")); err != nil { // it cannot be restarted for a while
		t.Fatal(err)
	}
	kill(t, pid, syscall.SIGKILL)
	eventually(t, "the plugin is down", func() bool {
		p := s.pluginNamed(t, "auth")
		return p.State == "down" && strings.Contains(p.LastError, "auth")
	})
	h.refused(t, s, late, srp.RejNoReason)
	d.line(t, "login refused", late.String(), "the authoriser gave no answer", "not running")
	writes := s.lun(t, 0).Counters["writes"]
	eventually(t, "the session goes on", func() bool { return s.lun(t, 0).Counters["writes"] > writes+20 })
	s.installAs(t, "auth", "auth")
	h.admits(t, s, late)
	if p := s.pluginNamed(t, "auth"); p.State != "running" || p.Restarts != 1 || p.Pid == uint32(pid) {
		t.Errorf("the plugin: %v", p)
	}
	end()
	l.verifyAll(t)
	if n := len(s.sessions(t)); n != 2 {
		t.Errorf("%d sessions, want 2", n)
	}
}

// TestEditedListRevokesALiveSessionWithinASecond is about removing a host from the list while it is logged in: it loses its
// access within a second of the list's being in force, others notice nothing, and putting it back lets it in again.
func TestEditedListRevokesALiveSessionWithinASecond(t *testing.T) {
	t.Parallel()
	stays, goes := newInitiator(), newInitiator()
	both := everything("stays", stays) + everything("goes", goes)
	s := guarded(t, both)
	d := s.start(t)
	h := newComputer(t)
	l := newLoad(t, h.loginAs(t, s, stays, 0), 0, 16)
	l.limit = 64 << 10
	end := l.background(t)
	best := time.Hour
	for range 3 { // a machine that is busy with other things may be slow once
		session := h.admits(t, s, goes)
		if err := session.TestUnitReady(soon(t), lunOf(1)); err != nil {
			t.Fatal(err)
		}
		before := len(d.out.String())
		s.permit(t, everything("stays", stays))
		select {
		case <-session.Done():
		case <-time.After(patience):
			t.Fatal("the session goes on")
		}
		if err := session.Err(); err == nil || !strings.Contains(err.Error(), "logged out by the target") {
			t.Errorf("the initiator's session ended with: %v", err)
		}
		h.refused(t, s, goes, srp.RejNexus)
		eventually(t, "one session is left", func() bool { return len(s.sessions(t)) == 1 })
		best = min(best, between(t, d.out.String()[before:], "access list in force", "permission withdrawn"))
		s.permit(t, both)
	}
	if best > time.Second {
		t.Errorf("from the list's being in force to the end of the session it took %v at best", best)
	}
	h.admits(t, s, goes)
	end()
	l.verifyAll(t)
	for _, s := range s.sessions(t) {
		if want := map[string]string{stays.String(): "host stays", goes.String(): "host goes"}[s.InitiatorPortId]; !strings.HasPrefix(s.Permission, want+" by") {
			t.Errorf("%s is shown as permitted by %q", s.InitiatorPortId, s.Permission)
		}
	}
}

func TestLoginIsRefusedInTimeThoughTheAuthPluginNeverAnswers(t *testing.T) {
	t.Parallel()
	const timeout, hang = 3 * time.Second, 4
	s := faulty(t, "auth", "--auth-timeout", timeout.String())
	d := s.start(t)
	h := newComputer(t)
	begin, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		h.refused(t, s, asking(hang), srp.RejNoReason)
	}()
	eventually(t, "the question is shown", func() bool {
		p := s.pluginNamed(t, "auth")
		return p.RequestsFlying == 1 && p.OldestMs > 0
	})
	<-done
	if took := time.Since(begin); took < timeout {
		t.Errorf("refused after %v, want %v", took, timeout)
	}
	d.line(t, "login refused", asking(hang).String(), "gave no answer", "auth.timeout of 3s is over")
	if p := s.pluginNamed(t, "auth"); p.RequestsFlying != 0 || p.Restarts != 0 {
		t.Errorf("afterwards: %v", p)
	}
	h.loginAs(t, s, asking(1)) // others are decided as before
}

func TestAuthPluginWithoutADecisionLetsNobodyIn(t *testing.T) {
	t.Parallel()
	s := faulty(t, "auth")
	d := s.start(t)
	h := newComputer(t)
	for _, c := range []struct {
		name string
		asks uint64
		want srp.RejReason
		log  string
	}{
		{"refused", 2, srp.RejNexus, "not port_id:"},
		{"unavailable", 3, srp.RejNoReason, "the directory is down"},
		{"an answer that breaks the contract", 6, srp.RejNoReason, "listed twice"},
		{"death", 5, srp.RejNoReason, "gave no answer"},
	} {
		h.refused(t, s, asking(c.asks), c.want)
		d.line(t, "login refused", asking(c.asks).String(), c.log)
	}
	h.admits(t, s, asking(1)) // after the restart
}

func TestDaemonServesThoughItsAuthPluginCannotBeStartedAndLogsInWhenItCan(t *testing.T) {
	t.Parallel()
	id := newInitiator()
	s := guarded(t, everything("one", id))
	if err := os.Rename(s.file("access.yaml"), s.file("elsewhere")); err != nil {
		t.Fatal(err)
	}
	d := s.start(t)
	h := newComputer(t)
	h.refused(t, s, id, srp.RejNoReason)
	d.line(t, "login refused", id.String(), "cannot be started", "access.yaml")
	if p := s.pluginNamed(t, "auth"); p.State != "down" || !strings.Contains(p.LastError, "access.yaml") {
		t.Errorf("the plugin is shown as %v", p)
	}
	if out, code := s.ctl(t, "plugin", "list"); code != 0 || !strings.Contains(out, "access.yaml") || !strings.Contains(out, "disk1") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if err := os.Rename(s.file("elsewhere"), s.file("access.yaml")); err != nil {
		t.Fatal(err)
	}
	h.admits(t, s, id)
}

func TestKilledDaemonLeavesNoPluginOfAnyKind(t *testing.T) {
	t.Parallel()
	id := newInitiator()
	s := guarded(t, everything("one", id), "--ioctx-plugin", "ioctx")
	s.installAs(t, "ioctx", "ioctx")
	d := s.start(t)
	if n := len(s.processes(t, "")); n != 4 {
		t.Errorf("%d plugin processes, want 4", n)
	}
	d.signal(t, syscall.SIGKILL)
	d.wait(t)
	within(t, seconds(10), "every plugin process is gone", func() bool { return len(s.processes(t, "")) == 0 })
	s.start(t)
	newComputer(t).loginAs(t, s, id, 0, 1)
}

func TestSIGTERMWhileAPluginStartsEndsInOrder(t *testing.T) {
	t.Parallel()
	s := newSite(t, "--lun", "lun=0,path=DIR/disk,size=8MiB", "--auth-plugin", "sleeper")
	s.write(t, "sleeper", []byte("#!/bin/sh\nexec /bin/sleep 1000\n"))
	d := s.launch(t)
	eventually(t, "the operator sees what the start waits for", func() bool {
		r, err := ask(s, adminpb.AdminClient.Plugins, &adminpb.PluginsRequest{})
		return err == nil && len(r.Plugins) == 1 && r.Plugins[0].State == "starting"
	})
	for _, cmd := range []string{"status", "sessions", "connect-info"} {
		if out, code := s.ctl(t, cmd); code != 0 {
			t.Errorf("%s: exit code %d: %s", cmd, code, out)
		}
	}
	if _, code := s.ctl(t, "logout", "1"); code != 1 {
		t.Errorf("logging out nobody: exit code %d, want 1", code)
	}
	d.stop(t)
}
