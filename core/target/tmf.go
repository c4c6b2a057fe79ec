package target

import (
	"encoding/binary"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/conn"
	"github.com/gosrpt/gosrpt/core/lu"
	"github.com/gosrpt/gosrpt/core/nexus"
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/srp"
)

// TaskManagement performs a function across the channels of the nexus, and across nexuses.
func (h handler) TaskManagement(tm *conn.TaskManagement) {
	l := tm.Channel().User.(*link)
	s := l.s
	lun := tm.IU.LUN()
	field := binary.BigEndian.Uint64(lun[:])
	_, known := s.real(field)
	s.lastRequest++
	s.requests[s.lastRequest] = tm
	s.step(nexus.Event{
		Kind: nexus.EvManage, Channel: l.id, Request: s.lastRequest, Function: nexus.Function(tm.IU.Function()),
		LUN: field, Known: known, Tag: uint64(tm.IU.Managed()), N: uint32(tm.Aborted),
	})
}

func (s *session) answer(a nexus.Action) {
	tm := s.requests[a.Request]
	delete(s.requests, a.Request)
	if tm != nil {
		tm.Finish(srp.RspCode(a.Code))
	}
}

// abort has a channel of this nexus abort commands.
func (s *session) abort(a nexus.Action) {
	done := func(n uint32) {
		s.step(nexus.Event{Kind: nexus.EvAborted, Channel: a.Channel, Op: a.Op, N: n})
	}
	l := s.link(a.Channel)
	if l == nil {
		done(0)
		return
	}
	l.ch.Abort(scopeOf(a), done)
}

func scopeOf(a nexus.Action) channel.Scope {
	sc := channel.Scope{ByTag: a.ByTag, Tag: srp.Tag(a.Tag), TaskAborted: a.TaskAborted}
	binary.BigEndian.PutUint64(sc.LUN[:], a.LUN)
	return sc
}

// clearOthers ends the commands that the other nexuses have on a unit, which they may know by other numbers. They end with
// status TASK ABORTED, as the Control mode page says (TAS, SPC-4 7.5.8).
func (s *session) clearOthers(a nexus.Action) {
	m, _ := s.real(a.LUN)
	left := 1
	done := func() {
		if left--; left == 0 {
			s.step(nexus.Event{Kind: nexus.EvUnitDone, Op: a.Op})
		}
	}
	for _, o := range s.t.sessions {
		lun, sees := o.lunOf(m)
		if o == s || !sees {
			continue
		}
		left++
		o.lastClear++
		o.clears[o.lastClear] = done
		o.step(nexus.Event{Kind: nexus.EvClear, Op: o.lastClear, LUN: scsi.EncodeLUN(lun), Reset: a.Reset, TaskAborted: true})
	}
	done()
}

// attention raises a unit attention of one unit for this nexus.
func (s *session) attention(a nexus.Action) {
	m, ok := s.real(a.LUN)
	if !ok {
		return
	}
	at := lu.AttnReset
	if a.Attention == nexus.CommandsCleared {
		at = lu.AttnCommandsCleared
	}
	m.unit.Device().Attend(s.id, at)
}

// abortWhere aborts the commands that sessions have to a LUN, each to its own, and calls done once when nothing of them moves
// any more.
func abortWhere(where map[*session]srp.LUN, done func()) {
	left := 1
	one := func(uint32) {
		if left--; left == 0 {
			done()
		}
	}
	for s, lun := range where {
		for _, l := range s.list() {
			left++
			l.ch.Abort(channel.Scope{LUN: lun}, one)
		}
	}
	one(0)
}
