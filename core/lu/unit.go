package lu

import (
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/store"
	"github.com/gosrpt/gosrpt/sdk/backstore"
)

// Unit is one reactor's part of a logical unit. All its methods are called in that reactor's goroutine.
type Unit struct {
	dev   *Device
	store *store.Guard // nil where there is no medium
	queue taskQueue

	scratch []byte   // where parameter data is built
	luns    []uint64 // where LUNs are listed
}

func newUnit(d *Device, g *store.Guard) *Unit {
	return &Unit{dev: d, store: g, scratch: make([]byte, 0, 1024)}
}

// NewMissing returns a unit that answers for LUNs where there is no logical unit: INQUIRY and REPORT LUNS are
// answered, everything else says that the LUN is not supported. Names may be empty but for their characters, see
// scsi.Identity.Validate; the serial and the NAA name are not used.
func NewMissing(names scsi.Identity, inv Inventory) *Unit {
	return newUnit(bare(names, inv, &missing), nil)
}

// NewWellKnown returns a unit for scsi.WellKnownReportLUNs. Names are as for NewMissing.
func NewWellKnown(names scsi.Identity, inv Inventory) *Unit {
	return newUnit(bare(names, inv, &wellKnown), nil)
}

// bare is a device without a medium.
func bare(names scsi.Identity, inv Inventory, k *kind) *Device {
	names.Serial, names.NAA = "", scsi.NAA{}
	d := &Device{cfg: Config{Identity: names, Inventory: inv}}
	d.nexuses.init(0)
	d.geo.Store(&geometry{kind: k})
	return d
}

// Device is the logical unit, shared by the reactors.
func (u *Unit) Device() *Device { return u.dev }

// kind is what sort of logical unit this is, with the commands that it has now.
func (u *Unit) kind() *kind { return u.dev.geo.Load().kind }

// Store is the reactor's guard before the store; nil if the unit has no medium.
func (u *Unit) Store() *store.Guard { return u.store }

// NexusLost is Device.NexusLost.
func (u *Unit) NexusLost(id NexusID) { u.dev.NexusLost(id) }

// Start begins a task; see Task.
func (u *Unit) Start(t *Task) {
	t.Status, t.Sense = scsi.StatusGood, nil
	t.OutUsed, t.InUsed, t.Wanted = 0, 0, 0
	t.Aborted = false
	t.state.phase, t.state.row, t.state.flush = phaseActive, nil, false
	u.dev.stats.commands.Add(1)
	if u.queue.enter(t) {
		u.execute(t)
	}
}

// execute decodes the CDB and starts the command.
func (u *Unit) execute(t *Task) {
	t.state.phase = phaseActive
	k := u.kind()
	switch {
	case len(t.CDB) < scsi.MaxCDB:
		u.fail(t, scsi.Sense{Code: scsi.InternalTargetFailure})
		return
	case t.Attr > uint8(scsi.AttrOrdered):
		// There is never an ACA condition, as NORMACA is 0 (SAM-5 8.6.5).
		u.fail(t, scsi.Sense{Code: scsi.InvalidMessage})
		return
	case k.attentions && !u.attend(t):
		return
	}
	r, sense := k.find(t.CDB)
	if r == nil {
		u.fail(t, sense)
		return
	}
	t.state.row = r
	r.start(u, t)
}

// attend reports a unit attention in place of the command, but for the commands that it does not stop (SAM-5
// 5.14), and returns whether the command goes on.
func (u *Unit) attend(t *Task) bool {
	n := u.dev.nexuses.get(t.Nexus)
	if n == nil {
		t.Status = scsi.StatusBusy
		u.finish(t)
		return false
	}
	if n.pending.Load() == 0 {
		return true
	}
	switch scsi.Opcode(t.CDB[0]) {
	case scsi.OpInquiry, scsi.OpReportLUNs, scsi.OpRequestSense:
		return true
	}
	code := n.take()
	if code == scsi.NoSense {
		return true
	}
	u.fail(t, scsi.Sense{Code: code})
	return false
}

// DataReady goes on with a task whose Host was asked for a buffer or for data. It does nothing for any other task.
func (u *Unit) DataReady(t *Task) {
	if t.state.phase != phaseBuffer {
		return
	}
	t.state.phase = phaseActive
	if uint64(len(t.Buf)) < t.state.need {
		u.fail(t, scsi.Sense{Code: scsi.InternalTargetFailure})
		return
	}
	t.state.row.ready(u, t)
}

// Abort ends a task early: at once, unless a backend holds its buffer; then Done follows when the backend has
// given it back. It does nothing for a task that is done.
func (u *Unit) Abort(t *Task) {
	if t.state.phase == phaseIdle || t.Aborted {
		return
	}
	t.Aborted = true
	switch t.state.phase {
	case phaseHeld:
		u.queue.drop(t)
		u.end(t)
	case phaseBuffer:
		u.finish(t)
	case phaseStore:
		if u.store.Cancel(&t.state.req) {
			u.finish(t)
		}
	}
}

// needBuffer asks the Host for a buffer for data-in.
func (u *Unit) needBuffer(t *Task, n uint64) {
	t.state.phase, t.state.need = phaseBuffer, n
	t.Host.NeedBuffer(t, n)
}

// needData asks the Host for n bytes of the initiator's data, in a buffer of room bytes.
func (u *Unit) needData(t *Task, n, room uint64) {
	t.state.phase, t.state.need = phaseBuffer, room
	t.Host.NeedData(t, n, room)
}

// submit gives the store a request about the task's whole buffer, or a flush.
func (u *Unit) submit(t *Task, op backstore.Op, flags backstore.Flags) {
	if op == backstore.OpFlush {
		u.ask(t, op, flags, 0, nil, 0)
		return
	}
	u.ask(t, op, flags, t.state.off, t.Buf[:t.state.need], 0)
}

// ask gives the store the task's next request; see backstore.Request.
func (u *Unit) ask(t *Task, op backstore.Op, flags backstore.Flags, off int64, data []byte, n int64) {
	q := &t.state.req
	q.Op, q.Flags, q.Off, q.Data, q.N = op, flags, off, data, n
	q.Owner, q.User = (*storeSide)(u), t
	t.state.phase = phaseStore
	if code := u.store.Submit(q); code != backstore.CodeOK {
		u.failStore(t, op, code)
	}
}

// storeSide is a Unit as the owner of its tasks' requests.
type storeSide Unit

// Completed goes on with the task of a request that the store is done with.
func (s *storeSide) Completed(q *store.Request) {
	u, t := (*Unit)(s), q.User.(*Task)
	t.state.phase = phaseActive
	switch {
	case t.Aborted:
		u.finish(t)
	case q.Code != backstore.CodeOK:
		u.failStore(t, q.Op, q.Code)
	default:
		t.state.row.stored(u, t)
	}
}

// fail ends a task with CHECK CONDITION.
func (u *Unit) fail(t *Task, s scsi.Sense) {
	t.setSense(s)
	u.finish(t)
}

// finish ends a task that the queue has let in, and lets in those that waited for it.
func (u *Unit) finish(t *Task) {
	u.queue.leave(t)
	u.end(t)
	u.release()
}

// end gives the task back to its Host. Nothing touches it afterwards.
func (u *Unit) end(t *Task) {
	switch {
	case t.Aborted:
		t.Status, t.Sense = scsi.StatusTaskAborted, nil
		t.OutUsed, t.InUsed, t.Wanted = 0, 0, 0
		u.dev.stats.aborted.Add(1)
	case t.Status == scsi.StatusCheckCondition:
		u.dev.stats.checks.Add(1)
	}
	t.state.phase = phaseIdle
	t.Host.Done(t)
}
