//go:build verbs

package verbs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/async"
)

var _ rdma.Watcher = (*Provider)(nil)

// Watch begins to keep events: devices that come and go, and what those that are open tell of themselves and their ports.
func (p *Provider) Watch() (rdma.Watch, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, failed("watch", p.cfg.Name, rdma.ErrClosed)
	}
	if p.watcher == nil {
		w, err := newWatcher(p)
		if err != nil {
			return nil, failed("watch", p.cfg.Name, err)
		}
		p.watcher = w
	}
	return p.events.Watch()
}

// watcher compares the devices with what they were whenever the kernel says that an RDMA device has come or is going, or that an
// address has changed. What it says is not read any further: the kernel drops messages when there are many, and a comparison misses
// nothing.
type watcher struct {
	prov  *Provider
	files []*os.File
	seen  map[string]uint32 // index by name, of those that are devices
	all   map[string]uint32 // of all that there are
	news  chan struct{}
	quit  chan struct{}
	work  sync.WaitGroup
}

// settle is the pause before a comparison: changes come in bursts.
const settle = 20 * time.Millisecond

// kernelEvents is the multicast group of the kernel's own uevents.
const kernelEvents = 1

func newWatcher(p *Provider) (*watcher, error) {
	w := &watcher{prov: p, news: make(chan struct{}, 1), quit: make(chan struct{})}
	for _, s := range []struct {
		proto  int
		groups uint32
		about  func([]byte) bool
	}{
		{unix.NETLINK_KOBJECT_UEVENT, kernelEvents, func(b []byte) bool { return bytes.Contains(b, []byte("SUBSYSTEM=infiniband")) }},
		{unix.NETLINK_ROUTE, async.Addresses, func([]byte) bool { return true }},
	} {
		f, err := async.Netlink(s.proto, s.groups)
		if err != nil {
			w.close()
			return nil, err
		}
		w.files = append(w.files, f)
		w.work.Go(func() { w.listen(f, s.about) })
	}
	var err error
	if w.seen, err = w.look(func(a adapter) bool { return p.devices[a.name] != nil || p.would(a) }); err != nil {
		w.close()
		return nil, err
	}
	w.work.Go(w.run)
	return w, nil
}

func (w *watcher) close() {
	close(w.quit)
	for _, f := range w.files {
		f.Close()
	}
	w.work.Wait()
}

// The pause after a read that failed, doubled while reads go on to fail.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 5 * time.Second
)

// listen passes on that there is news. An error is as good as a message: the kernel has dropped some (ENOBUFS). One that stays turns
// listening into looking now and then, and is told to the log once.
func (w *watcher) listen(f io.Reader, about func([]byte) bool) {
	b := make([]byte, 64<<10)
	pause := time.Duration(0)
	for {
		n, err := f.Read(b)
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case err == nil:
			pause = 0
			if about(b[:n]) {
				w.tell()
			}
			continue
		}
		w.tell()
		if pause == 0 && !errors.Is(err, unix.ENOBUFS) {
			w.prov.cfg.Log.Warn("cannot read the kernel's events, looking at the devices now and then", "error", err)
		}
		if pause = min(max(2*pause, firstPause), lastPause); !w.wait(pause) {
			return
		}
	}
}

// wait returns false if the watcher is closed meanwhile.
func (w *watcher) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.quit:
		return false
	}
}

func (w *watcher) tell() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func (w *watcher) run() {
	for {
		select {
		case <-w.quit:
			return
		case <-w.news:
		}
		time.Sleep(settle)
		w.compare()
	}
}

func (w *watcher) look(wanted func(adapter) bool) (map[string]uint32, error) {
	list, err := adapters()
	if err != nil {
		return nil, err
	}
	m, all := make(map[string]uint32), make(map[string]uint32)
	for _, a := range list {
		all[a.name] = a.index
		if wanted(a) {
			m[a.name] = a.index
		}
	}
	if lost(w.all, all) {
		w.prov.forgetGone()
	}
	w.all = all
	return m, nil
}

// compare tells which devices have gone and come. Devices that are going have to be told first: the kernel may wait for us to let go.
func (w *watcher) compare() {
	now, err := w.look(func(a adapter) bool {
		index, known := w.seen[a.name]
		return known && index == a.index || w.prov.serves(a)
	})
	if err != nil {
		w.prov.cfg.Log.Warn("cannot look at the RDMA devices", "error", err)
		return
	}
	for name, index := range w.seen {
		if i, there := now[name]; !there || i != index {
			w.prov.lost(name, index)
			w.prov.events.Post(rdma.AsyncEvent{Kind: rdma.AsyncDeviceRemoved, Device: name})
		}
	}
	for name, index := range now {
		if i, was := w.seen[name]; !was || i != index {
			w.prov.events.Post(rdma.AsyncEvent{Kind: rdma.AsyncDeviceAdded, Device: name})
		}
	}
	w.seen = now
}

// lost tells whether something of the old is not there any more.
func lost(old, now map[string]uint32) bool {
	for name, index := range old {
		if i, there := now[name]; !there || i != index {
			return true
		}
	}
	return false
}
