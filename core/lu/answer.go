package lu

import "github.com/gosrpt/gosrpt/core/scsi"

// startAnswer begins a command that returns parameter data. The data is built to learn whether it may be had and how long
// it is, and again when there is a buffer.
func startAnswer(u *Unit, t *Task) {
	data, sense := t.state.row.build(u, t, u.scratch[:0])
	u.keepScratch(data)
	if !sense.IsZero() {
		u.fail(t, sense)
		return
	}
	t.Wanted = min(uint64(len(data)), t.cdb().AllocationLength())
	if n := min(t.Wanted, t.InLen); n > 0 {
		u.needBuffer(t, n)
		return
	}
	u.finish(t)
}

func readyAnswer(u *Unit, t *Task) {
	data, sense := t.state.row.build(u, t, u.scratch[:0])
	u.keepScratch(data)
	if !sense.IsZero() {
		u.fail(t, sense)
		return
	}
	t.putAnswer(data)
	u.finish(t)
}

// keepScratch keeps a buffer that has grown.
func (u *Unit) keepScratch(b []byte) {
	if cap(b) > cap(u.scratch) {
		u.scratch = b[:0]
	}
}

// putAnswer copies data into the buffer as far as the CDB and the buffer allow.
func (t *Task) putAnswer(data []byte) {
	data = scsi.Truncate(data, t.cdb().AllocationLength())
	t.Wanted = uint64(len(data))
	t.InUsed = uint64(copy(t.Buf[:t.state.need], data))
}
