package ioctx

// Fence knows which bytes of an arena somebody who is gone may still touch, such as a dead plugin's I/O in the kernel. Its
// methods may be called often and must not block.
type Fence interface {
	// Tainted tells whether b may still be touched.
	Tainted(b []byte) bool
	// Lifted changes when something that was tainted is not any more.
	Lifted() uint64
}

// quarantine keeps the buffers that were given back while the fence said that they may still be touched.
type quarantine struct {
	fence  Fence
	seen   uint64 // Lifted, when the buffers were looked at last
	blocks []block
}

// block is a buffer without a lease.
type block struct {
	off, size uint64
}

// keeps takes a buffer that may not be lent again yet, and tells whether it did.
func (a *Arena) keeps(b block) bool {
	q := &a.quarantine
	if q.fence == nil || !q.fence.Tainted(a.mem[b.off:b.off+b.size]) {
		return false
	}
	q.blocks = append(q.blocks, b)
	a.stats.Quarantined += uint64(pagesOf(b.size)) * PageSize
	return true
}

// lifted tells whether buffers may have become free of taint.
func (q *quarantine) lifted() bool { return len(q.blocks) > 0 && q.fence.Lifted() != q.seen }

// discharge takes back the buffers that nobody can touch any more, and tells whether there were any.
func (a *Arena) discharge() bool {
	q := &a.quarantine
	if !q.lifted() {
		return false
	}
	q.seen = q.fence.Lifted()
	blocks := q.blocks
	q.blocks = blocks[:0]
	a.stats.Quarantined = 0
	for _, b := range blocks {
		if !a.keeps(b) {
			a.pages.put(int32(b.off/PageSize), pagesOf(b.size))
		}
	}
	return len(q.blocks) < len(blocks)
}
