//go:build verbs

package verbs

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

// brokenSocket gives the errors in turn, then messages for ever after from the last place.
type brokenSocket struct {
	errs  []error
	reads int
}

func (s *brokenSocket) Read(b []byte) (int, error) {
	err := s.errs[min(s.reads, len(s.errs)-1)]
	s.reads++
	if err != nil {
		return 0, err
	}
	return copy(b, "news"), nil
}

func listening(log *strings.Builder) *watcher {
	p := &Provider{cfg: Config{Log: hclog.New(&hclog.LoggerOptions{Output: log})}}
	return &watcher{prov: p, news: make(chan struct{}, 1), quit: make(chan struct{})}
}

func TestSocketThatFailsForGoodIsNotReadWithoutAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		w := listening(&log)
		s := &brokenSocket{errs: []error{unix.EBADF}}
		w.work.Go(func() { w.listen(s, func([]byte) bool { return true }) })
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.reads < 12 || s.reads > 30 {
			t.Errorf("%d reads in a minute", s.reads)
		}
		if len(w.news) != 1 {
			t.Error("nobody looks at the devices")
		}
		close(w.quit)
		w.work.Wait()
		if n := strings.Count(log.String(), "cannot read the kernel's events"); n != 1 || !strings.Contains(log.String(), unix.EBADF.Error()) {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
	})
}

func TestMessagesThatWereDroppedAreNewsAndNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		w := listening(&log)
		s := &brokenSocket{errs: []error{unix.ENOBUFS, nil, nil, unix.ENOBUFS, os.ErrClosed}}
		w.listen(s, func([]byte) bool { return false })
		if s.reads != 5 || len(w.news) != 1 || log.Len() != 0 {
			t.Errorf("%d reads, log %q", s.reads, log.String())
		}
	})
}
