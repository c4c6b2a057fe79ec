package plugintest

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/internal/ring"
)

// ofRings are the checks of a plugin with rings against a host that lies.
var ofRings = []check{
	{"requests outside the store are answered out of range", checkOutOfRange},
	{"an entry that no host writes ends the ring, is told in Health, and hurts nothing else", checkHostileEntries},
	{"a queue whose memory is no ring is refused", checkHostileQueues},
}

func (r *run) needRing() {
	r.Helper()
	if !r.ring() {
		r.Skip("the plugin has no ring, or is to be checked without")
	}
}

func checkOutOfRange(r *run) {
	r.needRing()
	h := r.hostile()
	bs := uint64(h.info.BlockSize)
	size := h.info.Blocks * bs
	top := uint64(math.MaxInt64) / bs * bs
	q := h.queue(8)
	for i, off := range []uint64{size - bs, size, size + bs, top - 2*bs} {
		for _, op := range []backstore.Op{backstore.OpRead, backstore.OpWrite} {
			code, ok := q.do(ring.Entry{Op: uint8(op), Offset: off, Length: uint32(2 * bs)})
			if !ok || code != uint16(backstore.CodeRange) {
				r.Errorf("%d: operation %d of two blocks at %d of %d bytes: code %d, want %d; answered %v", i, op, off, size,
					code, backstore.CodeRange, ok)
			}
		}
	}
	if why := h.broken(q.id); why != "" {
		r.Errorf("the ring is broken by it: %s", why)
	}
}

// lie is what a hostile host does to a ring.
type lie struct {
	name string
	tell func(h *hostile, q *hostileQueue)
}

func entryLie(change func(h *hostile, e *ring.Entry)) func(*hostile, *hostileQueue) {
	return func(h *hostile, q *hostileQueue) {
		e := ring.Entry{Op: uint8(backstore.OpRead), Length: h.info.BlockSize}
		change(h, &e)
		q.push(e)
		q.publish()
	}
}

var lies = []lie{
	{"data beyond the arena", entryLie(func(h *hostile, e *ring.Entry) { e.Arena = uint64(len(h.arena.Bytes())) })},
	{"data across the arena's end", entryLie(func(h *hostile, e *ring.Entry) {
		e.Arena, e.Length = uint64(len(h.arena.Bytes()))-4096, 4096+h.info.BlockSize
	})},
	{"data whose place overflows", entryLie(func(_ *hostile, e *ring.Entry) { e.Arena = math.MaxUint64 - 4095 })},
	{"a write from beyond the arena", entryLie(func(h *hostile, e *ring.Entry) {
		e.Op, e.Arena = uint8(backstore.OpWrite), 1<<62
	})},
	{"no operation", entryLie(func(_ *hostile, e *ring.Entry) { e.Op = 0 })},
	{"an unknown operation", entryLie(func(_ *hostile, e *ring.Entry) { e.Op = 200 })},
	{"another generation", func(h *hostile, q *hostileQueue) {
		q.push(ring.Entry{Op: uint8(backstore.OpRead), Length: h.info.BlockSize})
		q.host.Bytes()[ringHead+8] ^= 0xff
		q.publish()
	}},
	{"more requests than there are entries", func(_ *hostile, q *hostileQueue) {
		binary.LittleEndian.PutUint32(q.host.Bytes()[ringTail:], 1000)
		q.bell.Ring()
	}},
}

func checkHostileEntries(r *run) {
	r.needRing()
	h := r.hostile()
	for _, l := range lies {
		if r.Failed() {
			return
		}
		q := h.queue(8)
		l.tell(h, q)
		told := eventually(r.TB, 5*time.Second, func() bool { return h.broken(q.id) != "" || h.dead() })
		switch {
		case h.dead():
			r.Fatalf("%s: the process has ended: %s", l.name, h.Ending())
		case !told:
			r.Errorf("%s: Health does not tell of it", l.name)
		}
		if code, ok := q.pop(); ok && code == 0 {
			r.Errorf("%s: it is answered as done", l.name)
		}
		if err := q.detach(); err != nil {
			r.Errorf("%s: letting go of the ring: %v", l.name, err)
		}
		if code, ok := h.queue(8).do(ring.Entry{Op: uint8(backstore.OpRead), Length: h.info.BlockSize}); !ok || code != 0 {
			r.Fatalf("%s: afterwards a read over another ring is answered %v, with code %d", l.name, ok, code)
		}
	}
}

func checkHostileQueues(r *run) {
	r.needRing()
	h := r.hostile()
	for _, c := range []struct {
		name            string
		made, announced uint32
		generation      uint32
		store           uint64
		change          func([]byte)
	}{
		{"no magic number", 8, 8, 1, h.store, func(b []byte) { b[0] ^= 1 }},
		{"another layout", 8, 8, 1, h.store, func(b []byte) { b[8]++ }},
		{"another generation", 8, 8, 2, h.store, nil},
		{"fewer entries than announced", 8, 16, 1, h.store, nil},
		{"entries that are no power of two", 8, 7, 1, h.store, nil},
		{"no entries", 8, 0, 1, h.store, nil},
		{"too many entries", 8, 1 << 31, 1, h.store, nil},
		{"a store that is not open", 8, 8, 1, h.store + 77, nil},
	} {
		q := h.make(c.made)
		if c.change != nil {
			c.change(q.host.Bytes())
		}
		if err := h.attach(q, c.store, c.announced, c.generation); err == nil {
			r.Errorf("%s: the queue is taken", c.name)
		}
		if h.dead() {
			r.Fatalf("%s: the process has ended: %s", c.name, h.Ending())
		}
	}
	if code, ok := h.queue(8).do(ring.Entry{Op: uint8(backstore.OpRead), Length: h.info.BlockSize}); !ok || code != 0 {
		r.Errorf("afterwards a read is answered %v, with code %d", ok, code)
	}
}
