package main

import (
	"os/exec"
	"testing"
	"time"
)

// deadPeer is session.dead_peer of these tests, and freed the time within which a session must be gone: the machine may be
// busy with other things.
const (
	deadPeer = 5 * time.Second
	freed    = deadPeer + 5*time.Second
)

func TestSessionOfAKilledInitiatorIsFreedInTime(t *testing.T) {
	t.Parallel()
	s := newSite(t, append(quietLUN(), "--session-dead-peer", deadPeer.String(), "--lun", "lun=1,name=other,path=DIR/other,size=8MiB")...)
	s.start(t)
	honest := newLoad(t, dial(t, s, 1), 1, 8)
	end := honest.background(t)
	bench := exec.Command(executable(t, "srptctl"), "--socket", s.socket, "bench", "--local", loopback().String(), "--time", "5m",
		"--pattern", "randwrite", "--overwrite", "--depth", "32", "--block", "64KiB")
	var out output
	bench.Stdout, bench.Stderr = &out, &out
	if err := bench.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = bench.Wait() // it is killed
		close(ended)
	}()
	eventually(t, "the initiator writes", func() bool { return s.lun(t, 0).Counters["writes"] > 50 })
	if n := len(s.sessions(t)); n != 2 {
		t.Errorf("%d sessions, want 2\n%s", n, &out)
	}
	if err := bench.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	within(t, freed, "the session of the killed initiator is gone", func() bool { return len(s.sessions(t)) == 1 })
	end()
	if l := s.lun(t, 0); l.State != "ready" || l.Counters["store_flying"] != 0 {
		t.Errorf("LUN 0: %v", l)
	}
}

func TestVanishedInitiatorLogsInAgainAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, append(quietLUN(), "--session-dead-peer", "5m")...)
	s.start(t)
	p := newPeer(t, s)
	r := loginRequest()
	p.login(&r)
	eventually(t, "the session is there", func() bool { return len(s.sessions(t)) == 1 })
	p.conn.Close() // as after a reset of its host
	h := newComputerAt(t, p.addr)
	cfg := h.config(s)
	cfg.Initiator = r.Initiator
	begin := time.Now()
	session := h.login(t, cfg, 0)
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("the login took %v", d)
	}
	if err := newLoad(t, session, 0, 8).run(nil, 50); err != nil {
		t.Error(err)
	}
	eventually(t, "the old channel is gone", func() bool {
		list := s.sessions(t)
		return len(list) == 1 && len(list[0].Channels) == 1
	})
}

func TestSilentPeerIsFreedThoughItNeverSentAnything(t *testing.T) {
	t.Parallel()
	s := newSite(t, append(quietLUN(), "--session-dead-peer", deadPeer.String())...)
	s.start(t)
	p := newPeer(t, s)
	r := loginRequest()
	p.login(&r)
	eventually(t, "the session is there", func() bool { return len(s.sessions(t)) == 1 })
	within(t, freed, "the session is gone", func() bool { return len(s.sessions(t)) == 0 })
}

func TestIdleSessionOfALivingInitiatorStays(t *testing.T) {
	t.Parallel()
	long(t)
	s := newSite(t, append(quietLUN(), "--session-dead-peer", deadPeer.String())...)
	s.start(t)
	h := newComputer(t)
	session := h.login(t, h.config(s), 0)
	select {
	case <-session.Done():
		t.Errorf("the session has ended: %v", session.Err())
	case <-time.After(2 * deadPeer):
	}
	if err := session.TestUnitReady(soon(t), lunOf(0)); err != nil {
		t.Error(err)
	}
}
