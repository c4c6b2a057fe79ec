package rc

// Budget is the room that a socket's receive buffer leaves for READ responses. The machines that
// share one also share a goroutine.
type Budget struct {
	total, used int64
}

// NewBudget returns a budget of total bytes.
func NewBudget(total int64) *Budget { return &Budget{total: total} }

// take reserves n bytes. What is larger than the whole budget is granted when nothing else is
// out, so that no READ waits for ever.
func (b *Budget) take(n int64) bool {
	if b == nil {
		return true
	}
	if b.used != 0 && b.used+n > b.total {
		return false
	}
	b.used += n
	return true
}

func (b *Budget) give(n int64) {
	if b != nil {
		b.used -= n
	}
}

// Used is the room now reserved, in bytes.
func (b *Budget) Used() int64 { return b.used }

// Pool lends the buffers in which packets that overtook others are kept. The machines that share
// one also share a goroutine. Buffers are made on first use, never more than its limit.
type Pool struct {
	free  [][]byte
	made  int
	limit int
	size  int
}

// NewPool returns a pool of at most limit buffers of size bytes.
func NewPool(limit, size int) *Pool {
	return &Pool{limit: limit, size: size, free: make([][]byte, 0, limit)}
}

// get returns a copy of b in a buffer of the pool, or false if none is left or b is too long.
func (p *Pool) get(b []byte) ([]byte, bool) {
	if p == nil || len(b) > p.size {
		return nil, false
	}
	var buf []byte
	switch n := len(p.free); {
	case n > 0:
		buf, p.free = p.free[n-1], p.free[:n-1]
	case p.made < p.limit:
		p.made++
		buf = make([]byte, p.size)
	default:
		return nil, false
	}
	return buf[:copy(buf, b)], true
}

func (p *Pool) put(b []byte) {
	if cap(b) == p.size {
		p.free = append(p.free, b[:p.size])
	}
}

// Lent is how many buffers are out.
func (p *Pool) Lent() int { return p.made - len(p.free) }
