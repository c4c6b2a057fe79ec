package conn

import (
	"time"

	"github.com/gosrpt/gosrpt/core/rdma"
)

// client is what a reactor runs: a Channel. All calls come from the reactor's goroutine.
type client interface {
	// complete takes a completion of the client's queue pair.
	complete(c *rdma.Completion)
	// work does what complete and the sources left to do. It returns true if it stopped at its
	// bound and wants to be called again.
	work() bool
	// deadline is when expire must be called; the zero time means never.
	deadline() time.Time
	expire()
	// kill ends the client at once.
	kill()
	// device is the one that its queue pair is on.
	device() rdma.Device
}

// clients is the table of a reactor's clients. A handle is the index of the entry and its
// generation, so that the handle of a client that has gone finds nobody.
type clients struct {
	table []clientEntry
	free  []uint32
	ready []uint32
	spare []uint32
	n     int
}

type clientEntry struct {
	client  client
	gen     uint32
	isReady bool
}

// add enters c and returns its handle.
func (t *clients) add(c client) uint64 {
	var i uint32
	if n := len(t.free); n > 0 {
		i, t.free = t.free[n-1], t.free[:n-1]
	} else {
		i = uint32(len(t.table))
		t.table = append(t.table, clientEntry{})
	}
	t.table[i].client = c
	t.n++
	return uint64(t.table[i].gen)<<32 | uint64(i)
}

func (t *clients) entry(handle uint64) *clientEntry {
	i := uint32(handle)
	if uint64(i) >= uint64(len(t.table)) || t.table[i].gen != uint32(handle>>32) {
		return nil
	}
	return &t.table[i]
}

func (t *clients) get(handle uint64) client {
	if e := t.entry(handle); e != nil {
		return e.client
	}
	return nil
}

// remove takes the client out of the table. It does nothing if it has gone already.
func (t *clients) remove(handle uint64) {
	e := t.entry(handle)
	if e == nil || e.client == nil {
		return
	}
	e.client = nil
	e.gen++
	t.n--
	if !e.isReady { // else runReady frees the entry, which is still in its list
		t.free = append(t.free, uint32(handle))
	}
}

// markReady has the client's work called in this turn.
func (t *clients) markReady(handle uint64) {
	e := t.entry(handle)
	if e == nil || e.client == nil || e.isReady {
		return
	}
	e.isReady = true
	t.ready = append(t.ready, uint32(handle))
}

// runReady calls work of each client that was marked, once, and returns whether there is more.
func (t *clients) runReady() bool {
	list := t.ready
	t.ready = t.spare[:0]
	for _, i := range list {
		e := &t.table[i]
		e.isReady = false
		if e.client == nil {
			t.free = append(t.free, i)
			continue
		}
		if c := e.client; c.work() {
			t.markReady(uint64(t.table[i].gen)<<32 | uint64(i))
		}
	}
	t.spare = list[:0]
	return len(t.ready) > 0
}

// each calls f for every client; f may remove clients.
func (t *clients) each(f func(client)) {
	for i := range t.table {
		if c := t.table[i].client; c != nil {
			f(c)
		}
	}
}
