package channel

import "github.com/gosrpt/gosrpt/core/srp"

// SCSI statuses the channel itself gives (SAM-5 5.3.1).
const (
	statusCheck       = 0x02
	statusBusy        = 0x08
	statusTaskAborted = 0x40
)

// Fixed format sense data (SPC-4 4.5.3).
var (
	senseInvalidField = fixedSense(0x05, 0x24) // ILLEGAL REQUEST, INVALID FIELD IN CDB
	senseOverlapped   = fixedSense(0x0b, 0x4e) // ABORTED COMMAND, OVERLAPPED COMMANDS ATTEMPTED
)

func fixedSense(key, asc byte) [18]byte {
	return [18]byte{0: 0x70, 2: key, 7: 10, 12: asc}
}

// need starts to get a buffer for the handler: of n bytes, or of room if that is more.
func (m *Machine) need(s *slot, n, room uint32, out bool) {
	if s.buffer || s.fate != fateNormal {
		m.stats.Ignored++ // a second buffer, or ActAbort is on its way to the handler
		return
	}
	s.buffer = true
	if out {
		n = min(n, s.cmd.DataOut().Len())
	}
	s.out, s.leased = out, n
	s.state = waitBuffer
	m.emit(Action{Kind: ActLease, Slot: s.handle(), N: max(n, room)})
}

// leased goes on with a command that has got its buffer.
func (m *Machine) leased(s *slot) {
	if !s.out || s.leased == 0 {
		m.ready(s)
		return
	}
	if s.cmd.DataOut().Format() == srp.FormatImmediate {
		m.emit(Action{Kind: ActCopy, Slot: s.handle(), N: s.leased})
		m.ready(s)
		return
	}
	s.state = fetching
	m.emit(Action{Kind: ActFetch, Slot: s.handle(), N: s.leased})
}

func (m *Machine) ready(s *slot) {
	s.state = executing
	m.emit(Action{Kind: ActReady, Slot: s.handle()})
}

func (m *Machine) noBuffer(s *slot) {
	m.stats.NoBuffer++
	s.state = executing
	m.cut(s, fateStatus, statusBusy)
}

func (m *Machine) fetched(s *slot, o Outcome) {
	m.ended(o)
	if s.fate == fateNormal {
		m.ready(s)
		return
	}
	s.state = executing
	m.ask(s)
}

// cut makes a command end early with another fate than its own. A response that
// is posted stays as it is.
func (m *Machine) cut(s *slot, f fate, status byte) {
	if s.state == responding || f <= s.fate {
		return
	}
	s.fate, s.status = f, status
	switch s.state {
	case waitBuffer:
		m.emit(Action{Kind: ActUnlease, Slot: s.handle()})
		s.state = executing
		m.ask(s)
	case executing:
		m.ask(s)
	}
}

// ask tells the handler, once, to end a command early.
func (m *Machine) ask(s *slot) {
	if s.asked {
		return
	}
	s.asked = true
	m.emit(Action{Kind: ActAbort, Slot: s.handle()})
}

func (m *Machine) finished(s *slot, r *Result) {
	switch s.fate {
	case fateVanish:
		m.release(s)
	case fateStatus:
		m.complete(s, &Result{Status: s.status})
	default:
		m.complete(s, r)
	}
}

// complete answers a command with the handler's result.
func (m *Machine) complete(s *slot, r *Result) {
	out, in := s.cmd.DataOut(), s.cmd.DataIn()
	used := min(r.InUsed, in.Len())
	if s.out {
		used = 0 // the buffer holds what came from the initiator
	}
	used = min(used, s.leased)
	s.write = used
	s.rsp.Status = r.Status
	s.rsp.Sense = s.sense[:copy(s.sense[:], r.Sense)]
	s.rsp.Out = residual(out, in.Len() == 0, min(r.OutUsed, out.Len()), r)
	s.rsp.In = residual(in, out.Len() == 0, used, r)
	m.respond(s)
}

// residual compares what was used of a buffer with its size or, if the command is
// good and wanted more than the buffer holds, with what was wanted.
func residual(d *srp.Data, only bool, used uint32, r *Result) srp.Residual {
	n := uint64(d.Len())
	if d.Format() == srp.FormatNone {
		return 0
	}
	if only && r.Status == 0 && r.Wanted > n {
		return -srp.Residual(min(r.Wanted-n, 1<<32-1))
	}
	return srp.Residual(n - uint64(used))
}

// refuse answers a command that the handler never saw.
func (m *Machine) refuse(s *slot, sense []byte) {
	m.stats.Refused++
	s.rsp.Status = statusCheck
	s.rsp.Sense = s.sense[:copy(s.sense[:], sense)]
	m.respond(s)
}

func (m *Machine) managed(s *slot, c srp.RspCode) {
	if m.state != Live {
		m.release(s)
		return
	}
	m.answerTM(s, c)
}

func (m *Machine) answerTM(s *slot, c srp.RspCode) {
	s.rsp.HasCode, s.rsp.Code = true, c
	m.respond(s)
}

// respond posts the response with every credit there is to return, in the order
// data, receive, response.
func (m *Machine) respond(s *slot) {
	m.untag(s)
	m.answered(s)
	s.rsp.Delta = int32(m.owed) + 1
	m.window.grant(m.owed + 1)
	m.owed = 0
	m.stats.Responses++
	if s.write > 0 {
		m.emit(Action{Kind: ActWrite, Slot: s.handle(), N: s.write})
	}
	m.repost(s.buf)
	m.emit(Action{Kind: ActRespond, Slot: s.handle()})
	s.state = responding
}

func (m *Machine) sent(s *slot, o Outcome) {
	m.release(s)
	m.ended(o)
}

// repay returns owed credits by SRP_CRED_REQ if no answer will carry them soon
// enough: initiators do not send a command with their last credit.
func (m *Machine) repay() {
	if m.state != Live || m.credOut || m.owed == 0 {
		return
	}
	if m.unanswered > 0 && (m.managing > 0 || m.window.left() >= minCredits) {
		return
	}
	m.credOut = true
	m.credTag++
	m.stats.CredReqs++
	m.emit(Action{Kind: ActCredReq, Delta: int32(m.owed), Tag: m.credTag})
	m.window.grant(m.owed)
	m.owed = 0
}
