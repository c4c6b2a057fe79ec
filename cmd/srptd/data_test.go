package main

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/gosrpt/gosrpt/core/initiator"
)

// diskLUNs are two LUNs, one with 4096-byte blocks.
func diskLUNs() []string {
	return []string{"--lun", "lun=0,name=a,path=DIR/a,size=24MiB", "--lun", "lun=300,name=b,path=DIR/b,size=24MiB,block_size=4096"}
}

// requests is how many a test makes: quick of them under -short.
func requests(quick, all int) int {
	if testing.Short() {
		return quick
	}
	return all
}

func TestEveryBlockIsAsWrittenInEveryFormatAtDepth32(t *testing.T) {
	t.Parallel()
	s := newSite(t, diskLUNs()...)
	d := s.start(t)
	session := dial(t, s, 0, 300)
	loads := []*load{newLoad(t, session, 0, 32), newLoad(t, session, 300, 32)}
	if loads[0].size != 512 || loads[1].size != 4096 {
		t.Errorf("block sizes %d and %d", loads[0].size, loads[1].size)
	}
	runAll(t, requests(200, 2000), loads...)
	compareFile(t, session, loads[0], s.file("a"))
	compareFile(t, session, loads[1], s.file("b"))

	if err := session.Logout(soon(t)); err != nil {
		t.Errorf("logout: %v", err)
	}
	again := dial(t, s, 0, 300)
	for _, l := range loads {
		l.use(t, again, 32)
		l.verifyAll(t)
	}
	d.stop(t)
	<-again.Done()

	s.start(t)
	after := dial(t, s, 0, 300)
	for _, l := range loads {
		l.use(t, after, 32)
		l.verifyAll(t)
	}
	runAll(t, requests(50, 500), loads...)
}

// runAll runs loads at the same time.
func runAll(t testing.TB, n int, loads ...*load) {
	t.Helper()
	var all sync.WaitGroup
	for _, l := range loads {
		all.Go(func() {
			if err := l.run(nil, n); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// compareFile holds a store's file against the model, after SYNCHRONIZE CACHE.
func compareFile(t testing.TB, s *initiator.Session, l *load, path string) {
	t.Helper()
	if err := s.SyncCache(soon(t), l.lun); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) != len(l.model)*l.size {
		t.Errorf("%s has %d bytes, the LUN %d blocks of %d", path, len(b), len(l.model), l.size)
	}
	if err := l.compare(b, 0); err != nil {
		t.Errorf("%s: %v", path, err)
	}
}

func TestSeveralSessionsShareALUNWithoutMixingTheirData(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, diskLUNs()...)
	a, b := dial(t, d.site, 0), dial(t, d.site, 300)
	runAll(t, requests(100, 800), newLoad(t, a, 0, 32), newLoad(t, b, 300, 32))
	if n := len(d.sessions(t)); n != 2 {
		t.Errorf("%d sessions, want 2", n)
	}
}

func TestReadOnlyLUNRefusesWritesAndServesReads(t *testing.T) {
	t.Parallel()
	s := newSite(t, "--lun", "lun=0,name=w,path=DIR/a,size=8MiB", "--lun", "lun=1,name=r,path=DIR/b,read_only=true")
	content := make([]byte, 1<<20)
	copy(content, noise)
	if err := os.WriteFile(s.file("b"), content, 0o400); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	session := dial(t, s, 0, 1)
	got := make([]byte, 4096)
	if err := session.Read(soon(t), lunOf(1), 0, 8, got); err != nil || string(got) != string(content[:4096]) {
		t.Errorf("read: %v", err)
	}
	err := session.Write(soon(t), lunOf(1), 0, 8, got)
	var status *initiator.StatusError
	if !errors.As(err, &status) {
		t.Fatalf("write: %v, want a status", err)
	}
	if key, asc, _ := status.Code(); key != 7 || asc != 0x27 {
		t.Errorf("write: %v, want DATA PROTECT, WRITE PROTECTED", err)
	}
	if l := s.lun(t, 1); !l.ReadOnly || l.State != "ready" {
		t.Errorf("status: %v", l)
	}
}

func TestReportLUNsListsThoseOfTheConfiguration(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, diskLUNs()...)
	list, err := dial(t, d.site).ReportLUNs(soon(t))
	if err != nil || len(list) != 2 || list[0] != lunOf(0) || list[1] != lunOf(300) {
		t.Errorf("REPORT LUNS: %v, %v", list, err)
	}
}

func TestLoadedDaemonEndsInOrder(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, diskLUNs()...)
	s := dial(t, d.site, 0, 300)
	l := newLoad(t, s, 0, 32)
	result := make(chan error, 1)
	go func() { result <- l.run(nil, -1) }()
	eventually(t, "commands are served", func() bool { return d.lun(t, 0).Counters["writes"] > 20 })
	d.stop(t)
	if err := <-result; !errors.Is(err, initiator.ErrDisconnected) {
		t.Errorf("the load ended with %v, want the end of the session", err)
	}
}
