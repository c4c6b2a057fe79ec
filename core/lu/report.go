package lu

import "github.com/gosrpt/gosrpt/core/scsi"

// buildReportLUNs appends the logical units that the nexus may use (SPC-4 6.33).
func buildReportLUNs(u *Unit, t *Task, b []byte) ([]byte, scsi.Sense) {
	report := t.cdb()[2]
	if report > scsi.ReportAll {
		return b, scsi.InvalidField(2, scsi.NoBit)
	}
	u.luns = u.luns[:0]
	if inv := u.dev.cfg.Inventory; inv != nil && report != scsi.ReportWellKnown {
		u.luns = inv.AppendLUNs(u.luns, t.Nexus)
	}
	if report != scsi.ReportAddressable {
		u.luns = append(u.luns, scsi.WellKnownReportLUNs)
	}
	return scsi.AppendLUNList(b, u.luns), scsi.Sense{}
}

// readyReportLUNs answers, and takes the reason to ask away.
func readyReportLUNs(u *Unit, t *Task) {
	if u.kind().attentions && t.cdb()[2] != scsi.ReportWellKnown {
		if n := u.dev.nexuses.get(t.Nexus); n != nil {
			n.clear(AttnLUNsChanged)
		}
	}
	readyAnswer(u, t)
}

// buildReportOperations appends what the table says (SPC-4 6.35).
func buildReportOperations(u *Unit, t *Task, b []byte) ([]byte, scsi.Sense) {
	q, k := t.cdb().OperationsRequest(), u.kind()
	actions := q.Op.HasServiceAction()
	switch {
	case q.Options == scsi.ReportEvery:
		return k.appendAll(b, q.Timeouts), scsi.Sense{}
	case q.Options > scsi.ReportByEither,
		q.Options == scsi.ReportByOpcode && actions,
		q.Options == scsi.ReportByServiceAction && !actions:
		return b, scsi.InvalidField(2, 2)
	}
	r := k.index[q.Op]
	switch {
	case actions && q.SA <= 0x1F:
		r = k.actions[actionKey(q.Op, q.SA)]
	case actions, q.Options == scsi.ReportByEither && q.SA != 0:
		r = nil
	}
	if r == nil {
		return scsi.AppendUnsupported(b), scsi.Sense{}
	}
	return r.AppendOne(b, q.Timeouts), scsi.Sense{}
}

func (k *kind) appendAll(b []byte, timeouts bool) []byte {
	start := len(b)
	b = scsi.BeginAllCommands(b)
	for i := range k.rows {
		b = k.rows[i].AppendTo(b, timeouts)
	}
	return scsi.EndAllCommands(b, start)
}
