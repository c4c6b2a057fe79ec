package lu

import (
	"bytes"
	"testing"

	"github.com/gosrpt/gosrpt/core/scsi"
)

func bareRig(t testing.TB, u *Unit) *rig {
	return &rig{t: t, u: u, dev: u.Device()}
}

func inventory() luns { return luns{scsi.EncodeLUN(100), scsi.EncodeLUN(101), scsi.EncodeLUN(300)} }

func TestWhereNoUnitIsTheHostStillFindsTheOthers(t *testing.T) {
	r := bareRig(t, NewMissing(scsi.Identity{}, inventory()))
	list := r.data([]byte{0xA0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0}, 512)
	wantBytes(t, list, unhex(t, "00 00 00 18 00 00 00 00 00 64"+zeros(6)+"00 65"+zeros(6)+"41 2c"+zeros(6)))
	inq := r.data([]byte{0x12, 0, 0, 0, 0x24, 0}, 36)
	if inq[0] != 0x7F || !bytes.Equal(inq[8:36], bytes.Repeat([]byte(" "), 28)) {
		t.Errorf("% x", inq)
	}
	wantBytes(t, r.data(scsi.AppendInquiryVPD(nil, 0, 255), 255), unhex(t, "7f 00 00 01 00"))
	r.wantField(r.run(scsi.AppendInquiryVPD(nil, 0x83, 255), nil, 255), 2, scsi.NoBit)
	s, err := scsi.ParseSense(r.data(scsi.AppendRequestSense(nil, 18), 18))
	if err != nil || s.Code != scsi.LUNNotSupported {
		t.Errorf("REQUEST SENSE: %v, %v", s.Code, err)
	}
	for op := range 256 {
		switch scsi.Opcode(op) {
		case scsi.OpInquiry, scsi.OpReportLUNs, scsi.OpRequestSense:
			continue
		}
		cdb := make([]byte, 16)
		cdb[0] = byte(op)
		r.wantSense(r.run(cdb, make([]byte, 512), 512), scsi.LUNNotSupported)
	}
	r.u.NexusLost(1)
	if got := r.dev.Info(); got.Blocks != 0 {
		t.Errorf("%+v", got)
	}
}

func TestWellKnownUnitReportsLUNs(t *testing.T) {
	r := bareRig(t, NewWellKnown(testConfig().Identity, inventory()))
	r.wantGood(r.run(scsi.AppendTestUnitReady(nil), nil, 0))
	if list := r.data(scsi.AppendReportLUNs(nil, 2, 512), 512); len(list) != 40 || list[32] != 0xC1 || list[33] != 1 {
		t.Errorf("% x", list)
	}
	inq := r.data(scsi.AppendInquiry(nil, 96), 96)
	if inq[0] != 0x1E || string(inq[8:14]) != "GOSRPT" {
		t.Errorf("% x", inq)
	}
	wantBytes(t, r.data(scsi.AppendInquiryVPD(nil, 0, 255), 255), unhex(t, "1e 00 00 02 00 83"))
	wantBytes(t, r.data(scsi.AppendInquiryVPD(nil, 0x83, 255), 255), unhex(t, "1e 83 00 00"))
	ops := reported(t, r.data(scsi.AppendReportOperations(nil, 0, 0, 0, 512), 512), 8)
	if len(ops) != len(wellKnown.rows) {
		t.Errorf("%v", ops)
	}
	r.wantSense(r.run(scsi.AppendTransfer10(nil, scsi.OpRead10, scsi.Extent{Blocks: 1}, 0), nil, 512), scsi.InvalidOpcode)
}
