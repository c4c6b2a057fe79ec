package roce

import (
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/core/rdma"
	"github.com/gosrpt/gosrpt/core/rdma/async"
)

var _ rdma.Watcher = (*Provider)(nil)

// Watch begins to keep events: interfaces that come and go, their links and addresses.
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

// watcher compares the interfaces with what they were whenever the kernel says that something about them has changed. What it says is
// not read: the kernel drops messages when there are many, and a comparison misses nothing.
type watcher struct {
	prov *Provider
	file *os.File
	seen map[int]nic // by interface index
	done chan struct{}
}

// settle is the pause before a comparison: changes come in bursts.
const settle = 20 * time.Millisecond

func newWatcher(p *Provider) (*watcher, error) {
	file, err := async.Netlink(unix.NETLINK_ROUTE, async.Addresses)
	if err != nil {
		return nil, err
	}
	w := &watcher{prov: p, file: file, done: make(chan struct{})}
	if w.seen, err = w.look(p.cfg.wants); err != nil {
		w.file.Close()
		return nil, err
	}
	go w.run()
	return w, nil
}

func (w *watcher) close() {
	w.file.Close()
	<-w.done
}

func (w *watcher) run() {
	defer close(w.done)
	b := make([]byte, 64<<10)
	for {
		_ = w.file.SetReadDeadline(w.prov.lookAgain()) // fails only on a closed file
		_, err := w.file.Read(b)
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			w.prov.follow()
		default: // ENOBUFS, too, is as good as a message: there is news
			time.Sleep(settle)
			w.drain(b)
			w.prov.follow()
			w.compare()
		}
	}
}

// drain throws away what came meanwhile: one look is enough for all of it.
func (w *watcher) drain(b []byte) {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return // closed
	}
	_ = raw.Control(func(fd uintptr) {
		for range 10_000 { // they may come faster than they are read
			if _, err := unix.Read(int(fd), b); err != nil && !errors.Is(err, unix.ENOBUFS) {
				return
			}
		}
	})
}

// lookAgain is when to look at the addresses without an event: never, if all is settled.
func (p *Provider) lookAgain() (at time.Time) {
	if slices.ContainsFunc(p.list(), (*Device).unsettled) {
		at = time.Now().Add(p.cfg.followEvery())
	}
	return at
}

// follow makes every device follow its addresses, and tells of those whose have changed.
func (p *Provider) follow() {
	for _, d := range p.list() {
		if d.follow() {
			p.events.Post(rdma.AsyncEvent{Kind: rdma.AsyncGIDChange, Device: d.name, Port: 1})
		}
	}
}

// list lists the devices that have not been closed.
func (p *Provider) list() []*Device {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.devices))
}

// look lists the interfaces that are, or would be, devices.
func (w *watcher) look(wanted func(*nic) bool) (map[int]nic, error) {
	list, err := nics(&w.prov.cfg)
	if err != nil {
		return nil, err
	}
	m := make(map[int]nic)
	for i := range list {
		if wanted(&list[i]) {
			m[list[i].index] = list[i]
		}
	}
	return m, nil
}

// compare tells what is different from what was seen last.
func (w *watcher) compare() {
	now, err := w.look(func(n *nic) bool {
		_, known := w.seen[n.index]
		return known || w.prov.serves(n)
	})
	if err != nil {
		w.prov.cfg.Log.Warn("cannot look at the network interfaces", "error", err)
		return
	}
	for _, ev := range changes(w.seen, now) {
		w.prov.events.Post(ev)
	}
	w.seen = now
}

// changes says how one set of interfaces became another. Removals come first: a renamed interface may have another one's old name.
func changes(old, now map[int]nic) []rdma.AsyncEvent {
	var gone, events []rdma.AsyncEvent
	for index, o := range old {
		n, there := now[index]
		if !there || n.name != o.name || n.mac != o.mac {
			gone = append(gone, rdma.AsyncEvent{Kind: rdma.AsyncDeviceRemoved, Device: o.name})
		}
	}
	for index, n := range now {
		o, was := old[index]
		if !was || n.name != o.name || n.mac != o.mac {
			events = append(events, rdma.AsyncEvent{Kind: rdma.AsyncDeviceAdded, Device: n.name})
			continue
		}
		for _, c := range []struct {
			kind rdma.AsyncKind
			is   bool
		}{
			{rdma.AsyncPortError, o.up && !n.up}, {rdma.AsyncPortActive, !o.up && n.up},
			{rdma.AsyncGIDChange, !slices.Equal(o.addrs, n.addrs)}, {rdma.AsyncPortChange, o.mtu != n.mtu},
		} {
			if c.is {
				events = append(events, rdma.AsyncEvent{Kind: c.kind, Device: n.name, Port: 1})
			}
		}
	}
	return append(gone, events...)
}
