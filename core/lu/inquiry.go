package lu

import (
	"slices"

	"github.com/gosrpt/gosrpt/core/scsi"
)

// buildInquiry appends standard INQUIRY data or a vital product data page (SPC-4 6.4).
func buildInquiry(u *Unit, t *Task, b []byte) ([]byte, scsi.Sense) {
	c := t.cdb()
	page, vital := c[2], c[1]&1 != 0
	switch {
	case !vital && page != 0, vital && !slices.Contains(u.kind().pages, page):
		return b, scsi.InvalidField(2, scsi.NoBit)
	case !vital:
		return scsi.AppendStandardInquiry(b, u.kind().peripheral, &u.dev.cfg.Identity), scsi.Sense{}
	}
	return u.appendVPD(b, t, page), scsi.Sense{}
}

func (u *Unit) appendVPD(b []byte, t *Task, page uint8) []byte {
	p, id := u.kind().peripheral, &u.dev.cfg.Identity
	switch page {
	case scsi.VPDSerial:
		return scsi.AppendVPDSerial(b, p, id.Serial)
	case scsi.VPDIdentification:
		return scsi.AppendVPDIdentification(b, p, id, t.Port)
	case scsi.VPDExtended:
		return scsi.AppendVPDExtended(b, p, u.dev.geo.Load().info.WriteCache)
	case scsi.VPDBlockLimits:
		return u.dev.geo.Load().limits.AppendVPD(b, p)
	case scsi.VPDCharacteristics:
		return scsi.AppendVPDCharacteristics(b, p, u.dev.cfg.Rotation)
	case scsi.VPDProvisioning:
		return u.dev.geo.Load().provisioning.AppendVPD(b, p)
	default:
		return scsi.AppendVPDSupported(b, p, u.kind().pages)
	}
}
