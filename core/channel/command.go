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

// need starts to get a buffer for the handler: of n bytes, or of room if that is more. What
// of the indirect table is in the initiator's memory is read before that, so that nobody
// holds a buffer, which others may wait for, while he waits for room for a table.
func (m *Machine) need(s *slot, n, room uint32, out bool) {
	if s.buffer || s.fate != fateNormal {
		m.stats.Ignored++ // a second buffer, or ActAbort is on its way to the handler
		return
	}
	s.buffer = true
	if out {
		n = min(n, s.cmd.DataOut().Len())
	}
	s.out, s.leased, s.room = out, n, max(n, room)
	if remote := s.data().Remote().Length; remote > 0 && n > 0 {
		s.state = waitTable
		m.emit(Action{Kind: ActLeaseTable, Slot: s.handle(), N: remote})
		return
	}
	m.lease(s)
}

// data is the data buffer that the command has: there are never two.
func (s *slot) data() *srp.Data {
	if s.out {
		return s.cmd.DataOut()
	}
	return s.cmd.DataIn()
}

func (m *Machine) lease(s *slot) {
	s.state = waitBuffer
	m.emit(Action{Kind: ActLease, Slot: s.handle(), N: s.room})
}

func (m *Machine) tableLeased(s *slot) {
	s.state = fetchingTable
	m.emit(Action{Kind: ActFetchTable, Slot: s.handle(), N: s.data().Remote().Length})
}

// tableFetched holds the whole table to the rules, and goes on with the buffer.
func (m *Machine) tableFetched(s *slot, o Outcome, b []byte) {
	m.ended(o)
	if s.fate != fateNormal {
		s.state = executing
		m.hurry(s)
		return
	}
	m.stats.Tables++
	if s.data().Complete(b) != nil {
		m.stats.Refused++
		s.state = executing
		m.cut(s, fateStatus, statusCheck)
		return
	}
	m.lease(s)
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
	s.state = executing
	m.ended(o)
	if s.fate == fateNormal {
		m.ready(s)
		return
	}
	m.hurry(s)
}

// cut makes a command end early with another fate than its own. A response that
// is posted stays as it is.
func (m *Machine) cut(s *slot, f fate, status byte) {
	if s.state == responding || f <= s.fate {
		return
	}
	s.fate, s.status = f, status
	switch s.state {
	case waitTable, waitBuffer:
		m.emit(Action{Kind: ActUnlease, Slot: s.handle()})
		s.state = executing
		m.hurry(s)
	case fetching:
		m.emit(Action{Kind: ActStopFetch, Slot: s.handle()})
	case executing:
		m.hurry(s)
	}
}

// hurry tells the handler, once, to end a command early.
func (m *Machine) hurry(s *slot) {
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
		r := s.cutResult()
		m.complete(s, &r)
	default:
		m.complete(s, r)
	}
}

// cutResult is the result of a command that was cut short with a status of its own.
func (s *slot) cutResult() Result {
	r := Result{Status: s.status}
	if s.status == statusCheck {
		r.Sense = senseInvalidField[:]
	}
	return r
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
	m.complete(s, &Result{Status: statusCheck, Sense: sense})
}

func (m *Machine) managed(s *slot, c srp.RspCode) {
	if m.state != Live {
		m.release(s)
		return
	}
	m.answerTM(s, c)
}

// overdue answers a request that has taken too long. What it has begun goes on: commands that it
// was to end still end early, but with a response, since nobody was told that they are gone.
func (m *Machine) overdue(s *slot) {
	if m.state != Live {
		m.stats.Ignored++ // nobody hears the answer
		return
	}
	m.stats.Overdue++
	m.dropOps(s)
	m.answerTM(s, srp.RspFailed)
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
	s.rsp.SolNot = m.cfg.SolNot && s.wantsNotice()
	if s.write > 0 {
		m.emit(Action{Kind: ActWrite, Slot: s.handle(), N: s.write})
	}
	m.repost(s.buf)
	m.emit(Action{Kind: ActRespond, Slot: s.handle(), SolNot: s.rsp.SolNot})
	s.state = responding
}

// wantsNotice tells whether the initiator wants to be interrupted for this response.
func (s *slot) wantsNotice() bool {
	var asked byte = srp.SolNotSuccess
	if s.rsp.Status != 0 || s.rsp.HasCode && s.rsp.Code != srp.RspComplete {
		asked = srp.SolNotUnsuccess
	}
	if s.isCmd {
		return s.cmd.SolNot()&asked != 0
	}
	return s.tm.SolNot()&asked != 0
}

func (m *Machine) sent(s *slot, o Outcome) {
	m.release(s)
	m.ended(o)
}
