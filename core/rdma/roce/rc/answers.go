package rc

import "github.com/gosrpt/gosrpt/core/ib"

// answer is an acknowledgement, a NAK, or a READ whose responses are going out.
type answer struct {
	op        Opcode // OpAck or OpReadRequest
	syndrome  uint8
	duplicate bool // a READ performed again, an acknowledgement repeated unasked
	started   bool
	again     uint8 // how often to send it after this
	psn       ib.PSN
	msn       uint32
	rkey      uint32
	left      uint32
	npkt      uint32 // packets left
	va        uint64
}

// maxAnswers: READs, new and repeated, with one acknowledgement or NAK after each and one before.
const maxAnswers = 4*MaxReads + 1

// answers are sent in the order of their PSNs, for an acknowledgement also stands for all before it.
type answers struct {
	ring    [maxAnswers]answer
	head, n int
	reads   int // new READs in the ring
	repeats int // repeated ones
}

func (a *answers) at(i int) *answer { return &a.ring[(a.head+i)%maxAnswers] }

func (a *answers) push(x answer) {
	a.n++
	*a.at(a.n - 1) = x
}

func (a *answers) pop() {
	if x := a.at(0); x.op == OpReadRequest {
		if x.duplicate {
			a.repeats--
		} else {
			a.reads--
		}
	}
	a.head = (a.head + 1) % maxAnswers
	a.n--
}

// ack queues an acknowledgement of everything up to psn.
func (a *answers) ack(psn ib.PSN, msn uint32) {
	a.put(answer{op: OpAck, syndrome: syndromeNoLimit, psn: psn, msn: msn})
}

// nak queues a NAK of psn, which acknowledges everything before it.
func (a *answers) nak(psn ib.PSN, msn uint32, syndrome uint8) {
	x := answer{op: OpAck, syndrome: syndrome, psn: psn, msn: msn}
	if syndrome > nakSequence {
		x.again = fatalRepeats
	}
	a.put(x)
}

// fatalRepeats is how often a NAK that ends the connection is repeated at once: nothing would ever
// repeat it later, and the peer would not learn why.
const fatalRepeats = 2

// put queues x, or lets it take the place of an unsent answer at the end of the queue that says
// less. So no two acknowledgements ever stand side by side, and the ring cannot overflow.
func (a *answers) put(x answer) {
	if a.n == 0 || a.at(a.n-1).op != OpAck {
		a.push(x)
		return
	}
	t := a.at(a.n - 1)
	isNak := t.syndrome&syndromeMask != syndromeAck
	if isNak && x.syndrome&syndromeMask == syndromeAck && before(x.psn, t.psn) {
		return
	}
	*t = x
}

// read queues the responses of a READ. Repetitions beyond MaxReads are dropped: the peer asks again.
func (a *answers) read(p *Packet, psn ib.PSN, msn, mtu uint32, duplicate bool) {
	if duplicate {
		if a.repeats >= MaxReads {
			return
		}
		a.repeats++
	} else {
		a.reads++
	}
	a.push(answer{
		op: OpReadRequest, duplicate: duplicate, psn: psn, msn: msn, rkey: p.RKey, va: p.VA,
		left: p.DMALen, npkt: packetsOf(p.DMALen, mtu),
	})
}

// An acknowledgement that is lost at the end of a burst is missed by nobody but the peer's timer; and
// a peer that retransmits may break (see the package comment). So the last one is repeated when
// nothing has followed it for a while, well before any peer's timer.
const (
	ackRepeats = 2
	ackInsure  = 250 * Millisecond
	ackInsure2 = 750 * Millisecond
)

// insure plans the repetition of an acknowledgement that is being sent.
func (r *responder) insure(now int64, repeated bool) {
	if !repeated {
		r.ackTimes, r.ackAt = 0, now+ackInsure
		return
	}
	r.ackTimes++
	r.ackAt = 0
	if r.ackTimes < ackRepeats {
		r.ackAt = now + ackInsure2
	}
}

// repeatAck queues the last acknowledgement again.
func (m *Machine) repeatAck() {
	r := &m.resp
	r.ackAt = 0
	if r.out.n == 0 {
		r.out.push(answer{op: OpAck, duplicate: true, syndrome: syndromeNoLimit, psn: r.epsn.Add(-1), msn: r.msn})
	}
}

// nextResponse fills p with the next packet of the responder.
func (m *Machine) nextResponse(now int64, p *Packet) bool {
	out := &m.resp.out
	for out.n > 0 {
		a := out.at(0)
		if a.op == OpAck {
			if a.syndrome&syndromeMask == syndromeAck {
				m.stats.Acks++
				m.resp.insure(now, a.duplicate)
			}
			*p = Packet{Op: OpAck, PSN: a.psn, Syndrome: a.syndrome, MSN: a.msn}
			if a.again > 0 {
				a.again--
				return true
			}
			out.pop()
			return true
		}
		if m.nextReadResponse(a, p) {
			m.burst++
			return true
		}
	}
	return false
}

// nextReadResponse fills p with the next response of a, the head of the queue. It returns false if
// the memory has gone, in which case the head has become a NAK or is dropped.
func (m *Machine) nextReadResponse(a *answer, p *Packet) bool {
	n := min(a.left, m.par.MTU)
	var b []byte
	if n > 0 {
		var ok bool
		if b, ok = m.cfg.Memory.Readable(a.rkey, a.va, n); !ok {
			m.readGone(a)
			return false
		}
	}
	last := a.npkt == 1
	*p = Packet{Op: readOp(!a.started, last), PSN: a.psn, Syndrome: syndromeNoLimit, MSN: a.msn, Payload: b}
	a.started = true
	a.psn = a.psn.Add(1)
	a.va += uint64(n)
	a.left -= n
	a.npkt--
	if last {
		m.resp.out.pop()
	}
	return true
}

// readGone ends a READ whose region was closed under it.
func (m *Machine) readGone(a *answer) {
	out := &m.resp.out
	if a.duplicate || m.state != Ready {
		out.pop()
		return
	}
	psn, msn := a.psn, a.msn
	out.n, out.reads, out.repeats = 0, 0, 0
	m.stats.NaksSent++
	out.nak(psn, msn, nakAccess)
	m.fail(Flushed)
}

func readOp(first, last bool) Opcode {
	switch {
	case first && last:
		return OpReadOnly
	case first:
		return OpReadFirst
	case last:
		return OpReadLast
	}
	return OpReadMiddle
}
