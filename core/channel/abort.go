package channel

import (
	"slices"

	"github.com/gosrpt/gosrpt/core/srp"
)

// op is an abort under way: it is done when every command it means is freed.
type op struct {
	owned  bool // on behalf of the slot owner; else of the nexus' id
	owner  Slot
	id     uint32
	none   bool // means no command
	one    bool // means victim only; else all within scope
	victim Slot
	scope  Scope
	before uint64 // means commands older than this
	found  uint32 // commands cut short
	left   uint32 // commands not freed yet
}

// means tells whether o waits for s. It tells the same from first to last.
func (o *op) means(s *slot) bool {
	switch {
	case o.none, s.state == free, !s.isCmd, s.seq >= o.before:
		return false
	case o.one:
		return s.handle() == o.victim
	case o.scope.ByTag && s.tag != o.scope.Tag:
		return false
	}
	return o.scope.AllLUNs || sameLUN(s.lun, o.scope.LUN)
}

// sameLUN compares logical units, not spellings: flat and peripheral addressing
// can name the same one.
func sameLUN(a, b srp.LUN) bool {
	if a == b {
		return true
	}
	na, ka := a.Decode()
	nb, kb := b.Decode()
	return ka == srp.LUNUnit && kb == srp.LUNUnit && na == nb
}

// addOp cuts short every command that o means. A response already posted is only
// waited for: it may be on another QP than the answer to the abort.
func (m *Machine) addOp(o op) {
	f, status := fateVanish, byte(0)
	if o.scope.TaskAborted {
		f, status = fateStatus, statusTaskAborted
	}
	for i := range m.slots {
		s := &m.slots[i]
		if !o.means(s) {
			continue
		}
		o.left++
		if s.state != responding {
			o.found++
		}
		m.cut(s, f, status)
	}
	m.ops = append(m.ops, o)
}

// countDown tells the aborts under way that s is being freed.
func (m *Machine) countDown(s *slot) {
	if !s.isCmd {
		return
	}
	for i := range m.ops {
		if m.ops[i].means(s) {
			m.ops[i].left--
		}
	}
}

// finishOps ends the aborts that have nothing left to wait for, oldest first.
func (m *Machine) finishOps() {
	for i := 0; i < len(m.ops); {
		if m.ops[i].left > 0 {
			i++
			continue
		}
		o := m.ops[i]
		m.ops = append(m.ops[:i], m.ops[i+1:]...)
		m.finishOp(&o)
		i = 0 // it may have freed what another waits for
	}
}

// dropOps forgets the aborts on behalf of s, which does not wait for them any more. The initiator is told that they failed, so
// what they meant is answered after all.
func (m *Machine) dropOps(s *slot) {
	m.ops = slices.DeleteFunc(m.ops, func(o op) bool {
		if !o.owned || o.owner != s.handle() {
			return false
		}
		for i := range m.slots {
			if v := &m.slots[i]; o.means(v) && v.fate == fateVanish {
				v.fate, v.status = fateStatus, statusTaskAborted
			}
		}
		return true
	})
}

func (m *Machine) finishOp(o *op) {
	if !o.owned {
		m.emit(Action{Kind: ActAborted, Op: o.id, N: o.found})
		return
	}
	s := m.lookup(o.owner)
	switch {
	case s == nil:
	case m.state != Live || s.fate == fateVanish:
		m.release(s)
	case s.state == overlapped:
		m.overlapDone(s)
	default:
		s.state = managing
		m.emit(Action{Kind: ActManage, Slot: s.handle(), N: o.found})
	}
}

// overlapDone answers a command whose tag has become its own.
func (m *Machine) overlapDone(s *slot) {
	if s.fate == fateStatus {
		m.complete(s, &Result{Status: s.status})
		return
	}
	m.refuse(s, senseOverlapped[:])
}
