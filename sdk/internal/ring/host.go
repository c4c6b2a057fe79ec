package ring

import "sync/atomic"

// MaxCode is the highest completion code that a plugin may answer: CodeMiscompare of sdk/backstore, and that only to a
// compare-and-write. To anything else it is the one below.
const MaxCode = codeMiscompare

// Done is a completion that has passed every check.
type Done struct {
	// Slot is the one given to Push.
	Slot uint32
	Code uint16
	// At is the offset of the first byte that differs, if Code is CodeMiscompare, and 0 otherwise.
	At uint32
}

// Host is the host's half of a ring.
type Host struct {
	sqes []byte
	cqes []byte

	tail       *atomic.Uint32 // own
	wake       *atomic.Uint32 // own
	peerTail   *atomic.Uint32
	peerTaken  *atomic.Uint32
	peerWake   *atomic.Uint32
	peerBeat   *atomic.Uint64
	generation uint32
	entries    uint32

	pushed   uint32 // requests written
	shown    uint32 // requests published; tail says the same
	popped   uint32 // completions taken
	inFlight uint32
	asleep   bool
	wakeWord uint32
	rungFor  uint32
	slots    []slot
	broken   *Violation
}

type slot struct {
	use    uint32
	length uint32
	busy   bool
	op     uint8
}

// NewHost formats regions, which must be nobody else's yet, as a ring and returns the host's half.
func NewHost(r Regions, entries, generation uint32) (*Host, error) {
	if err := r.check(entries); err != nil {
		return nil, err
	}
	r.format(entries, generation)
	return &Host{
		sqes: r.Host[headSize:HostSize(entries)], cqes: r.Plugin[headSize : headSize+int(entries)*CQESize],
		tail: word32(r.Host, offTail), wake: word32(r.Host, offWake),
		peerTail: word32(r.Plugin, offTail), peerTaken: word32(r.Plugin, offTaken),
		peerWake: word32(r.Plugin, offWake), peerBeat: word64(r.Plugin, offHeartbeat),
		entries: entries, generation: generation,
		slots: make([]slot, entries),
	}, nil
}

// Push writes a request into slot, below the number of entries and free. The entry's Tag is set by Push. The plugin sees the
// request at the next Publish.
func (h *Host) Push(n uint32, e Entry) {
	s := &h.slots[n]
	if s.busy {
		panic("ring: Push into a slot in flight")
	}
	s.busy, s.length, s.op = true, e.Length, e.Op
	s.use++
	e.Tag = uint64(s.use)<<32 | uint64(n)
	at := int(h.pushed&(h.entries-1)) * SQESize
	e.put((*[SQESize]byte)(h.sqes[at:]), h.generation)
	h.pushed++
	h.inFlight++
}

// Publish shows the plugin every request pushed, and tells whether its doorbell must be rung. It need not without a new one.
func (h *Host) Publish() (ring bool) {
	if h.shown == h.pushed {
		return false
	}
	h.shown = h.pushed
	announce(h.tail, h.pushed)
	return mustRing(h.peerWake, &h.rungFor)
}

// announce stores a word before anything that this side loads afterwards, which is what wake-ups hang on: either the peer sees
// this side's word or this side sees the peer's. It swaps, for under the race detector a Store to mapped memory is not ordered
// with the loads that follow it (golang/go#58020), and the peer is another process.
func announce(word *atomic.Uint32, v uint32) { word.Swap(v) }

// mustRing tells whether the peer sleeps and has not been woken from this sleep. It follows the announcement of an index, and
// the peer looks at the index after it has announced its sleep.
func mustRing(peerWake *atomic.Uint32, rungFor *uint32) bool {
	w := peerWake.Load()
	if w&1 == 0 || w == *rungFor {
		return false
	}
	*rungFor = w
	return true
}

// Pop fills out with completions and returns how many. A Violation is for ever; completions before it are returned.
func (h *Host) Pop(out []Done) (int, error) {
	if h.broken != nil {
		return 0, h.broken
	}
	tail := h.peerTail.Load()
	ready := tail - h.popped
	if ready > h.inFlight {
		return 0, h.breach(BreachIndex, uint64(tail), uint64(h.popped)+uint64(h.inFlight))
	}
	n := 0
	for n < len(out) && ready > 0 {
		if err := h.pop(&out[n]); err != nil {
			return n, err
		}
		n++
		ready--
	}
	return n, nil
}

func (h *Host) pop(d *Done) error {
	var b [CQESize]byte
	var c Completion
	copy(b[:], h.cqes[int(h.popped&(h.entries-1))*CQESize:])
	if g := c.get(&b); g != h.generation {
		return h.breach(BreachGeneration, uint64(g), uint64(h.generation))
	}
	n := uint32(c.Tag)
	if n >= h.entries {
		return h.breach(BreachTag, c.Tag, uint64(h.entries))
	}
	s := &h.slots[n]
	if !s.busy || uint32(c.Tag>>32) != s.use {
		return h.breach(BreachTag, c.Tag, uint64(s.use)<<32|uint64(n))
	}
	if c.Code >= codeMiscompare && (c.Code > MaxCode || s.op != opCompareAndWrite) {
		return h.breach(BreachCode, uint64(c.Code), MaxCode-1)
	}
	if c.Bytes > s.length || (c.Code == 0 && c.Bytes != s.length) {
		return h.breach(BreachBytes, uint64(c.Bytes), uint64(s.length))
	}
	*d = Done{Slot: n, Code: c.Code}
	if c.Code == codeMiscompare {
		if c.At >= s.length/2 {
			return h.breach(BreachAt, uint64(c.At), uint64(s.length/2))
		}
		d.At = c.At
	}
	s.busy = false
	h.popped++
	h.inFlight--
	return nil
}

func (h *Host) breach(b Breach, got, limit uint64) error {
	h.broken = &Violation{Breach: b, Got: got, Limit: limit}
	return h.broken
}

// Sleep publishes that the host wants its doorbell rung for the next completion. It returns false, and the host is
// awake, if there is one already.
func (h *Host) Sleep() bool {
	if !h.asleep {
		h.asleep = true
		h.wakeWord++
		announce(h.wake, h.wakeWord)
	}
	if h.peerTail.Load() == h.popped {
		return true
	}
	h.Awake()
	return false
}

// Awake ends what Sleep began. It tells whether the host was asleep, and so whether the doorbell may have been rung.
func (h *Host) Awake() bool {
	if !h.asleep {
		return false
	}
	h.asleep = false
	h.wakeWord++
	h.wake.Store(h.wakeWord)
	return true
}

// InFlight is how many requests have been pushed and not popped.
func (h *Host) InFlight() uint32 { return h.inFlight }

// Pulse is what a supervisor, in any goroutine, samples to tell a plugin that is stuck: it is if requests wait and neither
// number moves.
func (h *Host) Pulse() (waiting bool, beat uint64, taken uint32) {
	taken = h.peerTaken.Load()
	return taken != h.tail.Load(), h.peerBeat.Load(), taken
}
