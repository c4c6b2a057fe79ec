package lu

import "github.com/gosrpt/gosrpt/core/scsi"

// testUnitReady tells whether a READ would be tried now.
func testUnitReady(u *Unit, t *Task) {
	if u.store != nil && !u.store.Ready() {
		u.fail(t, scsi.Sense{Code: scsi.BecomingReady})
		return
	}
	u.finish(t)
}

// descFormat in byte 1 of REQUEST SENSE asks for descriptor format.
const descFormat = 0x01

// startRequestSense begins a REQUEST SENSE (SPC-4 6.39). Sense data of a command always comes with its status, so
// there is nothing to tell but unit attentions. One that nothing can be told about, for want of a buffer, is kept.
func startRequestSense(u *Unit, t *Task) {
	size := uint64(scsi.SenseSize)
	if t.cdb()[1]&descFormat != 0 {
		size = 8
	}
	t.Wanted = min(size, t.cdb().AllocationLength())
	if n := min(t.Wanted, t.InLen); n > 0 {
		u.needBuffer(t, n)
		return
	}
	u.finish(t)
}

func readyRequestSense(u *Unit, t *Task) {
	s := scsi.Sense{Code: u.kind().condition}
	if u.kind().attentions {
		if n := u.dev.nexuses.get(t.Nexus); n != nil {
			s.Code = n.take()
		}
	}
	b := u.scratch[:0]
	if t.cdb()[1]&descFormat != 0 {
		b = s.AppendDescriptor(b)
	} else {
		b = s.AppendFixed(b)
	}
	t.putAnswer(b)
	u.finish(t)
}

// buildModeSense appends mode pages (SPC-4 6.11, 6.12). FUA and DPO are always honoured.
func buildModeSense(u *Unit, t *Task, b []byte) ([]byte, scsi.Sense) {
	g := u.dev.geo.Load()
	p := scsi.ModeParams{
		Capacity: g.capacity, WriteProtected: g.info.ReadOnly || t.ReadOnly,
		FUA: true, WriteCache: g.info.WriteCache,
	}
	return p.Append(b, t.cdb().ModeRequest())
}

func buildReadCapacity10(u *Unit, _ *Task, b []byte) ([]byte, scsi.Sense) {
	return u.dev.geo.Load().capacity.Append10(b), scsi.Sense{}
}

func buildReadCapacity16(u *Unit, _ *Task, b []byte) ([]byte, scsi.Sense) {
	return u.dev.geo.Load().capacity.Append16(b), scsi.Sense{}
}
