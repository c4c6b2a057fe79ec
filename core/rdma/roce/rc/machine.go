package rc

import "github.com/gosrpt/gosrpt/core/ib"

// State is where a machine is in its life.
type State uint8

// The states. A machine only moves forward.
const (
	// Idle: made, receives may be posted.
	Idle State = iota
	// Ready: connected.
	Ready
	// Failed: all work has been or will be flushed; a last NAK may still be waiting in Next.
	Failed
)

// Machine is the transport of one queue pair. See the package comment for who may call it.
type Machine struct {
	cfg   Config
	par   Params
	state State
	stats *Stats

	lastHeard int64
	// lossyUntil is when the link counts as loss-free again.
	lossyUntil int64
	// burst counts READ responses sent in a row while requests wait.
	burst int

	req  requester
	resp responder
	done completions
}

// New makes a machine in state Idle.
func New(cfg Config) *Machine {
	cfg = cfg.withDefaults()
	m := &Machine{cfg: cfg, stats: cfg.Stats}
	m.req.init(&cfg)
	m.resp.init(&cfg)
	m.done.init(cfg.SendDepth + cfg.RecvDepth)
	return m
}

// Start connects the machine. It does nothing unless the machine is Idle.
func (m *Machine) Start(now int64, p Params) {
	if m.state != Idle {
		return
	}
	p.ReadsIn = min(p.ReadsIn, MaxReads)
	p.ReadsOut = min(p.ReadsOut, MaxReads)
	m.par = p
	m.state = Ready
	m.lastHeard = now
	m.req.start(&m.cfg, p)
	m.resp.epsn = p.RecvPSN
}

// State is the state.
func (m *Machine) State() State { return m.state }

// Stats returns the counters, those of all machines that share them.
func (m *Machine) Stats() Stats { return *m.stats }

// Params is what Start was given.
func (m *Machine) Params() Params { return m.par }

// Fail puts the machine into Failed: all work is flushed, nothing more is received.
func (m *Machine) Fail() {
	if m.state != Failed {
		m.fail(Flushed)
	}
}

// Receive takes one packet of the peer, whose CRC and addresses the caller has checked. The packet
// and its payload are the caller's again when it returns.
func (m *Machine) Receive(now int64, p *Packet) {
	if m.state != Ready {
		return
	}
	m.stats.PacketsIn++
	m.lastHeard = now
	switch {
	case p.Op.isResponse():
		m.receiveResponse(now, p)
	case p.Op <= lastRequestOpcode:
		m.receiveRequest(now, p)
	default:
		m.stats.BadPackets++
	}
}

// Tick does what is due. Calling it early is harmless.
func (m *Machine) Tick(now int64) {
	if m.state != Ready {
		return
	}
	m.tickResponder(now)
	m.tickRequester(now)
}

// Deadline is when Tick must be called, 0 for never.
func (m *Machine) Deadline() int64 {
	if m.state != Ready {
		return 0
	}
	return earlier(earlier(m.requesterDeadline(), m.resp.holdUntil), m.resp.ackAt)
}

// readBurst is how many READ responses go out in a row while requests of our own wait.
const readBurst = 16

// Next fills p with the next packet to send, or returns false. The payload is memory of the work, or
// of the region that a READ names; it stays as it is until a later call of Receive, Tick or Fail
// completes the work.
func (m *Machine) Next(now int64, p *Packet) bool {
	if m.state == Idle {
		return false
	}
	if m.resp.recvPosted && m.state == Ready {
		m.resp.recvPosted = false
		m.drain(now)
	}
	ok := false
	if m.burst < readBurst {
		ok = m.nextResponse(now, p)
	}
	if !ok {
		m.burst = 0
		ok = m.nextRequest(now, p) || m.nextResponse(now, p)
	}
	if ok {
		m.stats.PacketsOut++
	}
	return ok
}

// Waiting tells whether work is queued that Next did not send because the shared Budget is taken.
func (m *Machine) Waiting() bool { return m.state == Ready && m.req.starved }

// Poll moves completions, oldest first, into c and returns their number.
func (m *Machine) Poll(c []Completion) int {
	n := 0
	for n < len(c) && m.done.n > 0 {
		c[n] = m.done.pop()
		if c[n].Kind == Recv {
			m.polledRecv()
		} else {
			m.req.used--
		}
		n++
	}
	return n
}

func (m *Machine) polledRecv() {
	m.resp.used--
	if m.cfg.Shared != nil {
		m.cfg.Shared.used--
		m.resp.recvPosted = m.Awaits() // it may have waited for this
	}
}

// Pending is the number of completions that Poll would return.
func (m *Machine) Pending() int { return m.done.n }

// Close gives back what the machine borrowed from the shared Budget and Pool. No completion is
// returned any more: with a Shared, Fail and Poll come first, or the receives that were taken are lost to it.
func (m *Machine) Close() {
	m.state = Failed
	m.done.n = 0
	m.resp.out.n = 0
	m.dropHeld()
	m.dropReads()
}

// Unsent says that packets which Next gave out could not be sent for want of room in the local
// queues. They are repeated soon, which does not count as loss.
func (m *Machine) Unsent(now int64) {
	if m.state != Ready {
		return
	}
	m.req.timer.unsent = true
	m.req.timer.deadline = earlier(m.req.timer.deadline, now+unsentPause)
	if m.resp.out.n == 0 {
		m.resp.out.ack(m.resp.epsn.Add(-1), m.resp.msn)
	}
}

const unsentPause = 2 * Millisecond

// fail ends the connection: the oldest work of the send queue completes with s, all other work is
// flushed. Answers already queued may still go out.
func (m *Machine) fail(s Status) {
	m.state = Failed
	m.dropHeld()
	m.dropReads()
	m.flushSends(s)
	m.flushRecvs()
}

// lossy notes proof that the link loses packets.
func (m *Machine) lossy(now int64) { m.lossyUntil = now + lossyMemory }

const lossyMemory = 60_000 * Millisecond

// completions is a ring that holds as many completions as there can be work.
type completions struct {
	ring    []Completion
	head, n int
}

func (c *completions) init(size int) { c.ring = make([]Completion, size) }

// push never overflows: what is not polled still counts against the queues' depths.
func (c *completions) push(x Completion) {
	i := c.head + c.n
	if i >= len(c.ring) {
		i -= len(c.ring)
	}
	c.ring[i] = x
	c.n++
}

func (c *completions) pop() Completion {
	x := c.ring[c.head]
	if c.head++; c.head == len(c.ring) {
		c.head = 0
	}
	c.n--
	return x
}

// earlier returns the earlier of two times of which 0 means never.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// pieces points p's payload at n bytes of segs, beginning off bytes into segs[seg].
func pieces(p *Packet, segs [][]byte, seg, off, n int) {
	p.Payload, p.More, p.MoreLen = nil, nil, 0
	if n == 0 {
		return
	}
	first := segs[seg][off:]
	if n <= len(first) {
		p.Payload = first[:n]
		return
	}
	p.Payload = first
	p.More = segs[seg+1:]
	p.MoreLen = n - len(first)
}

// scatter copies b into segs at offset off. The caller has checked that it fits.
func scatter(segs [][]byte, off uint32, b []byte) {
	at := int(off)
	for _, s := range segs {
		if at >= len(s) {
			at -= len(s)
			continue
		}
		n := copy(s[at:], b)
		b = b[n:]
		at = 0
		if len(b) == 0 {
			return
		}
	}
}

// before tells whether a comes before b.
func before(a, b ib.PSN) bool { return a.Before(b) }

// MaxSGE is the most segments that a work request may have.
func (m *Machine) MaxSGE() int { return m.cfg.MaxSGE }
