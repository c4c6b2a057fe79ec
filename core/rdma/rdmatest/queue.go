package rdmatest

import "github.com/gosrpt/gosrpt/core/rdma"

// slot holds a work request from Post until it is freed.
type slot struct {
	id         uint64
	op         rdma.Op
	flags      rdma.Flags
	remoteAddr uint64
	rkey       uint32
	total      uint64
	sgl        []piece
}

// queue is the work of one direction of a queue pair. Each counter names a slot by its place in
// the order of posting: freed <= done <= ready <= posted <= freed+len(slots).
type queue struct {
	slots []slot
	// posted counts what was taken, ready what may be transmitted, done what has been carried
	// out, and freed what is covered by a completion that Poll has returned.
	posted, ready, done, freed uint64
}

func newQueue(depth, maxSGE int) queue {
	q := queue{slots: make([]slot, depth)}
	pieces := make([]piece, depth*maxSGE)
	for i := range q.slots {
		q.slots[i].sgl = pieces[i*maxSGE : i*maxSGE : (i+1)*maxSGE]
	}
	return q
}

func (q *queue) at(n uint64) *slot { return &q.slots[n%uint64(len(q.slots))] }
func (q *queue) inUse() int        { return int(q.posted - q.freed) }
func (q *queue) full() bool        { return q.inUse() == len(q.slots) }

// put checks a work request against the device and takes it. It returns false if it is invalid.
func (q *queue) put(d *Device, w *rdma.Work) bool {
	s := q.at(q.posted)
	sgl := s.sgl[:0]
	if len(w.SGL) > cap(sgl) {
		return false
	}
	var total uint64
	for _, e := range w.SGL {
		p, ok := d.check(e)
		if !ok {
			return false
		}
		sgl, total = append(sgl, p), total+p.n
	}
	if total > uint64(d.cfg.MaxMessage) {
		return false
	}
	*s = slot{id: w.ID, op: w.Op, flags: w.Flags, remoteAddr: w.RemoteAddr, rkey: w.RKey, total: total, sgl: sgl}
	q.posted++
	return true
}

// intact tells whether every region of the slot is still open.
func (s *slot) intact() bool {
	for _, p := range s.sgl {
		if p.r.closed {
			return false
		}
	}
	return true
}

// isSink tells whether every region of the slot was registered for RDMA READs to put data there. This device is as strict about it as
// one of iWARP.
func (s *slot) isSink() bool {
	for _, p := range s.sgl {
		if p.r.access&rdma.ReadSink == 0 {
			return false
		}
	}
	return true
}
