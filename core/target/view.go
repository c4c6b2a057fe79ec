package target

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/lu"
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/srp"
)

// view is what a session with a LUN map of its own sees. It belongs to the reactor's goroutine, but for list.
type view struct {
	granted []GrantedLUN
	units   []seen // by the session's numbers
	// list is the LUN fields in use, in ascending order; it is replaced as a whole.
	list atomic.Pointer[[]uint64]
}

// seen is a logical unit in a view; at is nil where there is none.
type seen struct {
	at       *mapped
	readOnly bool
}

// newView makes the view that a grant calls for, nil if that is all of the target.
func newView(g *Grant, m *lunMap) *view {
	if g.LUNs == nil {
		return nil
	}
	v := &view{granted: g.LUNs}
	v.build(m)
	return v
}

// build finds the units of the grant among those of the target, and tells whether the list of LUNs is another now.
func (v *view) build(m *lunMap) bool {
	v.units = v.units[:0]
	list := make([]uint64, 0, len(v.granted))
	for _, g := range v.granted {
		at := m.named(g.Unit)
		if at == nil || g.LUN > scsi.MaxLUN {
			continue
		}
		for len(v.units) <= int(g.LUN) {
			v.units = append(v.units, seen{})
		}
		v.units[g.LUN] = seen{at, g.ReadOnly}
		list = append(list, scsi.EncodeLUN(g.LUN))
	}
	slices.Sort(list)
	old := v.list.Swap(&list)
	return old == nil || !slices.Equal(*old, list)
}

// maxMissed bounds the names that are remembered as reported.
const maxMissed = 4096

// newlyMissed are the names that the target has no unit of, and that have not been reported before.
func (v *view) newlyMissed(m *lunMap) []string {
	var names []string
	for _, g := range v.granted {
		if m.named(g.Unit) != nil || m.missed[g.Unit] || len(m.missed) >= maxMissed {
			continue
		}
		m.missed[g.Unit] = true
		names = append(names, g.Unit)
	}
	return names
}

func (v *view) find(n uint16) seen {
	if int(n) < len(v.units) {
		return v.units[n]
	}
	return seen{}
}

// named is the unit of a name, the one of the lowest LUN if there are several.
func (m *lunMap) named(name string) *mapped {
	for _, u := range m.units {
		if u != nil && u.unit.Device().Name() == name {
			return u
		}
	}
	return nil
}

// find returns the unit that executes a session's commands for a LUN field, and whether it may not write there.
func (s *session) find(field uint64) (*mapped, bool) {
	m := s.t.luns
	if s.view == nil {
		return m.find(field), s.grant.ReadOnly
	}
	n, ok := scsi.DecodeLUN(field)
	if !ok {
		return m.find(field), s.grant.ReadOnly
	}
	if u := s.view.find(n); u.at != nil {
		return u.at, u.readOnly || s.grant.ReadOnly
	}
	return &m.missing, s.grant.ReadOnly
}

// real tells whether a LUN field names a logical unit that the session sees, and returns it.
func (s *session) real(field uint64) (*mapped, bool) {
	u, _ := s.find(field)
	return u, u != &s.t.luns.missing && u != &s.t.luns.known
}

// each calls f for every unit that the session sees, with the session's number for it.
func (s *session) each(f func(lun uint16, m *mapped)) {
	if s.view == nil {
		s.t.luns.each(func(m *mapped) { f(m.lun, m) })
		return
	}
	for n, u := range s.view.units {
		if u.at != nil {
			f(uint16(n), u.at)
		}
	}
}

// lunOf is the session's number for a unit; false if it does not see it.
func (s *session) lunOf(m *mapped) (lun uint16, sees bool) {
	s.each(func(n uint16, u *mapped) {
		if u == m {
			lun, sees = n, true
		}
	})
	return lun, sees
}

// access is what a session may do with a unit, and under which number.
type access struct {
	lun      uint16
	readOnly bool
}

func (s *session) access() map[*mapped]access {
	all := make(map[*mapped]access)
	s.each(func(n uint16, m *mapped) {
		_, readOnly := s.find(scsi.EncodeLUN(n))
		all[m] = access{n, readOnly}
	})
	return all
}

// begin puts the first grant of a session in force.
func (s *session) begin(g Grant) {
	s.grant = g
	s.view = newView(&s.grant, s.t.luns)
	s.t.luns.show(s.id, s.view)
	if s.view != nil {
		s.reportUnknown()
	}
}

// adopt puts another grant in force. Commands to a unit that the session does not see any more, or under another number, are
// ended with TASK ABORTED; a change of what it sees, and of what it may write, is told by unit attentions.
func (s *session) adopt(g Grant) {
	if s.grant.sameAccess(&g) {
		s.grant = g
		return
	}
	before := s.access()
	s.begin(g)
	after := s.access()
	changed := len(before) != len(after)
	for m, was := range before {
		is, sees := after[m]
		switch {
		case !sees:
			changed = true
			s.withdraw(m, was.lun)
		case is.lun != was.lun:
			changed = true
			s.cut(was.lun, func() {})
		case is.readOnly != was.readOnly:
			m.unit.Device().Attend(s.id, lu.AttnModeParametersChanged)
		}
	}
	if changed {
		s.tellLUNs()
	}
}

// withdraw ends what a nexus has in a unit that it does not see any more.
func (s *session) withdraw(m *mapped, lun uint16) {
	s.cut(lun, func() {
		if _, again := s.lunOf(m); !again {
			m.unit.NexusLost(s.id)
		}
	})
}

// cut aborts the commands to a LUN, and calls done once when nothing of them moves any more.
func (s *session) cut(lun uint16, done func()) {
	left := 1
	one := func(uint32) {
		if left--; left == 0 {
			done()
		}
	}
	for _, l := range s.list() {
		left++
		l.ch.Abort(channel.Scope{LUN: lunField(lun), TaskAborted: true}, one)
	}
	one(0)
}

func (s *session) reportUnknown() {
	names := s.view.newlyMissed(s.t.luns)
	if len(names) == 0 {
		return
	}
	s.t.tell(func() {
		s.t.log.Warn("logical units are granted that the target does not have, it shows them as soon as it has; this is said once", "units", names, "initiator", s.key.initiator)
	})
}

// show makes REPORT LUNS list a view to a nexus; nil, all of the target.
func (m *lunMap) show(id lu.NexusID, v *view) {
	old := *m.views.Load()
	if old[id] == v {
		return
	}
	next := maps.Clone(old)
	if v == nil {
		delete(next, id)
	} else {
		next[id] = v
	}
	m.views.Store(&next)
}

// LUNInfo is a logical unit as a session sees it.
type LUNInfo struct {
	LUN      uint16
	Unit     string
	ReadOnly bool
}

// lunInfo lists what the session sees now.
func (s *session) lunInfo() []LUNInfo {
	var list []LUNInfo
	s.each(func(n uint16, m *mapped) {
		_, readOnly := s.find(scsi.EncodeLUN(n))
		list = append(list, LUNInfo{n, m.unit.Device().Name(), readOnly})
	})
	return list
}

// lunsChanged follows a change of the target's units: sessions whose LUNs are others now are told, see tellLUNs.
func (t *Target) lunsChanged() {
	for _, s := range t.sessions {
		if s.view == nil || s.view.build(t.luns) {
			s.tellLUNs()
		}
	}
}

// where are the LUN fields by which the sessions that see a unit know it.
func (t *Target) where(m *mapped) map[*session]srp.LUN {
	all := make(map[*session]srp.LUN)
	for _, s := range t.sessions {
		if n, sees := s.lunOf(m); sees {
			all[s] = lunField(n)
		}
	}
	return all
}
