package channel

import "github.com/gosrpt/gosrpt/core/srp"

// SenseLen is the length of the sense data of a report, in bytes.
const SenseLen = 18

// MaxControl is the longest unit that AppendControl builds, in bytes.
const MaxControl = srp.AerReqLen + SenseLen

// askKind is a request of the target's own.
type askKind uint8

const (
	askNone   askKind = iota
	askCredit         // SRP_CRED_REQ
	askReport         // SRP_AER_REQ
)

// ask is the request of the target that is outstanding: at most one is, since an
// initiator has one place for the answer. It is over when it is answered and its SEND
// has completed, whichever comes first.
type ask struct {
	kind     askKind
	sent     bool
	answered bool
	tag      srp.Tag
	report   report // of askReport
}

// report is an asynchronous event, to be told by SRP_AER_REQ.
type report struct {
	lun   srp.LUN
	sense [SenseLen]byte
}

// reportQueue holds the reports that wait, each once.
type reportQueue struct {
	waiting [8]report
	n       int
}

// report takes a report in, if the initiator said at login that it cares for them. One
// that finds no room is lost: a unit attention tells of it, too.
func (m *Machine) report(l srp.LUN, sense []byte) {
	if m.state > Live || !m.cfg.SolNot || m.cfg.Notify&srp.LoginAerSolNot == 0 {
		m.stats.Ignored++
		return
	}
	r := report{lun: l}
	copy(r.sense[:], sense)
	q := &m.reports
	for i := range q.n {
		if q.waiting[i] == r {
			return
		}
	}
	if q.n == len(q.waiting) {
		m.stats.Unreported++
		return
	}
	q.waiting[q.n] = r
	q.n++
}

func (q *reportQueue) pop() report {
	r := q.waiting[0]
	copy(q.waiting[:], q.waiting[1:q.n])
	q.n--
	return r
}

// askNext sends the next request of the target, if there is cause for one and none is
// outstanding. It carries every credit that is owed.
func (m *Machine) askNext() {
	if m.state != Live || m.held || m.ask.kind != askNone {
		return
	}
	switch {
	case m.reports.n > 0:
		m.ask.report = m.reports.pop()
		m.stats.Reports++
		m.send(askReport, ActReport, srp.LoginAerSolNot)
	case m.mustRepay():
		m.stats.CredReqs++
		m.send(askCredit, ActCredReq, srp.LoginCredSolNot)
	}
}

// mustRepay tells whether credits are owed that no answer will carry soon enough:
// initiators do not send a command with their last credit.
func (m *Machine) mustRepay() bool {
	if m.owed == 0 {
		return false
	}
	return m.unanswered == 0 || m.managing == 0 && m.window.left() < minCredits
}

func (m *Machine) send(k askKind, a ActionKind, notify srp.LoginFlags) {
	m.ask.kind, m.ask.sent, m.ask.answered = k, false, false
	m.ask.tag++
	m.emit(Action{Kind: a, Delta: int32(m.owed), Tag: m.ask.tag, SolNot: m.cfg.SolNot && m.cfg.Notify&notify != 0})
	m.window.grant(m.owed)
	m.owed = 0
}

// askAnswered takes SRP_CRED_RSP and SRP_AER_RSP.
func (m *Machine) askAnswered(buf uint32, iu []byte, k askKind, parse func([]byte) (srp.Tag, error)) {
	tag, err := parse(iu)
	switch {
	case err != nil:
		m.protocol(err)
	case m.ask.kind != k || m.ask.answered || tag != m.ask.tag:
		m.protocol(problem(iu, srp.ProblemUnsolicited, uint64(tag), uint64(m.ask.tag)))
	default:
		m.ask.answered = true
		m.repost(buf)
		m.askOver()
	}
}

func (m *Machine) askSent(o Outcome) {
	if m.ask.kind != askNone {
		m.ask.sent = true
		m.askOver()
	}
	m.ended(o)
}

func (m *Machine) askOver() {
	if m.ask.sent && m.ask.answered {
		m.ask.kind = askNone
	}
}

// Asking tells whether an answer of the initiator is awaited.
func (m *Machine) Asking() bool { return m.ask.kind != askNone && !m.ask.answered }

// askTimeout ends a channel whose initiator does not answer: the credits that it was given
// with the request may not have been counted.
func (m *Machine) askTimeout() {
	if m.state != Live || !m.Asking() {
		m.stats.Ignored++
		return
	}
	op := srp.OpCredReq
	if m.ask.kind == askReport {
		op = srp.OpAerReq
	}
	m.protocol(&srp.ParseError{Opcode: op, Problem: srp.ProblemUnanswered})
}
