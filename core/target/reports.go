package target

import (
	"github.com/gosrpt/gosrpt/core/channel"
	"github.com/gosrpt/gosrpt/core/lu"
	"github.com/gosrpt/gosrpt/core/scsi"
	"github.com/gosrpt/gosrpt/core/srp"
)

// tellLUNs tells a nexus that its list of LUNs is another one: by a unit attention of every unit and, if it asked for reports at
// login, by one about LUN 0.
func (s *session) tellLUNs() {
	s.attend(lu.AttnLUNsChanged)
	s.report(srp.LUN{}, scsi.ReportedLUNsChanged)
}

// report sends an asynchronous event report on the nexus' first channel that lives. A channel whose initiator did not ask for
// reports ignores it.
func (s *session) report(lun srp.LUN, code scsi.SenseCode) {
	for _, l := range s.links {
		if l.ch.Stats().State <= channel.Live {
			l.ch.Report(lun, scsi.Sense{Code: code}.AppendFixed(nil))
			return
		}
	}
}

// CapacityChanged reports that a unit has another size to the initiators that asked for reports at login; the device tells
// everybody by a unit attention. It is called from a function run by Do.
func (t *Target) CapacityChanged(d *lu.Device) {
	t.luns.each(func(m *mapped) {
		if m.unit.Device() != d {
			return
		}
		for s, lun := range t.where(m) {
			s.report(lun, scsi.CapacityChanged)
		}
	})
}
