package nexus

import "github.com/gosrpt/gosrpt/core/scsi"

// CommandsCleared is raised by CLEAR TASK SET in the nexuses whose commands it
// ended (SAM-5 5.14.5).
const CommandsCleared scsi.SenseCode = 0x06_2F_00

// maxOps bounds the functions of a nexus that are under way: while a store gives nothing back, each that its channel has
// given up stays. More than those fail at once.
const maxOps = 256

// Nexus is one I_T nexus. The zero value is one without channels.
type Nexus struct {
	members []member
	ops     []op
	lastOp  uint32
	acts    []Action // of the Step under way
}

type member struct {
	id     Channel
	held   bool
	ending bool // replaced, has not left
}

// op is an abort under way in several channels.
type op struct {
	id      uint32
	by      Channel // EvManage: whom to answer
	request uint32
	theirs  uint32 // EvClear: the owner's name of it
	clear   bool
	quiet   bool // the commands' own status tells of the clearing
	lun     uint64
	found   uint32    // commands ended
	unit    bool      // waits for EvUnitDone
	wait    []Channel // channels that have not ended their commands
}

// Step takes one event, appends what is to be done, and returns the slice. Events
// about channels and operations that are not there change nothing.
func (n *Nexus) Step(ev Event, acts []Action) []Action {
	n.acts = acts
	switch ev.Kind {
	case EvJoin:
		n.join(ev.Channel, ev.Single)
	case EvLeave:
		n.leave(ev.Channel)
	case EvManage:
		n.manage(&ev)
	case EvAborted:
		n.aborted(&ev)
	case EvUnitDone:
		n.unitDone(ev.Op)
	case EvClear:
		n.clear(&ev)
	}
	acts, n.acts = n.acts, nil
	return acts
}

// Channels returns how many channels count for the next login: those that have
// not been replaced.
func (n *Nexus) Channels() int {
	c := 0
	for _, m := range n.members {
		if !m.ending {
			c++
		}
	}
	return c
}

func (n *Nexus) emit(a Action) { n.acts = append(n.acts, a) }

func (n *Nexus) index(c Channel) int {
	for i := range n.members {
		if n.members[i].id == c {
			return i
		}
	}
	return -1
}

func (n *Nexus) join(c Channel, single bool) {
	if n.index(c) >= 0 {
		return
	}
	for i := range n.members {
		if m := &n.members[i]; single && !m.ending {
			m.ending = true
			n.emit(Action{Kind: ActTerminate, Channel: m.id})
		}
	}
	n.members = append(n.members, member{id: c, held: true})
	n.admit()
}

func (n *Nexus) leave(c Channel) {
	i := n.index(c)
	if i < 0 {
		return
	}
	n.members = append(n.members[:i], n.members[i+1:]...)
	for j := range n.ops {
		n.ops[j].drop(c)
	}
	n.finish()
	n.admit()
	if len(n.members) == 0 {
		n.emit(Action{Kind: ActLost})
	}
}

// admit lets held channels run once no replaced one is left.
func (n *Nexus) admit() {
	for _, m := range n.members {
		if m.ending {
			return
		}
	}
	for i := range n.members {
		if m := &n.members[i]; m.held {
			m.held = false
			n.emit(Action{Kind: ActAdmit, Channel: m.id})
		}
	}
}

func (n *Nexus) manage(ev *Event) {
	switch ev.Function {
	case AbortTask, AbortTaskSet, ClearTaskSet, UnitReset:
	default:
		n.answer(ev.Channel, ev.Request, NotSupported)
		return
	}
	if !ev.Known || n.index(ev.Channel) < 0 {
		n.answer(ev.Channel, ev.Request, Failed)
		return
	}
	if len(n.ops) >= maxOps {
		n.answer(ev.Channel, ev.Request, Failed)
		return
	}
	if ev.Function == AbortTask && ev.N > 0 {
		n.answer(ev.Channel, ev.Request, Complete)
		return
	}
	o := n.newOp()
	o.by, o.request = ev.Channel, ev.Request
	n.fanOut(o, ev.Channel, Action{LUN: ev.LUN, ByTag: ev.Function == AbortTask, Tag: ev.Tag})
	if ev.Function == ClearTaskSet || ev.Function == UnitReset {
		o.unit = true
		n.emit(Action{Kind: ActUnit, Op: o.id, LUN: ev.LUN, Reset: ev.Function == UnitReset})
	}
	n.finish()
}

// clear ends this nexus' commands on a unit for another nexus' function, and
// raises the attention that tells of it (SAM-5 7.4, 7.7): of a reset always, of
// cleared commands if there were any and they vanish without a status.
func (n *Nexus) clear(ev *Event) {
	o := n.newOp()
	o.clear, o.theirs, o.lun, o.quiet = true, ev.Op, ev.LUN, ev.Reset || ev.TaskAborted
	if ev.Reset {
		n.emit(Action{Kind: ActAttention, LUN: ev.LUN, Attention: scsi.DeviceReset})
	}
	n.fanOut(o, 0, Action{LUN: ev.LUN, TaskAborted: ev.TaskAborted})
	n.finish()
}

func (n *Nexus) newOp() *op {
	n.lastOp++
	n.ops = append(n.ops, op{id: n.lastOp})
	return &n.ops[len(n.ops)-1]
}

// fanOut asks every channel but one, which has seen to itself, for an abort. For
// clear operations no channel has.
func (n *Nexus) fanOut(o *op, but Channel, a Action) {
	a.Kind, a.Op = ActAbort, o.id
	for _, m := range n.members {
		if m.id == but && !o.clear {
			continue
		}
		o.wait = append(o.wait, m.id)
		a.Channel = m.id
		n.emit(a)
	}
}

// drop stops waiting for c; false if c was not waited for.
func (o *op) drop(c Channel) bool {
	for i, w := range o.wait {
		if w == c {
			o.wait = append(o.wait[:i], o.wait[i+1:]...)
			return true
		}
	}
	return false
}

func (n *Nexus) find(id uint32) *op {
	for i := range n.ops {
		if n.ops[i].id == id {
			return &n.ops[i]
		}
	}
	return nil
}

func (n *Nexus) aborted(ev *Event) {
	o := n.find(ev.Op)
	if o == nil || !o.drop(ev.Channel) {
		return
	}
	o.found += ev.N
	n.finish()
}

func (n *Nexus) unitDone(id uint32) {
	if o := n.find(id); o != nil {
		o.unit = false
		n.finish()
	}
}

// finish ends the operations that wait for nothing, oldest first.
func (n *Nexus) finish() {
	left := n.ops[:0]
	for _, o := range n.ops {
		switch {
		case len(o.wait) > 0 || o.unit:
			left = append(left, o)
		case o.clear:
			n.cleared(&o)
		default:
			n.answer(o.by, o.request, Complete)
		}
	}
	clear(n.ops[len(left):])
	n.ops = left
}

func (n *Nexus) cleared(o *op) {
	if o.found > 0 && !o.quiet {
		n.emit(Action{Kind: ActAttention, LUN: o.lun, Attention: CommandsCleared})
	}
	n.emit(Action{Kind: ActCleared, Op: o.theirs})
}

func (n *Nexus) answer(c Channel, request uint32, code Code) {
	n.emit(Action{Kind: ActAnswer, Channel: c, Request: request, Code: code})
}
