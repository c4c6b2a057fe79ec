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
	// all is in the order of arrival, which is that of the deadlines.
	all   chain
	n     int
	spare *group
}

// chain is leases in the order in which they came, linked through themselves.
type chain struct {
	first, last *Lease
}

// place says which chain a link of a lease is of.
type place int

const (
	inUnit place = iota
	inAll
	places
)

type link struct {
	next, prev *Lease
}

func (c *chain) push(l *Lease, at place) {
	l.links[at] = link{prev: c.last}
	if c.last == nil {
		c.first = l
	} else {
		c.last.links[at].next = l
	}
	c.last = l
}

func (c *chain) remove(l *Lease, at place) {
	k := l.links[at]
	if k.prev == nil {
		c.first = k.next
	} else {
		k.prev.links[at].next = k.next
	}
	if k.next == nil {
		c.last = k.prev
	} else {
		k.next.links[at].prev = k.prev
	}
	l.links[at] = link{}
}

// group is a nexus that waits, with its units, or such a unit, with its leases. The groups of one kind are a ring.
type group struct {
	key        uint64
	next, prev *group
	nexus      *group // of a unit
	units      *group // of a nexus: the one whose turn it is
	leases     chain  // of a unit
}

// head is the lease whose turn it is, nil if none waits.
func (q *line) head() *Lease {
	if q.nexuses == nil {
		return nil
	}
	return q.nexuses.units.leases.first
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
	l.unit = u
	u.leases.push(l, inUnit)
	q.all.push(l, inAll)
	q.n++
}

// remove takes a lease out, wherever it stands.
func (q *line) remove(l *Lease) {
	u := l.unit
	u.leases.remove(l, inUnit)
	q.all.remove(l, inAll)
	l.unit = nil
	q.n--
	if u.leases.first != nil {
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
