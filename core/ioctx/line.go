package ioctx

// Turn says in whose name a buffer is asked for. Buffers go to the nexuses that wait in turn, and of each to its units in turn, so that
// no nexus, and no unit of one, waits longer because another one has much outstanding.
type Turn struct {
	// Nexus and Unit are the caller's names of them.
	Nexus, Unit uint64
}

// line is the leases that wait. It takes memory for the nexuses and units that wait, never gives it back, and uses it again.
type line struct {
	// nexuses is the one whose turn it is.
	nexuses *group
	// oldest and newest are the ends of the list of all, in the order of arrival, which is that of their deadlines.
	oldest, newest *Lease
	n              int
	spare          *group
}

// group is a nexus that waits, with its units, or such a unit, with its leases. The groups of one kind are a ring.
type group struct {
	key        uint64
	next, prev *group
	nexus      *group // of a unit
	units      *group // of a nexus: the one whose turn it is
	first      *Lease // of a unit
	last       *Lease
}

// head is the lease whose turn it is, nil if none waits.
func (q *line) head() *Lease {
	if q.nexuses == nil {
		return nil
	}
	return q.nexuses.units.first
}

// pass gives the turn to the next unit of the nexus, and to the next nexus.
func (q *line) pass() {
	n := q.nexuses
	n.units = n.units.next
	q.nexuses = n.next
}

// push lets a lease wait. Whoever did not wait yet has its first turn after all others.
func (q *line) push(l *Lease, by Turn) {
	n := q.find(&q.nexuses, by.Nexus)
	u := q.find(&n.units, by.Unit)
	u.nexus = n
	l.unit, l.next, l.prev = u, nil, u.last
	if u.last == nil {
		u.first = l
	} else {
		u.last.next = l
	}
	u.last = l
	l.newer, l.older = nil, q.newest
	if q.newest == nil {
		q.oldest = l
	} else {
		q.newest.newer = l
	}
	q.newest = l
	q.n++
}

// remove takes a lease out, wherever it stands.
func (q *line) remove(l *Lease) {
	u := l.unit
	if l.prev == nil {
		u.first = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		u.last = l.prev
	} else {
		l.next.prev = l.prev
	}
	if l.older == nil {
		q.oldest = l.newer
	} else {
		l.older.newer = l.newer
	}
	if l.newer == nil {
		q.newest = l.older
	} else {
		l.newer.older = l.older
	}
	l.unit, l.next, l.prev, l.newer, l.older = nil, nil, nil, nil, nil
	q.n--
	if u.first != nil {
		return
	}
	n := u.nexus
	if q.drop(&n.units, u); n.units == nil {
		q.drop(&q.nexuses, n)
	}
}

// find returns the group of a key in a ring, which it may add to. It looks at each that waits: nothing but a command that finds no
// buffer comes here.
func (q *line) find(ring **group, key uint64) *group {
	at := *ring
	for g := at; g != nil; {
		if g.key == key {
			return g
		}
		if g = g.next; g == at {
			break
		}
	}
	g := q.spare
	if g == nil {
		g = new(group)
	} else {
		q.spare = g.next
	}
	g.key = key
	if at == nil {
		g.next, g.prev = g, g
		*ring = g
		return g
	}
	g.next, g.prev = at, at.prev
	at.prev.next = g
	at.prev = g
	return g
}

// drop takes a group out of its ring; the turn, if it was its own, goes to the next.
func (q *line) drop(ring **group, g *group) {
	switch {
	case g.next == g:
		*ring = nil
	case *ring == g:
		*ring = g.next
	}
	g.prev.next, g.next.prev = g.next, g.prev
	*g = group{next: q.spare}
	q.spare = g
}
