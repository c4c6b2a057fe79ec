package ring

import "sync/atomic"

// Plugin is the plugin's half of a ring.
type Plugin struct {
	sqes []byte
	cqes []byte

	tail       *atomic.Uint32 // own
	taken      *atomic.Uint32 // own
	wake       *atomic.Uint32 // own
	beat       *atomic.Uint64 // own
	peerTail   *atomic.Uint32
	peerWake   *atomic.Uint32
	generation uint32
	entries    uint32
	arena      uint64

	popped   uint32
	asleep   bool
	wakeWord uint32
	beats    uint64
	broken   *Violation

	// Of Complete and Publish.
	done    uint32
	shown   uint32 // tail says the same
	rungFor uint32
	_       [64]byte

	// outstanding is what the plugin has taken and not completed.
	outstanding atomic.Int32
}

// NewPlugin checks that a host formatted the regions as a ring of entries and generation, and returns the plugin's
// half. arena is the arena's length in bytes, which every entry is held against.
func NewPlugin(r Regions, entries, generation uint32, arena uint64) (*Plugin, error) {
	if err := r.check(entries); err != nil {
		return nil, err
	}
	if err := checkHead(r.Host, magicHost, entries, generation); err != nil {
		return nil, err
	}
	if err := checkHead(r.Plugin, magicPlugin, entries, generation); err != nil {
		return nil, err
	}
	return &Plugin{
		sqes: r.Host[headSize:HostSize(entries)], cqes: r.Plugin[headSize : headSize+int(entries)*CQESize],
		tail: word32(r.Plugin, offTail), taken: word32(r.Plugin, offTaken),
		wake: word32(r.Plugin, offWake), beat: word64(r.Plugin, offHeartbeat),
		peerTail: word32(r.Host, offTail), peerWake: word32(r.Host, offWake),
		entries: entries, generation: generation, arena: arena,
	}, nil
}

// Take fills out with requests and returns how many. Each lies in the arena and carries a known operation. A
// Violation is for ever; requests before it are returned.
func (p *Plugin) Take(out []Entry) (int, error) {
	if p.broken != nil {
		return 0, p.broken
	}
	tail := p.peerTail.Load()
	ready := tail - p.popped
	if room := p.entries - uint32(p.outstanding.Load()); ready > room {
		return 0, p.breach(BreachIndex, uint64(tail), uint64(p.popped)+uint64(room))
	}
	n := 0
	for n < len(out) && ready > 0 {
		var b [SQESize]byte
		copy(b[:], p.sqes[int(p.popped&(p.entries-1))*SQESize:])
		if err := p.check(&out[n], out[n].get(&b)); err != nil {
			break
		}
		p.popped++
		n++
		ready--
	}
	if n > 0 {
		p.outstanding.Add(int32(n))
		p.taken.Store(p.popped)
	}
	if p.broken != nil {
		return n, p.broken
	}
	return n, nil
}

func (p *Plugin) check(e *Entry, generation uint32) error {
	if generation != p.generation {
		return p.breach(BreachGeneration, uint64(generation), uint64(p.generation))
	}
	switch e.Op {
	case opFlush:
		e.Arena, e.Length, e.Extent = 0, 0, 0
		return nil
	case opRead, opWrite, opCompareAndWrite:
		e.Extent = 0
	case opUnmap, opWriteZeroes:
		e.Arena, e.Length = 0, 0
	case opWriteSame:
	default:
		return p.breach(BreachEntry, uint64(e.Op), opWriteSame)
	}
	if e.Arena > p.arena || uint64(e.Length) > p.arena-e.Arena {
		return p.breach(BreachEntry, e.Arena, p.arena)
	}
	return nil
}

func (p *Plugin) breach(b Breach, got, limit uint64) error {
	p.broken = &Violation{Breach: b, Got: got, Limit: limit}
	return p.broken
}

// Complete writes a completion of a request that Take returned; there is always room. The host sees it at the
// next Publish. Callers of Complete and Publish take turns.
func (p *Plugin) Complete(c Completion) {
	at := int(p.done&(p.entries-1)) * CQESize
	c.put((*[CQESize]byte)(p.cqes[at:]), p.generation)
	p.done++
	// Before the host can see it: a new request may come in this one's stead at once.
	p.outstanding.Add(-1)
}

// Publish shows the host every completion, and tells whether its doorbell must be rung. It need not without a new one.
func (p *Plugin) Publish() (ring bool) {
	if p.shown == p.done {
		return false
	}
	p.shown = p.done
	announce(p.tail, p.done)
	return mustRing(p.peerWake, &p.rungFor)
}

// Sleep publishes that the plugin wants its doorbell rung for the next request. It returns false, and the plugin is
// awake, if there is one already.
func (p *Plugin) Sleep() bool {
	if !p.asleep {
		p.asleep = true
		p.wakeWord++
		announce(p.wake, p.wakeWord)
	}
	if p.peerTail.Load() == p.popped {
		return true
	}
	p.Awake()
	return false
}

// Awake ends what Sleep began.
func (p *Plugin) Awake() {
	if p.asleep {
		p.asleep = false
		p.wakeWord++
		p.wake.Store(p.wakeWord)
	}
}

// Waiting is how many requests Take would return at most.
func (p *Plugin) Waiting() uint32 { return p.peerTail.Load() - p.popped }

// Beat moves the heartbeat.
func (p *Plugin) Beat() {
	p.beats++
	p.beat.Store(p.beats)
}

// Outstanding is how many requests have been taken and not completed. Any goroutine may ask.
func (p *Plugin) Outstanding() uint32 { return uint32(p.outstanding.Load()) }
