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

// Pool lends the places in which packets that overtook others are kept. The machines that share
// one also share a goroutine. Places are made on first use, never more than the limit.
type Pool struct {
	free  []*held
	made  int
	limit int
	size  int
}

// held is a packet that waits for those before it, or for a receive.
type held struct {
	p   Packet
	buf []byte // of the pool's size; p.Payload is its start
}

// NewPool returns a pool of at most limit places for payloads of up to size bytes.
func NewPool(limit, size int) *Pool {
	return &Pool{limit: limit, size: size, free: make([]*held, 0, limit)}
}

// get returns a copy of p, or nil if no place is left or the payload is too long.
func (l *Pool) get(p *Packet) *held {
	if l == nil || len(p.Payload) > l.size {
		return nil
	}
	var h *held
	switch n := len(l.free); {
	case n > 0:
		h, l.free = l.free[n-1], l.free[:n-1]
	case l.made < l.limit:
		l.made++
		h = &held{buf: make([]byte, l.size)}
	default:
		return nil
	}
	h.p = *p
	h.p.Payload = h.buf[:copy(h.buf, p.Payload)]
	return h
}

func (l *Pool) put(h *held) { l.free = append(l.free, h) }

// Lent is how many places are taken.
func (l *Pool) Lent() int { return l.made - len(l.free) }
