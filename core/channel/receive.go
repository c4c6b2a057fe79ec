package channel

import "github.com/gosrpt/gosrpt/core/srp"

// receive takes a unit in. The first proves that the connection is established. Requests wait
// for a slot, or for EvAdmit; nothing else does, so that it holds no receive for long.
func (m *Machine) receive(buf uint32, iu []byte) {
	if m.posted == 0 {
		m.stats.Ignored++ // a receive that was never posted
		return
	}
	m.posted--
	m.established()
	if m.state != Live {
		return
	}
	switch {
	case !isRequest(iu):
		m.process(buf, iu)
	case !m.window.take():
		m.protocol(problem(iu, srp.ProblemCredit, uint64(m.unanswered), uint64(m.cfg.Credits)))
	default:
		m.unanswered++
		m.stats.MostActive = max(m.stats.MostActive, m.unanswered)
		m.pending.push(iuRef{buf, iu})
	}
}

// isRequest tells whether a unit takes a credit.
func isRequest(iu []byte) bool {
	return len(iu) > 0 && (srp.Opcode(iu[0]) == srp.OpCmd || srp.Opcode(iu[0]) == srp.OpTskMgmt)
}

// runPending processes waiting requests in order of arrival, as long as they find a slot.
func (m *Machine) runPending() {
	for m.state == Live && !m.held && m.pending.n > 0 && len(m.free) > 0 {
		r := m.pending.pop()
		m.process(r.buf, r.iu)
		m.finishOps()
	}
}

func (m *Machine) process(buf uint32, iu []byte) {
	if len(iu) == 0 {
		m.protocol(&srp.ParseError{Problem: srp.ProblemShort, Limit: 1})
		return
	}
	switch srp.Opcode(iu[0]) {
	case srp.OpCmd:
		m.command(buf, iu)
	case srp.OpTskMgmt:
		m.taskMgmt(buf, iu)
	case srp.OpILogout:
		m.logoutRequest(iu)
	case srp.OpCredRsp:
		m.askAnswered(buf, iu, askCredit, srp.ParseCredRsp)
	case srp.OpAerRsp:
		m.askAnswered(buf, iu, askReport, srp.ParseAerRsp)
	default:
		m.protocol(problem(iu, srp.ProblemOpcode, uint64(iu[0]), 0))
	}
}

func (m *Machine) logoutRequest(iu []byte) {
	if _, err := srp.ParseILogout(iu); err != nil {
		m.protocol(err)
		return
	}
	m.shut(CauseLogout, nil)
	m.disconnect()
}

func problem(iu []byte, p srp.Problem, have, limit uint64) error {
	return &srp.ParseError{Opcode: srp.Opcode(iu[0]), Problem: p, Have: have, Limit: limit}
}

// protocol ends the channel for what the initiator did, with the logout reason
// that r16a has for it.
func (m *Machine) protocol(err error) {
	reason := srp.LogoutNoReason
	if e, ok := err.(*srp.ParseError); ok {
		reason = e.Answer().Logout
	}
	m.logout(CauseProtocol, err, reason)
}

func (m *Machine) command(buf uint32, iu []byte) {
	m.stats.Commands++
	s := m.take(buf)
	s.isCmd = true
	err := s.cmd.Parse(iu, m.cfg.Limits)
	if err != nil && err.(*srp.ParseError).Answer().Kind != srp.AnswerCheck {
		m.discard(s)
		m.protocol(err)
		return
	}
	s.tag, s.lun = s.cmd.Tag(), s.cmd.LUN()
	s.rsp.Tag = s.tag
	if i, used := m.tags.get(s.tag); used {
		m.overlap(s, &m.slots[i])
		return
	}
	if err != nil {
		m.refuse(s, senseInvalidField[:])
		return
	}
	m.entag(s)
	s.state = executing
	m.emit(Action{Kind: ActStart, Slot: s.handle()})
}

// overlap answers a command whose tag is in use (SAM-5 5.10): both end, and the
// newer one gets the status, after nothing of the older one moves any more.
func (m *Machine) overlap(s, old *slot) {
	switch {
	case !old.isCmd:
		m.refuse(s, senseOverlapped[:])
	case old.state == overlapped:
		err := problem(s.cmd.Bytes(), srp.ProblemTag, uint64(s.tag), 0)
		m.discard(s)
		m.protocol(err)
	default:
		m.cut(old, fateVanish, 0)
		old.tagged = false
		m.entag(s)
		s.state = overlapped
		m.addOp(op{owner: s.handle(), owned: true, victim: old.handle(), one: true, before: s.seq})
	}
}

func (m *Machine) taskMgmt(buf uint32, iu []byte) {
	m.stats.TaskMgmt++
	tm, err := srp.ParseTskMgmt(iu)
	if err != nil {
		m.protocol(err)
		return
	}
	s := m.take(buf)
	m.managing++
	s.tm, s.tag, s.lun = tm, tm.Tag(), tm.LUN()
	s.rsp.Tag = s.tag
	if _, used := m.tags.get(s.tag); used {
		m.answerTM(s, srp.RspFieldsInvalid)
		return
	}
	m.entag(s)
	s.state = aborting
	m.emit(Action{Kind: ActWatch, Slot: s.handle()})
	m.addOp(op{owner: s.handle(), owned: true, scope: scopeOf(tm), none: !aborts(tm.Function()), before: s.seq})
}

func aborts(f srp.TaskFunction) bool {
	switch f {
	case srp.FuncAbortTask, srp.FuncAbortTaskSet, srp.FuncClearTaskSet, srp.FuncLUNReset:
		return true
	}
	return false
}

func scopeOf(tm srp.TskMgmt) Scope {
	return Scope{LUN: tm.LUN(), ByTag: tm.Function() == srp.FuncAbortTask, Tag: tm.Managed()}
}
