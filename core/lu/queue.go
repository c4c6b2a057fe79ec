package lu

import "github.com/gosrpt/gosrpt/core/scsi"

// taskQueue holds tasks back for the sake of ordered ones (SAM-5 8.6): an ordered task starts when all before it are
// done, and those after it when it is done. A head of queue task starts at once, as does a simple one while no
// ordered task is about. The order is that of arrival at this unit, whichever nexus a task is of: between the
// channels of a nexus that different reactors serve SRP promises none.
type taskQueue struct {
	active     int
	barrier    *Task // the ordered task that is active
	head, tail *Task // held, in order of arrival
	releasing  bool
}

// enter lets t in, or holds it. An ordered task is held while anything is active.
func (q *taskQueue) enter(t *Task) bool {
	free := q.barrier == nil && q.head == nil && (!ordered(t) || q.active == 0)
	if free || t.Attr == uint8(scsi.AttrHeadOfQueue) {
		q.admit(t)
		return true
	}
	t.state.phase, t.state.next = phaseHeld, nil
	if q.tail == nil {
		q.head = t
	} else {
		q.tail.state.next = t
	}
	q.tail = t
	return false
}

func ordered(t *Task) bool { return t.Attr == uint8(scsi.AttrOrdered) }

func (q *taskQueue) admit(t *Task) {
	q.active++
	if ordered(t) {
		q.barrier = t
	}
}

// leave takes note that t, which was let in, is done.
func (q *taskQueue) leave(t *Task) {
	q.active--
	if q.barrier == t {
		q.barrier = nil
	}
}

// next lets in the oldest held task if its time has come, or returns nil.
func (q *taskQueue) next() *Task {
	t := q.head
	if t == nil || q.barrier != nil || ordered(t) && q.active > 0 {
		return nil
	}
	q.drop(t)
	q.admit(t)
	return t
}

// drop takes a held task out.
func (q *taskQueue) drop(t *Task) {
	var before *Task
	for p := q.head; p != t; p = p.state.next {
		before = p
	}
	if before == nil {
		q.head = t.state.next
	} else {
		before.state.next = t.state.next
	}
	if q.tail == t {
		q.tail = before
	}
	t.state.next = nil
}

// release starts the held tasks whose time has come. Called from within itself, by a task that finishes at once, it
// leaves them to the outer call.
func (u *Unit) release() {
	if u.queue.releasing {
		return
	}
	u.queue.releasing = true
	for t := u.queue.next(); t != nil; t = u.queue.next() {
		u.execute(t)
	}
	u.queue.releasing = false
}
